"""Sources of references: which keys are in use, by exact bytes, and never inferred from silence."""
