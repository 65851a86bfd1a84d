"""`filejobs grants`: each role works with what is printed for it, and not with one right less."""

from __future__ import annotations

import json
import os
import re
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from filejobs_dagster.doctor.database import check_database
from filejobs_dagster.doctor.rights import Right, own_rights, statements
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.registry import JOB_NAMES
from tests.every_job import SHOP, EveryJob, call, live
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

ROLE = f"grantee_{os.getpid()}"

WORLD = """
REVOKE ALL ON SCHEMA public FROM PUBLIC;
CREATE SCHEMA shop;
CREATE TABLE shop.account (id serial PRIMARY KEY, avatar_key text);
CREATE TABLE shop.hidden (id serial PRIMARY KEY, key text);
CREATE VIEW shop.shown AS SELECT key FROM shop.hidden;
CREATE TABLE shop.session (id serial PRIMARY KEY, expires_at timestamptz NOT NULL);
CREATE INDEX ON shop.session (expires_at, id);
CREATE TABLE shop.kept (session_id integer);
INSERT INTO shop.account (avatar_key) VALUES ('files/avatar');
INSERT INTO shop.hidden (key) VALUES ('files/shown');
INSERT INTO shop.session (expires_at) SELECT now() - interval '9 days' FROM generate_series(1, 3);
"""

JOBS: dict[str, dict[str, Any]] = {
    "upload_reservations": {},
    "deleted_files": {"restore_window": "1d"},
    "upload_cleanup": {},
    "multipart_uploads": {},
    "storage_orphans": {},
    "table_retention": {
        "rules": [
            {
                "name": "expired sessions",
                "table": "shop.session",
                "time": "expires_at",
                "delete_after": "1d",
            }
        ]
    },
}


class World(Installation):
    """One world for all of it: settings change, and rights are taken and given back."""

    setenv: Callable[[str, str], None]

    def only(self, *jobs: str, **more: Any) -> World:
        self.document["jobs"] = {
            job: {"by_hand": True, "mode": "live", **JOBS.get(job, {}), **more} for job in jobs
        }
        self.write()
        return self

    def findings(self, environment: dict[str, str]) -> dict[str, Any]:
        """What the doctor says of the database, as the role."""
        settings = self.settings(environment)
        database = Database(environment["FILEJOBS_DATABASE_URL"])
        with closing(database.connect("test")) as connection:
            return {one.check: one for one in check_database(database, connection, settings)}


