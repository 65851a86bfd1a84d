"""What the record of a run of this job says, in words: the reference is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


FIELDS: Mapping[str, str] = {
    "cutoff": "the moment before which a reservation had to expire",
    "stopped_reason": (
        "`limit`, `max_runtime`, `storage rejected a batch`, `a source of references could not "
        "be read`, `it could not be proven that the run may still delete`, or null"
    ),
    "swept": (
        "true: a live run that was not stopped, left no row alone and left no object. Only such "
        "a run paints its day"
    ),
    "untouched": (
        "rows that are due and stay: their key forbids it, the database refused or refused "
        "before, another session holds them, or they have no key or usable time"
    ),
    "oldest_left": (
        "since when the oldest reservation that is still there could have been collected: its "
        "expiry plus `grace`; whatever the window; null: none"
    ),
    "without_expiry": (
        "pending rows without expiry, whatever their age, counted up to 10,000: no collector "
        "will ever take them"
    ),
    "without_expiry_is_floor": "true: there are more",
    "claimed": "live: rows removed",
    "bytes_freed": (
        "live: bytes of the objects that were deleted. Null: nobody measured them, because of "
        "`count_bytes: false` or because storage would not say"
    ),
    "unmeasured": "live: objects that went without a known size. Above 0, `bytes_freed` is a floor",
    "objects_left": (
        "live: objects of claimed rows that may still be there. Counted from the claim's commit "
        "on and taken back with the result, so that a run killed in between says what may be "
        "left"
    ),
    "never_arrived": (
        "live: keys of claimed rows behind which was no object. Null with `count_bytes: false`"
    ),
    "would_collect": "dry: what a live run would have taken",
    "would_free_bytes": (
        "dry: the bytes of it, as far as storage said them. Null with `count_bytes: false`"
    ),
    "claim_doubted": (
        "your own tables only: which predicate the claim does not repeat, or why it cannot be "
        "compared, and whether the settings waive it. Absent otherwise"
    ),
    "search; named_elsewhere; only_ignored; unsearched": (
        "declared tables only: the search for the names of the rows' objects in all columns, as in "
        "storage_orphans. Absent where the search of an earlier live run holds"
    ),
}
"""Fields of `job_run.detail` beside those of every run, in words: the reference is made of them."""

CLASSES: Mapping[str, str] = {
    "would collect": "Row stays, bytes stay. Dry only",
    "deleted": (
        "Row gone, bytes gone. Counts in `acted`. Storage said so. S3 says it also of a key that "
        "had no object"
    ),
    "marked": (
        "Row gone, bytes kept as an old version. Counts in `acted`. The bucket keeps versions: "
        "nothing was freed"
    ),
    "quarantined": (
        "Row gone, bytes kept below `filejobs-quarantine/`. Counts in `acted`. `quarantine` is true"
    ),
    "already gone": (
        "Row gone, bytes none. Counts in `acted`. Storage said that there was no such object"
    ),
    "never arrived": "Row gone, bytes none. Counts in `acted`. Asked for its size, there was none",
    "kept: referenced by …": (
        "Row gone, bytes stay. Counts in `acted`. A source names the key. The name of each "
        "source is given"
    ),
    "kept: ambiguous: near …": (
        "Row gone, bytes stay. Counts in `acted`. A source comes near to the key, and what "
        "differs is said"
    ),
    "kept: locked": (
        "Row gone, bytes stay. Counts in `acted`. `purge_versions` is true and a version is "
        "retained: it goes as an orphan once its lock is over"
    ),
    "bytes left": "Row gone, bytes stay. Storage refused, or gave no answer. The sample says why",
    "claim refused": (
        "Row stays, bytes stay. The database refused the row: a foreign key, a trigger, or a "
        "value that a column cannot hold"
    ),
    "won by others": "Row not ours, bytes stay. A client completed it, or somebody deleted it",
    "held by another session": (
        "Row stays, bytes stay. Due, and another session holds it: `swept` is false, the day "
        "stays unpainted, and the next run tries again"
    ),
    "no usable time; no key": (
        "Row stays, bytes stay. Before or after what a calendar holds, `-infinity` included; "
        "what is due of it makes `swept` false"
    ),
    "waits after a failure": (
        "Row stays, bytes stay. PostgreSQL refused its claim before. It is tried again after a "
        "pause that doubles, from 5 minutes to a day; the table `setback` has the reason, and "
        "without its row there it is tried at once"
    ),
    "named elsewhere": (
        "Row stays, bytes stay. Declared tables only: a column that no source reads names the "
        "object; the sample says which"
    ),
    "kept: not owned": "Row stays, bytes stay. The key is in no owned prefix",
    "kept: protected": "Row stays, bytes stay. The key is protected",
    "kept: ambiguous path": (
        "Row stays, bytes stay. The key has a segment `.` or `..`. S3 takes it as it is, but a "
        "proxy or a server that keeps files may resolve it, and would delete another object"
    ),
    "kept: directory marker": "Row stays, bytes stay. The key ends in a slash",
    "kept: too long for quarantine": "Row gone, bytes stay. The prefix leaves no room for the key",
    "kept: not UTF-8": "Row stays, bytes stay. The key cannot be a key of S3",
}
"""What can become of an item, in words."""
