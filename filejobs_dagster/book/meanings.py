"""What a run's record, a finding and a column say, in words: the reference is made of it.

`job_run.detail` is public: SQL, metrics, the web UI and alerts read it. Each name of it stands here
with its meaning, and tests hold these against what real runs write. Names with the same meaning
share an entry, with `AND` between them. `python -m tests.docs.reference` writes the pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

AND = "; "

EVERY_RUN: Mapping[str, str] = {
    "window": (
        '`{"covers": "everything"}`, or the day with `from` and `to`. A run that was told to be '
        "more patient than the settings covers less and says so here: it succeeds, and does not "
        "count as a sweep"
    ),
    "trigger": "`kind` and `name`: the door the run came through",
    "ended": "how Dagster saw it end: `success`, `failure`, `canceled`; or `lost`, `unseen`",
    "started_again": (
        "true: it left no final word, and Dagster starts it again by itself. Absent otherwise"
    ),
    "holder": "user, host and process id",
    "started_by": (
        "who asked for the run: `user`, `host`, `how` it is known (which doors know); absent "
        "when nobody did or nobody knows"
    ),
    "mode_reason": "why the mode is not the one that was asked; absent otherwise",
    "door": "what each guard found before the run began",
    "would_be_refused": (
        "of a dry run: which guards would not have let a live one in, and why; where they doubt "
        "what database and bucket say, the numbers of what it would take are left out"
    ),
    "truncated": "true: it stopped while more was due. Absent: it did not get that far",
    "never_started": "the run ended before it did anything",
    "explained": "one sentence for whoever wonders why nothing, or not everything, went",
    "classes; bytes_by_class; samples": (
        "how many items met which fate, their bytes as far as they were measured, and up to 20 "
        "keys of each class with the reason"
    ),
}
"""Fields of every job's record."""

