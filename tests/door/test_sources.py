"""Sources that agree with themselves, and protection that protects: in every job that deletes."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from filejobs_dagster.door.door import Door
from filejobs_dagster.door.guard import Refusal
from filejobs_dagster.door.guards import Sources
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.references import check as checking
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.registry import BY_NAME, JOBS
from filejobs_dagster.settings.problems import SettingsError
from tests.installation import Installation, make_installation
from tests.jobs.deleted_files.collecting import files_of
from tests.objects.scripted import Answer, ScriptedS3, errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.references.own_tables import Claim
    from filejobs_dagster.settings import Settings

LOG = logging.getLogger("door")
DELETING = [job.name for job in JOBS if job.deletes_bytes]

POSTERS = {
    "name": "posters",
    "sql": "select path from poster",
    "transforms": [{"percent_decode": True}],
    "recheck_sql": "select key from unnest($1::text[]) as key join poster on path = key",
}
"""Its check compares the keys with what is still encoded."""


@dataclass
class World:
    """One database and one bucket for all tests of this module; each brings its own sources."""

    installation: Installation
    client: S3Client

    def settings(self, *sources: dict[str, Any], protect: tuple[str, ...] = ()) -> Settings:
        bucket = self.installation.document["buckets"]["uploads"]
        bucket |= {"sources": list(sources), "protect": list(protect)}
        return self.installation.settings()

    def enter(self, job: str, settings: Settings, *, live: bool = True, **given: Any) -> Outcome:
        """Go through the door, and return what the record then says."""
        client = given.pop("client", self.client)
        door = Door(BY_NAME[job], settings, client, entry="uploads", **given)
        database = self.installation.database
        with database.connect("test") as connection:
            door.enter(database, connection, LOG, live=live)
        return door.told(Outcome(detail={}))

    def found(self, settings: Settings, **given: Any) -> str:
        """What the guard alone says."""
        told = self.enter("deleted_files", settings, guards=[Sources()], **given)
        return str(told.detail["door"]["sources"])


@pytest.fixture(scope="module")
def world(
    postgres_server: EmbeddedPostgres,
    template_database: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    name = f"test_{uuid.uuid4().hex}"
    url = postgres_server.create_database(name, template_database)
    s3_client.create_bucket(Bucket=name.replace("_", "-"))
    installation = make_installation(
        tmp_path_factory.mktemp("door"), url, name.replace("_", "-"), s3_client, s3_server
    )
    installation.adopt()
    for key in ("files/my photo.jpg", "files/my%20photo.jpg", "files/other.jpg", "files/seen"):
        s3_client.put_object(Bucket=installation.bucket, Key=key, Body=b"in use")
    place = conninfo_to_dict(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            sql.SQL(
                ELSEWHERE.replace("%(host)s", str(place.get("host") or place.get("hostaddr")))
                .replace("%(port)s", str(place["port"]))
                .replace("%(dbname)s", name)
            )
        )
    yield World(installation, make_client(installation.settings().buckets["uploads"]))
    postgres_server.drop_database(name)
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as connection:
        connection.execute("DROP ROLE door_reader")


ELSEWHERE = """
CREATE TABLE poster (path text);
INSERT INTO poster VALUES ('files/my%20photo.jpg'), ('files/other.jpg');

-- A table with row security, read by a role of "another server" that does not see every row.
CREATE SCHEMA remote;
CREATE TABLE remote.asset (key text, tenant text);
INSERT INTO remote.asset VALUES ('files/seen', 'us'), ('files/hidden', 'them');
CREATE ROLE door_reader LOGIN PASSWORD 'reader';
GRANT USAGE ON SCHEMA remote TO door_reader;
GRANT SELECT ON remote.asset TO door_reader;
ALTER TABLE remote.asset ENABLE ROW LEVEL SECURITY;
CREATE POLICY ours ON remote.asset USING (tenant = 'us');
CREATE EXTENSION postgres_fdw;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER postgres_fdw
    OPTIONS (host '%(host)s', port '%(port)s', dbname '%(dbname)s');
