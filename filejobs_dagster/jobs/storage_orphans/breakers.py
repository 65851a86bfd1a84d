"""Breakers: from which numbers on a pass is not believed.

Each compares one number of a complete pass with its limit, and says both whether it trips or not.
Pure: nothing is read and nothing is written here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from filejobs_dagster.jobs.storage_orphans.settings import BreakersSettings
    from filejobs_dagster.references.elsewhere.search import NamingColumn

ORPHAN_FRACTION = "orphan_fraction"
ORPHANS = "orphans"
ORPHAN_BYTES = "orphan_bytes"
REFERENCE_SHRINK = "reference_shrink"
AMBIGUOUS_FRACTION = "ambiguous_fraction"
MISSING_FRACTION = "missing_fraction"
NAMED_ELSEWHERE = "named_elsewhere"
ONLY_IGNORED = "only_ignored"
NOTHING_MATCHED = "nothing_matched"
DATABASE_OLDER = "database_older"

BREAKERS: tuple[str, ...] = (
    ORPHAN_FRACTION,
    ORPHANS,
    ORPHAN_BYTES,
    REFERENCE_SHRINK,
    AMBIGUOUS_FRACTION,
    MISSING_FRACTION,
    NAMED_ELSEWHERE,
    ONLY_IGNORED,
    NOTHING_MATCHED,
    DATABASE_OLDER,
)
"""Their names, as an override writes them."""


@dataclass(frozen=True)
class Stranger:
    """A source whose keys all lie outside of the owned prefixes: its transforms may be wrong.

    Attributes:
        source: Its name.
        keys: How many keys it returned.
        instance: One of them, for people.
    """

    source: str
    keys: int
    instance: str

    def __str__(self) -> str:
        """One sentence."""
        if self.keys == 1:
            return f"Source {self.source}: its only key does not lie in owns, {self.instance}."
        return (
            f"Source {self.source}: none of its {self.keys:,} keys lies in owns, for instance "
            f"{self.instance}."
        )


@dataclass(frozen=True)
class Numbers:
    """A complete pass in numbers.

    Attributes:
        objects: Owned objects that were listed.
        matched: Those that a source names, or whose owner by a rewrite is named.
        orphans: Those that would be marked.
        orphan_bytes: Their bytes.
        ambiguous: Those that match only after a normalisation that nobody declared.
        references: Distinct keys of all sources together.
        references_owned: Those of them inside owned prefixes.
        missing: Those of the latter whose object was not listed.
        keys_by_source: How many keys each source returned.
        named_elsewhere: Those that a column names which no source reads.
        named_most: The column that names the most of them.
        ignored_most: The column that the settings ignore and that alone names the most orphans.
        newest_reference: When the newest object that a source names was modified, in milliseconds
            since 1970; 0 without one.
        newer: Orphans and young objects that are newer than that by more than `min_age`.
        strangers: Sources that returned keys, and none inside owned prefixes.
        older_by_source: Of the project's own tables, how many keys stand in rows that were there
            when the earlier pass counted them: newer ones hide no loss.
        tables_by_source: What each source reads of the project's database.
        coming_and_going: Sources whose keys leave in the course of normal work: fewer of them are
            no loss.
    """

    objects: int
    matched: int
    orphans: int
    orphan_bytes: int
    ambiguous: int
    references: int
    references_owned: int
    missing: int
    keys_by_source: Mapping[str, int] = field(default_factory=dict)
    named_elsewhere: int = 0
    named_most: NamingColumn | None = None
    ignored_most: NamingColumn | None = None
    newest_reference: int = 0
    newer: int = 0
    strangers: Sequence[Stranger] = ()
    older_by_source: Mapping[str, int] = field(default_factory=dict)
    tables_by_source: Mapping[str, frozenset[str]] = field(default_factory=dict)
    coming_and_going: frozenset[str] = frozenset()


@dataclass(frozen=True)
class EarlierPass:
    """The last complete pass over the bucket.

    Attributes:
        run_id: Whose it was.
        keys_by_source: How many keys each source returned then.
        same_rules: True when sources and rules were those of today.
        objects: How many objects it listed.
        read_at: When it counted them, by the database's clock.
        removed_since: How many of the rows that it had counted live runs have taken since, by
            table. One that names nothing is among them, where the table is the operator's.
    """

    run_id: str
    keys_by_source: Mapping[str, int]
    same_rules: bool
    objects: int = 0
    read_at: datetime | None = None
    removed_since: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """One breaker, with its number and its limit.

    Attributes:
        name: One of `BREAKERS`.
        tripped: True when the number is over the limit.
        found: The number, in words.
        limit: The limit, in words.
        advice: What to look at when it trips.
        doubt: What every job must hear when it trips, in words: that the rows by which they all go
            may be wrong, or the bucket. Empty where it is a matter of this job alone.
        overridden: True when it tripped and this run may go on all the same.
    """

    name: str
    tripped: bool
    found: str
    limit: str
    advice: str
    doubt: str = ""
    overridden: bool = False

    @property
    def blocks(self) -> bool:
        """True when the run may not go on."""
        return self.tripped and not self.overridden

    @property
    def verdict(self) -> str:
        """One word for tables."""
        if not self.tripped:
            return "ok"
        return "overridden" if self.overridden else "tripped"

    def __str__(self) -> str:
        """One line: name, number, limit, verdict."""
        return f"{self.name}: {self.found}; limit: {self.limit}: {self.verdict}"

    def as_detail(self) -> dict[str, Any]:
        """The reading as `job_run.detail` holds it."""
        return {
            "breaker": self.name,
            "found": self.found,
            "limit": self.limit,
            "verdict": self.verdict,
        }


def read_breakers(
    numbers: Numbers,
    limits: BreakersSettings,
    earlier: EarlierPass | None,
    *,
    overridden: Sequence[str] = (),
    hint: str | None = None,
) -> tuple[Reading, ...]:
    """Compare each number with its limit.

    Args:
        numbers: Of this pass.
        limits: The operator's.
        earlier: The last complete pass, or None for the first one.
        overridden: Names of breakers that this run may pass over.
        hint: Which transform seems to be missing, where the keys themselves suggest one.
    """
    readings = (
        _orphan_fraction(numbers, limits),
        _orphans(numbers, limits),
        _orphan_bytes(numbers, limits),
        _reference_shrink(numbers, limits, earlier),
        _ambiguous(numbers, limits, hint),
        _missing(numbers, limits),
        _named_elsewhere(numbers, limits),
        _only_ignored(numbers, limits),
        _nothing_matched(numbers, hint),
        _database_older(numbers, limits),
    )
    return tuple(
        replace(reading, overridden=reading.tripped and reading.name in overridden)
        for reading in readings
    )


def _orphan_fraction(numbers: Numbers, limits: BreakersSettings) -> Reading:
    fraction = _fraction(numbers.orphans, numbers.objects)
    return Reading(
        ORPHAN_FRACTION,
        fraction > limits.max_orphan_fraction,
        f"{numbers.orphans:,} orphans of {numbers.objects:,} owned objects, {_percent(fraction)}",
        _percent(limits.max_orphan_fraction),
        f"Is a source missing, or a transform? {_strangers(numbers)}Read the report's samples. If "
        "the orphans are real, "
        "as on the first day they may be, override this breaker for one run, or raise "
        "max_orphan_fraction.",
    )


def _orphans(numbers: Numbers, limits: BreakersSettings) -> Reading:
    most = limits.max_orphans
    return Reading(
        ORPHANS,
        most is not None and numbers.orphans > most,
        f"{numbers.orphans:,} orphans",
        "none" if most is None else f"{most:,}",
        "More orphans than you said there would ever be: read the report's samples.",
    )


def _orphan_bytes(numbers: Numbers, limits: BreakersSettings) -> Reading:
    most = limits.max_orphan_bytes
    return Reading(
        ORPHAN_BYTES,
        most is not None and numbers.orphan_bytes > most,
        f"{numbers.orphan_bytes:,} bytes",
        "none" if most is None else f"{most:,} bytes",
        "More bytes than you said there would ever be: read the report's largest objects.",
    )


FEW = 5
FIFTH = 0.2
"""Of few references one is a large share: up to five may vanish, and no more than a fifth."""


def _reference_shrink(
    numbers: Numbers, limits: BreakersSettings, earlier: EarlierPass | None
) -> Reading:
    share = limits.max_reference_shrink
    limit = _percent(share)
    shrunk = list(_shrunk(numbers, earlier)) if earlier is not None else []
    if not shrunk:
        found = "no earlier pass to compare with" if earlier is None else "no source shrank"
        return Reading(REFERENCE_SHRINK, tripped=False, found=found, limit=limit, advice="")
    worst = max(shrunk, key=lambda loss: (loss.over(share), loss.fraction))
    return Reading(
        REFERENCE_SHRINK,
        worst.over(share) > 0,
        str(worst),
        f"{limit} beyond what was removed by jobs",
        "Was a table emptied or restored, or a query changed? Objects are only orphans when their "
        "rows are gone for good. Rows are known that jobs took one by one from tables of this "
        "database; what an application removes, and what goes with a partition or by a cascade, "
        "is not.",
        doubt=f"references are gone that no job has removed ({worst})",
    )


@dataclass(frozen=True)
class _Loss:
    """Fewer keys than in the last complete pass.

    Attributes:
        name: Of the source, or all of them.
        before: Keys then.
        after: Keys now, as far as is known of rows that were there then.
        removed: How many of them went by live runs, at most.
        newer: Keys of rows that were made since.
    """

    name: str
    before: int
    after: int
    removed: int
    newer: int = 0

    @property
    def unexplained(self) -> int:
        """Keys that nobody here has removed."""
        return max(0, self.before - self.after - self.removed)

    @property
    def fraction(self) -> float:
        """The same as a share of all."""
        return self.unexplained / self.before

    def over(self, share: float) -> float:
        """By how many keys it is more than may vanish; 0 or less when it is not."""
        few = min(FEW, max(share, FIFTH) * self.before) if share else 0
        return self.unexplained - max(share * self.before, few)

    def __str__(self) -> str:
        """One sentence's part."""
        said = f"{self.name}: {self.after:,} keys, {self.before:,} in the last complete pass"
        if self.newer:
            said += f", {self.newer:,} newer ones beside them"
        if self.removed:
            said += f", at most {self.removed:,} removed by jobs since"
        return f"{said}, {_percent(self.fraction)} fewer"


