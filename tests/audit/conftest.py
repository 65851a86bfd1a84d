"""Databases with chains that the tests of a module share, or have for themselves."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.postgres.connect import Database
from tests.audit.world import World, old_world, trimmed_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres


@pytest.fixture(scope="module")
def shared_world(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[World]:
    """The trimmed world; what a test does to it is rolled back."""
    name = f"test_{uuid.uuid4().hex}"
    database = Database(postgres_server.create_database(name, template_database))
    with database.connect("tests") as connection:
        yield trimmed_world(database, connection)
    postgres_server.drop_database(name)


@pytest.fixture
def empty_world(database_url: str) -> Iterator[World]:
    """A world of the test's own, with nothing in it."""
    database = Database(database_url)
    with database.connect("tests") as connection:
        yield World(database, connection)


@pytest.fixture(scope="session")
def old_world_template(
    postgres_server: EmbeddedPostgres, template_database: str
) -> tuple[str, World]:
    """The name of a database that holds the old world, and its key and pins."""
    name = "old_world_template"
    database = Database(postgres_server.create_database(name, template_database))
    with database.connect("tests") as connection:
        return name, old_world(database, connection)


@pytest.fixture
def own_world(
    postgres_server: EmbeddedPostgres, old_world_template: tuple[str, World]
) -> Iterator[World]:
    """The old world, for the test alone."""
    template, world = old_world_template
    name = f"test_{uuid.uuid4().hex}"
    database = Database(postgres_server.create_database(name, template))
    with database.connect("tests") as connection:
        yield replace(world, database=database, connection=connection, pins=world.pins.copy())
    postgres_server.drop_database(name)