FIELDS: Mapping[str, Mapping[str, str]] = {
    "upload_reservations": {
        "cutoff": "the moment before which a reservation had to expire",
        "stopped_reason": (
            "`limit`, `max_runtime`, `storage rejected a batch`, `a source of references could "
            "not be read`, `it could not be proven that the run may still delete`, or null"
        ),
        "swept": (
            "true: a live run that was not stopped, left no row alone and left no object. Only "
            "such a run paints its day"
        ),
        "untouched": (
            "rows that are due and stay: their key forbids it, the database refused or refused "
            "before, another session holds them, or they have no key or usable time"
        ),
        "oldest_left": (
            "since when the oldest reservation that is still there could have been collected: "
            "its expiry plus `grace`; whatever the window; null: none"
        ),
        "without_expiry": (
            "pending rows without expiry, whatever their age, counted up to 10,000: no collector "
            "will ever take them"
        ),
        "without_expiry_is_floor": "true: there are more",
        "claimed": "live: rows removed",
        "bytes_freed": (
            "live: bytes of the objects that were deleted. Null: nobody measured them, because "
            "of `count_bytes: false` or because storage would not say"
        ),
        "unmeasured": (
            "live: objects that went without a known size. Above 0, `bytes_freed` is a floor"
        ),
        "objects_left": (
            "live: objects of claimed rows that may still be there. Counted from the claim's "
            "commit on and taken back with the result, so that a run killed in between says what "
            "may be left"
        ),
        "never_arrived": (
            "live: keys of claimed rows behind which was no object. Null with `count_bytes: false`"
        ),
        "would_collect": "dry: what a live run would have taken",
        "would_free_bytes": (
            "dry: the bytes of it, as far as storage said them. Null with `count_bytes: false`"
        ),
        "claim_doubted": (
            "your own tables only: which predicate the claim does not repeat, or why it cannot "
            "be compared, and whether the settings waive it. Absent otherwise"
        ),
    },
    "deleted_files": {
        "cutoff": "the moment before which a file had to be deleted",
        "restore_window_seconds": "the restore window of the run, in seconds",
        "oldest_left": (
            "since when the oldest file that is still there could have been collected; null: "
            "none. More than ten thousand files with a `retain_until` that are due may hide an "
            "older one among them"
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
        "unmeasured": (
            "live: objects that went without a known size. Above 0, `bytes_freed` is a floor"
        ),
        "objects_left": (
            "live: objects of claimed files, derived ones included, that may still be there"
        ),
        "missing": "live: objects that were not there. Null with `count_bytes: false`",
        "would_collect": "dry: files that a live run would have taken",
        "would_free_bytes": (
            "dry: the bytes of them and of their derived objects, as far as storage said them"
        ),
        "stopped_reason": (
            "`limit`, `max_runtime`, `storage rejected a batch`, `a source of references could "
            "not be read`, `it could not be proven that the run may still delete`, or null"
        ),
        "swept": (
            "true: a live run that was not stopped, left no row alone and left no object. Only "
            "such a run paints its day"
        ),
        "untouched": (
            "rows that are due and stay: their key forbids it, the database refused or refused "
            "before, another session holds them, or they have no key or usable time"
        ),
    },
    "upload_cleanup": {
        "cutoff": "the database's time at the start: what became due later waits",
        "truncated; stopped_reason": (
            "whether the run stopped while more was due, and why: `limit`, `max_runtime`, "
            "`storage rejected a batch`, `storage did not answer`, `storage reported as gone "
            "what is still there`, `a source of references could not be read`, `it could not be "
            "proven that the run may still delete`, or null"
        ),
        "swept": (
            "true: a live run that was not stopped, and no row of its window that was "
            "collectable before the cutoff is still in `cleanup`, and there is no `finding`"
        ),
        "finding": (
            "live: every row dropped out (*cannot be looked at*, or more than one *superseded*), "
            "so that the comparison is more likely to be at fault than the objects. Null: "
            "nothing"
        ),
        "oldest_left": (
            "since when the oldest row waits for its cleanup, dead letters included, whatever "
            "the window; null: none"
        ),
        "claimed": "live: rows claimed",
        "claimed_without_result": (
            "live: claimed rows whose result is not written. Above 0 after a kill: the next run "
            "asks about them"
        ),
        "taken_over": "live: rows that a run without a result had claimed",
        "untouched": "live: rows that were tried in vain, and those that another session holds",
        "bytes_freed": "live: bytes of objects and parts that are gone",
        "would_collect; would_free_bytes": (
            "dry: what a live run would have removed, as far as it can be seen"
        ),
        "dead_letters": (
            "rows that nobody tries any more, counted up to 10,000, as are the next three"
        ),
        "waiting": "rows in `cleanup` that are not dead",
        "uncertain": "rows in `uncertain`",
        "retained": "rows in `retained`",
        "samples": (
            "also `an object under the decoded key`: a row's object is missing, and one stands "
            "under the key with `%20` and the like decoded. That object is kept"
        ),
    },
    "storage_orphans": {
        "window": '`{"covers": "everything"}`, or the reviewed list',
        "bucket; cutoff; fingerprint": (
            "which bucket, the moment before which objects count as old, and the name of sources "
            "and rules"
        ),
        "first_pass": (
            "of every complete pass, true or false. True: the first complete pass by these "
            "sources and rules. It deletes nothing, whatever the mode"
        ),
        "classes; bytes_by_class; bytes": "objects and bytes by class, and all bytes",
        "orphans; orphan_bytes": "all orphans of this pass, confirmed or not",
        "by_prefix; by_age": (
            "every class by the first two levels of the key (the 20 with the most bytes for "
            "orphans, 5 for any other class) and by age, orphans first"
        ),
        "largest; oldest": "the orphans, in tables",
        "references; missing; awaited; sources": (
            "distinct keys in use; those in `owns` without an object; those whose upload may "
            "still come; rows, keys, keys `in_owns` and empty rows of each source. A source with "
            "keys, none of them in `owns`, needs another transform, or names objects of another "
            "prefix"
        ),
        "named_elsewhere": (
            "the columns that name objects without being a source: how many, one of them, the "
            "line that would declare the column"
        ),
        "unsearched": "what could not be searched, why, and its bytes",
        "search": (
            "how many candidates were looked for, in how many tables, columns and bytes, and in "
            "how many seconds"
        ),
        "breakers": "every breaker with its number, its limit and its verdict",
        "override": "which breakers were passed over, and why",
        "report": "where the list stands",
        "marks; marks_cleared": "who keeps the marks, when not this run; how many were forgotten",
        "waiting; waiting_bytes; waiting_until": (
            "orphans that an earlier run has not seen for long enough, and when the first of "
            "them is due"
        ),
        "would_collect; would_free_bytes; would_defer": (
            "dry: what a live run would have removed now, and left because of the limit"
        ),
        "would_be_refused": (
            "dry: what a live run would not be let in for, or would fail of; also what could not "
            "be searched while orphans are due"
        ),
        "deferred; deferred_bytes; deferred_oldest": (
            "live: what was due and is left, and the oldest object's time"
        ),
        "truncated; stopped_reason": (
            "whether it stopped, or a live run would have stopped, while more was due: `limit`, "
            "`max_runtime`, `older transactions`, `breakers: …`, or what refused"
        ),
        "waited_for": "the transactions that a batch was left for",
        "swept": (
            "true: a live run, nothing that was due is left, and there is no `finding`. Waiting "
            "and locked orphans are not due; those that wait anew because rules changed are"
        ),
        "oldest_left": (
            "since when the oldest orphan that is left has been due; null when none is, and in a "
            "dry run"
        ),
        "deleted; marked; already_gone; versions_purged": (
            "live: what became of them. *marked* is a delete marker in a versioned bucket, and "
            "frees nothing"
        ),
        "bytes_freed": "live: bytes that are free now",
        "objects_left": (
            "live: orphans that storage did not let go, or whose result is not written yet"
        ),
        "put_off": (
            "live: orphans that are not tried again yet, by the reason: `undecided`, `cannot be "
            "looked at`, `ghost` (what that means)"
        ),
        "finding": (
            "live: why the pass is no sweep, although nothing stopped it: every candidate "
            "dropped out, or rules alternate between two hosts whose `filejobs.yaml` differ. "
            "Null: nothing"
        ),
        "fates": (
            "live: all of it in words: also `changed meanwhile`, `undecided`, `cannot be looked "
            "at`, `ghost`, `locked`, `failed`, `unanswered`, `asked for a moment ago`, `being "
            "referenced`, `kept: …` (derived objects under one: `kept: its owner is referenced`)"
        ),
        "recovered": (
            "what a run that ended early had left: gone, still there, `too_recent` to be sure "
            "that no deletion is under way, or `not_known` where storage does not say"
        ),
        "interrupted": (
            "dry: objects that a run that ended early was about to delete; nobody can refer to "
            "their keys until a live run has looked"
        ),
        "interrupted_elsewhere": (
            "the same, by the name of another entry of `buckets`. Where an entry was renamed, "
            "give it its old name for one live run"
        ),
        "reviewed": (
            "of a reviewed list: whose, how many it asks for, how many the fresh pass agrees to"
        ),
        "versioning; conditional_delete": (
            "what the bucket does with versions, and with a deletion that has a condition"
        ),
        "ordered_by_server; parts_listed": (
            "false: the server does not list in byte order, so it was sorted here; ranges listed"
        ),
        "progress": "while it works: phase, objects so far, objects a second, position",
    },
    "multipart_uploads": {
        "bytes_freed; parts_freed": "parts that were listed before an abort and are not any more",
        "would_collect; would_free_bytes": "dry: what is due, and the bytes of its parts",
        "classes; bytes_by_class": (
            "the table above, with the bytes of the parts where they were listed"
        ),
        "bucket; cutoff; window": "where, and until when somebody's last part must have come",
        "untouched": "uploads in owned prefixes that are none of ours: `kept: …`",
        "deferred": "as the class",
        "progress": "where a run at work is",
        "asked_by_id": "rows whose multipart upload was asked for by its id",
        "uploads_left": (
            "failed, with parts left, not readable, unanswered, waiting after a failure"
        ),
        "oldest_left": "since when the oldest upload that is left has been due",
        "swept": "live, everything looked at, nothing left, no `finding`",
        "finding": (
            "live: why an empty listing says nothing: the server does not list uploads below a "
            "prefix (known by the id of a row, or by `doctor --probe`), or gives none of them a "
            "date. Null: nothing"
        ),
        "backstop; backstop_state": "the lifecycle rule: `there`, `missing`, `unknown`",
        "backstop_rule": "the rule that is missing",
        "stopped_reason": "`limit`, `max_runtime`, what refused, or null",
    },
    "table_retention": {
        "window": '`{"covers": "everything"}`, or the rules of a run of some',
        "cutoff": "the moment from which every rule's age is counted back",
        "rules": "a row for each rule: see below",
        "classes": (
            "`deleted`, `scrubbed`, `partitions dropped`, `children deleted`, `refused by "
            "PostgreSQL`, `left by a trigger`, `held by another session`, `no usable time` "
            "(`-infinity`), `partitions pending detach`; dry: `would delete`, `would scrub`"
        ),
        "untouched": (
            "live: due rows that were passed over, each for a reason of its own; then `swept` is "
            "false"
        ),
        "warnings": (
            "what somebody should know of a rule: cascades, rows without a time, a table over "
            "its size, a partition that could not be dropped"
        ),
        "dropped": "live: each partition with its bounds and PostgreSQL's estimate of its rows",
        "would_collect": "dry: due rows of all rules",
        "would_collect_is_floor": "dry: some rule has more due than were counted",
        "truncated": "true: the run stopped while more was due",
        "stopped_reason": "`limit`, `max_runtime` or null",
        "swept": (
            "true: a live run of all rules that left nothing, refused no row and in which no "
            "rule failed"
        ),
        "oldest_left": (
            "since when the oldest row that is still there is due, for deletion or for "
            "scrubbing; null: none"
        ),
    },
    "table_retention, each of `rules`": {
        "rule; table; keeps; cutoff": "the rule, its table, its age and the moment that this makes",
        "state": "`done`, `unfinished` (the run ended first), `failed`, `not begun`",
        "due; due to scrub": "at the beginning, counted up to 10,000; `10,000 or more` behind that",
        "deleted; scrubbed; partitions": "live: what was done",
        "refused": "rows that PostgreSQL refused to change",
        "held": "live: due rows that another session holds",
        "left": "live: what is still due at the end",
        "without time": (
            "rows that the rule means and never takes; `-` where no index leads to them"
        ),
        "reason": "why the rule failed, or why the first row was refused. Never what a row holds",
    },
    "audit_seal": {
        "scanned; acted": "chains looked at; seals written. A dry run writes none and pins none",
        "sealed_events; would_seal_events": "events that no earlier seal counted, live and dry",
        "unsigned_seals; unpinned_seals": (
            "seals of this run without a signature, without a copy outside"
        ),
        "pinned_late": "older seals that were pinned first",
        "chains": "one row per chain",
        "findings": (
            "what was refused, by chain and code; any of it fails the run. The other chains are "
            "sealed"
        ),
        "signatures; pins; explained": (
            "what the seals are worth: the place of the pins, and what is missing"
        ),
    },
    "audit_trim": {
        "scanned; acted": "events that are older than the retention; events removed",
        "would_trim_events": "in a dry run: what a live one would remove",
        "checkpoints": "receipts, one per batch",
        "retention_seconds; archived": "the rule of this run",
        "chains": (
            "one row per chain: what is due, what was planned, and what stopped it: `RETENTION` "
            "(everything that is due goes), `SEAL` (up to the last boundary of a pinned seal), "
            "`LEGAL_HOLD` (up to the first hold), `WOULD_EMPTY` (all but the newest event), "
            "`refused`"
        ),
        "chains_left_out": "chains that were not looked at, because limit or time was over",
        "truncated; stopped_reason; oldest_left": (
            "`limit` or `max_runtime` ended the run; since when the oldest event that could have "
            "gone is due"
        ),
        "swept": "live, nothing refused, nothing left that could have gone",
    },
    "audit_verify": {
        "scanned; acted": "events computed again; always 0",
        "check": "which check, and which part",
        "chains_verified; verified_events": (
            "chains without a finding, and how many of their events were computed"
        ),
        "unread_events": "events that this run did not compute",
        "read": (
            "of a rolling check: when each part was read last, and since when all were "
            "(`all_read_since`)"
        ),
        "unprotected_events": (
            "events behind the newest pin. They are linked, and never called verified"
        ),
        "chains": "one row per chain: verdict, head, trimmed, sealed and pinned to, unprotected",
        "findings; warnings": (
            "chain, code, first event, how often, in words. Findings fail the run"
        ),
        "truncated": "the time was over before every chain was looked at; such a run fails",
    },
    "run_history": {
        "progress_rows": "rows of `job_progress` that went",
    },
}
"""Fields of `job_run.detail` that a job adds to those of every run."""

CLASSES: Mapping[str, Mapping[str, str]] = {
    "upload_reservations": {
        "would collect": "Row stays, bytes stay. Dry only",
        "deleted": (
            "Row gone, bytes gone. Counts in `acted`. Storage said so. S3 says it also of a key "
            "that had no object"
        ),
        "marked": (
            "Row gone, bytes kept as an old version. Counts in `acted`. The bucket keeps "
            "versions: nothing was freed"
        ),
        "already gone": (
            "Row gone, bytes none. Counts in `acted`. Storage said that there was no such object"
        ),
        "never arrived": (
            "Row gone, bytes none. Counts in `acted`. Asked for its size, there was none"
        ),
        "kept: referenced by …": (
            "Row gone, bytes stay. Counts in `acted`. A source names the key. The name of each "
            "source is given"
        ),
        "kept: ambiguous: near …": (
            "Row gone, bytes stay. Counts in `acted`. A source comes near to the key, and what "
            "differs is said (the same judgement as of `storage_orphans`)"
        ),
        "kept: locked": (
            "Row gone, bytes stay. Counts in `acted`. `purge_versions` is true and a version is "
            "retained: it goes as an orphan once its lock is over"
        ),
        "bytes left": (
            "Row gone, bytes stay. Storage refused, or gave no answer. The sample says why"
        ),
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
            "Row stays, bytes stay. PostgreSQL refused its claim before. It is tried again after "
            "a pause that doubles, from 5 minutes to a day; the table `setback` has the reason, "
            "and without its row there it is tried at once"
        ),
        "kept: not owned": "Row stays, bytes stay. The key is in no owned prefix",
        "kept: protected": "Row stays, bytes stay. The key is protected",
        "kept: ambiguous path": (
            "Row stays, bytes stay. The key has a segment `.` or `..`. S3 takes it as it is, but "
            "a proxy or a server that keeps files may resolve it, and would delete another "
            "object"
        ),
        "kept: directory marker": "Row stays, bytes stay. The key ends in a slash",
        "kept: not UTF-8": "Row stays, bytes stay. The key cannot be a key of S3",
    },
    "deleted_files": {
        "would collect; derived: would collect": "Row stays, bytes stay. Dry only",
        "deleted; derived: deleted": "Row gone, bytes gone. Counts in `acted`. Storage said so",
        "marked; derived: marked": (
            "Row gone, bytes kept as an old version. Counts in `acted`. The bucket keeps "
            "versions: nothing was freed"
        ),
        "already gone; derived: already gone": (
            "Row gone, bytes none. Counts in `acted`. Storage said that there was no such object"
        ),
        "missing; derived: missing": (
            "Row gone, bytes none. Counts in `acted`. Asked for its size, there was none. "
            "Somebody else has deleted it"
        ),
        "kept: referenced by …; derived: kept: referenced by …": (
            "Row gone, bytes stay. Counts in `acted`. A source names the key"
        ),
        "kept: ambiguous: near …; derived: kept: ambiguous: near …": (
            "Row gone, bytes stay. Counts in `acted`. A source comes near to the key, and what "
            "differs is said (the same judgement as of `storage_orphans`)"
        ),
        "kept: locked": (
            "Row gone, bytes stay. Counts in `acted`. `purge_versions` is true and a version is "
            "retained: it goes as an orphan once its lock is over"
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
            "Row stays, bytes stay. PostgreSQL refused its claim before. It is tried again after "
            "a pause that doubles, from 5 minutes to a day; the table `setback` has the reason, "
            "and without its row there it is tried at once"
        ),
        "kept: not owned": "Row stays, bytes stay. The file's own key forbids it",
        "kept: protected": "Row stays, bytes stay. The file's own key forbids it",
        "kept: ambiguous path": "Row stays, bytes stay. The file's own key forbids it",
        "kept: directory marker": "Row stays, bytes stay. The file's own key forbids it",
        "kept: not UTF-8": "Row stays, bytes stay. The file's own key forbids it",
        "derived: kept: not owned": (
            "Row gone, bytes stay. A derived key forbids it. The file goes, and nothing names "
            "this object any more"
        ),
        "derived: kept: protected": (
            "Row gone, bytes stay. A derived key forbids it. The file goes, and nothing names "
            "this object any more"
        ),
        "derived: kept: ambiguous path": (
            "Row gone, bytes stay. A derived key forbids it. The file goes, and nothing names "
            "this object any more"
        ),
        "derived: kept: directory marker": (
            "Row gone, bytes stay. A derived key forbids it. The file goes, and nothing names "
            "this object any more"
        ),
        "derived: kept: not UTF-8": (
            "Row gone, bytes stay. A derived key forbids it. The file goes, and nothing names "
            "this object any more"
        ),
    },
    "upload_cleanup": {
        "deleted": (
            "Row cleaned, bytes gone. Storage said so, and a sample of each batch was looked for "
            "again"
        ),
        "marked": (
            "Row cleaned, bytes kept as an old version. The bucket keeps versions, and the row "
            "names none (the table)"
        ),
        "already gone": "Row cleaned, bytes none. It was stored once, and is not there",
        "never arrived": "Row cleaned, bytes none. Nobody ever saw it",
        "superseded": "Row cleaned, bytes kept. Another object stands under the key",
        "retained": "Row retained, bytes kept. A lock or a hold",
        "left for later": (
            "Row cleanup, bytes perhaps there. Storage refused, or gave no answer. The sample "
            "says why"
        ),
        "held by another session": (
            "Row cleanup, bytes kept. Due, and another session holds the row: `swept` is false, "
            "and the next run tries again"
        ),
        "cannot be looked at": (
            "Row cleanup, bytes there. A HEAD answers 400 or 403: a customer's key, a KMS key, "
            "or `s3:GetObject` is missing. Tried again later and later"
        ),
        "dead letter": "Row cleanup, dead, bytes perhaps there. The same, for the last time",
        "kept: …": (
            "Row cleanup, bytes kept. The key is not owned, is protected, `referenced by` "
            "another row, or `ambiguous`: a source comes near to it. It is tried again, and "
            "becomes a dead letter"
        ),
        "claim lost": "Row another worker's. It was claimed again, or changed, meanwhile",
        "silent writer, now uncertain": "Row uncertain. No sign of life for `writing_limit`",
        "uncertain, resolved: stored": "Row stored, bytes there.",
        "uncertain, resolved: cleanup": "Row cleanup. The same run goes on to clean it up",
        "still uncertain": "Row uncertain. Nothing can be concluded yet",
        "lock over": "Row cleanup, bytes there. The same run goes on to clean it up",
        "still retained": "Row retained, bytes kept.",
        "would collect; would be: …; would be retained; would be left for later": (
            "Row as it was, bytes kept. Dry only"
        ),
    },
    "storage_orphans": {
        "referenced": "a source names the exact key",
        "derived": "a source names an owner that a rewrite leads to",
        "protected": "`protect` names it, or it is the bucket's marker",
        "directory marker": "the key ends in `/`; it is counted",
        "unknown shape": (
            "no pattern of `shape` matches; or the key is not UTF-8, has `.` or `..` between "
            "slashes, more owners than are looked for, or more than 1024 bytes; it stands in the "
            "list"
        ),
        "young": "modified less than `min_age` ago, or at a time that is not known",
        "ambiguous": (
            "a row would mean it after a change that nobody declared (near matches); it stands "
            "in the list with the row's form"
        ),
        "named elsewhere": (
            "a column that no source reads may mean it (Named elsewhere); it stands in the list "
            "with the column"
        ),
        "orphan": "none of these; stays until it is confirmed",
    },
    "multipart_uploads": {
        "would abort": "dry: it is due",
        "aborted": "none of its parts is listed any more",
        "young; still active": "it began, or its newest part came, after the cutoff",
        "age unknown": (
            "the server tells no date, so nobody knows whether it is due: `swept` is false"
        ),
        "referenced": "a source names its key; the sample says which",
        "kept: …": (
            "`ambiguous: near …` (a source comes near to its key), `protected`, `not owned`, "
            "`ambiguous path`, `directory marker`, `not UTF-8`"
        ),
        "ended meanwhile": "it was listed, and is not there any more",
        "already gone": "it ended between the look and the abort, and its key has no object",
        "gone, and its key has an object": (
            "the same, and there is an object: as a rule, its client completed it"
        ),
        "parts left": "aborted, and parts are still listed. The next run takes them",
        "failed": "storage refused this one, with its reason; the others went on",
        "parts not readable": "storage did not list its parts, so nothing was decided",
        "unanswered": "no answer came to the abort: it may be gone",
        "deferred": "due, and left because of `limit` or `max_runtime`",
        "waits after a failure": (
            "due, and could not be aborted before: it is tried again after a pause that doubles, "
            "from 5 minutes to a day, behind all others. It uses up no `limit`. The table "
            "`setback` has the reason; delete the row there to have it tried at once"
        ),
    },
    "run_history": {
        "pruned": "it went; in a dry run `would be pruned`",
        "not recorded": (
            "it is over and old, and `job_run` has no record. It is the only witness left, so it "
            "is kept and reported"
        ),
        "record too young": "the record says that it ended later than Dagster does",
        "backfill in progress": "its backfill is not over",
        "parent of a run that is kept": (
            "a re-execution or a retry of it is at work, waits, or is young"
        ),
        "about to be retried": "the daemon is to start it again, and did not yet",
        "not removed": (
            "the storage refused, or the run's id (whoever launches a run may choose it) would "
            "lead to files of others; the reason stands beside its id. The next run finds it "
            "again"
        ),
    },
}
"""What an item can meet in a run of a job."""