def _shrunk(numbers: Numbers, earlier: EarlierPass) -> Iterator[_Loss]:
    """Each source that returned fewer keys than before, and all of them together."""
    earlier_keys = _of_lasting(earlier.keys_by_source, numbers)
    keys = _of_lasting(numbers.keys_by_source, numbers)
    older = {**keys, **_of_lasting(numbers.older_by_source, numbers)}
    removed = {
        name: sum(earlier.removed_since.get(table, 0) for table in tables)
        for name, tables in numbers.tables_by_source.items()
    }
    for name, before in earlier_keys.items():
        # A source that was taken out of the settings is a change of the rules, not a loss.
        after = older.get(name)
        if after is not None and after < before:
            newer = keys[name] - after
            yield _Loss(f"source {name}", before, after, removed.get(name, 0), newer)
    if earlier.same_rules:
        before = sum(earlier_keys.values())
        after = sum(older.values())
        if after < before:
            gone = sum(removed.get(name, 0) for name in earlier_keys)
            yield _Loss("all sources", before, after, gone, sum(keys.values()) - after)


def _of_lasting(keys_by_source: Mapping[str, int], numbers: Numbers) -> dict[str, int]:
    return {
        name: keys for name, keys in keys_by_source.items() if name not in numbers.coming_and_going
    }


