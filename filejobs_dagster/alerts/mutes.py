"""Silence for a while: what is muted is told to nobody, and shown everywhere all the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

_ACTIVE = """
SELECT job, kind, since, until, muted_by, why
  FROM mute
 WHERE installation = %(installation)s
   AND ended_at IS NULL
   AND until > clock_timestamp()
 ORDER BY until, id
"""

NOT_MUTED = """
NOT EXISTS (SELECT
              FROM mute
             WHERE mute.installation = condition.installation
               AND mute.ended_at IS NULL
               AND mute.until > clock_timestamp()
               AND (mute.job IS NULL OR mute.job = condition.job)
               AND (mute.kind IS NULL OR mute.kind = condition.kind))
"""
"""Of a row `condition` of alert_condition: nobody has muted it now."""

_MUTE = """
INSERT INTO mute (installation, job, kind, until, muted_by, why)
VALUES (%(installation)s, %(job)s, %(kind)s, %(until)s, %(who)s, %(why)s)
RETURNING job, kind, since, until, muted_by, why
"""

_UNMUTE = """
UPDATE mute
   SET ended_at = clock_timestamp(), ended_by = %(who)s
 WHERE installation = %(installation)s
   AND job IS NOT DISTINCT FROM %(job)s
   AND kind IS NOT DISTINCT FROM %(kind)s
   AND ended_at IS NULL
   AND until > clock_timestamp()
RETURNING job, kind, since, until, muted_by, why
"""


@dataclass(frozen=True)
class Mute:
    """One silence that lasts.

    Attributes:
        job: Whose alerts; None for those of every job, and of none.
        kind: Which; None for all of the job.
        since: When it began, by the database's clock.
        until: When it ends by itself.
        by: Who asked for it, such as `ada@desk`.
        why: In their words.
    """

    job: str | None
    kind: str | None
    since: datetime
    until: datetime
    by: str
    why: str

    def __str__(self) -> str:
        """What, until when, by whom and why."""
        every = "every alert" if self.kind is None else f"the alert {self.kind!r}"
        of = "" if self.job is None else f" of {self.job}"
        return f"{every}{of} is muted {self.told}"

    @property
    def told(self) -> str:
        """Until when, by whom and why."""
        return f"until {self.until:%Y-%m-%d %H:%M} UTC by {self.by}: {self.why}"

    def covers(self, job: str | None, kind: str | None) -> bool:
        """Whether an alert of this kind and job is silenced."""
        return self.job in (None, job) and self.kind in (None, kind)


def active(cursor: psycopg.Cursor[TupleRow], installation: str) -> Sequence[Mute]:
    """The mutes that last, the one that ends first first.

    Args:
        cursor: In a transaction of any kind.
        installation: Whose alerts.
    """
    cursor.execute(_ACTIVE, {"installation": installation})
    return [Mute(*row) for row in cursor.fetchall()]


def covering(mutes: Iterable[Mute], job: str | None, kind: str | None) -> Mute | None:
    """The mute that silences an alert for the longest, or None."""
    found = (each for each in mutes if each.covers(job, kind))
    return max(found, key=lambda each: each.until, default=None)


def mute(
    cursor: psycopg.Cursor[TupleRow],
    installation: str,
    *,
    job: str | None,
    kind: str | None,
    until: datetime,
    who: str,
    why: str,
) -> Mute:
    """Silence alerts until a moment; at least one of `job` and `kind` is given.

    Args:
        cursor: In the caller's transaction.
        installation: Whose alerts.
        job: Whose; None for every job.
        kind: Which; None for all of the job.
        until: Later than now, by the database's clock.
        who: Such as `ada@desk`.
        why: In a sentence.

    Raises:
        psycopg.errors.CheckViolation: Neither is given, or the moment has passed.
    """
    cursor.execute(
        _MUTE,
        {"installation": installation, "job": job, "kind": kind, "until": until, "who": who,
         "why": why},
    )  # fmt: skip
    (row,) = cursor.fetchall()
    return Mute(*row)


def unmute(
    cursor: psycopg.Cursor[TupleRow],
    installation: str,
    *,
    job: str | None,
    kind: str | None,
    who: str,
) -> Sequence[Mute]:
    """End the mutes of exactly this job and kind; returns them."""
    cursor.execute(_UNMUTE, {"installation": installation, "job": job, "kind": kind, "who": who})
    return [Mute(*row) for row in cursor.fetchall()]
