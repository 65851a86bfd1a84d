"""The classes, in order of precedence: an object is what the first of them says that fits it."""

from __future__ import annotations

REFERENCED = "referenced"
"""A source names the exact key."""

DERIVED = "derived"
"""A source names the exact key of an owner that a declared rewrite leads to."""

PROTECTED = "protected"
"""The settings protect the key."""

DIRECTORY_MARKER = "directory marker"
"""The key ends in a slash."""

UNKNOWN_SHAPE = "unknown shape"
"""No declared pattern matches the key, or it is one that nothing may delete: not UTF-8, with `.`
or `..` between its slashes, or with more owners than are looked for."""

YOUNG = "young"
"""Modified at the cutoff or later, in the future, or at a time that is not known."""

AMBIGUOUS = "ambiguous"
"""A source would name the key after a change that nobody declared."""

NAMED_ELSEWHERE = "named elsewhere"
"""A column that no source reads may mean the key."""

ORPHAN = "orphan"
"""None of the above: nothing keeps it."""

CLASSES = (
    REFERENCED,
    DERIVED,
    PROTECTED,
    DIRECTORY_MARKER,
    UNKNOWN_SHAPE,
    YOUNG,
    AMBIGUOUS,
    NAMED_ELSEWHERE,
    ORPHAN,
)
