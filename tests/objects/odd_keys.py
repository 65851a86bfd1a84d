"""Keys that somebody, somewhere, has in a bucket."""

from __future__ import annotations

COMPOSED = "files/caf\u00e9"
DECOMPOSED = "files/cafe\u0301"

ODD_KEYS = [
    "files/a b",
    "files/a+b",
    "files/a%20b",
    "files/a%2Fb",
    "files/a/b",
    "files//a",
    "/files/a",
    "//files/a",
    "files/a/./b",
    "files/a/../b",
    "files/..",
    "files/\U0001f642.txt",
    COMPOSED,
    DECOMPOSED,
    "files/A",
    "files/a",
    "files/&<>\"'",
    "files/a?b#c",
    "files/.hidden",
    "files/\u65e5\u672c\u8a9e",
    " files/leading",
    "files/trailing ",
    "files/tab\there",
    "files/return\rhere",
    "files/\x01",
    "files/\x7f",
    "files/\x85",
    "files/\u2028",
    "files/" + "k" * 1018,
]
