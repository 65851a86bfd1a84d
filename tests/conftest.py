"""Servers and databases that tests share.

Every worker of pytest-xdist starts its own PostgreSQL and its own S3 server. A server that cannot
start fails the tests that need it: nothing is skipped.
"""

from __future__ import annotations

import gc
import os
import tempfile
import uuid
from typing import TYPE_CHECKING

import hypothesis
import psutil
import psycopg
import pytest

from filejobs_dagster.embedded.environment import is_foreign
from filejobs_dagster.embedded.postgres import EmbeddedPostgres
from filejobs_dagster.embedded.s3 import EmbeddedS3
from filejobs_dagster.registry import BY_NAME
from tests import budget
from tests.databases import Databases

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from mypy_boto3_s3 import S3Client

TEMPLATE = "migrated_template"

# A loaded machine is slow now and then; what is too slow for good meets the tests' own timeout.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

QUICK = os.environ.get("HYPOTHESIS_PROFILE") == "quick"
"""Whether few examples are drawn (make test). All of them are drawn by `make thorough`."""

ALL_OF_THEM = 5
"""So many times the examples of a quick run."""

NO_REAL_ACCOUNT = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}


PROMISES = ("FILEJOBS_PROMISED_", "FILEJOBS_TEST_DOCKER")
"""What this machine is promised to have begins so; what reads it does so while it is imported."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--budget`."""
    parser.addoption(budget.OPTION, action="store_true", help="say where processor time went")


def pytest_configure(config: pytest.Config) -> None:
    """Forget the developer's databases, buckets and accounts, before any server starts."""
    if config.getoption(budget.OPTION):
        config.pluginmanager.register(budget.Budget())
    for name in filter(is_foreign, list(os.environ)):
        if not name.startswith(PROMISES):
            del os.environ[name]
    os.environ.update(NO_REAL_ACCOUNT)
    # Workers are told a width, by which the commands would fold what they print.
    os.environ.pop("COLUMNS", None)
    keep_files_in_memory()


IN_MEMORY = "/dev/shm"
ROOM_NEEDED = 8 * 1024**3


def keep_files_in_memory() -> None:
    """Let temporary files, and the servers' data, lie in memory where there is plenty of it.

    A new database is a thousand small files, which a disk takes five times as long to copy.
    """
    if "TMPDIR" in os.environ or not os.access(IN_MEMORY, os.W_OK):
        return
    room = min(psutil.disk_usage(IN_MEMORY).free, psutil.virtual_memory().available)
    if room > ROOM_NEEDED:
        os.environ["TMPDIR"] = tempfile.tempdir = IN_MEMORY


OBJECTS_UNTIL_GARBAGE_IS_LOOKED_FOR = 50_000


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in what imports leave, and seldom in what tests leave: each a sixth."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(OBJECTS_UNTIL_GARBAGE_IS_LOOKED_FOR)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests with drawn examples before they are selected by their marks."""
    for item in items:
        test = getattr(item, "function", None)
        if getattr(test, "is_hypothesis_test", False):
            item.add_marker("drawn")
    if QUICK:
        for test in {item.function for item in items if item.get_closest_marker("drawn")}:  # type: ignore[attr-defined]
            said = test._hypothesis_internal_use_settings
            fewer = max(1, said.max_examples // ALL_OF_THEM)
            test._hypothesis_internal_use_settings = hypothesis.settings(said, max_examples=fewer)


@pytest.fixture(autouse=True)
def _no_own_job_of_another_test() -> Iterator[None]:
    """Forget the own jobs of the settings that a test has read: a process has one installation."""
    yield
    BY_NAME.own = {}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test the same environment, also after a test that left something behind."""
    for name in filter(is_foreign, list(os.environ)):
        monkeypatch.delenv(name)
    for name, value in NO_REAL_ACCOUNT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """The worker's PostgreSQL. Never stop or restart it: others use it."""
    with EmbeddedPostgres.start(durable=False) as server:
        yield server


@pytest.fixture
def separate_postgres_server() -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL for one test that stops, kills or restarts it; half a second. Not migrated."""
    with EmbeddedPostgres.start(durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def template_database(postgres_server: EmbeddedPostgres) -> str:
    """The name of a database with every migration applied, which others are copied from."""
    from filejobs_dagster.postgres.migrate import migrate  # noqa: PLC0415 (only tests that need it)

    url = postgres_server.create_database(TEMPLATE)
    migrate(url)
    # As a database that is in use: whatever the schedule, its first tick is long over.
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE filejobs_migration SET applied_at = applied_at - interval '5 years'"
        )
    return TEMPLATE


@pytest.fixture(scope="session")
def databases(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[Databases]:
    """The worker's migrated databases, for who needs one for longer or shorter than a test."""
    made = Databases(postgres_server, template_database)
    yield made
    made.close()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """The address of a migrated, empty database of the test's own."""
    with databases.one() as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    """The address of a database with nothing in it, for migrations and for Dagster's storage."""
    name = f"test_{uuid.uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    """A connection to `database_url` in autocommit mode."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def s3_server() -> Iterator[EmbeddedS3]:
    """The worker's S3 server; `environment()` has what a child process needs."""
    with EmbeddedS3.start() as server:
        yield server


@pytest.fixture(scope="session")
def s3_client(s3_server: EmbeddedS3) -> S3Client:
    """A boto3 client of the worker's S3 server."""
    return s3_server.client()


@pytest.fixture
def bucket(s3_client: S3Client) -> str:
    """The name of a new, empty bucket."""
    name = f"test-{uuid.uuid4().hex}"
    s3_client.create_bucket(Bucket=name)
    return name