CREATE USER MAPPING FOR CURRENT_USER SERVER elsewhere
    OPTIONS (user 'door_reader', password 'reader');
CREATE FOREIGN TABLE asset (key text) SERVER elsewhere
    OPTIONS (schema_name 'remote', table_name 'asset');
CREATE VIEW asset_view AS SELECT key FROM asset WHERE key IS NOT NULL;

-- PostgreSQL looks into a function only when it is SQL, STABLE, and has no setting of its own.
CREATE FUNCTION plain() RETURNS SETOF text LANGUAGE sql STABLE
    AS 'SELECT path FROM public.poster';
CREATE FUNCTION inlined() RETURNS SETOF text LANGUAGE sql STABLE
    AS 'SELECT key FROM public.asset';
CREATE FUNCTION volatile_one() RETURNS SETOF text LANGUAGE sql
    AS 'SELECT key FROM public.asset';
CREATE FUNCTION parsed_one() RETURNS SETOF text LANGUAGE sql
    BEGIN ATOMIC SELECT key FROM public.asset; END;
CREATE FUNCTION with_setting() RETURNS SETOF text LANGUAGE sql STABLE SET row_security = on
    AS 'SELECT key FROM remote.asset';
CREATE FUNCTION as_definer() RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER
    AS 'SELECT key FROM remote.asset';
CREATE FUNCTION sets_inside() RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('row_security', 'on', true);
    RETURN QUERY SELECT key FROM remote.asset;
END $$;
CREATE FUNCTION "Odd name"(text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
    AS $$ BEGIN RETURN $1; END $$;
CREATE FUNCTION spelled(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN lower($1); END $$;
"""


# A check that compares other texts than keys ----------------------------------------------------


@pytest.mark.parametrize("job", DELETING)
def test_a_source_that_does_not_know_its_own_key_lets_no_live_run_in(
    world: World, job: str
) -> None:
    with pytest.raises(Refusal) as refused:
        world.enter(job, world.settings(POSTERS))
    said = str(refused.value)
    assert "'posters' says that 'files/my photo.jpg' is in use" in said
    assert "its row says 'files/my%20photo.jpg'" in said
    assert "does not know 1 of 2 samples" in said
    assert "Let recheck_sql return those of the keys in $1" in said


@pytest.mark.parametrize("job", DELETING)
def test_a_dry_run_says_that_a_live_one_would_be_refused(world: World, job: str) -> None:
    detail = world.enter(job, world.settings(POSTERS), live=False).detail
    (refusal,) = detail["would_be_refused"]
    assert refusal.startswith("sources: Source 'posters' says that 'files/my photo.jpg' is in use")


def test_control_without_the_guard_the_photo_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The gate's other half, which keeps what is named in another spelling, would save it, too.
    def exact_only(gate: Gate, keys: Sequence[str], claims: Sequence[Claim]) -> dict[str, str]:
        return dict.fromkeys(gate._references.named(keys, claims=claims), "named")

    monkeypatch.setattr(Gate, "_judged", exact_only)
    world.settings(POSTERS)
    files = files_of(world.installation)
    files.delete("files/my photo.jpg")
    assert files().ok
    # The poster's row still means it.
    assert "files/my photo.jpg" not in files.keys()  # noqa: SIM118 (of the bucket)


def test_a_source_that_knows_what_it_names_is_let_in(world: World) -> None:
    right = POSTERS | {
        "recheck_sql": "select key from unnest($1::text[]) as key "
        "join poster on path in (key, replace(key, ' ', '%20'))"
    }
    assert world.found(world.settings(right)).startswith(
        "uploads: the project's own tables, posters answer and know their own keys; "
        "posters: of 2 keys 2 lie in owns, of 2 looked for "
    )


def test_a_source_that_answers_by_chance_does_not_know_its_own_keys(world: World) -> None:
    chance = {"name": "chance", "sql": "select 'files/' || random() from poster"}
    with pytest.raises(Refusal, match=r"does not know 2 of 2 samples.* the same rows twice"):
        world.found(world.settings(chance))


def test_the_one_encoded_key_of_many_is_among_the_samples(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONTROL: those that are taken as they come would not hold it."""
    monkeypatch.setattr(checking, "SAMPLES", 5)
    many = (
        "select 'files/' || n from generate_series(1, 400) as n union all select path from poster"
    )
    recheck = "select key from unnest($1::text[]) as key where key !~ ' '"
    source = POSTERS | {"sql": many, "recheck_sql": recheck}
    with pytest.raises(Refusal, match=r"'files/my photo\.jpg' is in use"):
        world.found(world.settings(source))
    first = world.installation.execute(f"{many} LIMIT 10")
    assert "files/my%20photo.jpg" not in {key for (key,) in first}


@pytest.mark.parametrize("job", DELETING)
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select key from nowhere", "could not be asked which keys it names"),
        ("select path from poster where false", "returned 0 keys, and at least 1 are expected"),
    ],
)
def test_a_source_that_does_not_answer_lets_no_live_run_in(
    world: World, job: str, sql: str, said: str
) -> None:
    settings = world.settings({"name": "avatars", "sql": sql})
    with pytest.raises(Refusal) as refused:
        world.enter(job, settings)
    assert f"Source 'avatars' {said}" in str(refused.value)
    dry = world.enter(job, settings, live=False).detail
    assert said in dry["would_be_refused"][0]