def _ambiguous(numbers: Numbers, limits: BreakersSettings, hint: str | None) -> Reading:
    fraction = _fraction(numbers.ambiguous, numbers.objects)
    return Reading(
        AMBIGUOUS_FRACTION,
        fraction > limits.max_ambiguous_fraction and numbers.ambiguous > limits.tolerated,
        f"{numbers.ambiguous:,} ambiguous of {numbers.objects:,} owned objects, "
        f"{_percent(fraction)}",
        f"{_percent(limits.max_ambiguous_fraction)}, or {limits.tolerated:,} objects",
        f"A transform seems to be missing. {hint or _SEE_FORMS}",
    )


def _missing(numbers: Numbers, limits: BreakersSettings) -> Reading:
    fraction = _fraction(numbers.missing, numbers.references_owned)
    # An empty listing is no small loss, however few the references are.
    tolerated = limits.tolerated if numbers.objects else 0
    nothing = f"nothing lies in owns, and {numbers.missing:,} references say that something does"
    return Reading(
        MISSING_FRACTION,
        fraction > limits.max_missing_fraction and numbers.missing > tolerated,
        f"{numbers.missing:,} of {numbers.references_owned:,} referenced keys inside owns have no "
        f"object, {_percent(fraction)}" + ("" if numbers.objects else "; nothing was listed"),
        f"{_percent(limits.max_missing_fraction)}, or {tolerated:,} keys",
        "If a source returns what rewrites lead to (stems, folders), write `names: owners` in it. "
        "Else the listing seems to have ended early: objects that it left out cannot be judged, "
        "and neither can those that it showed. Or the bucket is the wrong one, somebody deleted "
        "objects by hand, or a source returns rows of another bucket or service, or of uploads "
        "that never came: leave those out in its sql.",
        doubt="" if numbers.objects else nothing,
    )


