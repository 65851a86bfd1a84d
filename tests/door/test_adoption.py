"""Whose bucket it is: what is refused, what is shown, and what a kill in between leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.door import adoption, marker
from filejobs_dagster.door.adoption import (
    Adopted,
    AdoptionTarget,
    adopt,
    check,
    inspect,
    raise_counter,
    remember_probe,
)
from filejobs_dagster.door.guard import (
    AdoptionRefused,
    BucketOfAnotherInstallation,
    DatabaseRestored,
    LeftBehind,
    MarkerNotWritten,
    MarkerTaken,
    MarkerUnreadable,
    NotAdopted,
    PrefixesNotAdopted,
    WrongBucket,
    WrongDatabase,
    WrongEnvironment,
)
from filejobs_dagster.door.marker import (
    Marker,
    read_marker,
    search_markers,
    write_new_marker,
)
from filejobs_dagster.door.server import Probe
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.deletion_mode import Abilities
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.migrate import migrate
from tests.objects.buckets import BucketForTests
from tests.objects.orphans import keys_of
from tests.objects.scripted import XML, Answer, ScriptedS3, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

KEY = "filejobs-adopted/acme.json"
OWNS = ("files/",)
BY = "ada@desk"


@pytest.fixture
def place(client: S3Client, bucket: str, database_url: str) -> Iterator[AdoptionTarget]:
    database = Database(database_url)
    with database.connect("test") as connection:
        yield AdoptionTarget(
            client, bucket, "http://127.0.0.1", "acme", "production", OWNS, database, connection
        )


def document(place: AdoptionTarget, key: str = KEY) -> dict[str, Any]:
    body = place.client.get_object(Bucket=place.bucket, Key=key)["Body"].read()
    return dict(json.loads(body))


def listed(*keys: str) -> Answer:
    """The answer of a scripted server to the listing of the markers."""
    entries = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
        "<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
        for key in keys
    )
    return Answer(
        body=f"{XML}<ListBucketResult><Prefix>filejobs-adopted</Prefix><KeyCount>{len(keys)}"
        f"</KeyCount><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
    )


def rewrite(place: AdoptionTarget, **changes: Any) -> None:
    """Change what the marker says, as another installation or a later run would have."""
    text = json.dumps(document(place) | changes)
    place.client.put_object(Bucket=place.bucket, Key=KEY, Body=text.encode())


def events(place: AdoptionTarget) -> list[dict[str, Any]]:
    rows = place.connection.execute("SELECT body FROM audit_event ORDER BY seq").fetchall()
    return [json.loads(body) for (body,) in rows]


def counter(place: AdoptionTarget) -> int:
    row = place.connection.execute("SELECT counter FROM bucket_adoption").fetchone()
    assert row is not None
    return int(row[0])


def attempts(*each: Callable[[], object]) -> tuple[Callable[[], object], ...]:
    return each


# Adopting


def test_adopting_writes_both_halves_and_one_event(place: AdoptionTarget) -> None:
    adopted = adopt(place, by=BY)
    assert check(place) == adopted
    said = document(place)
    row = place.connection.execute(
        "SELECT system_identifier::text, current_database() FROM pg_control_system()"
    ).fetchone()
    assert row is not None
    assert (said["installation"], said["environment"], said["format"]) == ("acme", "production", 2)
    assert said["database"] == {
        "system_identifier": row[0],
        "name": row[1],
        "schema": "public",
    }
    assert said["counter"] == counter(place) == 1
    assert said["adopted_by"] == BY
    (event,) = events(place)
    assert (event["kind"], event["bucket"], event["by"]) == ("bucket.adopted", place.bucket, BY)
    assert keys_of(place.client, place.bucket) == {KEY}


def test_adopting_again_what_is_adopted_changes_nothing(place: AdoptionTarget) -> None:
    adopted = adopt(place, by=BY)
    assert adopt(place, by="bob@laptop") == adopted
    assert len(events(place)) == 1


def test_whoever_says_again_that_all_is_right_is_on_record_and_changes_no_side(
    place: AdoptionTarget,
) -> None:
    adopted = adopt(place, by=BY)
    assert adopt(place, by="bob@laptop", again="the holidays are over") == adopted
    assert check(place).marker == adopted.marker
    *_, said = events(place)
    assert (said["kind"], said["by"]) == ("bucket.doubt_dismissed", "bob@laptop")
    assert said["reason"] == "the holidays are over"


def test_without_a_marker_a_sweep_is_refused(place: AdoptionTarget) -> None:
    with pytest.raises(NotAdopted, match="filejobs bucket adopt"):
        check(place)


def test_a_marker_that_somebody_removed_is_told_from_a_bucket_that_nobody_adopted(
    place: AdoptionTarget,
) -> None:
    adopt(place, by=BY)
    place.client.delete_object(Bucket=place.bucket, Key=KEY)
    with pytest.raises(NotAdopted, match=f"says that {BY} adopted it"):
        check(place)
    assert adopt(place, by=BY).marker.counter == 2


@pytest.mark.parametrize("again", [None, "moved to the new server"])
def test_an_adoption_that_was_killed_between_its_two_writes_says_so_and_can_be_repeated(
    place: AdoptionTarget, monkeypatch: pytest.MonkeyPatch, again: str | None
) -> None:
    if again is not None:
        adopt(place, by=BY)
        rewrite(place, database={**document(place)["database"], "system_identifier": "7"})

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(adoption, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            adopt(place, by=BY, again=again)
    # CONTROL: the database alone would say that the bucket is adopted.
    assert counter(place) == (1 if again is None else 2)

    refused = NotAdopted if again is None else WrongDatabase
    with pytest.raises(refused) as half:
        check(place)
    if again is None:
        assert "that adoption ended half-way" in str(half.value)
    assert adopt(place, by=BY, again=again).marker.counter == counter(place)
    assert check(place).marker.database == inspect(place).identity


def test_two_buckets_of_one_name_on_two_servers_have_a_row_each(place: AdoptionTarget) -> None:
    adopt(place, by=BY)
    elsewhere = replace(place, endpoint="http://another")
    with pytest.raises(DatabaseRestored, match="does not know of it"):
        check(elsewhere)


# The wrong one


def test_the_marker_of_another_installation_is_refused_shown_and_never_overridden(
    place: AdoptionTarget,
) -> None:
    adopt(replace(place, installation="globex"), by="eve@globex")
    place.connection.execute("DELETE FROM bucket_adoption")
    before = document(place, "filejobs-adopted/globex.json")
    for attempt in attempts(
        lambda: adopt(place, by=BY), lambda: adopt(place, by=BY, again="mine now")
    ):
        with pytest.raises(WrongBucket, match=r"'globex'.*eve@globex.*Nothing overrides"):
            attempt()
    with pytest.raises(WrongBucket):
        check(place)
    assert document(place, "filejobs-adopted/globex.json") == before
    assert keys_of(place.client, place.bucket) == {"filejobs-adopted/globex.json"}


def test_two_installations_on_one_schema_are_refused(place: AdoptionTarget) -> None:
    adopt(place, by=BY)
    other = replace(place, installation="globex")
    for attempt in attempts(lambda: adopt(other, by=BY), lambda: check(other)):
        with pytest.raises(BucketOfAnotherInstallation, match="schema of its own"):
            attempt()
    check(place)


@pytest.mark.parametrize("environment", ["staging", None])
def test_another_environment_is_refused_also_with_a_reason(
    place: AdoptionTarget, environment: str | None
) -> None:
    adopt(place, by=BY)
    other = replace(place, environment=environment)
    for attempt in attempts(lambda: check(other), lambda: adopt(other, by=BY, again="really")):
        with pytest.raises(WrongEnvironment, match="'production'"):
            attempt()


def test_a_copy_of_the_database_is_refused_until_somebody_says_that_it_was_meant(
    place: AdoptionTarget, empty_database_url: str
) -> None:
    adopt(place, by=BY)
    migrate(empty_database_url)
    copy_of_database = Database(empty_database_url)
    with copy_of_database.connect("test") as connection:
        copied = replace(place, database=copy_of_database, connection=connection)
        with pytest.raises(WrongDatabase, match="belongs to the database"):
            check(copied)
        with pytest.raises(WrongDatabase):
            adopt(copied, by=BY)
        adopted = adopt(copied, by=BY, again="moved to the new server")
        assert adopted.marker.counter == 2
        (event,) = events(copied)
        assert event["kind"] == "bucket.adopted_again"
        assert event["reason"] == "moved to the new server"
        assert place.connection.info.dbname in event["database_before"]
    with pytest.raises(WrongDatabase):
        check(place)


def test_another_schema_of_the_same_database_is_another_database(place: AdoptionTarget) -> None:
    adopt(place, by=BY)
    migrate(place.database.url, "other")
    other = replace(place, database=Database(place.database.url, "other"))
    with pytest.raises(WrongDatabase, match="schema other"):
        check(other)


# The restored one


def test_a_database_behind_its_marker_was_restored_and_is_refused(place: AdoptionTarget) -> None:
    adopted = adopt(place, by=BY)
    for _ in range(3):
        adopted = raise_counter(place, adopted)
    assert (adopted.marker.counter, adopted.row.counter) == (4, 4)
    place.connection.execute("UPDATE bucket_adoption SET counter = 2")
    with pytest.raises(DatabaseRestored, match="counts 4 and the database counts 2"):
        check(place)
    with pytest.raises(DatabaseRestored):
        adopt(place, by=BY)
    again = adopt(place, by=BY, again="restored on purpose")
    assert (again.marker.counter, again.row.counter) == (5, 5)
    assert events(place)[-1]["counter_before"] == "4"


def test_a_database_from_before_the_adoption_is_refused_too(place: AdoptionTarget) -> None:
    adopt(place, by=BY)
    place.connection.execute("DELETE FROM bucket_adoption")
    with pytest.raises(DatabaseRestored, match="does not know of it"):
        check(place)


def test_a_restored_database_passes_where_nobody_counts_control(place: AdoptionTarget) -> None:
    """The system identifier stays the same in a restored copy of the files."""
    raise_counter(place, adopt(place, by=BY))
    place.connection.execute("UPDATE bucket_adoption SET counter = 1")
    found = inspect(place)
    assert found.marker is not None
    assert found.marker.database == found.identity


# The counter


def test_the_counter_is_committed_before_the_marker_is_written(
    place: AdoptionTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two: the database is ahead, and the next run goes on."""
    adopted = adopt(place, by=BY)

    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(adoption, "replace_marker", killed)
        with pytest.raises(KeyboardInterrupt):
            raise_counter(place, adopted)
    assert counter(place) == 2
    assert document(place)["counter"] == 1
    again = check(place)
    assert raise_counter(place, again).marker.counter == 3