LIST_COLUMNS: Mapping[str, str] = {
    "decision": "`remove` or `keep`. Change it, or delete rows",
    "key": (
        "the key; what is not plain ASCII is percent-encoded byte by byte, so `%C3%A9` is an é "
        "and `%25` a percent sign. Decoding gives the exact bytes back"
    ),
    "size; last_modified; etag": "the object as it was listed",
    "class; reason": "why it is here",
    "first_seen": "since when runs have seen it as an orphan",
}
"""The columns of the list that `storage_orphans` writes for review."""

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "job_run": {
        "id": "the order of recording, not of running",
        "run_id": "the Dagster run; unique",
        "installation": "from the settings",
        "job": "a name of the registry",
        "started_at; finished_at": (
            "the run's own times by the database's clock. A run that never started begins at its "
            "creation"
        ),
        "outcome": "`ok` or `failed`",
        "mode": (
            "`dry` or `live`: what it did, never what was asked. A run that never started is dry"
        ),
        "scanned; acted": (
            "NULL: it decided nothing, as a run that was refused or whose time was over before "
            "it looked at one item. 0 is a claim. A killed run keeps what it had committed"
        ),
        "detail": "see the fields. `started_by` says who asked for the run, where somebody did",
        "error": (
            "why it failed, without secrets, at most 2000 characters. NULL exactly when "
            "`outcome` is `ok`"
        ),
    },
    "job_progress": {
        "run_id; installation; job; mode": "as above",
        "trigger; trigger_name": (
            "the door: `schedule`, `sensor`, `ui`, `cli`, `backfill`, `http`, `retry`; and which "
            'one. "Re-execute" in the web UI is `ui`; the daemon\'s automatic retry is `retry`, '
            "with the run that it repeats"
        ),
        "holder": "user, host and process id",
        "started_at; heartbeat_at": (
            "the last sign of life; one every 10 seconds, beside those of the batches"
        ),
        "scanned; acted; detail": (
            "so far, committed. `objects_left` in it counts the objects of the batch at work as "
            "left, until storage has answered"
        ),
        "outcome; error; finished_at": "the run's own final word",
        "silent_since": "when the mirror first found neither a final word nor a lock",
        "closed_at": "when the record was written. A run that finds this set stops",
    },
    "file": {
        "id": "uuid; written by: default. The file",
        "state": "text; written by: application. `pending`, `ready` or `deleted`",
        "storage_key": (
            "text, unique, 1 to 1024 bytes; written by: application. The exact key of the "
            "object. The bounds are S3's own, and a CHECK"
        ),
        "size_bytes": "bigint; written by: application. Not negative; NULL when unknown",
        "created_at": "timestamptz; written by: default.",
        "upload_expires_at": (
            "timestamptz; written by: application. From then on the reservation may be "
            "collected. NULL: never"
        ),
        "completed_at": "timestamptz; written by: `complete_upload`.",
        "deleted_at": (
            "timestamptz; written by: `delete_file`. Since when the file is deleted: "
            "`deleted_files` takes it when its restore window is over. NULL: never"
        ),
        "retain_until": (
            "timestamptz; written by: application. `deleted_files` takes no file before it; "
            "`infinity`: never. **`upload_reservations` does not read it**"
        ),
    },
    "audit_event": {
        "chain_id; seq": "which event; `seq` counts from 1",
        "recorded_at": (
            "the database's clock at the append, not before the previous event, except where an "
            "event `audit.clock` says so"
        ),
        "body": "canonical JSON (RFC 8785), exactly as it was hashed",
        "body_hash": "SHA-256 of `body` in UTF-8",
        "prev_hash": "`hash` of the event before, or the chain's genesis",
        "hash": "SHA-256 of the pre-image below",
        "alg": "1",
    },
}
"""The columns of the tables that people read."""

