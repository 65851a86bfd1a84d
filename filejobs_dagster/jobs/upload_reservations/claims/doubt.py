"""What speaks against a claim before it is ever sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.ledger.sanitize import DEFAULT_LIMIT, bounded

if TYPE_CHECKING:
    from filejobs_dagster.jobs.upload_reservations.settings import ReservationSourceSettings

WAIVER = "claim_checked_by_hand"
"""The key by which an operator vouches for a claim."""


@dataclass(frozen=True)
class Doubt:
    """A claim of which nobody can see that it leaves alone what was completed meanwhile.

    Attributes:
        source: What the reservation source is called.
        found: What is missing, or why the statements cannot be compared; a clause.
        advice: What to write instead; a clause.
        waived: True when the settings vouch for the claim.
    """

    source: str
    found: str
    advice: str
    waived: bool

    def noted(self) -> str:
        """The doubt as a record holds it."""
        said = f"{self.found}; {WAIVER} waives it" if self.waived else self.found
        return bounded(said, DEFAULT_LIMIT)

    def refusal(self) -> str:
        """Why a live run goes no further, and what to do."""
        return (
            f"The claim of source {self.source!r} may lose uploads that complete in between: "
            f"{self.found}. So this live run refuses, and nothing was claimed. "
            f"{self.advice[0].upper()}{self.advice[1:]}. Where a claim is safe in a way that this "
            f"comparison cannot see, make sure of it yourself, and write `{WAIVER}: true` beside "
            "it. Dry runs go ahead."
        )


def doubt_about(settings: ReservationSourceSettings) -> Doubt | None:
    """Compare a claim with its candidate query; nothing is sent anywhere.

    Args:
        settings: `jobs.upload_reservations.source`.

    Returns:
        None when the claim repeats every predicate of the candidate query, and the due time.
    """
    # Loads the parser, for which runs on the table `file` should not wait.
    from filejobs_dagster.jobs.upload_reservations.claims.predicates import (  # noqa: PLC0415
        NotComparable,
        unrepeated,
    )

    waived = settings.claim_checked_by_hand
    try:
        missing = unrepeated(settings.candidates, settings.claim)
    except NotComparable as reason:
        return Doubt(
            settings.name,
            f"the candidate query cannot be compared with the claim: {reason}",
            "write the candidate query as one SELECT with a WHERE, from the table itself, and "
            "repeat its predicates in the claim",
            waived,
        )
    if not missing:
        return None
    return Doubt(
        settings.name,
        "the claim does not repeat " + ", and not ".join(f"`{each}`" for each in missing),
        f"add `AND {' AND '.join(missing)}` to the claim's own WHERE, by the name that the table "
        "has there",
        waived,
    )
