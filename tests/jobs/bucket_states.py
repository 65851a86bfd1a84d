"""Every state that a bucket can be in, and what each job makes of an object in it.

The table of docs/reference/versions.md, as data: the tests go through it on one server after the
other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from filejobs_dagster.objects.identity import ROUNDED_BY
from filejobs_dagster.objects.targets import QUARANTINE
from tests.jobs.conftest import Collector
from tests.jobs.deleted_files.collecting import Files
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.ledger.outcome import Outcome
    from tests.installation import Installation

State = Literal["unversioned", "enabled", "suspended", "locked"]
Touch = Literal["tags", "acl", "hold", "retention"]
"""What can be changed of an object after its upload. A hold is released again, and a retention is
over when the jobs run, except where the state is to be locked."""
STATES: tuple[State, ...] = ("unversioned", "enabled", "suspended", "locked")

OLDER, CURRENT = b"an older one", b"bytes"
RETAINED_FOR = 2
"""Seconds: servers round to one."""


@dataclass(frozen=True)
class Left:
    """What a run has left of one object that was written twice.

    Attributes:
        versions: With bytes.
        markers: Delete markers.
        word: What the run calls it.
        freed: Bytes that it calls freed.
        row: True when the row that named it is still there.
    """

    versions: int
    markers: int
    word: str
    freed: int
    row: bool = False


BOTH = len(OLDER) + len(CURRENT)

GONE = Left(0, 0, "deleted", len(CURRENT))
MARKED = Left(2, 1, "marked", 0)
HIDDEN = Left(1, 1, "deleted", len(CURRENT))
PURGED = Left(0, 0, "deleted", BOTH)
RETAINED = Left(2, 0, "retained", 0, row=True)

ROWS_GO: dict[tuple[State, bool], Left] = {
    ("unversioned", False): GONE,
    ("unversioned", True): GONE,
    ("enabled", False): MARKED,
    ("enabled", True): PURGED,
    ("suspended", False): HIDDEN,
    ("suspended", True): PURGED,
    ("locked", False): MARKED,
    # The older version is not locked; the current one goes as an orphan when its lock is over.
    ("locked", True): Left(1, 0, "kept: locked", 0),
}

QUARANTINED = Left(0, 0, "quarantined", 0)
KEPT: dict[State, Left] = {
    "unversioned": QUARANTINED,
    "enabled": MARKED,
    # The version from before stays where it was; of the current one there is a copy.
    "suspended": replace(QUARANTINED, versions=1, markers=1),
    "locked": MARKED,
}
"""What jobs that keep in quarantine leave; upload_cleanup keeps nothing."""

TABLE: dict[str, dict[tuple[State, bool], Left]] = {
    "deleted_files": ROWS_GO,
    "upload_reservations": ROWS_GO,
    "upload_cleanup": {**ROWS_GO, ("locked", False): RETAINED, ("locked", True): RETAINED},
    "storage_orphans": {
        **ROWS_GO,
        ("enabled", True): Left(0, 0, "purged", BOTH),
        ("suspended", True): Left(0, 0, "purged", BOTH),
        ("locked", True): Left(2, 0, "locked", 0),
    },
}

KEEPING = tuple(job for job in TABLE if job != "upload_cleanup")


def table_lines() -> list[str]:
    """The table as the page has it: jobs with the same answer share a line."""
    lines = [
        "| Bucket | `purge_versions` | Job | Row | Left of the object | Said | Freed |",
        "|---|---|---|---|---|---|---|",
    ]
    for state in STATES:
        for purge in (False, True):
            jobs: dict[Left, list[str]] = {}
            for job, answers in TABLE.items():
                jobs.setdefault(_with_any_word(answers[state, purge]), []).append(job)
            for left, names in jobs.items():
                words = dict.fromkeys(TABLE[name][state, purge].word for name in names)
                lines.append(
                    f"| {state} | {str(purge).lower()} | {', '.join(f'`{it}`' for it in names)} "
                    f"| {'stays' if left.row else 'gone'} | {_of_object(left)} "
                    f"| {' or '.join(f'*{it}*' for it in words)} | {_bytes(left.freed)} |"
                )
        kept = KEPT[state]
        lines.append(
            f"| {state} | false, with `quarantine` | {', '.join(f'`{it}`' for it in KEEPING)} "
            f"| gone | {_of_object(kept)}{'; a copy' if kept.word == 'quarantined' else ''} "
            f"| *{kept.word}* | {_bytes(kept.freed)} |"
        )
    return lines


def _with_any_word(left: Left) -> Left:
    return replace(left, word="deleted") if left.word == "purged" else left


def _of_object(left: Left) -> str:
    versions = ["nothing", "one version", "both versions"][left.versions]
    return f"{versions}, behind a delete marker" if left.markers else versions


def _bytes(freed: int) -> str:
    return {0: "nothing", len(CURRENT): "its bytes", BOTH: "the bytes of both versions"}[freed]


@dataclass
class World:
    """One bucket in one state, with one object for each job.

    Attributes:
        installation: Whose bucket it is.
        client: Of the jobs.
        state: Of the bucket.
        purge: What the settings say of `purge_versions`.
        touch: What is changed of each object after its upload, when some servers date it anew.
        other: What a server leaves otherwise than the table says, by the job.
        keeps: True to keep in quarantine what goes.
    """

    installation: Installation
    client: S3Client
    state: State
    purge: bool
    touch: Touch | None = None
    other: Mapping[str, Left] = field(default_factory=dict)
    keeps: bool = False

    def __post_init__(self) -> None:
        if self.keeps:
            self.installation.keeps()
        self.installation.document["buckets"]["uploads"]["purge_versions"] = self.purge
        if self.state in ("enabled", "suspended"):
            self._versioning("Enabled")

    @property
    def _ends(self) -> bool:
        """Whether what is set after the upload is a retention that is over when the jobs run."""
        return self.touch == "retention" and self.state != "locked"

    def _versioning(self, status: Any) -> None:
        self.installation.client.put_bucket_versioning(
            Bucket=self.installation.bucket, VersioningConfiguration={"Status": status}
        )

    def fill(self) -> dict[str, tuple[str, Callable[[], Outcome]]]:
        """Write each object twice; returns its key and its job, by the job's name."""
        files = Files(self.installation, self.client)
        uploads = Uploads(self.installation)
        upload = uploads.begin()
        keys = {
            "deleted_files": "files/deleted",
            "upload_reservations": "files/reserved",
            "upload_cleanup": upload.key,
            "storage_orphans": "files/orphan",
        }
        for key in keys.values():
            self._put(key, OLDER)
        if self.state == "suspended":
            self._versioning("Suspended")
        for key in keys.values():
            self._put(key, CURRENT, locked=self.state == "locked" and self.touch is None)
        if self.touch is not None:
            time.sleep(ROUNDED_BY + 1)
            for key in keys.values():
                self._change(key)
            time.sleep(RETAINED_FOR if self._ends else 0)
        files.delete(keys["deleted_files"], body=None)
        self.installation.reserve(keys["upload_reservations"], body=None)
        head = self.installation.client.head_object(Bucket=self.installation.bucket, Key=upload.key)
        uploads.call("mark_stored", upload.id, head["ETag"].strip('"'), len(CURRENT))
        uploads.call("cancel_upload", upload.id)
        jobs: dict[str, Callable[[], Outcome]] = {
            "deleted_files": partial(files, quarantine=self.keeps),
            "upload_reservations": partial(
                Collector(self.installation, self.client), quarantine=self.keeps
            ),
            "upload_cleanup": Cleaner(self.installation, self.client),
            "storage_orphans": Sweeper(self.installation, self.client),
        }
        return {job: (key, jobs[job]) for job, key in keys.items()}

    def _put(self, key: str, body: bytes, *, locked: bool = False) -> None:
        """Write an object, locked by the same request: SeaweedFS dates it anew if it comes later.

        The listing keeps the time of the write there, so that nobody could tell whether the same
        bytes were written again.
        """
        until = datetime.now(timezone.utc) + timedelta(days=1)
        lock: Any = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}
        self.installation.client.put_object(
            Bucket=self.installation.bucket, Key=key, Body=body, **(lock if locked else {})
        )

    def _change(self, key: str) -> None:
        client = self.installation.client
        of: Any = {"Bucket": self.installation.bucket, "Key": key}
        if self.touch == "tags":
            client.put_object_tagging(**of, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
        elif self.touch == "acl":
            client.put_object_acl(**of, ACL="public-read")
        elif self.touch == "retention":
            lasts = timedelta(seconds=RETAINED_FOR) if self._ends else timedelta(days=1)
            until = datetime.now(timezone.utc) + lasts
            lock: Any = {"Mode": "GOVERNANCE", "RetainUntilDate": until}
            client.put_object_retention(**of, Retention=lock)
        else:
            client.put_object_legal_hold(**of, LegalHold={"Status": "ON"})
            client.put_object_legal_hold(**of, LegalHold={"Status": "OFF"})

    def left_of(self, key: str) -> tuple[int, int]:
        """How many versions with bytes there are of a key, and how many delete markers."""
        found = self.installation.client.list_object_versions(
            Bucket=self.installation.bucket, Prefix=key
        )
        return len(found.get("Versions", [])), len(found.get("DeleteMarkers", []))

    def has_row(self, key: str) -> bool:
        """Whether a row names the key that is not done with it."""
        return bool(
            self.installation.execute(
                "SELECT 1 FROM file WHERE storage_key = %(key)s UNION ALL"
                " SELECT 1 FROM upload WHERE storage_key = %(key)s AND state <> 'cleaned'",
                {"key": key},
            )
        )

    def check(self) -> None:
        """Run each job, and compare what it did and said with the table; then once more."""
        filled = self.fill()
        for job, (key, run) in filled.items():
            if job == "storage_orphans":
                # One object in use beside it, and the pass that only marks.
                self._put("files/used", CURRENT)
                self.installation.execute(
                    "INSERT INTO file (state, storage_key) VALUES ('ready', 'files/used')"
                )
                first = run()
                assert first.ok, (job, first.error)
            outcome = run()
            assert outcome.ok, (job, outcome.error)
            words = outcome.detail.get("fates", outcome.detail["classes"])
            seen = Left(
                *self.left_of(key),
                word=", ".join(word for word, count in words.items() if count),
                freed=outcome.detail["bytes_freed"],
                row=self.has_row(key),
            )
            expected = KEPT[self.state] if self.keeps and job in KEEPING else None
            expected = expected or self.other.get(job, TABLE[job][self.state, self.purge])
            assert seen == expected, (job, seen)
            there = self.installation.keys()
            copies = [it for it in there if it.startswith(f"{QUARANTINE}{key}~")]
            assert len(copies) == (expected.word == "quarantined"), (job, copies)
            again = run()
            assert again.ok, (job, again.error)
            assert not again.acted, job
            assert self.left_of(key) == (seen.versions, seen.markers), job
