"""The search over every column, on a real database."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.references.elsewhere.search import Elsewhere
from filejobs_dagster.settings.storage import BucketSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg


def bucket_settings(**elsewhere: object) -> BucketSettings:
    return BucketSettings.model_validate(
        {
            "bucket": "acme-uploads",
            "owns": ["files/"],
            "min_age": "48h",
            "named_elsewhere": elsewhere,
        }
    )


def search(url: str, keys: Sequence[str], **elsewhere: object) -> Elsewhere:
    one = Elsewhere(Database(url), bucket_settings(**elsewhere))
    one.search([key.encode() for key in keys])
    return one


def named(url: str, keys: Sequence[str], **elsewhere: object) -> dict[str, str]:
    found = search(url, keys, **elsewhere).found
    return {key.decode(): naming.column for key, naming in found.named.items()}


TOKEN = "0b0f7c1a-53f3-4a7e-9d38-6d1f7a6c0d11"
DIGEST = "5f2b" * 16

PLACES = {
    # column's type: (what stands there, the key that it names)
    "text": ("see /media/files/pasted%200.png here", "files/pasted 0.png"),
    "varchar(99)": ("files/exact.bin", "files/exact.bin"),
    "json": (json.dumps({"a": "files/bänner_1.jpg"}), "files/bänner_1.jpg"),
    "jsonb": (json.dumps({"a": json.dumps({"src": "files/bøard.jpg"})}), "files/bøard.jpg"),
    "text[]": ('{"a","files/in an \\"array\\".png"}', 'files/in an "array".png'),
    "uuid": (TOKEN, f"files/avatars/{TOKEN.upper()}_large.webp"),
    "uuid[]": (f"{{{TOKEN.replace('0b', 'ab')}}}", f"files/{TOKEN.replace('0b', 'ab')}/x"),
    "citext": ("FILES/UPPER.PNG", "files/upper.png"),
    "hstore": (r'"k"=>"files/h \"q\".png"', 'files/h "q".png'),
    "key_domain": ("https://cdn.example.com/files/domain%2Bname.png?x=1", "files/domain+name.png"),
    "bytea": ("\\x" + DIGEST, f"files/{DIGEST[:2]}/{DIGEST[2:4]}/{DIGEST[4:]}"),
    "pair": ('("files/in a ""row"".png",x)', 'files/in a "row".png'),
    "name": ("files/name.png", "files/name.png"),
}


def make_places(connection: psycopg.Connection) -> None:
    connection.execute("CREATE EXTENSION hstore; CREATE EXTENSION citext")
    connection.execute("CREATE DOMAIN key_domain AS text; CREATE TYPE pair AS (a text, b text)")
    columns = ", ".join(f'"{kind}" {kind}' for kind in PLACES)
    connection.execute(f"CREATE SCHEMA app; CREATE TABLE app.place ({columns}, other int)")
    for kind, (value, _) in PLACES.items():
        connection.execute(f'INSERT INTO app.place ("{kind}") VALUES (%s::text::{kind})', (value,))


def test_a_name_is_found_in_a_column_of_every_kind_and_what_nobody_names_is_not(
    connection: psycopg.Connection, database_url: str
) -> None:
    make_places(connection)
    keys = {key: f"app.place.{kind}" for kind, (_, key) in PLACES.items()}
    dead = [f"files/{uuid.uuid4()}.png", "files/dead one.png", f"files/{'e1' * 32}"]
    assert named(database_url, [*keys, *dead]) == keys
    # CONTROL: as one looks who compares whole keys, most of them are not seen.
    [(seen,)] = connection.execute(
        "SELECT count(*) FROM app.place, jsonb_each_text(to_jsonb(place)) WHERE value = ANY(%s)",
        (list(keys),),
    )
    assert seen == 2
