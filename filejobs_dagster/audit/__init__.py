"""The audit log: hash chains of canonical JSON events."""
