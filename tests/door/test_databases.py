"""An operator's own database is the one that it was, and has not gone back; or no live run begins.

One world: two databases of the worker's server. Restored and promoted servers are in
test_operators_failover.py.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.door.databases import Databases, take_over
from filejobs_dagster.door.door import Door
from filejobs_dagster.door.guard import Refusal
from filejobs_dagster.door.guards import Commits
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.postgres import connect, primary
from filejobs_dagster.registry import BY_NAME
from tests.own_tables import OwnTables, example

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.door.guard import Guard
    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3

NAME = "FILEJOBS_APP_DATABASE_URL"


def asks_elsewhere(installation: OwnTables) -> None:
    """The bucket's only source of the operator's is in the operator's own database."""
    installation.document["buckets"]["uploads"]["sources"] = [
        {
            "name": "documents",
            "sql": "select storage_key from documents",
            "min_rows": 0,
            "database": {"url": {"env": NAME}},
        }
    ]


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: EmbeddedPostgres,
    template_database: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> Iterator[OwnTables]:
    name = f"test_{uuid.uuid4().hex}"
    url = postgres_server.create_database(name, template_database)
    app = postgres_server.create_database(f"{name}_app")
    folder: Path = tmp_path_factory.mktemp("databases")
    bucket = name.replace("_", "-")
    s3_client.create_bucket(Bucket=bucket)
    installation = OwnTables(folder, url, bucket, s3_client, s3_server.endpoint_url, app_url=app)
    asks_elsewhere(installation)
    installation.app("CREATE TABLE documents (storage_key text)")
    yield installation
    postgres_server.drop_database(f"{name}_app")
    postgres_server.drop_database(name)


@pytest.fixture(autouse=True)
def _nothing_is_remembered(world: OwnTables) -> None:
    world.execute("DELETE FROM watched_database")


def come_in(
    world: OwnTables,
    job: str = "storage_orphans",
    *,
    live: bool = True,
    app_url: str | None = None,
    guards: Sequence[Guard] = (Databases(),),
) -> Mapping[str, Any]:
    """What the guards say of a run that comes in."""
    environment = world.environment | ({} if app_url is None else {NAME: app_url})
    settings = world.settings(environment)
    door = Door(BY_NAME[job], settings, world.client, entry="uploads", guards=guards)
    with world.database.connect("test") as connection:
        door.enter(world.database, connection, logging.getLogger("test"), live=live)
    return door.told(Outcome()).detail


def remembered(world: OwnTables) -> tuple[Any, Any]:
    """Timeline and position."""
    [(name, timeline, position)] = world.execute(
        "SELECT name, timeline, log_position FROM watched_database"
    )
    assert name == NAME
    return timeline, position


def take(world: OwnTables, again: str | None) -> list[str]:
    settings = world.settings()
    with world.database.connect("test") as connection:
        return take_over(settings, "uploads", world.database, connection, by="x", again=again)


def test_a_live_run_remembers_what_it_saw_and_a_later_one_moves_it_on(world: OwnTables) -> None:
    assert "timeline 1" in come_in(world, live=False)["door"]["databases"]
    assert world.execute("SELECT 1 FROM watched_database") == [], "a dry run remembers nothing"
    come_in(world)
    timeline, first = remembered(world)
    assert timeline == 1
    world.app("INSERT INTO documents VALUES ('files/a')")
    come_in(world)
    assert remembered(world)[1] > first


