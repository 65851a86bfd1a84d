"""The mirror beside a run that lost its locks in the middle of a claim."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.ledger.mirror import open_runs
from filejobs_dagster.postgres.connect import Database
from tests.ledger.records import INSTALLATION, Run

if TYPE_CHECKING:
    from filejobs_dagster.postgres.connect import Connection


def test_a_run_in_the_middle_of_its_claim_keeps_nobody_from_looking_at_the_others(
    database_url: str, connection: Connection
) -> None:
    """Its progress row is locked until its claim commits: it is at work, and not lost."""
    database = Database(database_url, lock_timeout=timedelta(milliseconds=100))
    claiming, dead = Run(database).open(), Run(database).open()
    with psycopg.connect(database_url) as of_the_claim, of_the_claim.cursor() as cursor:
        claiming.progress.advance(cursor, scanned=1, acted=0, detail={"claimed": 1})

        found = open_runs(database, connection, INSTALLATION, silence=timedelta(0))

        lost = {run.run_id: run.lost for run in found}
        assert lost == {claiming.run_id: False, dead.run_id: True}
