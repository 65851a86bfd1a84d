"""What a look at one process found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """Yes or no, and what was seen.

    Attributes:
        well: True for yes.
        said: One line: what was asked, and what came back. Without secrets.
    """

    well: bool
    said: str

    def __str__(self) -> str:
        return f"{'OK' if self.well else 'NOT OK'} - {self.said}"


def yes(said: str) -> Answer:
    """It is well."""
    return Answer(well=True, said=said)


def no(said: str) -> Answer:
    """It is not."""
    return Answer(well=False, said=said)


def all_of(*answers: Answer) -> Answer:
    """The first that says no, else all of them as one."""
    for answer in answers:
        if not answer.well:
            return answer
    return yes("; ".join(answer.said for answer in answers))
