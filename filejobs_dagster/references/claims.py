"""Rows of `upload` whose collector may delete the object that they name.

A row in state `cleanup` names its key until it is `cleaned`, so the table would keep the object
from its own collector. A claim leaves out exactly one row, and only while that row is as the claim
left it: whoever has claimed it again, or has retained it, has raised its number or changed its
state, or has written a hold into it, and the row then keeps the object as every other row does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

TABLE = "upload"

_NOT_CLAIMED = """
   AND NOT (state = 'cleanup'
            AND NOT legal_hold
            AND (retained_until IS NULL OR coalesce(retained_until <= claimed_at, false))
            AND (id, attempts) IN (SELECT claim.id, claim.attempt
                                     FROM unnest($2::uuid[], $3::integer[])
                                       AS claim (id, attempt)))
"""


@dataclass(frozen=True)
class Claim:
    """One row that a collector has claimed by a committed transaction.

    Attributes:
        id: The row's.
        attempt: Its `attempts` as the claim returned them: the fencing number.
    """

    id: UUID
    attempt: int


def without_claimed(query: str) -> str:
    """A query of `OwnTable.query`, without the rows of claims in `$2` (ids) and `$3` (numbers)."""
    return query + _NOT_CLAIMED


def as_parameters(claims: Sequence[Claim]) -> tuple[list[UUID], list[int]]:
    """The claims as `$2` and `$3`."""
    return [claim.id for claim in claims], [claim.attempt for claim in claims]