def test_with_the_marker_first_a_kill_looks_like_a_restored_database_control(
    place: AdoptionTarget,
) -> None:
    adopt(place, by=BY)
    rewrite(place, counter=2)
    with pytest.raises(DatabaseRestored):
        check(place)


def test_whoever_writes_the_marker_meanwhile_stops_the_run(place: AdoptionTarget) -> None:
    adopted = adopt(place, by=BY)
    rewrite(place, adopted_by="somebody else")
    with pytest.raises(MarkerTaken, match="Nothing was deleted"):
        raise_counter(place, adopted)
    assert document(place)["adopted_by"] == "somebody else"


def disobedient(place: AdoptionTarget, bucket: S3Client) -> AdoptionTarget:
    """The same bucket behind a server that takes conditions and does not obey them."""

    def forget(request: Any, **_event: object) -> None:
        for name in ("If-Match", "If-None-Match"):
            del request.headers[name]

    bucket.meta.events.register("before-sign.s3.PutObject", forget)
    return replace(place, client=bucket)


def test_whoever_writes_the_marker_meanwhile_stops_the_run_on_a_server_without_conditions_too(
    place: AdoptionTarget, s3_server: EmbeddedS3
) -> None:
    own_client = make_client(BucketForTests(endpoint_url=s3_server.endpoint_url))
    careless = disobedient(place, own_client)
    adopted = adopt(careless, by=BY)
    rewrite(place, installation="globex", adopted_by="eve@globex")
    with pytest.raises(MarkerTaken, match="Nothing was deleted"):
        raise_counter(careless, adopted)
    assert document(place)["installation"] == "globex"


