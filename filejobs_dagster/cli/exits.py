"""What the exit codes of `filejobs` mean."""

from __future__ import annotations

OK = 0
FAILED = 1
"""The command could not do what it was asked, and said why."""

WARNING = 1
CRITICAL = 2
UNKNOWN = 3
"""The three of `status --check`, as monitoring plugins use them."""

USAGE = 64
"""The command was called in a way that it does not understand (EX_USAGE)."""

INTERNAL = 70
"""A fault of the program itself (EX_SOFTWARE)."""

INTERRUPTED = 130