def test_empty_values_and_keys_that_no_bucket_has_are_no_samples(world: World) -> None:
    odd = {
        "name": "odd",
        "sql": "select null union all select '' union all select '%00' union all select '%FF'",
        "transforms": [{"percent_decode": True}],
        "recheck_sql": "select key from unnest($1::text[]) as key where false",
    }
    assert "odd answer" in world.found(world.settings(odd))


# A source that means something else than it says -------------------------------------------------

MANUALS = ("files/2024/pump.pdf", "files/2024/valve one.pdf", "files/2025/meter.pdf")
FORGOTTEN = {
    "prepend": ("substr(path, 7)", '{prepend: "files/"}'),
    "strip_base": (
        "'https://cdn.example.com/' || path",
        '{strip_base: ["https://cdn.example.com/"]}',
    ),
    "drop_query": ("path || '?v=2'", "{drop_query: true}"),
    "percent_decode": ("replace(path, '/', '%2F')", "{percent_decode: true}"),
    "another folder": (
        "'media/' || substr(path, 7)",
        '{strip_base: ["media/"]}, {prepend: "files/"}',
    ),
    "a folder below": ("substr(path, 12)", '{prepend: "files/2024/"}'),
    "an address in full": (
        "'https://cdn.example.com/' || replace(path, '/', '%2F') || '?v=2'",
        '{drop_query: true}, {percent_decode: true}, {strip_base: ["https://cdn.example.com/"]}',
    ),
}
"""What the rows say instead of the key, and what the settings lack."""


@pytest.fixture(scope="module")
def manuals(world: World) -> World:
    installation = world.installation
    for key in MANUALS:
        world.client.put_object(Bucket=installation.bucket, Key=key, Body=b"manual")
    installation.execute("CREATE TABLE manual (path text)")
    installation.execute("INSERT INTO manual SELECT unnest(%s::text[])", (list(MANUALS),))
    return world


@pytest.mark.parametrize("forgotten", FORGOTTEN)
def test_a_source_none_of_whose_keys_has_an_object_is_refused_with_what_it_lacks(
    manuals: World, forgotten: str
) -> None:
    row, mend = FORGOTTEN[forgotten]
    settings = manuals.settings({"name": "manuals", "sql": f"select {row} from manual"})
    with pytest.raises(Refusal) as refused:
        manuals.found(settings)
    assert "Source 'manuals' names keys of which none" in refused.value.found
    assert f"`transforms: [{mend}]` in its source" in refused.value.advice


