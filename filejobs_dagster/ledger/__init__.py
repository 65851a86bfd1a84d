"""What ran and how it ended: progress while a run works, its record afterwards, its standing."""