FINDINGS: Mapping[str, tuple[str, str]] = {
    "EV_BODY": (
        "an event's text is not what was hashed",
        "compare the event with a backup or the archive; somebody edited it, or the disk did",
    ),
    "EV_HASH": (
        "an event's hash is not that of its fields",
        "as above: time, number or body was changed",
    ),
    "EV_LINK": (
        "an event does not name the one before it",
        "an event was exchanged, removed or inserted here",
    ),
    "EV_SEQ": (
        "a number is missing or stands twice",
        "events were removed; look for them in a backup",
    ),
    "EV_AHEAD": (
        "an event is later than now, than the seal that counts it, or than that seal's pin",
        (
            "the database's clock was ahead, or a time is a lie. It stays until the event is "
            "trimmed, and stops neither sealing nor trimming what is before it"
        ),
    ),
    "EV_TIME": (
        (
            "an event is older than the one before it, and no event `audit.clock` says that the "
            "clock went back"
        ),
        "its time was changed, or it came from another chain",
    ),
    "EV_BELOW_CP": (
        "an event stands below what was trimmed",
        "a trimmed event was put back; remove nothing, ask who",
    ),
    "HEAD_ROW": (
        "the chain's head row is not its last event",
        "the newest events were removed, or the row was edited",
    ),
    "GENESIS": (
        "the chain does not begin as one of its name",
        "it was replaced, or renamed",
    ),
    "CHAIN_MISSING": (
        "pins know a chain that is not in the database",
        "it was wiped, or this is another database: check `database` and `origin`",
    ),
    "TABLES": (
        (
            "a table, trigger, rule or function of the log is gone, off or another one; as a "
            "warning, one of the project's other tables"
        ),
        "the finding says what mends it; ask who changed it, and what was written meanwhile",
    ),
    "SEAL_SIG": (
        "a seal is not signed by a key that may sign it",
        "a forged seal, or a key that `public_keys` lacks or gives other numbers",
    ),
    "SEAL_FIELDS": (
        "a seal's columns are not what its note says",
        "the row was edited, or `origin` was changed",
    ),
    "SEAL_CHAIN": (
        "a seal does not name the one before it",
        "a seal was removed or exchanged",
    ),
    "SEAL_HEAD": (
        "the event at a seal's size has another hash",
        "the chain was rewritten below the seal",
    ),
    "SEAL_ROOT": (
        "the root over the sealed events is another",
        "as above; with `SEAL_HEAD` missing, only some events differ",
    ),
    "SEAL_TAIL": (
        "there are fewer events than a seal counts",
        "the end was cut off, or the beginning without a receipt",
    ),
    "PIN_GONE": (
        "a pin that was put is not there any more; the row in `audit_pin` stands",
        (
            "somebody deleted in the pins' place, or `pins` names another one. Nobody puts it "
            "again: the finding stays. Keep the list, and look who may delete there"
        ),
    ),
    "PIN_REPLACED": (
        "at a pin's place stands another version than the one that was put",
        (
            "somebody deleted it and put something back, be it the same text; its time proves "
            "nothing any more"
        ),
    ),
    "SEAL_UNPINNED": (
        "a seal has had no pin for longer than `pin_grace`",
        (
            "run `audit_seal`; if it is pinned somewhere, `pins` is wrong. A seal that nobody "
            "made has no pin either"
        ),
    ),
    "SEAL_PIN_MISMATCH": (
        "the seal in the table is not the one that was pinned",
        "the table was rewritten, key or not: the pin is right",
    ),
    "SEALING_STOPPED": (
        (
            "the newest pin is older than `max_pin_age`, or nothing of a chain older than that "
            "was ever pinned"
        ),
        "find out why `audit_seal` stopped; on the first day, run it",
    ),
    "PIN_AHEAD_SEAL": (
        "a pinned seal is not in the database",
        "it was restored, or its newest part was removed: After a restore",
    ),
    "PIN_AHEAD_TRIM": (
        "a pinned receipt is not in the database, and its events are gone",
        "the checkpoint was removed, or the database restored",
    ),
    "PIN_TAIL": (
        "there are fewer events than a pin counts",
        "as `PIN_AHEAD_SEAL`",
    ),
    "PIN_HEAD": (
        "the event at a pin's size has another hash",
        "the chain was rewritten, and the seals with it",
    ),
    "PIN_ROOT": (
        "the root over the pinned events is another",
        "as above",
    ),
    "PIN_SIG": (
        "a pin is not signed by a key that may sign it",
        "a forged pin, or a key that `public_keys` lacks",
    ),
    "PIN_TIME": (
        "a pin is older than its seal says",
        "the database's clock was ahead, or a seal was dated back",
    ),
    "PIN_MARKER": (
        "a delete marker hides a pin",
        "somebody deleted in the pins' bucket; the version below is still read",
    ),
    "EQUIVOCATION": (
        "two different texts at one place",
        ("two databases under one `origin`, or a replaced history: seal nothing before you know"),
    ),
    "CP_SIG": (
        "a receipt is not signed by a key that may sign it",
        "a forged trim",
    ),
    "CP_FIELDS": (
        "a receipt's columns are not what its note says",
        "the row was edited",
    ),
    "CP_CHAIN": (
        "a receipt does not go on where the one before ended",
        "a receipt was removed or exchanged",
    ),
    "CP_COUNT": (
        "a receipt counts other events than its range has",
        "the row was edited",
    ),
    "CP_NO_SEAL": (
        "no seal covers a trimmed range",
        "a forged trim, or the seals were removed",
    ),
    "CP_NO_EVENT": (
        "the event that names a receipt is not in the chain",
        "a forged trim, or the chain was rewritten",
    ),
    "CP_DELETED": (
        "an event names a receipt that is not there",
        "the receipt was removed",
    ),
    "CP_UNPINNED": (
        "a receipt has no pin",
        "a forged trim: ours are pinned before they commit",
    ),
    "CP_RETENTION": (
        "a trim took events that were younger than the rule",
        "somebody trimmed by another rule; compare `minimum_retention`",
    ),
    "CP_HOLD": (
        "a trim took events that a hold kept when its event was written",
        (
            "somebody used the receipt of a trim that was refused, or a forged one; look for the "
            "events in the archive or a backup"
        ),
    ),
    "HOLD_MISMATCH": (
        "rows and events of the holds disagree",
        "somebody edited `audit_hold`; the stricter of the two holds",
    ),
    "RESTORE": (
        "an acknowledged restore is not signed, pinned or true",
        "somebody raised the incarnation by hand",
    ),
    "SEAL_NOT_YET_PINNED": (
        "a warning: the newest seal has no pin yet",
        "none: the next run pins it; later it is `SEAL_UNPINNED`",
    ),
    "PIN_LATE": (
        "a warning: a seal was pinned long after it was made",
        "until then nothing protected it; find out why the place did not answer",
    ),
}
"""What the verifier finds in the audit log: what it means, and what to do."""

