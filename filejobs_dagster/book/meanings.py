"""What a run's record, a finding and a column say, in words: the reference is made of it.

`job_run.detail` is public: SQL, metrics, the web UI and alerts read it. Each name of it stands with
its meaning here, or beside the job that writes it, and tests hold these against real runs. Names
with the same meaning share an entry, with `AND` between them. `python -m tests.docs.reference`
writes the pages.
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
        "who asked for the run: `user`, `host`, `how` it is known; absent "
        "when nobody did or nobody knows"
    ),
    "settings": (
        "twelve hexadecimal digits of the settings that it went by: runs with the same ones read "
        "the same settings. Dagster's tag `filejobs/settings` has those of the code server"
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
    "rows_that_passes_had_counted": (
        "how many rows it took that a pass over a bucket had counted, by that pass's run and by "
        "table: they are no loss of references"
    ),
    "references_read_at": "of such a pass: when it counted, by the database's clock",
    "classes; bytes_by_class; samples": (
        "how many items met which fate, their bytes as far as they were measured, and up to 20 "
        "keys of each class with the reason"
    ),
}
"""Fields of every job's record."""

OWN_JOBS: Mapping[str, str] = {
    "reported": "what a callable or a command said beside its numbers",
    "ends_by": "of a watched run: when its end must have been heard of",
    "claimed; would_collect; untouched": "of a rule: rows taken; dry: to take; due and passed over",
    "swept": "true: a live run that ended well and left nothing, as far as it says",
}
"""Fields of the records of an operator's own jobs."""

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
        "detail": "the fields that stand above, by job",
        "error": (
            "why it failed, without secrets, at most 2000 characters. NULL exactly when "
            "`outcome` is `ok`. Of a run without a final word it begins with `Ended before "
            "anything was touched: …` (wrong run config or tag, broken settings, no database, "
            "killed while it loaded), `The run never started…` (Dagster ended it before its "
            "process began), `Cancelled before it started…`, `Cancelled while it worked…`, "
            "`Lost: …` (its process or its machine is gone) or `The run ended without a final "
            "word…`"
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
        "hash": "SHA-256 of the bytes that the next table says",
        "alg": "1",
    },
}
"""The columns of the tables that people read."""

PRE_IMAGE = (
    (20, "the text `filejobs/audit/event`"),
    (1, "a newline"),
    (2, "the number 1, a 16-bit integer"),
    (32, "SHA-256 of the chain's name in UTF-8"),
    (8, "`seq`, a 64-bit integer"),
    (8, "`recorded_at`: microseconds since 2000-01-01 UTC, a 64-bit integer"),
    (32, "`prev_hash`"),
    (32, "`body_hash`"),
)
"""What `audit_event.hash` is the SHA-256 of: how many bytes, and which. Integers are big-endian.
The genesis is SHA-256 of the text filejobs/audit/genesis, a newline and the chain's name."""

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
    "SEAL_TIME": (
        "a seal says that it is later than the one behind it, or than now",
        (
            "the database's clock was ahead when it was made, and nobody's clock knew better. It "
            "stays, and stops neither sealing nor trimming"
        ),
    ),
    "MANIFEST": (
        (
            "the manifest beside the pins is not signed, or names another chain, key, pin or "
            "beginning than is there"
        ),
        "somebody put it there, or changed it; believe the pins",
    ),
    "MANIFEST_MISSING": (
        "a warning: no manifest stands beside the pins",
        (
            "none: the next run of `audit_seal` puts one. One that was there and is gone is "
            "`PIN_GONE`"
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
    "CLOCK_WRONG": (
        (
            "the database's clock and that of the pins' place are more than five minutes apart; of "
            "a place without a clock, that of the machine of the run"
        ),
        ("set the one that is wrong; what was written under it stays a finding and stops nothing"),
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
        "an event is too young, or the newest pin was stored later than now",
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