@pytest.mark.parametrize("job", DELETING)
def test_no_job_that_deletes_bytes_is_let_in_by_it(manuals: World, job: str) -> None:
    settings = manuals.settings({"name": "manuals", "sql": "select substr(path, 7) from manual"})
    with pytest.raises(Refusal, match=r"none lies in what this bucket entry owns \(3 were looked"):
        manuals.enter(job, settings)
    dry = manuals.enter(job, settings, live=False).detail
    assert "sources: Source 'manuals' names keys of which none" in dry["would_be_refused"][0]


def test_control_with_the_word_that_it_was_checked_by_hand_its_files_are_orphans(
    manuals: World,
) -> None:
    """The door is what keeps them: the gate, too, asks a source that means something else."""
    source = {"name": "manuals", "sql": "select 'old/' || md5(path) from manual"}
    with pytest.raises(Refusal):
        manuals.found(manuals.settings(source))
    settings = manuals.settings(source | {"keys_checked_by_hand": True})
    assert "of 3 looked for 0 have an object" in manuals.found(settings)
    assert "checked by hand" in manuals.found(settings)
    bucket = settings.buckets["uploads"]
    with (
        manuals.installation.database.connect("test") as connection,
        ReferenceCheck(connection, bucket.sources) as references,
    ):
        gone = Gate(manuals.client, bucket, references).delete([MANUALS[0]], lambda: None)
    assert not gone.kept
    manuals.client.put_object(Bucket=bucket.bucket, Key=MANUALS[0], Body=b"manual")


def test_owners_need_no_object_but_a_rewrite_that_leads_to_them(manuals: World) -> None:
    source = {"name": "stems", "sql": "select md5(path) from manual", "names": "owners"}
    bucket = manuals.installation.document["buckets"]["uploads"]
    with pytest.raises(SettingsError, match="this bucket has none"):
        manuals.settings(source)
    bucket["rewrites"] = [{"name": "sizes", "match": "files/(?P<id>[^/]+)_[0-9]+", "owner": "{id}"}]
    try:
        assert manuals.found(manuals.settings(source)).endswith(
            "stems answer and know their own keys"
        )
    finally:
        del bucket["rewrites"]