def test_a_database_that_is_only_searched_for_names_is_watched_as_well(
    world: OwnTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = world.document["buckets"]["uploads"]
    monkeypatch.setitem(bucket, "sources", [])
    monkeypatch.setitem(bucket, "named_elsewhere", {"databases": [{"url": {"env": NAME}}]})
    come_in(world)
    world.execute("UPDATE watched_database SET timeline = timeline + 1")
    with pytest.raises(Refusal, match="this is the old primary"):
        come_in(world)


def test_a_job_that_deletes_no_bytes_asks_no_database_of_the_operators(world: OwnTables) -> None:
    assert come_in(world, "table_retention")["door"] == {}
    assert world.execute("SELECT 1 FROM watched_database") == []


OLDER = {
    "timeline = timeline + 1": "this is the old primary",
    "log_position = log_position + (1::bigint << 40)": "It was restored from a backup",
    "timeline = NULL, log_position = log_position + (1::bigint << 40)": "It was restored",
    "system_identifier = '1'": "leads to database",
    "database_oid = database_oid + 1": "restored from a dump",
}


@pytest.mark.parametrize("since", OLDER)
def test_what_is_older_than_what_was_seen_is_refused_until_somebody_says_that_he_knows(
    world: OwnTables, since: str
) -> None:
    come_in(world)
    world.execute(f"UPDATE watched_database SET {since}")
    with pytest.raises(Refusal, match=OLDER[since]) as refused:
        come_in(world)
    assert "filejobs bucket adopt --again" in str(refused.value)
    assert "Nothing was touched." in str(refused.value)
    said = come_in(world, live=False)
    assert said["would_be_refused"]

    with pytest.raises(Refusal, match=OLDER[since]):
        take(world, None)
    [line] = take(world, "we moved it")
    assert line.endswith("taken over")
    come_in(world)
    events = [body for (body,) in world.execute("SELECT body::jsonb FROM audit_event ORDER BY seq")]
    assert events[-1]["kind"] == "database.taken_again"
    assert events[-1]["reason"] == "we moved it"
    assert OLDER[since] in events[-1]["found"]


def test_a_database_that_was_dropped_and_restored_from_a_dump_is_another_one(
    world: OwnTables, postgres_server: EmbeddedPostgres
) -> None:
    come_in(world)
    name = psycopg.conninfo.conninfo_to_dict(world.app_url)["dbname"]
    postgres_server.drop_database(str(name))
    postgres_server.create_database(str(name))
    world.app("CREATE TABLE documents (storage_key text)")
    with pytest.raises(Refusal, match="restored from a dump"):
        come_in(world)


def test_a_server_that_does_not_tell_this_role_is_refused_with_the_grant_that_is_missing(
    world: OwnTables,
) -> None:
    role = f"role_{uuid.uuid4().hex}"
    function = "FUNCTION pg_control_system()"
    world.app(f"CREATE ROLE {role} LOGIN")
    try:
        url = world.app_url.replace("postgres@", f"{role}@")
        come_in(world, app_url=url)
        world.app(f"REVOKE EXECUTE ON {function} FROM public")
        with pytest.raises(Refusal, match="permission denied") as refused:
            come_in(world, app_url=url)
        grant = str(refused.value).partition("As its superuser: ")[2].partition(". ")[0]
        world.app(grant)
        come_in(world, app_url=url)
    finally:
        world.app(f"GRANT EXECUTE ON {function} TO public")
        world.app(f"DROP OWNED BY {role}")
        world.app(f"DROP ROLE {role}")


def test_a_server_that_does_not_say_where_its_log_ends_is_named_each_time(
    world: OwnTables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.app(
        "CREATE OR REPLACE FUNCTION not_here() RETURNS bigint LANGUAGE plpgsql AS"
        " $$BEGIN RAISE 'not here' USING ERRCODE = 'feature_not_supported'; END$$"
    )
    monkeypatch.setattr(primary, "_LOG", ", public.not_here(), public.not_here() ")
    come_in(world)
    assert f"The server of {NAME} does not say on which timeline it is" in caplog.text
    assert remembered(world) == (None, None)


SET = "CASE current_setting('synchronous_commit')\n"
"""In what every transaction begins with; one that is deaf in the operator's database follows."""
DEAF = (
    "CASE CASE WHEN current_database() LIKE '%%\\_app' THEN 'deaf'"
    " ELSE current_setting('synchronous_commit') END WHEN 'deaf' THEN 'off'\n"
)


def test_commits_are_looked_at_where_the_rows_are_that_go_and_not_only_at_our_own(
    world: OwnTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "_BEGINNING", connect._BEGINNING.replace(SET, DEAF))
    guards = (Commits(),)
    # A source there is read only: what its own commits do takes no bytes.
    assert NAME not in come_in(world, guards=guards)["door"]["commits"]
    job = world.document["jobs"]["upload_reservations"]
    monkeypatch.setitem(
        job, "source", example("public.documents")["jobs"]["upload_reservations"]["source"]
    )
    for name in ("upload_reservations", "storage_orphans"):
        with pytest.raises(Refusal, match=f"The server of {NAME} commits asynchronously"):
            come_in(world, name, guards=guards)
    assert "would be refused" in come_in(world, live=False, guards=guards)["door"]["commits"]