REFUSALS: Mapping[str, tuple[str, str]] = {
    "CHAIN_BUSY": (
        "another session seals or trims the chain",
        "wait for it",
    ),
    "VERIFY_FAILED": (
        "something does not match; its code follows",
        "read that code above",
    ),
    "ROLLED_BACK": (
        "the database is older than its pins",
        "After a restore",
    ),
    "SEAL_GAP": (
        "a number is missing in what would be sealed",
        "as `EV_SEQ`",
    ),
    "CLOCK_BACK": (
        "the database's clock is before the newest seal",
        "set the clock",
    ),
    "KEY_UNKNOWN": (
        "the verifier would not believe the key that signs",
        "write its public key with `first_seal`",
    ),
    "NO_COVERING_SEAL": (
        "events are due, and no pinned seal counts them",
        "run `audit_seal`",
    ),
    "LEGAL_HOLD": (
        "a hold keeps the first event",
        "nothing, until the hold is released",
    ),
    "WOULD_EMPTY": (
        "the limit is not below the newest event",
        "choose a lower one",
    ),
    "RETENTION": (
        "an event is too young, or two clocks disagree",
        "set the clocks; the message has both",
    ),
    "ARCHIVE_MISSING": (
        "the archive gave back something else",
        "look into the archive's place; nothing was removed",
    ),
    "ENCODING": (
        "the server's encoding is not UTF8",
        "a chain can only be trimmed on a UTF8 database",
    ),
    "NOT_ROLLED_BACK": (
        "there is no restore to acknowledge",
        "seal as usual",
    ),
    "NOT_PINNED": (
        "a seal is written, and the place did not take its pin",
        "mend the place; the next run pins it first",
    ),
    "PINS_UNUSABLE": (
        "the place of the pins cannot be read",
        "mend it; nothing was said of any chain",
    ),
    "KEY_UNUSABLE": (
        "the signing key cannot be read",
        "the message says where it was looked for",
    ),
    "NOT_READ": (
        "a rolling check has not read every part in as many days as there are parts",
        "run it each day, or once with `check: full`",
    ),
    "NOT_FINISHED": (
        "the run's time was over before this chain",
        "raise `max_runtime`",
    ),
}
"""Why sealing, trimming and declaring a restore are refused: what it means, and what to do."""
