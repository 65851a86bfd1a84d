"""The demo: servers, a believable file feature, a collector at work on it, and its record."""