def test_such_a_server_overwrites_whatever_is_there_control(
    place: AdoptionTarget, s3_server: EmbeddedS3
) -> None:
    own_client = make_client(BucketForTests(endpoint_url=s3_server.endpoint_url))
    careless = disobedient(place, own_client)
    adopt(careless, by=BY)
    own_client.put_object(Bucket=place.bucket, Key=KEY, Body=b"{}", IfMatch='"another"')
    assert document(place) == {}


def test_a_run_that_counts_while_somebody_looks_is_no_restored_database(
    place: AdoptionTarget, s3_server: EmbeddedS3
) -> None:
    """Right before the marker is read, another run raises both sides."""
    adopted = adopt(place, by=BY)
    own_client = make_client(BucketForTests(endpoint_url=s3_server.endpoint_url))
    looking = replace(place, client=own_client)
    raised: list[Adopted] = []

    with place.database.connect("another run") as connection:
        other = replace(place, connection=connection)

        def count_once(**_event: object) -> None:
            if not raised:
                raised.append(raise_counter(other, adopted))

        own_client.meta.events.register("before-send.s3.GetObject", count_once)
        found = check(looking)
    assert (found.marker.counter, found.row.counter) == (2, 2)
    assert raised == [found]


def test_a_row_that_fell_back_meanwhile_stops_the_run(place: AdoptionTarget) -> None:
    adopted = raise_counter(place, adopt(place, by=BY))
    place.connection.execute("UPDATE bucket_adoption SET counter = 1")
    with pytest.raises(DatabaseRestored, match="fell below 2"):
        raise_counter(place, adopted)


