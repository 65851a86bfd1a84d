"""Nothing is deleted whose name stands elsewhere in the database; CONTROLs show what would go."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from filejobs_dagster.doctor.examination import check_elsewhere
from filejobs_dagster.jobs.storage_orphans import supply
from filejobs_dagster.jobs.storage_orphans import sweep as sweeping
from filejobs_dagster.jobs.storage_orphans.settings import BreakersSettings, ReportSettings
from filejobs_dagster.references.elsewhere import forms, search
from filejobs_dagster.references.elsewhere.columns import NO_RIGHT
from filejobs_dagster.references.elsewhere.search import OVER_BUDGET, Elsewhere
from filejobs_dagster.settings.storage import IgnoredColumn, NamedElsewhereSettings
from tests.jobs.storage_orphans.conftest import NEVER_TRIPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pytest

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.settings import BucketSettings
    from tests.jobs.storage_orphans.conftest import Sweeper


class Careless(Elsewhere):
    """Finds nothing."""

    def look_for(
        self, blocks: Iterator[list[bytes]], references: Iterator[Sequence[bytes]]
    ) -> dict[bytes, bytes]:
        del blocks, references
        return {}

    def search(self, keys: Sequence[bytes]) -> None:
        pass


def settle(sweep: Sweeper, monkeypatch: pytest.MonkeyPatch, **said: Any) -> None:
    """Give the bucket's settings a `named_elsewhere`."""
    kept = vars(type(sweep))["bucket"].fget

    def bucket(self: Sweeper) -> BucketSettings:
        told: BucketSettings = kept(self)
        # Unvalidated: a test has no second for a search that takes too long.
        return told.model_copy(
            update={"named_elsewhere": NamedElsewhereSettings.model_construct(None, **said)}
        )

    monkeypatch.setattr(type(sweep), "bucket", property(bucket))


TRIPS = NEVER_TRIPS.model_copy(update={"max_named_elsewhere_fraction": 0.1})

NAMED = {
    # rich text, percent-encoded
    "files/pasted 0.png": "public.post.body",
    # a table that is no source
    **{f"files/contract-{n}.pdf": "public.document.file" for n in range(3)},
    # forms that nobody folds
    "files/bom.png": "public.odd.text",
    "files/nbsp.png": "public.odd.text",
    "files/quoted.png": "public.odd.text",
    "files/back/slashes.png": "public.odd.text",
    "files/arn.png": "public.odd.text",
    "files/first-folder.png": "public.odd.text",
    "files/without-prefix.png": "public.odd.text",
    "files/in-array-a": "public.odd.text",
    "files/in-json.png": "public.odd.text",
    "files/in-a-list.png": "public.odd.text",
    # below a folder that a row names
    **{f"files/album7/{n}.png": "public.album.folder" for n in range(4)},
    # and below one that a row spells in its own way, leaves open, or plays
    "files/albums/Schäfer/1.png": "public.album.folder",
    "files/albums/2026/11/1.png": "public.album.folder",
    "files/videos/7/720p/1.ts": "public.album.folder",
    # a variant of what a row names by its own key, or by its name
    "files/variants/t/cat.jpg/100.webp": "public.album.folder",
    f"files/variants/5v6c0n9rk2fyp1t0qd8e4xj7wz3a/{'c4' * 32}": "public.blob.key",
}
DEAD = {f"files/dead-{n}.png" for n in range(5)} | {
    "files/album8/1.png",
    f"files/{'d1' * 32}",
    "files/albums/Schulze/1.png",
    "files/albums/2026/12/1.png",
    "files/videos/8/720p/1.ts",
    "files/variants/t/dog.jpg/100.webp",
}