def _named_elsewhere(numbers: Numbers, limits: BreakersSettings) -> Reading:
    most = numbers.named_most
    unreferenced = numbers.orphans + numbers.named_elsewhere
    count = most.count if most is not None else 0
    fraction = _fraction(count, unreferenced)
    found = "no column names an object without being a source"
    advice = ""
    if most is not None:
        found = (
            f"column {most.column}, which is no source, names {count:,} of {unreferenced:,} "
            f"objects that no source names, {_percent(fraction)}"
        )
        advice = (
            "A source seems to be missing. They are kept in any case. Declare it, as far as one "
            f"value shows its form: {most.how}. Or, where what stands there keeps no object (a "
            f"history, a cache), write `named_elsewhere: {{ignore: [{{column: {most.column}, "
            "reason: …}]}` into the bucket's settings."
        )
    return Reading(
        NAMED_ELSEWHERE,
        fraction > limits.max_named_elsewhere_fraction and count > limits.tolerated,
        found,
        f"{_percent(limits.max_named_elsewhere_fraction)} by one column, or {limits.tolerated:,} "
        "objects",
        advice,
    )


def _only_ignored(numbers: Numbers, limits: BreakersSettings) -> Reading:
    most = numbers.ignored_most
    count = most.count if most is not None else 0
    fraction = _fraction(count, numbers.objects)
    found = "no orphan is named in an ignored column alone"
    if most is not None:
        found = (
            f"column {most.column}, which named_elsewhere.ignore leaves out, is the only one that "
            f"names {count:,} of {numbers.objects:,} owned objects, {_percent(fraction)}"
        )
    return Reading(
        ONLY_IGNORED,
        fraction > limits.max_named_elsewhere_fraction and count > limits.tolerated,
        found,
        f"{_percent(limits.max_named_elsewhere_fraction)} of all objects by one column, or "
        f"{limits.tolerated:,} objects",
        "Does the reason that stands beside it hold still, or do living rows keep their files "
        "there by now? Then take it out of ignore, or declare it. If what it names is dead, "
        "override this breaker for one run.",
    )


def _nothing_matched(numbers: Numbers, hint: str | None) -> Reading:
    # Young, protected and unknown objects stay anyway, and say nothing.
    judged = numbers.orphans + numbers.ambiguous + numbers.named_elsewhere
    return Reading(
        NOTHING_MATCHED,
        judged > 0 and numbers.matched == 0,
        f"{numbers.matched:,} of {numbers.objects:,} owned objects match one of "
        f"{numbers.references:,} references",
        "at least one",
        f"Sources and bucket do not belong together, or a transform is missing. "
        f"{_strangers(numbers)}{hint or _SEE_FORMS}",
    )


def _database_older(numbers: Numbers, limits: BreakersSettings) -> Reading:
    found = "no referenced object to compare with"
    if numbers.newest_reference:
        newest = datetime.fromtimestamp(numbers.newest_reference / 1000, timezone.utc)
        found = (
            f"{numbers.newer:,} objects without a reference are newer, by more than min_age, than "
            f"the newest one with a reference ({newest:%Y-%m-%d %H:%M} UTC)"
        )
    return Reading(
        DATABASE_OLDER,
        numbers.newer > limits.max_newer,
        found,
        f"{limits.max_newer:,} objects",
        "The database looks older than the bucket: was it restored from a backup, or is it a "
        "copy? Then the rows of these objects are lost, and the objects are in use. If uploads "
        "really fail in such numbers while none succeeds, find out why first.",
        doubt=f"the database looks older than the bucket ({found})",
    )


_SEE_FORMS = "The report shows the rows' form beside the objects'."


_MOST_STRANGERS = 3
"""A message that names more of them is not read."""


def _strangers(numbers: Numbers) -> str:
    named = numbers.strangers[:_MOST_STRANGERS]
    more = len(numbers.strangers) - len(named)
    said = "".join(f"{one} " for one in named)
    return f"{said}So it is with {more:,} more sources. " if more else said


def _fraction(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.4g} %"
