"""The pages of the documentation, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.book import meanings
from filejobs_dagster.jobs import audit
from filejobs_dagster.jobs.deleted_files import detail as deleted_files
from filejobs_dagster.jobs.multipart_uploads import detail as multipart_uploads
from filejobs_dagster.jobs.run_history import detail as run_history
from filejobs_dagster.jobs.storage_orphans import detail as storage_orphans
from filejobs_dagster.jobs.table_retention import detail as table_retention
from filejobs_dagster.jobs.upload_cleanup import detail as upload_cleanup
from filejobs_dagster.jobs.upload_reservations import detail as upload_reservations

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKOUT = Path(__file__).parents[2]
WORDS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    **{
        job.__name__.split(".")[-2]: {"Field": job.FIELDS, "Class": job.CLASSES}
        for job in (
            upload_reservations, storage_orphans, upload_cleanup, multipart_uploads, deleted_files,
            run_history,
        )
    },
    "table_retention": {
        "Field": table_retention.FIELDS,
        "Each of `rules`": table_retention.OF_A_RULE,
    },
    "audit_seal": {"Field": audit.SEAL_FIELDS},
    "audit_trim": {"Field": audit.TRIM_FIELDS},
    "audit_verify": {"Field": audit.VERIFY_FIELDS},
}  # fmt: skip
"""What the record of each job says beside that of every run, by the kind of word."""

DOCS = CHECKOUT / "docs"
EXAMPLES = CHECKOUT / "examples"

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: The file's name.
        number: Its place among the page's blocks, from 1.
        language: What stands behind the fence; empty for none.
        text: What is inside.
    """

    page: str
    number: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """How a failing test calls it."""
        return f"{self.page}#{self.number}"


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def blocks(self) -> list[Block]:
        """Its fenced blocks, in order."""
        return [
            Block(self.path.name, number, match["language"], match["text"])
            for number, match in enumerate(_BLOCK.finditer(self.text), start=1)
        ]

    @property
    def prose(self) -> str:
        """The text without its fenced blocks."""
        return _BLOCK.sub("", self.text)

    @property
    def words(self) -> str:
        """The text as one line, for whoever looks for a phrase that a line may end in."""
        return " ".join(self.text.split())

    @property
    def links(self) -> list[str]:
        """The targets of its links."""
        return [match["target"] for match in _LINK.finditer(self.prose)]

    @property
    def anchors(self) -> set[str]:
        """What a link may name behind `#`, as the usual viewers make it of headings."""
        return self.own_anchors | {
            re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in _HEADING.findall(self.prose)
        }

    @property
    def own_anchors(self) -> set[str]:
        """Those that stand in the text, and are made of no heading."""
        return set(ANCHOR.findall(self.prose))


def page(name: str) -> Page:
    """One page by its file's name."""
    return read(DOCS / name)


def read(path: Path) -> Page:
    """One page by its path."""
    return Page(path, path.read_text(encoding="utf-8"))


def pages() -> list[Page]:
    """Every page, by name: the README, those by hand, and the reference."""
    return [
        read(CHECKOUT / "README.md"),
        *(read(path) for path in sorted(DOCS.glob("*.md"))),
        *(read(path) for path in sorted((DOCS / "reference").glob("*.md"))),
    ]


def blocks(language: str) -> list[Block]:
    """Every block of a language, in every page."""
    return [block for each in pages() for block in each.blocks if block.language == language]


def explained(job: str) -> set[str]:
    """The words of a job's record that the reference explains: fields, and classes of items."""
    return set().union(*map(names_in, (meanings.EVERY_RUN, *WORDS[job].values())))


def names_in(entries: Mapping[str, object]) -> set[str]:
    """The single names of a table of the reference."""
    return {name for names in entries for name in names.split(meanings.AND)}