def make_tables(sweep: Sweeper) -> None:
    for statement in (
        "CREATE TABLE post (body text)",
        """INSERT INTO post VALUES ('<img src="/media/files/pasted%200.png">'), ('album8')""",
        "CREATE TABLE document (file text)",
        "INSERT INTO document SELECT 'files/contract-' || n || '.pdf' FROM generate_series(0, 2) n",
        "CREATE TABLE album (folder text)",
        """INSERT INTO album VALUES ('files/album7/'), ('files/album8/2.png'),
        ('files/albums/Sch%E4fer/'), ('files/albums/2026/11/%d.png'),
        ('files/videos/7/play.m3u8'), ('t/cat.jpg')""",
        "CREATE TABLE blob (key text)",
        "INSERT INTO blob VALUES ('5v6c0n9rk2fyp1t0qd8e4xj7wz3a')",
        "CREATE TABLE odd (text text)",
        r"""INSERT INTO odd VALUES (E'\ufefffiles/bom.png'), (E'files/nbsp.png\u00a0'),
        ('"files/quoted.png"'), ('files\back\slashes.png'), ('arn:aws:s3:::b/files/arn.png'),
        ('media/first-folder.png'), ('without-prefix.png'), ('{files/in-array-a,files/zz}'),
        ('{"src": "files\/in-json.png"}'), ('x.png, files/in-a-list.png')""",
    ):
        sweep.installation.execute(statement)