@pytest.fixture
def world(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:  # fmt: skip
    made = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    world = World(**{name: getattr(made, name) for name in made.__dataclass_fields__})
    world.document["buckets"]["uploads"]["sources"] = [
        {"name": "avatars", "sql": "select avatar_key from shop.account"},
        {"name": "shown", "sql": "select key from shop.shown"},
    ]
    world.setenv = monkeypatch.setenv
    world.only("upload_reservations")
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    world.sql(WORLD)
    for key in ("files/avatar", "files/shown"):
        s3_client.put_object(Bucket=bucket, Key=key, Body=b"bytes")
    assert call("bucket", "adopt").exit_code == 0
    world.sql(f"CREATE ROLE {ROLE} LOGIN")
    yield world
    world.sql(f"DROP OWNED BY {ROLE}", f"DROP ROLE {ROLE}")


def granted(who: str, world: World) -> list[Right]:
    """The rights of a role, after the role was given exactly these by what is printed."""
    world.setenv("FILEJOBS_DATABASE_URL", world.database_url)
    printed = call("grants", "--for", who, "--role", ROLE)
    assert printed.exit_code == 0, printed.output
    world.sql(f"DROP OWNED BY {ROLE}", printed.stdout)
    world.setenv("FILEJOBS_DATABASE_URL", make_conninfo(world.database_url, user=ROLE))
    return list(own_rights(world.settings(dict(os.environ)), who))  # type: ignore[arg-type]


def without(right: Right) -> str:
    (given,) = statements([right], ROLE)
    revoked = given.as_string().replace("GRANT ", "REVOKE ", 1)
    return revoked.replace(f'TO "{ROLE}"', f'FROM "{ROLE}"')


def giving(right: Right) -> str:
    (given,) = statements([right], ROLE)
    return f"{given.as_string()};"


def test_the_doctor_prints_the_statement_that_gives_back_each_right_that_a_job_lacks(
    world: World,
) -> None:
    world.only(*JOBS)
    rights = granted("jobs", world)
    theirs = [
        Right("SCHEMA", "shop", "shop", "USAGE"),
        *(Right("TABLE", "shop", table, "SELECT") for table in ("account", "shown")),
        *(Right("TABLE", "shop", "session", one) for one in ("SELECT", "UPDATE", "DELETE")),
    ]
    environment = dict(os.environ)
    assert {one.verdict for one in world.findings(environment).values()} == {"ok"}
    for right in (*rights, *theirs):
        world.sql(without(right))
        found = world.findings(environment)["your tables" if right in theirs else "privileges"]
        assert found.verdict == "failed", right
        assert found.advice == f"as the owner of the tables: {giving(right)}"
        world.sql(giving(right))
    assert {one.verdict for one in world.findings(environment).values()} == {"ok"}


def test_what_sources_and_rules_name_is_granted_and_what_lies_below_a_view_is_not(
    world: World,
) -> None:
    world.document["buckets"]["uploads"]["sources"] += [
        {"name": "gone", "sql": "select key from shop.gone"},
        {
            "name": "apart",
            "sql": "select key from shop.hidden",
            "database": {"url": {"env": "FILEJOBS_APP_DATABASE_URL"}},
            "read_from": {"url": {"env": "FILEJOBS_REPLICA_URL"}},
        },
    ]
    world.setenv("FILEJOBS_APP_DATABASE_URL", make_conninfo(world.database_url, user="reader"))
    world.setenv("FILEJOBS_REPLICA_URL", make_conninfo(world.database_url, user="replica"))
    world.only("table_retention", "storage_orphans")
    printed = call("grants", "--role", "collector").stdout
    for told in (
        'GRANT SELECT, INSERT, UPDATE ON "public"."watched_database" TO "collector";',
        'GRANT USAGE ON SCHEMA "shop" TO "collector";',
        'GRANT SELECT ON "shop"."account" TO "collector";',
        'GRANT SELECT ON "shop"."shown" TO "collector";',
        'GRANT SELECT, UPDATE, DELETE ON "shop"."session" TO "collector";',
        '-- source gone: yours to grant, as relation "shop.gone" does not exist',
        "-- in the other database: filejobs grants --database FILEJOBS_APP_DATABASE_URL",
    ):
        assert f"{told}\n" in printed
    assert "hidden" not in printed
    asked = ("--database", "FILEJOBS_APP_DATABASE_URL", "--database-url-env")
    other = call("grants", *asked, "FILEJOBS_DATABASE_URL", "--json")
    assert [(one["role"], one["statement"]) for one in json.loads(other.stdout)["statements"]] == [
        (role, f'GRANT {what} TO "{role}";')
        for role in ("reader", "replica")
        for what in ('USAGE ON SCHEMA "shop"', 'SELECT ON "shop"."hidden"')
    ]
    nowhere = call("grants", "--database", "FILEJOBS_OTHER_URL")
    assert nowhere.exit_code == 64
    assert "the settings have: FILEJOBS_APP_DATABASE_URL" in nowhere.stderr


def test_a_role_that_may_not_even_use_the_schema_still_learns_what_it_lacks(world: World) -> None:
    """PostgreSQL refuses to read the statement for it, control; the names stand in the text."""
    granted("jobs", world)
    world.sql(f"REVOKE ALL ON SCHEMA shop FROM {ROLE}")
    with (
        psycopg.connect(os.environ["FILEJOBS_DATABASE_URL"]) as collector,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        collector.execute("SELECT avatar_key FROM shop.account")
    lacks = call("grants", "--missing", "--role", ROLE)
    assert lacks.stdout == f'GRANT USAGE ON SCHEMA "shop" TO "{ROLE}";\n'


def test_what_the_doctor_prints_for_a_half_granted_role_can_be_pasted_and_mends_it(
    world: World,
) -> None:
    world.only(*JOBS)
    rights = granted("jobs", world)
    world.sql(*map(without, rights[1::2]))
    found = call("doctor")
    assert found.exit_code == 1
    [pasted] = re.findall(
        r"-> as the owner of the tables: (GRANT .*;)$", found.output, re.MULTILINE
    )
    world.sql(pasted)
    mended = call("doctor").output
    assert "GRANT" not in mended
    assert f"privileges: the role {ROLE} may do what the jobs do" in mended
    # CONTROL: what was printed is no more than what had been taken.
    world.sql(*map(without, rights[1::2]))
    lacks = call("grants", "--role", ROLE, "--missing").stdout
    assert pasted.replace("; ", ";\n").splitlines() == [
        line for line in lacks.splitlines() if not line.startswith("--")
    ]


READERS = (
    ("status", (("status", "--check"), ("runs",), ("metrics",))),
    ("mirror", (("mirror",), ("alert",))),
)


@pytest.mark.thorough
@pytest.mark.parametrize(("who", "commands"), READERS, ids=["status", "mirror"])
def test_who_only_looks_or_only_records_needs_each_of_its_rights_and_no_other(
    world: World, who: str, commands: tuple[tuple[str, ...], ...]
) -> None:
    world.document["alerts"] = {"to": [{"name": "on-call", "url": {"env": "FILEJOBS_ALERT_URL"}}]}
    world.setenv("FILEJOBS_ALERT_URL", "json://127.0.0.1:9/nobody-listens")
    world.only("upload_reservations", stale_after="2m", schedule="* * * * *", by_hand=False)
    rights = granted(who, world)
    with dagster_instance() as instance:

        def said() -> str:
            """What the commands say when there is something to do for each of them."""
            never_started = dg.DagsterRun(
                job_name="upload_reservations",
                status=dg.DagsterRunStatus.FAILURE,
                tags={"filejobs/installation": "test"},
            )
            instance.run_storage.add_run(never_started)
            world.sql("DELETE FROM alert_condition", "TRUNCATE mirror_watermark")
            return "".join(call(*command).stderr for command in commands)

        assert "denied" not in said()
        for right in rights:
            world.sql(without(right))
            lacks = said()
            # Without USAGE on the schema no table is there to be denied.
            assert "denied" in lacks or "tables are not all in the database" in lacks, right
            missing = call("grants", "--for", who, "--role", ROLE, "--missing").stdout
            assert missing == f"{giving(right)}\n"
            world.sql(giving(right))
        assert "denied" not in said()


WAYS: tuple[tuple[tuple[str, ...], ...], ...] = (
    # While the failed run of nobody is the newest, so that there is something to be alarmed about.
    (("mirror",), ("alert",)),
    *((live(job),) for job in ("audit_seal", *JOB_NAMES)),
    (("status",),),
    (("metrics",),),
    (("hold", "audit_seal", "--why", "x"), ("release", "audit_seal")),
    (("mute", "audit_seal", "--for", "1h", "--why", "x"), ("unmute", "audit_seal")),
    (("bucket", "adopt", "--again", "--reason", "x"),),
    (("restore", "--since", "2020-01-01", "--live"),),
    (("apply", "REPORT", "--live"),),
    (("backup", "check"),),
    (("doctor", "--probe"),),
)
"""What is done with the role of the jobs: each job as far as it goes, and commands."""


@pytest.fixture
def everything(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[EveryJob]:  # fmt: skip
    """All jobs, under a role that has what is printed for it and nothing else."""
    made = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    world = EveryJob(**{name: getattr(made, name) for name in made.__dataclass_fields__})
    world.prepare(monkeypatch)
    world.document["jobs"]["storage_orphans"]["report_to"] = {"folder": str(tmp_path)}
    world.document["alerts"] = {"to": [{"name": "on-call", "url": {"env": "FILEJOBS_ALERT_URL"}}]}
    monkeypatch.setenv("FILEJOBS_ALERT_URL", "json://127.0.0.1:9/nobody-listens")
    world.document["jobs"]["upload_reservations"] |= {"schedule": "0 3 * * *", "by_hand": False}
    world.write()
    world.sql("REVOKE ALL ON SCHEMA public FROM PUBLIC", SHOP, f"CREATE ROLE {ROLE} LOGIN")
    printed = call("grants", "--for", "jobs", "--role", ROLE)
    assert printed.exit_code == 0, printed.output
    world.sql(printed.stdout)
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", make_conninfo(database_url, user=ROLE))
    with dagster_instance() as world.instance:
        yield world
    world.sql(f"DROP OWNED BY {ROLE}", f"DROP ROLE {ROLE}")


COPIED = re.compile(rb"\s*COPY\s*\((?P<query>.*)\)\s*TO STDOUT.*", re.DOTALL)
"""A query whose rows are copied out, which takes the rights of the query."""

NEEDS_WHAT_IS_RARE = {
    ("bucket_doubt", "INSERT"): "a pass that finds that rows and objects do not fit together",
    ("bucket_doubt", "UPDATE"): "the same, a second time",
}
"""Rights that no statement of a night without accidents is refused without."""


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_every_job_works_with_exactly_what_is_printed_and_nothing_printed_can_be_left_out(
    everything: EveryJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said to the database is said again, by a role that lacks one right."""
    spoken: dict[str, tuple[Any, Any]] = {}
    execute, copy = psycopg.Cursor.execute, psycopg.Cursor.copy

    def overheard(cursor: Any, query: Any, values: Any = None, **options: Any) -> Any:
        text = query if isinstance(query, bytes | str) else query.as_string(None)
        done = execute(cursor, query, values, **options)
        if cursor.rowcount or str(text) not in spoken:
            spoken[str(text)] = (query, values)
        return done

    def copied(cursor: Any, statement: Any, *values: Any, **options: Any) -> Any:
        text = statement if isinstance(statement, bytes) else statement.as_bytes(None)
        if found := COPIED.fullmatch(text):
            spoken[str(text)] = (found["query"], None)
        return copy(cursor, statement, *values, **options)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", overheard)
        patch.setattr(psycopg.Cursor, "copy", copied)
        assert call("bucket", "adopt").exit_code == 0
        everything.fill()
        for command in (command for way in WAYS for command in way):
            report = max(map(str, everything.folder.glob("storage_orphans-*.csv")), default="")
            done = call(*(report if word == "REPORT" else word for word in command))
            # Nobody listens where alerts go, and failed runs of nobody stand in the record.
            assert done.exit_code == 0 or command[0] in ("alert", "status"), done.output
            assert "denied" not in done.output, (command, done.output)

    rights = own_rights(everything.settings(dict(os.environ)), "jobs")
    theirs = [
        Right("SCHEMA", "shop", "shop", "USAGE"),
        Right("TABLE", "shop", "account", "SELECT"),
        *(Right("TABLE", "shop", "session", one) for one in ("SELECT", "UPDATE", "DELETE")),
    ]
    database = Database(everything.database_url)
    needless = []
    with closing(database.connect("one right less")) as owner:
        for right in (*rights, *theirs):
            name = right.name.partition("(")[0].removesuffix("_id_seq")
            about = [
                said for text, said in spoken.items() if right.kind == "SCHEMA" or name in text
            ]
            if not any(_is_refused(owner, right, *said) for said in about):
                needless.append((right.name, right.privilege))
    assert set(needless) == set(NEEDS_WHAT_IS_RARE)


def _is_refused(owner: Any, right: Right, query: Any, values: Any) -> bool:
    """Whether the role may not say it without a right; nothing of it lasts."""
    if isinstance(values, dict) and "run_id" in values:
        # A record that stands is not written again.
        values = {**values, "run_id": str(uuid.uuid4())}
    try:
        with owner.transaction(force_rollback=True):
            owner.execute(without(right).encode())
            owner.execute(f"SET LOCAL ROLE {ROLE}".encode())
            owner.execute(query, values)
    except psycopg.errors.InsufficientPrivilege as error:
        return right.name.partition("(")[0] in str(error)
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction):
        # Without USAGE nothing of a schema is seen, where the statement does not name the schema.
        return right.kind == "SCHEMA"
    except psycopg.Error:
        return False
    return False


@pytest.mark.thorough
def test_a_run_that_lacks_a_right_prints_the_statement_that_gives_it(everything: EveryJob) -> None:
    assert call("bucket", "adopt").exit_code == 0
    for job, right in (
        ("deleted_files", Right("TABLE", "public", "file", "DELETE")),
        ("upload_cleanup", Right("TABLE", "public", "setback", "SELECT")),
        ("storage_orphans", Right("TABLE", "public", "orphan_candidate", "INSERT")),
        ("run_history", Right("TABLE", "public", "job_progress", "DELETE")),
        ("audit_seal", Right("TABLE", "public", "audit_pin", "INSERT")),
        ("audit_trim", Right("FUNCTION", "public", "audit_append_many(text, text[])", "EXECUTE")),
        ("multipart_uploads", Right("SEQUENCE", "public", "job_run_id_seq", "USAGE")),
    ):
        everything.fill()
        everything.sql(without(right))
        ran = call(*live(job))
        assert ran.exit_code == 1, right
        assert giving(right) in ran.stderr, (right, ran.stderr)
        everything.sql(giving(right))


OF_THE_APPLICATION: tuple[tuple[str, ...], ...] = (
    ("INSERT INTO public.file (storage_key) VALUES ('files/' || gen_random_uuid()) RETURNING id",
     "SELECT public.complete_upload(%(file)s), public.delete_file(%(file)s)"),
    ("SELECT id AS upload FROM public.begin_upload('files/')",
     "SELECT public.mark_stored(%(upload)s)",
     "SELECT public.publish_upload(%(upload)s, 'a page') AS attachment",
     "DELETE FROM public.attachment WHERE id = %(attachment)s"),
    ("SELECT public.audit_record('app', ARRAY['{\"kind\": \"file.shared\"}'])",),
)  # fmt: skip
"""What an application does in a transaction each: reserve, upload, tell."""


def as_application() -> str:
    """Do all of it; the errors of the database."""
    url, said = os.environ["FILEJOBS_DATABASE_URL"], []
    for statements_of_one in OF_THE_APPLICATION:
        known: dict[str, Any] = {}
        try:
            with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as application:
                for statement in statements_of_one:
                    done = application.execute(statement.encode(), known)
                    if done.description is not None:
                        known |= done.fetchall()[0]
                    known.setdefault("file", known.get("id"))
        except psycopg.errors.InsufficientPrivilege as error:
            said.append(str(error))
    return "".join(said)


def test_an_application_works_with_what_is_printed_and_each_right_less_is_named(
    world: World,
) -> None:
    world.only(*JOBS)
    rights = granted("application", world)
    assert as_application() == ""
    for right in rights:
        world.sql(without(right))
        kind, name = right.kind.lower(), right.name.partition("(")[0]
        assert f"permission denied for {kind} {name}" in as_application(), right
        world.sql(giving(right))
    assert as_application() == ""


TRIED = {
    "SELECT": "SELECT FROM {table} LIMIT 0",
    "INSERT": "INSERT INTO {table} ({column}) SELECT {column} FROM {table} WHERE false",
    "UPDATE": "UPDATE {table} SET {column} = {column} WHERE false",
    "DELETE": "DELETE FROM {table} WHERE false",
}
MAY_NOT = {
    "status": {("job_run", "INSERT"), ("job_progress", "UPDATE"), ("hold", "INSERT"),
               ("file", "SELECT"), ("upload", "SELECT"), ("audit_event", "SELECT")},
    "mirror": {("file", "SELECT"), ("file", "DELETE"), ("upload", "UPDATE"), ("hold", "INSERT"),
               ("job_progress", "DELETE"), ("orphan_candidate", "DELETE"),
               ("audit_event", "DELETE")},
    "application": {("job_run", "SELECT"), ("file", "DELETE"), ("upload", "DELETE"),
                    ("hold", "UPDATE"), ("bucket_adoption", "UPDATE"), ("audit_event", "INSERT")},
    "jobs": {("file", "INSERT"), ("upload", "INSERT"), ("upload", "DELETE"),
             ("attachment", "DELETE"), ("filejobs_migration", "INSERT"), ("audit_event", "INSERT"),
             ("audit_event", "UPDATE"), ("audit_chain", "UPDATE"), ("audit_hold", "INSERT"),
             ("audit_restore", "INSERT")},
}  # fmt: skip


@pytest.mark.parametrize("who", MAY_NOT)
def test_a_role_can_do_what_is_printed_for_it_and_nothing_else(world: World, who: str) -> None:
    """Every statement on every table of the project, tried."""
    world.only(*JOBS)
    rights = granted(who, world)
    printed = {(one.name, one.privilege) for one in rights if one.kind == "TABLE"}
    columns = dict(
        world.execute(
            "SELECT DISTINCT ON (relname) relname::text, attname::text"
            " FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0"
            " WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
            " ORDER BY relname, attgenerated <> '' OR attidentity <> '', attnum"
        )
    )
    done = set()
    with psycopg.connect(os.environ["FILEJOBS_DATABASE_URL"], autocommit=True) as role:
        for table, column in columns.items():
            for verb, statement in TRIED.items():
                text = statement.format(table=f'public."{table}"', column=f'"{column}"')
                try:
                    role.execute(text.encode())
                except psycopg.errors.InsufficientPrivilege:
                    continue
                done.add((table, verb))
    # A rule makes nothing of both before anybody's rights are asked.
    done -= {("job_run", "UPDATE"), ("job_run", "DELETE")}
    # INSERT reads here what it writes.
    readable = {one for one in printed if one[1] != "INSERT" or (one[0], "SELECT") in printed}
    assert done == readable
    assert not done & MAY_NOT[who]
    assert {table for table, _ in MAY_NOT[who]} <= set(columns)