def test_two_who_adopt_at_once_end_with_one_marker(
    place: AdoptionTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(client: S3Client, bucket: str, key: str, marker: Marker) -> None:
        other = replace(marker, installation="globex", adopted_by="eve@globex")
        write_new_marker(client, bucket, key, other)
        write_new_marker(client, bucket, key, marker)

    monkeypatch.setattr(adoption, "write_new_marker", late)
    with pytest.raises(WrongBucket, match="eve@globex"):
        adopt(place, by=BY)
    assert document(place)["installation"] == "globex"


# One place for all markers


def write_older(place: AdoptionTarget, key: str, **changes: Any) -> None:
    """A marker as an older version wrote it, without prefixes and timeline."""
    adopted = adopt(place, by=BY)
    said = json.loads(adopted.marker.text()) | {"format": 1, **changes}
    del said["owns"], said["timeline"]
    place.client.delete_object(Bucket=place.bucket, Key=KEY)
    place.client.put_object(Bucket=place.bucket, Key=key, Body=json.dumps(said).encode())


def of_globex(place: AdoptionTarget, owns: tuple[str, ...], url: str) -> AdoptionTarget:
    """A second installation on a database of its own."""
    database = Database(url)
    return replace(
        place, installation="globex", owns=owns, database=database,
        connection=database.connect("globex"), older_keys=("other.json", "filejobs-adopted.json"),
    )  # fmt: skip


def test_a_second_installation_finds_the_first_whatever_it_configures(
    place: AdoptionTarget, empty_database_url: str
) -> None:
    adopt(place, by=BY)
    migrate(empty_database_url)
    for owns in (("files/",), ("files/a/",), ("",)):
        second = of_globex(place, owns, empty_database_url)
        with second.connection:
            for attempt in attempts(
                partial(check, second),
                partial(adopt, second, by="eve", again="mine"),
            ):
                with pytest.raises(WrongBucket, match=r"'acme'.*owns 'files/' there"):
                    attempt()
    assert keys_of(place.client, place.bucket) == {KEY}


def test_two_installations_share_a_bucket_while_their_prefixes_are_apart(
    place: AdoptionTarget, empty_database_url: str
) -> None:
    adopt(place, by=BY)
    migrate(empty_database_url)
    second = of_globex(place, ("other/",), empty_database_url)
    with second.connection:
        adopt(second, by="eve")
        assert check(place).marker.installation == "acme"
        assert raise_counter(second, check(second)).marker.installation == "globex"
        # Each live run looks at the others: whoever grows into them is refused.
        grown = replace(second, owns=("files/new/", "other/"))
        with pytest.raises(WrongBucket, match="'acme'"):
            check(grown)


def test_settings_that_own_more_than_was_adopted_are_refused_until_they_are_adopted(
    place: AdoptionTarget,
) -> None:
    adopt(place, by=BY)
    grown = replace(place, owns=("files/", "more/"))
    with pytest.raises(PrefixesNotAdopted, match=r"own 'more/'.*filejobs bucket adopt$"):
        check(grown)
    assert adopt(grown, by=BY).marker.owns == ("files/", "more/")
    check(grown)
    check(place)


@pytest.mark.parametrize("key", ["filejobs-adopted.json", "other.json"])
def test_a_bucket_that_an_older_version_adopted_goes_on_and_moves_with_the_first_live_run(
    place: AdoptionTarget, key: str
) -> None:
    write_older(place, key)
    upgraded = replace(place, older_keys=("other.json", "filejobs-adopted.json"))
    moved = raise_counter(upgraded, check(upgraded))
    assert (moved.marker.key, moved.marker.counter, moved.marker.owns) == (KEY, 2, OWNS)
    # What is left of the old one counts no more, here and for others.
    assert check(place).marker.key == KEY


@pytest.mark.parametrize("key", ["other.json", "ops/other", "files/.other"])
def test_adopting_finds_an_older_marker_at_a_key_that_nothing_points_at(
    place: AdoptionTarget, key: str
) -> None:
    write_older(place, key, installation="globex")
    for other in ("files/a", "files/b.json", "ops/c.json"):
        place.client.put_object(Bucket=place.bucket, Key=other, Body=b'{"filejobs": 1}')
    with pytest.raises(WrongBucket, match=f"'globex'.*its marker is '{key}'"):
        adopt(place, by=BY)
    with pytest.raises(WrongBucket):
        adopt(place, by=BY, again="nothing overrides that")
    # CONTROL: by what the settings point at alone the bucket is nobody's.
    with pytest.raises(NotAdopted):
        check(place)


def test_an_older_marker_of_our_own_that_the_settings_forgot_still_counts(
    place: AdoptionTarget,
) -> None:
    write_older(place, "ops/other.json", counter=7)
    with pytest.raises(DatabaseRestored, match="counts 7"):
        adopt(place, by=BY)
    assert adopt(place, by=BY, again="restored, and looked through").marker.counter == 8


def test_how_far_an_adoption_has_looked_is_told(
    place: AdoptionTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        place.client.put_object(Bucket=place.bucket, Key=f"{number}/a/b/deep", Body=b"deep")
        place.client.put_object(Bucket=place.bucket, Key=f"{number}/small", Body=b"small")
    monkeypatch.setattr(marker, "MOST_READ", 2)
    searched = adopt(place, by=BY).searched
    assert searched is not None
    assert (searched.keys, searched.small, searched.complete) == ((), 3, False)
    assert "there are more than were looked at" in str(searched)
    monkeypatch.setattr(marker, "MOST_LISTED", 2)
    assert search_markers(place.client, place.bucket).small == 1
    assert adopt(place, by=BY).searched is None, "what is adopted is not searched again"


def test_an_older_marker_of_somebody_else_may_own_anything_until_it_moves(
    place: AdoptionTarget,
) -> None:
    write_older(place, "filejobs-adopted.json", installation="globex")
    place.connection.execute("DELETE FROM bucket_adoption")
    with pytest.raises(WrongBucket, match="owns the whole bucket there"):
        check(place)


def test_an_older_marker_tells_a_restored_database_too(place: AdoptionTarget) -> None:
    write_older(place, "filejobs-adopted.json", counter=7)
    with pytest.raises(DatabaseRestored, match="counts 7 and the database counts 1"):
        check(place)


@pytest.mark.parametrize(
    ("timeline", "counter", "refusal"),
    [(99, 1, LeftBehind), (99, 0, LeftBehind), (99, 5, LeftBehind), (1, 5, DatabaseRestored)],
)
def test_the_higher_timeline_has_the_bucket(
    place: AdoptionTarget, timeline: int, counter: int, refusal: type[AdoptionRefused]
) -> None:
    adopt(place, by=BY)
    rewrite(place, timeline=timeline, counter=counter)
    with pytest.raises(refusal):
        check(place)
    assert adopt(place, by=BY, again="the other one is gone").marker.timeline == 1


# A marker that says nothing


@pytest.mark.parametrize(
    "body",
    [
        b"not JSON",
        b"[]",
        b'{"format": 3}',
        b'{"installation": "acme"}',
        b'{"format": 1, "installation": 7, "environment": null, "database": {}, "counter": 1}',
        b"\xff\xfe",
        b" " * 70_000,
    ],
)
def test_an_object_that_is_no_marker_is_refused_and_left_alone(
    place: AdoptionTarget, body: bytes
) -> None:
    place.client.put_object(Bucket=place.bucket, Key=KEY, Body=body)
    for attempt in attempts(lambda: check(place), lambda: adopt(place, by=BY, again="please")):
        with pytest.raises(MarkerUnreadable, match="no marker that this version understands"):
            attempt()
    assert place.client.get_object(Bucket=place.bucket, Key=KEY)["Body"].read() == body


@pytest.mark.parametrize(
    "answer",
    [
        Answer(403, errors("AccessDenied")),
        Answer(404, errors("NoSuchBucket")),
        Answer(404, "<html>a proxy</html>"),
        Answer(503, errors("SlowDown")),
        Answer(500, ""),
        Answer(200, "<html>a login page</html>"),
    ],
)
def test_a_marker_that_cannot_be_read_is_never_taken_for_none(
    place: AdoptionTarget, scripted: ScriptedS3, scripted_client: S3Client, answer: Answer
) -> None:
    scripted.script = lambda _request: answer
    unreachable = replace(place, client=scripted_client, bucket="acme")
    for attempt in attempts(lambda: check(unreachable), lambda: adopt(unreachable, by=BY)):
        with pytest.raises(MarkerUnreadable):
            attempt()
    assert scripted.of("PUT") == []
    assert inspect(unreachable).unreadable is not None


def test_a_marker_that_may_not_be_written_leaves_the_bucket_unadopted(
    place: AdoptionTarget, scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda request: (
        listed() if request.method == "GET" else Answer(403, errors("AccessDenied"))
    )
    with pytest.raises(MarkerNotWritten, match=r"s3:PutObject.*ended half-way.*repeat"):
        adopt(replace(place, client=scripted_client, bucket="acme"), by=BY)


@dataclass
class Kept:
    body: str | None = None


def test_a_server_that_knows_no_conditions_gets_a_marker_all_the_same(
    place: AdoptionTarget, scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    kept = Kept()

    def script(request: Any) -> Answer:
        if "list-type=2" in request.path:
            return listed() if kept.body is None else listed(KEY)
        if request.method == "GET":
            return Answer(404, errors("NoSuchKey")) if kept.body is None else Answer(body=kept.body)
        if "if-none-match" in request.headers or "if-match" in request.headers:
            return Answer(501, errors("NotImplemented"))
        kept.body = request.body[request.body.index("{") : request.body.rindex("}") + 1] + "\n"
        return Answer()

    scripted.script = script
    there = replace(place, client=scripted_client, bucket="acme")
    adopted = adopt(there, by=BY)
    assert raise_counter(there, adopted).marker.counter == 2


def test_what_an_ignoring_server_overwrote_is_noticed_by_reading_it_back(
    place: AdoptionTarget, scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    adopt(place, by=BY)
    other = json.dumps(document(place) | {"installation": "globex"})
    asked: list[str] = []

    def script(request: Any) -> Answer:
        asked.append(request.method)
        if "list-type=2" in request.path:
            return listed(KEY) if "PUT" in asked else listed()
        if request.method == "GET":
            return Answer(body=other) if "PUT" in asked else Answer(404, errors("NoSuchKey"))
        return Answer()

    scripted.script = script
    with pytest.raises(WrongBucket, match="globex"):
        adopt(replace(place, client=scripted_client, bucket="acme"), by=BY)


# What is kept beside


def test_the_result_of_a_probe_is_kept_with_the_row(place: AdoptionTarget) -> None:
    adopt(place, by=BY)
    remember_probe(place, Probe(Abilities("ignored", bulk=False), "Ceph"))
    row = check(place).row
    assert (row.conditional_delete, row.probed_server) == ("ignored", "Ceph")
    assert row.abilities == Abilities("ignored", bulk=False)
    assert row.probed_at is not None
    raise_counter(place, check(place))
    assert check(place).row.conditional_delete == "ignored"


def test_without_a_row_the_result_of_a_probe_is_kept_nowhere(place: AdoptionTarget) -> None:
    remember_probe(place, Probe(Abilities("honoured"), ""))
    assert inspect(place).row is None


def test_every_refusal_is_one_kind(place: AdoptionTarget) -> None:
    with pytest.raises(AdoptionRefused):
        check(place)
    assert read_marker(place.client, place.bucket, KEY) is None
    with pytest.raises(psycopg.errors.CheckViolation):
        place.connection.execute(
            "INSERT INTO bucket_adoption (endpoint, bucket, installation, counter, adopted_by)"
            " VALUES ('a', 'b', 'c', -1, 'd')"
        )
