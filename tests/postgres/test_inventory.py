from __future__ import annotations

from pathlib import Path

from filejobs_dagster.postgres import inventory
from filejobs_dagster.postgres.connect import Database

FILE = Path(inventory.__file__).parent / inventory.FILE

HOW = "A migration was added: `python -m tests.postgres.test_inventory` writes the file anew."


def text_of(url: str) -> str:
    database = Database(url)
    with (
        database.connect("inventory") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        return inventory.as_file(cursor, database.schema)


def test_the_inventory_that_is_shipped_is_that_of_a_fresh_migration(database_url: str) -> None:
    assert FILE.read_text(encoding="utf-8") == text_of(database_url), HOW


if __name__ == "__main__":
    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.postgres.migrate import migrate

    with EmbeddedPostgres.start(durable=False) as server:
        migrate(server.create_database("fresh"))
        FILE.write_text(text_of(server.url("fresh")), encoding="utf-8")
