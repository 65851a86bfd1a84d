"""Trying one claim, looking at what it measured, and damaging what it guards with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.prove import stage as stages
from filejobs_dagster.prove.claims import CLAIMS
from filejobs_dagster.prove.report import prove

if TYPE_CHECKING:
    import pytest

    from filejobs_dagster.prove.evidence import Observation, Side
    from filejobs_dagster.prove.stage import Stage

BY_NAME = {claim.name: claim for claim in CLAIMS}


def try_claim(name: str, stage: Stage) -> Observation:
    (finding,) = prove([BY_NAME[name]], stage)
    return finding


def facts_of(side: Side) -> dict[str, Any]:
    return dict(side.facts)


def careless_of(finding: Observation) -> dict[str, Any]:
    assert finding.evidence is not None, finding.error
    return facts_of(finding.evidence.careless)


def guarded_of(finding: Observation) -> dict[str, Any]:
    assert finding.evidence is not None, finding.error
    return facts_of(finding.evidence.guarded)


def after_migrating(monkeypatch: pytest.MonkeyPatch, *statements: str) -> None:
    """Damage every schema that the stage makes."""

    def migrate_and_damage(url: str, schema: str) -> None:
        migrate(url, schema)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("SET search_path TO {}, pg_temp").format(sql.Identifier(schema))
            )
            for statement in statements:
                connection.execute(statement.encode())

    monkeypatch.setattr(stages, "migrate", migrate_and_damage)
