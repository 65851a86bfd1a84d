"""What the record of a run of this job says, in words: the reference is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


FIELDS: Mapping[str, str] = {
    "cutoff": "the moment before which a file had to be deleted",
    "restore_window_seconds": "the restore window of the run, in seconds",
    "oldest_left": (
        "since when the oldest file that is still there could have been collected; null: none. "
        "More than ten thousand files with a `retain_until` that are due may hide an older one "
        "among them"
    ),
    "without_deleted_at": (
        "deleted rows without `deleted_at`, counted up to 10,000: no run will ever take them"
    ),
    "without_deleted_at_is_floor": "true: there are more",
    "claimed": "live: rows removed",
    "bytes_freed": (
        "live: bytes of the objects that were deleted, derived ones included. Null: nobody "
        "measured them"
    ),
    "unmeasured": "live: objects that went without a known size. Above 0, `bytes_freed` is a floor",
    "objects_left": (
        "live: objects of claimed files, derived ones included, that may still be there"
    ),
    "missing": "live: objects that were not there. Null with `count_bytes: false`",
    "would_collect": "dry: files that a live run would have taken",
    "would_free_bytes": (
        "dry: the bytes of them and of their derived objects, as far as storage said them"
    ),
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
    "search; named_elsewhere; only_ignored; unsearched": (
        "declared tables only: the search for the names of the rows' objects in all columns, as in "
        "storage_orphans. Absent where the search of an earlier live run holds"
    ),
}
"""Fields of `job_run.detail` beside those of every run, in words: the reference is made of them."""

CLASSES: Mapping[str, str] = {
    "would collect; derived: would collect": "Row stays, bytes stay. Dry only",
    "deleted; derived: deleted": "Row gone, bytes gone. Counts in `acted`. Storage said so",
    "marked; derived: marked": (
        "Row gone, bytes kept as an old version. Counts in `acted`. The bucket keeps versions: "
        "nothing was freed"
    ),
    "quarantined; derived: quarantined": (
        "Row gone, bytes kept below `filejobs-quarantine/`. Counts in `acted`. `quarantine` is true"
    ),
    "already gone; derived: already gone": (
        "Row gone, bytes none. Counts in `acted`. Storage said that there was no such object"
    ),
    "missing; derived: missing": (
        "Row gone, bytes none. Counts in `acted`. Asked for its size, there was none. Somebody "
        "else has deleted it"
    ),
    "kept: referenced by …; derived: kept: referenced by …": (
        "Row gone, bytes stay. Counts in `acted`. A source names the key"
    ),
    "kept: ambiguous: near …; derived: kept: ambiguous: near …": (
        "Row gone, bytes stay. Counts in `acted`. A source comes near to the key, and what "
        "differs is said"
    ),
    "kept: locked": (
        "Row gone, bytes stay. Counts in `acted`. `purge_versions` is true and a version is "
        "retained: it goes as an orphan once its lock is over"
    ),
    "kept: too long for quarantine; derived: kept: too long for quarantine": (
        "Row gone, bytes stay. The prefix leaves no room for the key"
    ),
    "derived: kept: its row stays": "Row stays, bytes stay. The derived row outlived its file",
    "bytes left; derived: bytes left": (
        "Row gone, bytes stay. Storage refused, or gave no answer. The sample says why"
    ),
    "claim refused": (
        "Row stays, bytes stay. The database refused the row: a foreign key, a trigger, or a "
        "derived query that fails for this file"
    ),
    "won by others": "Row not ours, bytes stay. Restored, changed or deleted by somebody else",
    "held by another session": (
        "Row stays, bytes stay. Due, and another session holds it: `swept` is false, the day "
        "stays unpainted, and the next run tries again"
    ),
    "no usable time": (
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
    "kept: not owned": "Row stays, bytes stay. The file's own key forbids it",
    "kept: protected": "Row stays, bytes stay. The file's own key forbids it",
    "kept: ambiguous path": "Row stays, bytes stay. The file's own key forbids it",
    "kept: directory marker": "Row stays, bytes stay. The file's own key forbids it",
    "kept: not UTF-8": "Row stays, bytes stay. The file's own key forbids it",
    "derived: kept: not owned": (
        "Row gone, bytes stay. A derived key forbids it. The file goes, and nothing names this "
        "object any more"
    ),
    "derived: kept: protected": (
        "Row gone, bytes stay. A derived key forbids it. The file goes, and nothing names this "
        "object any more"
    ),
    "derived: kept: ambiguous path": (
        "Row gone, bytes stay. A derived key forbids it. The file goes, and nothing names this "
        "object any more"
    ),
    "derived: kept: directory marker": (
        "Row gone, bytes stay. A derived key forbids it. The file goes, and nothing names this "
        "object any more"
    ),
    "derived: kept: not UTF-8": (
        "Row gone, bytes stay. A derived key forbids it. The file goes, and nothing names this "
        "object any more"
    ),
}
"""What can become of an item, in words."""