def test_what_any_column_names_stays_with_its_column_and_the_rest_goes(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tables(sweep)
    sweep.put("files/used", *NAMED, *DEAD)
    sweep.refer("files/used")

    dry = sweep("dry")
    assert dry.ok, dry.error
    assert dry.detail["classes"]["named elsewhere"] == len(NAMED)
    assert set(sweep.candidates()) == DEAD
    shown = {row["column"]: row for row in dry.detail["named_elsewhere"]}
    assert {column: row["candidates"] for column, row in shown.items()} == {
        column: list(NAMED.values()).count(column) for column in NAMED.values()
    }
    assert shown["public.document.file"]["sample"].startswith("files/contract-")
    assert (
        shown["public.document.file"]["declare"]
        == "- {name: document_file, sql: 'select file from public.document'}"
    )
    assert "files/pasted 0.png: column public.post.body" in dry.detail["samples"]["named elsewhere"]

    live = sweep()
    assert live.ok, live.error
    assert sweep.installation.keys() >= {"files/used", *NAMED}
    assert not sweep.installation.keys() & DEAD

    # CONTROL: without the search, every one of them goes.
    monkeypatch.setattr(sweeping, "Elsewhere", Careless)
    assert sweep().ok
    assert sweep().acted == len(NAMED)
    assert not sweep.installation.keys() & NAMED.keys()


def test_a_column_that_the_settings_ignore_keeps_nothing_and_what_it_alone_names_is_said(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.installation.execute("CREATE TABLE post_history (body text, who text)")
    sweep.installation.execute("INSERT INTO post_history VALUES ('files/old.png', 'me')")
    settle(
        sweep,
        monkeypatch,
        ignore=[
            IgnoredColumn(column="*.post_history.body", reason="deleted posts"),
            IgnoredColumn(column="public.gone.*", reason="dropped"),
        ],
    )
    sweep.seen_before("files/old.png")
    outcome = sweep()
    assert (outcome.ok, outcome.acted) == (True, 1)
    assert outcome.detail["search"]["ignored_in_vain"] == ["public.gone.*"]
    (row,) = outcome.detail["only_ignored"]
    assert (row["column"], row["candidates"]) == ("public.post_history.body", 1)


def test_a_history_that_comes_to_name_many_files_alone_stops_the_run(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [f"files/of-an-order-{n:02d}.pdf" for n in range(12)]
    insert = "INSERT INTO order_history SELECT unnest(%s::text[])"
    sweep.installation.execute("CREATE TABLE order_history (file text)")
    sweep.installation.execute(insert, (files,))
    settle(
        sweep,
        monkeypatch,
        ignore=[IgnoredColumn(column="*.order_history.*", reason="orders that are done")],
    )
    sweep.seen_before(*files)

    stopped = sweep(breakers=TRIPS)

    assert "blocked by only_ignored" in str(stopped.error)
    assert "column public.order_history.file, which named_elsewhere.ignore leaves out, is" in str(
        stopped.error
    )
    assert set(files) <= sweep.installation.keys()

    # CONTROL: without the breaker they go.
    assert sweep(breakers=NEVER_TRIPS).acted == len(files)

    # What another column names as well is named elsewhere, and not here.
    sweep.put("files/of-a-new-order.pdf")
    sweep.installation.execute(insert, (["files/of-a-new-order.pdf"],))
    sweep.installation.execute("CREATE TABLE orders AS SELECT * FROM order_history")
    outcome = sweep("dry")
    assert outcome.detail["classes"]["named elsewhere"] == 1
    assert outcome.detail["only_ignored"] == []


def test_a_thumbnail_that_a_cache_names_stays_while_a_row_names_its_original(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.installation.execute("CREATE TABLE thumbnail (name text)")
    sweep.installation.execute(
        "INSERT INTO thumbnail VALUES ('t/kept.jpg.100.jpg'), ('t/gone.jpg.100.jpg')"
    )
    sweep.put("files/kept.jpg", "files/t/kept.jpg.100.jpg", "files/t/gone.jpg.100.jpg")
    sweep.refer("files/kept.jpg")
    assert sweep("dry").detail["classes"]["named elsewhere"] == 2
    assert not sweep.candidates(), "as it is, a cache keeps what it names"
    sweep.installation.document["buckets"]["uploads"]["rewrites"] = [
        {"name": "t", "match": r"files/t/(?P<path>.+)\.[0-9]+\.jpg", "owner": "files/{path}"}
    ]
    ignored = IgnoredColumn(column="public.thumbnail.name", reason="a cache")
    settle(sweep, monkeypatch, ignore=[ignored])
    assert sweep("dry").ok
    assert sweep.candidates().keys() == {"files/t/gone.jpg.100.jpg"}
    assert sweep().acted == 1
    assert sweep.installation.keys() >= {"files/kept.jpg", "files/t/kept.jpg.100.jpg"}
    # CONTROL: a cache that is ignored without saying what its names derive from loses the other.
    del sweep.installation.document["buckets"]["uploads"]["rewrites"]
    assert sweep().ok
    assert sweep().acted == 1
    assert not sweep.installation.has_object("files/t/kept.jpg.100.jpg")


def test_stems_that_a_source_declares_as_owners_are_never_missing_and_others_are_told_how(
    sweep: Sweeper,
) -> None:
    stems = [f"asset-{n}" for n in range(17)]
    derived = [f"files/{stems[n % 17]}_{n}.webp" for n in range(45)]
    sweep.installation.execute("CREATE TABLE asset (stem text)")
    sweep.installation.execute("INSERT INTO asset SELECT unnest(%s::text[])", (stems,))
    sweep.put(*derived, "files/used", "files/of-none_1.webp")
    sweep.refer("files/used")
    bucket = sweep.installation.document["buckets"]["uploads"]
    source = {"name": "stems", "sql": "select 'files/' || stem from asset"}
    bucket["rewrites"] = [
        {"name": "sizes", "match": r"files/(?P<stem>[^/]+)_[0-9]+\.webp", "owner": "files/{stem}"}
    ]
    bucket["sources"] = [source | {"names": "owners"}]
    outcome = sweep("dry", breakers=BreakersSettings())
    assert outcome.ok, outcome.error
    assert (outcome.detail["missing"], outcome.detail["classes"]["derived"]) == (0, 45)
    assert sweep.candidates().keys() == {"files/of-none_1.webp"}
    # CONTROL: undeclared they are references without an object, and it is said what they may be.
    bucket["sources"] = [source]
    undeclared = sweep("dry", breakers=BreakersSettings())
    assert undeclared.detail["missing"] == 17
    assert "write `names: owners` in it" in str(undeclared.error)
    assert "write `names: owners`" in " ".join(undeclared.detail["would_be_refused"])


def test_what_cannot_be_searched_keeps_every_orphan_until_the_settings_say_why_it_may(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.installation.execute("CREATE TABLE vault (sealed bytea, note text)")
    sweep.installation.execute("INSERT INTO vault VALUES ('\\x0102', 'x')")
    sweep.seen_before("files/dead.png")
    dry = sweep("dry")
    assert dry.ok, dry.error
    assert [row["column"] for row in dry.detail["unsearched"]] == ["public.vault.sealed"]
    assert dry.detail["would_collect"] == dry.detail["would_defer"] == 0
    assert "public.vault.sealed (it holds bytes" in dry.detail["would_be_refused"][0]
    assert "A live run would remove none of what is due (1 orphan)" in dry.detail["explained"]
    live = sweep()
    assert not live.ok
    assert "Not searched: public.vault.sealed (it holds bytes" in str(live.error)
    assert "{column: 'public.vault.sealed', reason: …}" in str(live.error)
    assert sweep.installation.keys() >= {"files/dead.png"}

    reason = "signatures"
    settle(sweep, monkeypatch, ignore=[IgnoredColumn(column="public.vault.sealed", reason=reason)])
    assert sweep().acted == 1


def test_neither_a_reviewed_list_nor_a_later_run_passes_over_a_right_or_a_time_that_is_missing(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for statement in (
        "CREATE TABLE payroll (note text)",
        "INSERT INTO payroll VALUES ('files/of payroll.png')",
        "CREATE ROLE sweeping_clerk",
        "GRANT USAGE ON SCHEMA public TO sweeping_clerk",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO sweeping_clerk",
        "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO sweeping_clerk",
        "GRANT ALL ON ALL FUNCTIONS IN SCHEMA public TO sweeping_clerk",
    ):
        sweep.installation.execute(statement)
    sweep.seen_before("files/dead.png")
    place = ReportSettings(folder=str(tmp_path / "lists"))
    reviewed = str(sweep("dry", report_to=place).detail["report"])

    def refused(column: str, why: str) -> None:
        requests: tuple[dict[str, Any], ...] = ({}, {"reviewed": reviewed})
        for request in requests:
            dry = sweep("dry", **request)
            assert dry.ok, dry.error
            assert dry.detail["would_collect"] == 0
            assert f"{column} ({why}" in dry.detail["would_be_refused"][0]
            live = sweep(**request)
            assert not live.ok
            assert f"Not searched: {column} ({why}" in str(live.error)
        assert sweep.installation.has_object("files/dead.png")

    settle(sweep, monkeypatch, max_time=timedelta(0))
    refused("public.payroll.*", OVER_BUDGET)
    settle(sweep, monkeypatch)
    as_owner = sweep.installation.database_url
    try:
        sweep.installation.execute("REVOKE SELECT ON payroll FROM sweeping_clerk")
        sweep.installation.database_url = f"{as_owner}&options=-crole%3Dsweeping_clerk"
        refused("public.payroll.note", NO_RIGHT)
        # CONTROL: the search alone would have let it go, and what payroll names with it.
        settle(sweep, monkeypatch, ignore=[IgnoredColumn(column="public.payroll.*", reason="x")])
        assert sweep(reviewed=reviewed).acted == 1
    finally:
        sweep.installation.database_url = as_owner
        sweep.installation.execute("DROP OWNED BY sweeping_clerk; DROP ROLE sweeping_clerk")


def test_a_column_that_names_many_stops_the_run_and_the_line_that_declares_it_is_said(
    sweep: Sweeper,
) -> None:
    forgotten = [f"files/forgotten-{n:02d}.png" for n in range(12)]
    sweep.put("files/used", *forgotten)
    sweep.refer("files/used")
    sweep.installation.execute("CREATE TABLE forgotten (path text)")
    sweep.installation.execute(
        "INSERT INTO forgotten SELECT replace(unnest(%s::text[]), 'files/', '')", (forgotten,)
    )
    outcome = sweep("dry", breakers=TRIPS)
    assert "A live run would be blocked by named_elsewhere" in str(outcome.error)
    assert "column public.forgotten.path, which is no source, names 12 of 12" in str(outcome.error)
    assert "sql: 'select path from public.forgotten', transforms: [{prepend: files/}]}" in str(
        outcome.error
    )


def test_of_too_many_candidates_those_outside_of_the_sample_are_looked_for_before_they_would_go(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(supply, "MOST_AT_ONCE", 2)
    keys = [f"files/object-{n}.png" for n in range(8)]
    named = {keys[1], keys[6]}
    sweep.put("files/used", *keys)
    sweep.refer("files/used")
    sweep.installation.execute("CREATE TABLE forgotten (path text)")
    sweep.installation.execute("INSERT INTO forgotten SELECT unnest(%s::text[])", (list(named),))
    first = sweep("dry")
    assert (first.detail["search"]["candidates"], first.detail["search"]["looked_for"]) == (8, 2)
    assert sweep.candidates().keys() & named
    live = sweep(batch_size=3)
    assert (live.ok, live.acted) == (True, 6)
    assert sweep.installation.keys() >= {"files/used", *named}
    # CONTROL: by the sample alone, they go.
    monkeypatch.setattr(Elsewhere, "search", Careless.search)
    assert sweep().acted == 2


def test_a_column_that_the_application_added_to_a_table_of_ours_names_objects(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.installation.execute("ALTER TABLE file ADD COLUMN preview_key text")
    sweep.seen_before("files/preview-of-a-contract.png")
    sweep.put("files/contract.pdf")
    sweep.installation.execute(
        "INSERT INTO file (state, storage_key, preview_key)"
        " VALUES ('ready', 'files/contract.pdf', 'files/preview-of-a-contract.png')"
    )
    outcome = sweep()
    assert (outcome.ok, outcome.acted) == (True, 0)
    assert outcome.detail["named_elsewhere"][0]["column"] == "public.file.preview_key"
    # CONTROL: without the search of it, the preview of a live file goes.
    monkeypatch.setattr(sweeping, "Elsewhere", Careless)
    assert sweep().ok
    assert sweep().acted == 1
    assert not sweep.installation.has_object("files/preview-of-a-contract.png")


def test_a_column_that_was_added_since_the_last_run_is_searched_by_the_next(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.installation.execute("CREATE TABLE post (body text)")
    sweep.installation.execute("INSERT INTO post VALUES ('nothing')")
    sweep.seen_before("files/cover of post 1.png")

    def doctor(outcome: Outcome) -> str:
        sweep.installation.execute(
            """INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, detail)
               VALUES (%s, 'test', 'storage_orphans', now(), 'ok', 'live', %s::jsonb)""",
            (str(uuid.uuid4()), json.dumps(outcome.detail)),
        )
        [finding] = check_elsewhere("uploads", sweep.bucket, sweep.installation.database)
        return finding.found

    last = r"; last searched \d{4}-\d\d-\d\d \d\d:\d\d UTC \(run [^ ]+\)"
    first = sweep("dry")
    assert re.search(f"{last}$", doctor(first))
    # By the same rules, and months later: the application has a new column, and names it there.
    sweep.installation.execute("ALTER TABLE post ADD COLUMN cover text")
    sweep.installation.execute("UPDATE post SET cover = 'cover%20of%20post%201.png'")
    assert re.search(f"{last}, when there were other columns", doctor(first))
    outcome = sweep()
    assert (outcome.ok, outcome.acted) == (True, 0)
    assert outcome.detail["named_elsewhere"][0]["column"] == "public.post.cover"
    assert re.search(f"{last}$", doctor(outcome))
    # CONTROL: who goes by what an earlier run has searched loses the cover.
    monkeypatch.setattr(sweeping, "Elsewhere", Careless)
    assert sweep().ok
    assert sweep().acted == 1


def test_a_tenant_s_number_keeps_no_leftover_and_a_photo_s_number_keeps_its_renditions(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, photo = (str(uuid.UUID(int=7919**9 * n)) for n in (1, 2))
    sweep.installation.execute("CREATE TABLE tenant (id uuid)")
    sweep.installation.execute("CREATE TABLE photo (id uuid)")
    sweep.installation.execute("INSERT INTO tenant VALUES (%s)", (tenant,))
    sweep.installation.execute("INSERT INTO photo VALUES (%s)", (photo,))
    files = [f"files/{tenant}/2026/0{n % 9}/{n}.pdf" for n in range(12)]
    left, original = f"files/{tenant}/2026/11/a.pdf", f"files/{photo}/original.jpg"
    rendition = f"files/{photo}/w400.webp"
    sweep.put(*files, left, original, rendition)
    sweep.refer(*files, original)
    # CONTROL: who does not look at what lies beside keeps the leftover for ever.
    with monkeypatch.context() as careless:
        careless.setattr(search, "folders_of_many", lambda *_: set())
        assert sweep("dry").detail["classes"]["named elsewhere"] == 2
        assert not sweep.candidates()
    assert sweep("dry").ok
    assert sweep.candidates().keys() == {left}
    live = sweep()
    assert (live.ok, live.acted) == (True, 1)
    assert sweep.installation.keys() >= {*files, original, rendition}
    # CONTROL: who lets no number of a folder name what lies below loses the rendition.
    monkeypatch.setattr(forms, "FEWEST_BESIDE", 1)
    monkeypatch.setattr(forms, "SHARE_BESIDE", 1)
    assert sweep().ok
    assert sweep().acted == 1
    assert not sweep.installation.has_object(rendition)