def test_a_source_that_may_be_empty_and_one_that_storage_does_not_answer_for_are_let_in(
    manuals: World, scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    empty = {"name": "none", "sql": "select path from manual where false", "min_rows": 0}
    assert "none names no key" in manuals.found(manuals.settings(empty))
    # An object under a customer's own key answers 400 to everybody else.
    there = {"name": "manuals", "sql": "select 'files/' || md5(path) from manual"}
    scripted.script = lambda _request: Answer(400)
    said = manuals.found(manuals.settings(there), client=scripted_client)
    assert "of 0 looked for 0 have" in said


# Rows that nobody sees from here ---------------------------------------------------------------

BEYOND = [
    ("select key from asset", "the foreign table public.asset"),
    ("select key from asset_view", "the foreign table public.asset"),
    ("select key from inlined() as key", "the foreign table public.asset"),
    (
        "select path from poster where not exists (select from asset as a where a.key = path)",
        "the foreign table public.asset",
    ),
    ("select key from volatile_one() as key", "volatile_one, which reads a foreign table"),
    ("select key from parsed_one() as key", "parsed_one, which reads a foreign table"),
    ("select key from with_setting() as key", "with_setting, which sets row_security or a role"),
    ("select with_setting()", "with_setting, which sets row_security or a role"),
    ("select key from as_definer() as key", "as_definer, which is SECURITY DEFINER"),
    ("select key from sets_inside() as key", "sets_inside, which names row_security in its text"),
    ('select public."Odd name"(path) from poster', "Odd name, which is SECURITY DEFINER"),
    (
        'select path from poster where path = "Odd name"(path)',
        "Odd name, which is SECURITY DEFINER",
    ),
]


@pytest.mark.parametrize(("sql", "named"), BEYOND)
def test_what_may_hide_rows_is_found_in_the_plan_and_refused_until_somebody_checked_it(
    world: World, sql: str, named: str
) -> None:
    source = {"name": "assets", "sql": sql}
    with pytest.raises(Refusal) as refused:
        world.found(world.settings(source))
    assert named in str(refused.value)
    assert "write `rows_checked_by_hand: true`" in str(refused.value)
    checked = world.found(world.settings(source | {"rows_checked_by_hand": True}))
    assert f"{named}: checked by hand" in checked


@pytest.mark.parametrize("job", DELETING)
def test_no_job_that_deletes_bytes_is_let_in_with_rows_that_nobody_sees(
    world: World, job: str
) -> None:
    with pytest.raises(Refusal, match=r"reads the foreign table public\.asset"):
        world.enter(job, world.settings({"name": "assets", "sql": "select key from asset"}))


def test_a_recheck_is_looked_into_as_well(world: World) -> None:
    source = {
        "name": "assets",
        "sql": "select path from poster",
        "recheck_sql": "select k from unnest($1::text[]) as k join asset on asset.key = k",
    }
    with pytest.raises(Refusal, match="reads the foreign table"):
        world.found(world.settings(source))


def test_control_a_hidden_row_does_not_keep_its_object(world: World) -> None:
    settings = world.settings(
        {"name": "assets", "sql": "select key from asset", "rows_checked_by_hand": True}
    )
    files_of(world.installation).put("files/hidden", "files/seen")
    bucket = settings.buckets["uploads"]
    with (
        world.installation.database.connect("test") as connection,
        ReferenceCheck(connection, bucket.sources) as references,
    ):
        references.examine()
        gone = Gate(world.client, bucket, references).delete(
            ["files/hidden", "files/seen"], lambda: None
        )
    assert set(gone.kept) == {"files/seen"}
    assert "files/hidden" not in world.installation.keys()  # noqa: SIM118


def test_a_function_that_postgresql_looks_into_is_nothing_to_speak_of(world: World) -> None:
    plain = {"name": "plain", "sql": "select lower(key) from plain() as key"}
    assert world.found(world.settings(plain)).endswith(
        "plain answer and know their own keys; "
        "plain: of 2 keys 2 lie in owns, of 2 looked for 2 have an object"
    )


def test_a_function_that_nobody_looks_into_is_named_and_refuses_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    said = world.found(world.settings({"name": "s", "sql": "select spelled(path) from poster"}))
    assert "s calls the function public.spelled, and which rows that reads is not seen here" in said
    assert "public.spelled" in caplog.text


def test_a_text_that_looks_like_a_call_is_none(world: World) -> None:
    text = "select path from poster where path <> 'as_definer()' and path <> '\"Odd name\"(x)'"
    said = world.found(world.settings({"name": "t", "sql": text}))
    assert "t answer and know their own keys" in said


# Protection ------------------------------------------------------------------------------------


def test_an_entry_of_protect_under_which_nothing_lies_is_named(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    files_of(world.installation).put(
        "files/brand/logo.png", "files/terms.pdf", "files/new-brand", "files/odd/a b"
    )
    right = ("files/brand/", "files/brand/logo.png", "files/terms.pdf", "files/odd", "files")
    assert world.found(world.settings(protect=right)).endswith("know their own keys")
    # The gate keeps `files/new` and what is below it, and not what only begins so.
    wrong = ("files/bra/", "files/new", "files/terms.pdf/x", "files/odd/a%20b")
    said = world.found(world.settings(protect=(*right, *wrong)))
    for entry in wrong:
        assert f"no object lies under the entry {entry!r} of protect" in said
        assert f"no object lies under the entry {entry!r} of protect" in caplog.text
    assert said.count("no object lies under") == len(wrong)


def test_a_bucket_that_may_not_be_listed_is_said_and_refuses_nothing(
    world: World, scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda _request: Answer(403, errors("AccessDenied"))
    said = world.found(world.settings(protect=("files/a/",)), client=scripted_client)
    assert "whether anything lies under protect could not be looked at" in said
    assert "AccessDenied" in said
