"""What a scan has found, as one document: `filejobs scan --json` prints it, `init` begins from it.

The form is stable: a field may be added, and none is renamed, removed or given another meaning
without a new `form`. `Scan.model_validate_json` reads it back.
"""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC003
from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Class = Literal["referenced", "derived", "unsure", "unreferenced"]
"""Of an object: a row names it; it is made from one that a row names; something weak speaks for
it; nothing that was looked at does."""

CLASSES: tuple[Class, ...] = ("referenced", "derived", "unsure", "unreferenced")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Amount(_Part):
    """A number of objects, and their sizes together.

    Attributes:
        objects: How many.
        bytes: Their sizes.
    """

    objects: int = 0
    bytes: int = 0


class Source(_Part):
    """A column that names objects, and how its values become keys.

    Attributes:
        name: A proposal for the settings, unique in the scan: `photo`, `product_photo`.
        column: `schema.table.column`.
        path: Where in the column's JSON the names stand: `$.files[*].key`; empty for a value as a
            whole. `$` alone is a text in which they stand among others (HTML, lists).
        names: What the values are: keys of objects; or owners (folders, stems, ids), to which
            `rewrites` lead.
        sql: The query for the settings; None where somebody must write it, and `note` says why.
        transforms: For the settings, in their form: `[{"prepend": "media/"}]`.
        rewrites: Of owners, for the settings: `[{"name", "match", "owner"}]`.
        recheck_sql: For the settings, where the transforms cannot be inverted.
        values: How many different names it has; of a text, those that were met in the bucket.
        missing: Of these, how many name no object of the bucket. None where nobody can say it: of
            owners, of texts in which names stand among others, and in a sample of the bucket.
        missing_sample: A few such values, as keys.
        objects: What it names, also where other sources name it, too.
        alone: What of it no source before it in the list names.
        sample: One value, and the key that it names.
        complete: Whether all rows were read; else the numbers are of a sample, or of what the time
            was enough for.
        unsure: Why it may name by accident, or name what is dead (a cache, a history); None when it
            is believed. What only such sources name is *unsure*.
        redundant: Whether other sources name all that it names: the settings need it for nothing.
        note: What else is to be known, in a sentence; empty when nothing is.
    """

    name: str
    column: str
    path: str = ""
    names: Literal["keys", "owners"] = "keys"
    sql: str | None
    transforms: tuple[dict[str, Any], ...] = ()
    rewrites: tuple[dict[str, str], ...] = ()
    recheck_sql: str | None = None
    values: int
    missing: int | None
    missing_sample: tuple[str, ...] = ()
    objects: Amount
    alone: Amount
    sample: tuple[str, str]
    complete: bool
    unsure: str | None = None
    redundant: bool = False
    note: str = ""


class Shape(_Part):
    """Keys that are made of another object's key: variants, thumbnails.

    Attributes:
        name: A proposal for the settings.
        match: The regular expression of a rewrite, for the whole key.
        owner: The owner's key, or its stem, with groups of `match`: `media/{stem}`.
        owner_is: `key` of an object, or a `stem`: then the settings need a source of stems, too.
        objects: How many have the shape, and an owner.
        owners: How many objects they are made from.
        sample: One such key.
        unsure: Why it may be an accident, None when it is believed.
    """

    name: str
    match: str
    owner: str
    owner_is: Literal["key", "stem"]
    objects: Amount
    owners: int
    sample: str
    unsure: str | None = None


class Slice(_Part):
    """A part of the bucket, by class.

    Attributes:
        label: A prefix, a month (`2026-11`), or an age (`under 2 days`).
        referenced: See `Class`.
        derived: See `Class`.
        unsure: See `Class`.
        unreferenced: See `Class`.
    """

    label: str
    referenced: Amount = Amount()
    derived: Amount = Amount()
    unsure: Amount = Amount()
    unreferenced: Amount = Amount()

    def of(self, what: Class) -> Amount:
        """The amount of one class."""
        found: Amount = getattr(self, what)
        return found

    @property
    def all(self) -> Amount:
        """All classes together."""
        each = [self.of(what) for what in CLASSES]
        return Amount(objects=sum(it.objects for it in each), bytes=sum(it.bytes for it in each))


class Uploads(_Part):
    """Multipart uploads that were begun and neither completed nor aborted: what no listing shows.

    Attributes:
        uploads: How many.
        over_a_week: How many of them began more than seven days ago.
        oldest: When the oldest began; None without any, or where the server does not say.
        bytes: Of the parts of those whose parts were asked for; None when none was.
        measured: Of how many uploads `bytes` speaks.
        sample: A few of their keys.
    """

    uploads: int
    over_a_week: int
    oldest: datetime | None
    bytes: int | None
    measured: int
    sample: tuple[str, ...] = ()


class Unsure(_Part):
    """Objects of which the scan does not know whether they are in use.

    Attributes:
        why: In a sentence.
        objects: How many.
        sample: One of their keys.
    """

    why: str
    objects: Amount
    sample: str


class Unseen(_Part):
    """Something that the scan did not look at.

    Attributes:
        what: A column, a table, versions, other databases.
        why: In words.
        bytes: Of its table; 0 where that says nothing.
    """

    what: str
    why: str
    bytes: int = 0


class Scan(_Part):
    """A scan of one bucket and one database.

    Attributes:
        form: Of this document.
        at: When it began, by this machine's clock.
        seconds: How long it took.
        stopped: Why it ended early, in words; None when it came to its end. What is not known then
            is missing from the numbers, and `total.unreferenced` must not be trusted.
        database: Host, port and name.
        bucket: Its name.
        endpoint_url: The server's address, None for AWS.
        prefix: Below which it was listed; empty for the whole bucket.
        sampled: None where every object was listed; else at how many places it was looked at, and
            all amounts are of the objects that were seen there, not of the bucket.
        versioning: What the bucket says of it: off, enabled, suspended, unknown.
        total: The whole, by class.
        sources: The columns that name objects; those that name most come first.
        shapes: What is made from what.
        prefixes: By the first folders of the keys, the largest first; at most 40, and then a last
            one for the others.
        months: By the month of the last change, in their order.
        ages: By how old an object is.
        uploads: Multipart uploads; None when they could not be listed (`unseen` says why).
        unsure: The reasons for `total.unsure`.
        unreferenced_sample: A few keys that nothing names.
        unseen: What was not looked at.
        read_bytes: About how much of the database was read, in bytes.
        read_seconds: How long that took.
    """

    form: Literal[1] = 1
    at: datetime
    seconds: float
    stopped: str | None = None
    database: str
    bucket: str
    endpoint_url: str | None = None
    prefix: str = ""
    sampled: int | None = None
    versioning: str = "unknown"
    total: Slice = Slice(label="all")
    sources: tuple[Source, ...] = ()
    shapes: tuple[Shape, ...] = ()
    prefixes: tuple[Slice, ...] = ()
    months: tuple[Slice, ...] = ()
    ages: tuple[Slice, ...] = ()
    uploads: Uploads | None = None
    unsure: tuple[Unsure, ...] = ()
    unreferenced_sample: tuple[str, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    read_bytes: int = Field(default=0, ge=0)
    read_seconds: float = 0.0
