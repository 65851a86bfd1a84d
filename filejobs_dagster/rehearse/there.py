"""The process in which the jobs run on the copy: dry, a day later live, then with rules left out.

`python -m filejobs_dagster.rehearse.there FOLDER` finds there what `taking` wrote. No socket of
this process reaches anything but its own store, and the database is a socket in a folder.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import os
import random
import re
import sys
import threading
import uuid
from array import array
from bisect import bisect_left, bisect_right
from collections import ChainMap, Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args
from urllib.parse import urlsplit

import psycopg
import yaml
from psycopg import sql
from psycopg.conninfo import make_conninfo

from filejobs_dagster.collector import Resources
from filejobs_dagster.door.adoption import AdoptionTarget, adopt
from filejobs_dagster.door.door import Door
from filejobs_dagster.embedded import EmbeddedS3
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.jobs.storage_orphans.classification.records import (
    AMBIGUOUS,
    NAMED_ELSEWHERE,
    UNKNOWN_SHAPE,
)
from filejobs_dagster.jobs.storage_orphans.settings import UNREHEARSED, Override
from filejobs_dagster.jobs.storage_orphans.statements import SET_BACK
from filejobs_dagster.ledger.outcome import Mode, Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.postgres.connect import Database, one
from filejobs_dagster.references.own_tables import OWN_TABLES
from filejobs_dagster.references.transforms import Rewrites, Transforms
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.rehearse.taking import COLUMNS_THERE, INSTALLATION, JOB, NAMED, URL
from filejobs_dagster.settings import Settings, SettingsError, load_settings
from filejobs_dagster.text import display_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Self

    from filejobs_dagster.jobs.run_history.settings import History
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import BucketSettings
    from filejobs_dagster.settings.storage import SourceSettings
    from filejobs_dagster.settings.tables import TableSettings

SAMPLE = 10
OLD = timedelta(days=400)
"""The age of what is planted: no min_age is longer."""

NEVER_TRIP = {
    "max_orphan_fraction": 1,
    "max_ambiguous_fraction": 1,
    "max_missing_fraction": 1,
    "max_named_elsewhere_fraction": 1,
    "max_newer": 1_000_000,
}
"""For canaries alone: in a small bucket they would be a large share."""

PLANTED = timedelta(days=4000)
"""So long ago, or ahead, is the time of a row that is planted: no delay of a job is longer."""

AT_ONCE = 10_000
"""So many names are read from the copy together."""

LONG_ENOUGH = 6
"""Characters of a name that are replaced in a canary's; fewer might meet another's name."""

_MODES: tuple[Mode, ...] = get_args(Mode)
_LOG = logging.getLogger("filejobs_dagster.rehearse")
_ALPHABETS = ("0123456789", "abcdef", "ABCDEF", "ghijklmnopqrstuvwxyz", "GHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True)
class Thing:
    """An object of the listing.

    Attributes:
        size: In bytes, as listed; the store keeps none of them.
        modified: When it was written.
    """

    size: int
    modified: datetime


class Listed(Mapping[str, Thing]):
    """Objects by key, in order: of a million, one takes little more than its key."""

    def __init__(self, rows: Iterable[tuple[str, int, int]]) -> None:
        """Take them in any order.

        Args:
            rows: Key, size in bytes, and when it was written, in milliseconds since 1970.
        """
        self.keys_in_order: list[str] = []
        self._sizes, self._times = array("q"), array("q")
        for key, size, modified in rows:
            self.keys_in_order.append(key)
            self._sizes.append(size)
            self._times.append(modified)
        order = sorted(range(len(self._sizes)), key=self.keys_in_order.__getitem__)
        self.keys_in_order.sort()
        self._sizes, self._times = (
            array("q", map(it.__getitem__, order)) for it in (self._sizes, self._times)
        )

    def __len__(self) -> int:
        """How many there are."""
        return len(self.keys_in_order)

    def __iter__(self) -> Iterator[str]:
        """The keys, in order."""
        return iter(self.keys_in_order)

    def __getitem__(self, key: str) -> Thing:
        """One of them."""
        place = bisect_left(self.keys_in_order, key)
        if self.keys_in_order[place : place + 1] != [key]:
            raise KeyError(key)
        at = datetime.fromtimestamp(self._times[place] / 1000, timezone.utc)
        return Thing(self._sizes[place], at)


@dataclass
class Trial:
    """Settings, a database and a bucket of one trial.

    Attributes:
        settings: That lead to both.
        things: What the bucket holds, before anything ran.
        requests: How many were sent to the store, by operation.
    """

    settings: Settings
    things: Mapping[str, Thing]
    requests: Counter[str] = field(default_factory=Counter)

    @property
    def bucket(self) -> BucketSettings:
        """The one bucket."""
        return self.settings.bucket_of(JOB)[1]

    @property
    def database(self) -> Database:
        """Where the copy's tables are."""
        return Database.of(self.settings.database)

    def run(self, mode: Mode, job: str = JOB) -> Outcome:
        """Run a job, as every door runs it."""
        client = make_client(self.bucket)
        with closing(client):
            if mode == "live":
                self._adopt(client)
            client.meta.events.register("before-send.s3", self._count)
            collector = BY_NAME[job]
            said = dict(self.settings.jobs[job])
            if "override" in collector.request.model_fields:
                said["override"] = Override(breakers=(UNREHEARSED,), reason="this is the rehearsal")
            request = collector.request.model_construct(**said)
            # The sweep never asks what Dagster keeps of runs.
            has = Resources(self.settings, client, cast("History", None))

            def body(run: RunContext) -> Outcome:
                return collector.run(run, request, has)

            identity = RunIdentity(
                run_id=str(uuid.uuid4()),
                installation=INSTALLATION,
                job=job,
                mode=mode,
                trigger=Trigger("cli"),
                holder="filejobs rehearse",
            )
            door = Door(collector, self.settings, client)
            return run_job(RunSpec(identity), self.database, body, _LOG, door=door)

    def a_day_later(self) -> None:
        """Set back what the first run marked, by as long as a live run waits for."""
        wait = self.settings.jobs[JOB].confirm_after  # type: ignore[attr-defined]
        with (
            closing(self.database.connect("a day later")) as connection,
            self.database.transaction(connection) as cursor,
        ):
            for statement in SET_BACK:
                cursor.execute(statement.encode(), {"by": wait + timedelta(hours=1)})

    def gone(self) -> set[str]:
        """What the bucket held and holds no more."""
        left = _store().buckets[self.bucket.bucket].keys
        return {key for key in self.things if key not in left}

    def _adopt(self, client: Any) -> None:
        database = self.database
        with closing(database.connect("adopt")) as connection:
            adopt(
                AdoptionTarget.of(self.settings, self.bucket, client, database, connection),
                by="filejobs rehearse",
            )

    def _count(self, event_name: str = "", **_: object) -> None:
        self.requests[event_name.rpartition(".")[2]] += 1


def _store() -> Any:
    from moto.core.models import DEFAULT_ACCOUNT_ID  # noqa: PLC0415 (of the extra)
    from moto.s3.models import s3_backends  # noqa: PLC0415

    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


class _Shared(io.BytesIO):
    """No bytes; an object that is deleted does not close what the others read."""

    def close(self) -> None:
        """Do nothing."""


def _kept_small(kind: Any, things: Mapping[str, Thing], like: Any) -> Any:
    """The store's own table of objects, in which those of the listing are made when asked for."""

    class Small(kind):  # type: ignore[misc]
        def __sgetitem__(self, key: str) -> list[Any]:
            found: list[Any] | None = super().__sgetitem__(key)
            if found is not None:
                return found
            # Not by a copy: the store keeps a list of all that is made in the usual way.
            thing, made = things[key], object.__new__(type(like))
            made.__dict__.update(like.__dict__)
            made.name = key
            made.last_modified = thing.modified.replace(tzinfo=None)
            made.contentsize = thing.size
            return [made]

    return Small(dict.fromkeys(things))


class Bucketful:
    """A bucket of the store, filled with objects that have nothing but key, size and time.

    The store itself makes each with parts of its own, and sorts all of them for every page that is
    listed: a million would take some gigabytes, and hours.
    """

    def __init__(self, name: str, things: Mapping[str, Thing]) -> None:
        """Make the bucket, with these objects."""
        self._store = store = _store()
        store.create_bucket(name, "us-east-1")
        like = store.put_object(name, "like", b"")
        like._etag = like.etag  # noqa: SLF001 (the store has no door for this)
        like._value_buffer = _Shared()  # noqa: SLF001
        bucket = store.buckets[name]
        bucket.keys = self._keys = _kept_small(type(bucket.keys), things, like)
        self._sorted = sorted(things)
        self._lists, self._puts = store.list_objects_v2, store.put_object
        self._name = name

    def __enter__(self) -> Self:
        """Let pages of this bucket be found instead of sorted."""
        self._store.list_objects_v2, self._store.put_object = self._list, self._put
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the store as it was, without the bucket."""
        self._store.list_objects_v2, self._store.put_object = self._lists, self._puts
        self._keys.clear()
        self._store.delete_bucket(self._name)

    def _put(self, bucket_name: str, key_name: str, *said: Any, **more: Any) -> Any:
        made = self._puts(bucket_name, key_name, *said, **more)
        if bucket_name == self._name:
            place = bisect_left(self._sorted, key_name)
            if self._sorted[place : place + 1] != [key_name]:
                self._sorted.insert(place, key_name)
        return made

    def _list(
        self,
        bucket: Any,
        prefix: str | None,
        delimiter: str | None,
        continuation_token: str | None,
        start_after: str | None,
        max_keys: int,
    ) -> Any:
        if bucket.name != self._name or delimiter:
            return self._lists(bucket, prefix, delimiter, continuation_token, start_after, max_keys)
        after = start_after
        if continuation_token:
            after = self._store._pagination_tokens.get(continuation_token)  # noqa: SLF001
        place = bisect_left(self._sorted, prefix or "")
        if after:
            place = max(place, bisect_right(self._sorted, after))
        found: list[Any] = []
        while place < len(self._sorted) and len(found) <= max_keys:
            key = self._sorted[place]
            if prefix and not key.startswith(prefix):
                break
            if key in self._keys:
                found.append(self._keys[key])
            place += 1
        return self._store._truncate_result(found, max_keys)  # noqa: SLF001


class Rehearsal:
    """All trials over one copy."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self._folder = folder
        self._endpoint = endpoint
        self._document: dict[str, Any] = yaml.safe_load((folder / "filejobs.yaml").read_text())
        with (folder / "listing.jsonl").open() as lines:
            self._objects = Listed(map(json.loads, lines))
        self._tables: dict[str, list[str]] = json.loads((folder / "tables.json").read_text())
        self._random = random.Random(0)  # noqa: S311 (names, no secrets)
        self._trials = 0
        self._filled = ExitStack()
        self._server = os.environ[f"{URL}_0"]

    def __enter__(self) -> Self:
        """Begin without a bucket."""
        return self

    def __exit__(self, *_: object) -> None:
        """Empty the store."""
        self._filled.close()

    # The trials ---------------------------------------------------------------------------------

    def trial(self, document: Mapping[str, Any], more: Mapping[str, Thing] | None = None) -> Trial:
        """A fresh copy of the copy, under settings that may lack a rule.

        Raises:
            SettingsError: They are no settings without it.
        """
        self._trials += 1
        name = f"rehearsal-{self._trials}"
        said = copy.deepcopy(dict(document))
        (entry,) = said["buckets"].values()
        entry |= {"bucket": name, "endpoint_url": self._endpoint}
        path = self._folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(said, sort_keys=False))
        url = make_conninfo(self._server, dbname=name)
        settings = load_settings(path, {**os.environ, f"{URL}_0": url})
        with psycopg.connect(make_conninfo(self._server, dbname="postgres")) as connection:
            connection.autocommit = True
            # One at a time: each is as large as the copy, and a bucket is kept in memory.
            before = f"rehearsal-{self._trials - 1}"
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(before))
            )
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                    sql.Identifier(name), sql.Identifier("rehearsal_0")
                )
            )
        self._filled.close()
        things = ChainMap(dict(more or {}), cast("dict[str, Thing]", self._objects))
        self._filled.enter_context(Bucketful(name, things))
        return Trial(settings, things)

    def play(self) -> dict[str, Any]:
        """The job as it is: dry, a day later, live."""
        trial = self.trial(self._document)
        runs: list[tuple[Mode, Outcome]] = []
        for mode in _MODES:
            if runs:
                trial.a_day_later()
                trial.requests.clear()
            runs.append((mode, trial.run(mode)))
        gone = sorted(trial.gone())
        detail = runs[-1][1].detail if runs[-1][1].ok else runs[0][1].detail
        return {
            "runs": [_as_run(mode, it) for mode, it in runs],
            "gone": {
                "objects": len(gone),
                "bytes": sum(self._objects[key].size for key in gone),
                "by_age": self._by_age(gone),
                "sample": [display_key(key)
                           for key in self._random.sample(gone, min(SAMPLE, len(gone)))],
            },
            "by_prefix": detail.get("by_prefix", []),
            "by_age": detail.get("by_age", []),
            "requests": dict(trial.requests),
            "references": detail.get("references", 0),
        }  # fmt: skip

    # The other jobs ----------------------------------------------------------------------------

    def others(self, say: Callable[[str], None]) -> list[dict[str, Any]]:
        """Each other job that takes rows and bytes, by itself on a fresh copy: dry, then live."""
        sections = json.loads((self._folder / "others.json").read_text())
        return [self._other(name, section, say) for name, section in sections.items()]

    def _other(
        self, job: str, section: Mapping[str, Any], say: Callable[[str], None]
    ) -> dict[str, Any]:
        say(f"the job {job}: dry, live")
        document = copy.deepcopy(self._document)
        document["jobs"][job] = dict(section)
        pairs, unplanted = self._pairs(job, section, document)
        now = datetime.now(timezone.utc)
        keys = [key for pair in pairs for key in (pair.due, pair.young)]
        trial = self.trial(document, {key: Thing(1, now - OLD) for key in keys})
        planted = []
        for pair in pairs:
            why = pair.plant(trial.database)
            if why:
                unplanted.append(f"{pair.what}: {why}")
            else:
                planted.append(pair)
        before = self._count_rows(trial.database)
        outcomes = [trial.run("dry", job)]
        trial.requests.clear()
        outcomes.append(trial.run("live", job))
        after = self._count_rows(trial.database)
        gone = trial.gone()
        mine = gone & self._objects.keys()
        error = outcomes[-1].error
        left = Counter(pair.counted for pair in planted if pair.due in gone)
        return {
            "job": job,
            "runs": [_as_run(mode, it) for mode, it in zip(_MODES, outcomes, strict=True)],
            "objects": len(mine),
            "bytes": sum(self._objects[key].size for key in mine),
            "rows": {
                table: n - after[table] - left[table]
                for table, n in before.items()
                if n != after[table]
            },
            "sample": [display_key(key) for key in sorted(mine)[:SAMPLE]],
            "requests": dict(trial.requests),
            "canaries": [
                it
                for pair in planted
                for it in (
                    _canary(f"row of {pair.what} that is due", pair.due, "goes",
                            held=pair.due in gone, error=error),
                    _canary(f"row of {pair.what} that is not", pair.young, "stays",
                            held=pair.young not in gone and pair.is_there(trial.database),
                            error=None),
                )
            ],
            "unplanted": unplanted,
        }  # fmt: skip

    def _pairs(
        self, job: str, section: Mapping[str, Any], document: Mapping[str, Any]
    ) -> tuple[list[_Pair], list[str]]:
        """What is to be planted for a job, and of which of its rows nothing can be, and why."""
        settings = load_settings(self._write("planted", document))
        (bucket,) = settings.buckets.values()
        database = Database.of(settings.database)
        found: list[_Pair] = []
        lacking = []
        if section.get("source"):
            name = section["source"]["name"]
            lacking.append(f"{name}: its rows come from a query of your own, not from one table")
        tables = list(settings.jobs[job].declared())
        if not tables and not section.get("source"):
            due, young = (f"{self._anywhere()}rehearsal-{uuid.uuid4().hex}" for _ in range(2))
            found.append(_OwnPair(job, due, young, f"{database.schema}.file"))
        for table in tables:
            try:
                found.append(self._of_table(database, bucket, table))
            except NotPlanted as why:
                lacking.append(f"{table.name}: {why}")
        return found, lacking

    def _of_table(
        self, database: Database, bucket: BucketSettings, table: TableSettings
    ) -> _TablePair:
        """Two rows like one that is there, each with a file of its own: one due, one not.

        Raises:
            NotPlanted: None is there, or its key cannot be made another.
        """
        name = sql.Identifier(*table.table.replace('"', "").split("."))
        conditions = [f"({it})" for it in (table.where, table.in_bucket) if it is not None]
        like = sql.SQL(
            "SELECT to_jsonb({row}) FROM {table} WHERE {key}::text <> '' AND {those} LIMIT 1"
        ).format(
            row=sql.Identifier(table.table.replace('"', "").rpartition(".")[2]),
            table=name,
            key=sql.Identifier(table.key),
            those=sql.SQL(" AND ".join(conditions) or "true"),
        )
        with closing(database.connect("plant")) as connection:
            row = connection.execute(like).fetchone()
            if row is None:
                raise NotPlanted("no row that may go by its conditions is there to be copied")
            whole = connection.execute(NAMED.encode(), (name.as_string(connection),)).fetchone()
        text = str(row[0][table.key])
        apply = Transforms.of(table.transforms).apply
        texts, keys = [], []
        for _ in range(2):
            begin = text.rfind("/") + 1
            made = self._renamed(text, begin, len(text))
            texts.append(made or f"{text[:begin]}rehearsal-{uuid.uuid4().hex}")
            key = apply(texts[-1].encode("utf-8", "surrogateescape")) or b""
            keys.append(key.decode("utf-8", "surrogateescape"))
            if not keys[-1].startswith(bucket.owned_prefixes) or _is_protected(keys[-1], bucket):
                raise NotPlanted("its rows name objects outside of what is owned, or protected")
        counted = "" if table.set or whole is None else ".".join(whole)
        due, young = keys
        return _TablePair(table.name, due, young, counted, table, name, row[0], tuple(texts))

    def _anywhere(self) -> str:
        """A prefix that is owned, and that nothing protects."""
        entry = next(iter(self._document["buckets"]))
        bucket = load_settings(self._write("anywhere", self._document)).buckets[entry]
        return next(iter(bucket.owned_prefixes), "")

    def _count_rows(self, database: Database) -> dict[str, int]:
        found = {}
        with closing(database.connect("count")) as connection:
            for table in self._tables:
                name = sql.Identifier(*table.split(".", 1))
                row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(name)).fetchone()
                found[table] = int(row[0]) if row else 0
        return found

    def _by_age(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        now = datetime.now(timezone.utc)
        ages = (("under a month", 30), ("under a year", 365), ("older", 10**6))
        found = {name: [0, 0] for name, _ in ages}
        for key in keys:
            days = (now - self._objects[key].modified).days
            name = next(name for name, limit in ages if days < limit)
            found[name][0] += 1
            found[name][1] += self._objects[key].size
        return [{"age": name, "objects": n, "bytes": size} for name, (n, size) in found.items()]

    # Mutations ----------------------------------------------------------------------------------

    def mutations(self, only: Sequence[str], say: Callable[[str], None]) -> list[dict[str, Any]]:
        """Leave out each rule in turn, or only these; what nothing stopped stands first."""
        base = self._exact_orphans(self._document)
        found = []
        for kind, name, document in _without_each(self._document):
            if only and name not in only:
                continue
            say(f"without the {kind} {name}")
            found.append({"kind": kind, "name": name, **self._mutation(document, base)})
        return sorted(found, key=lambda it: (-it["gone"], -(it["would_have_gone"] or 0)))

    def _mutation(self, document: Mapping[str, Any], base: set[str]) -> dict[str, Any]:
        try:
            more = self._exact_orphans(document) - base
        except SettingsError as error:
            # Nobody can run it, so nobody knows what it would take.
            return _mutated(None, (), (), f"the settings are refused: {_first(str(error))}")
        if not more:
            return _mutated(0, (), (), "nothing depends on it alone")
        trial = self.trial(document)
        errors = []
        outcomes: list[Outcome] = []
        for mode in _MODES:
            if outcomes:
                trial.a_day_later()
            outcomes.append(trial.run(mode))
            if outcomes[-1].error is not None:
                errors.append(outcomes[-1].error)
        lost = trial.gone() & more
        if errors:
            stopped = errors[-1]
        else:
            stopped = ", ".join(
                f"{row['objects']} {row['class']}"
                for row in _classes(outcomes[0].detail)
                if row["class"] in {AMBIGUOUS, NAMED_ELSEWHERE, UNKNOWN_SHAPE}
            )
            stopped = f"kept: {stopped}" if stopped else ""
        return _mutated(len(more), sorted(more), lost, "" if lost == more else stopped)

    def _exact_orphans(self, document: Mapping[str, Any]) -> set[str]:
        """What goes when exact names alone count, and no guard looks.

        Raises:
            SettingsError: These are no settings.
        """
        said = copy.deepcopy(dict(document))
        path = self._folder / "exact.yaml"
        path.write_text(yaml.safe_dump(said, sort_keys=False))
        settings = load_settings(path)
        _, bucket = settings.bucket_of(JOB)
        named: set[bytes] = set()
        database = Database.of(settings.database)
        for table in OWN_TABLES:
            named.update(_values(database, table.keys(database.schema)))
        for source in bucket.sources:
            named.update(key for _, key in _keys_of(database, source))
        rewrites = Rewrites(bucket.rewrites)
        youngest = datetime.now(timezone.utc) - bucket.min_age
        shapes = [re.compile(it, re.DOTALL) for it in map(str, bucket.shape)]
        found = set()
        for key, thing in self._objects.items():
            exact = key.encode("utf-8", "surrogateescape")
            if (
                thing.modified < youngest
                and exact not in named
                and not _is_protected(key, bucket)
                and (not shapes or any(shape.fullmatch(key) for shape in shapes))
                and not any(owner in named for owner in rewrites.owners(exact))
            ):
                found.add(key)
        return found

    # Canaries -----------------------------------------------------------------------------------

    def canaries(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Plant what must go and what must stay, run, and look.

        Returns:
            How each fared, and for which rules none could be made.
        """
        document = copy.deepcopy(self._document)
        document["jobs"][JOB]["breakers"] = {
            **document["jobs"][JOB].get("breakers", {}), **NEVER_TRIP,
        }  # fmt: skip
        settings = load_settings(self._write("canaries", document))
        _, bucket = settings.bucket_of(JOB)
        must_go = dict(self._orphans(bucket))
        database = Database.of(settings.database)
        live: list[tuple[str, str, bool]] = []
        planted: dict[str, Callable[[Database], bool]] = {}
        for source in bucket.sources:
            if source.database is not None:
                continue
            live.extend(self._live(database, source, planted))
        now = datetime.now(timezone.utc)
        new = [*must_go.values(), *(key for _, key, is_new in live if is_new)]
        trial = self.trial(document, {key: Thing(1, now - OLD) for key in new})
        for plant in planted.values():
            plant(trial.database)
        outcomes = [trial.run("dry")]
        trial.a_day_later()
        outcomes.append(trial.run("live"))
        gone = trial.gone()
        error = next((it.error for it in outcomes if it.error is not None), None)
        wanted = [
            *(_below(prefix) for prefix in bucket.owned_prefixes),
            *(_by(rewrite.name) for rewrite in bucket.rewrites),
            *(source.name for source in bucket.sources),
        ]
        done = {*must_go, *(source for source, *_ in live)}
        return [
            *(_canary(f"orphan {what}", key, "goes", held=key in gone, error=error)
              for what, key in must_go.items()),
            *(_canary(f"live file of {source}" + ("" if is_new else " (one that is there)"),
                      key, "stays", held=key not in gone, error=None)
              for source, key, is_new in live),
        ], [it for it in wanted if it not in done]  # fmt: skip

    def _write(self, name: str, document: Mapping[str, Any]) -> Path:
        path = self._folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(dict(document), sort_keys=False))
        return path

    def _orphans(self, bucket: BucketSettings) -> Iterator[tuple[str, str]]:
        """One for each prefix, and one derived from nothing for each rewrite."""
        rewrites = Rewrites(bucket.rewrites)
        for prefix in bucket.owned_prefixes:
            for key in self._objects:
                if key.startswith(prefix) and not _is_protected(key, bucket):
                    made = self._renamed(key, key.rfind("/") + 1, len(key))
                    if made and not rewrites.owners(made.encode("utf-8", "surrogateescape")):
                        yield _below(prefix), made
                        break
        for rewrite in bucket.rewrites:
            pattern = re.compile(str(rewrite.match), re.DOTALL)
            for key in self._objects:
                match = pattern.fullmatch(key)
                made = None if match is None else self._derived(key, match, pattern)
                if made is not None and not _is_protected(key, bucket):
                    yield _by(rewrite.name), made
                    break

    def _derived(self, key: str, match: re.Match[str], pattern: re.Pattern[str]) -> str | None:
        for group in pattern.groupindex:
            made = self._renamed(key, *match.span(group))
            again = None if made is None else pattern.fullmatch(made)
            if again is not None and again[group] != match[group]:
                return made
        return None

    def _renamed(self, text: str, begin: int, end: int) -> str | None:
        """The text with its longest name between the two replaced by one of the same kind."""
        runs = list(re.compile(r"[0-9A-Za-z]+").finditer(text, begin, end))
        # What follows the last point says what the bytes are, not whose they are.
        runs = [it for it in runs if len(it[0]) >= LONG_ENOUGH]
        if not runs:
            return None
        # A number or a hexadecimal one comes before a word, which may be part of the rule.
        best = max(runs, key=lambda it: (any(map(str.isdigit, it[0])), len(it[0])))
        made = "".join(self._like(one) for one in best[0])
        return text[: best.start()] + made + text[best.end() :]

    def _like(self, one: str) -> str:
        for alphabet in _ALPHABETS:
            if one in alphabet:
                return self._random.choice(alphabet)
        return one

    def _live(
        self,
        database: Database,
        source: SourceSettings,
        planted: dict[str, Callable[[Database], bool]],
    ) -> Iterator[tuple[str, str, bool]]:
        """A live file of a source: a row that is copied under another name, else one of its own."""
        there = list(
            islice(
                (
                    (value, key.decode("utf-8", "surrogateescape"))
                    for value, key in _keys_of(database, source)
                    if key.decode("utf-8", "surrogateescape") in self._objects
                ),
                SAMPLE,
            )
        )
        for value, _ in there:
            text = value.decode("utf-8", "surrogateescape")
            new = self._renamed(text, text.rfind("/") + 1, len(text))
            if new is None:
                continue
            key = Transforms.of(source.transforms).apply(new.encode("utf-8", "surrogateescape"))
            for table, column in self._holding(database, text):
                plant = _Row(table, self._tables[table], column, text, new, source)
                if plant(database, keep=False):
                    planted[source.name] = plant
                    yield source.name, key.decode("utf-8", "surrogateescape"), True
                    return
        if there:
            yield source.name, there[0][1], False

    def _holding(self, database: Database, text: str) -> Iterator[tuple[str, str]]:
        """Where that stands, by table and column."""
        with closing(database.connect("plant")) as connection:
            for table, columns in self._tables.items():
                there = sql.SQL(", ").join(
                    sql.SQL("bool_or({}::text = {})").format(sql.Identifier(it), sql.Literal(text))
                    for it in columns
                )
                name = sql.Identifier(*table.split(".", 1))
                row = connection.execute(
                    sql.SQL("SELECT {} FROM {}").format(there, name)
                ).fetchone()
                yield from (
                    (table, column)
                    for column, holds in zip(columns, row or (), strict=True)
                    if holds
                )


_UNIQUE = """
SELECT format('ALTER TABLE %%s DROP CONSTRAINT %%I CASCADE', conrelid::regclass, conname)
  FROM pg_constraint
 WHERE conrelid = to_regclass(%(table)s) AND contype IN ('p', 'u') AND conparentid = 0
UNION ALL
SELECT format('DROP INDEX %%s', indexrelid::regclass)
  FROM pg_index
 WHERE indrelid = to_regclass(%(table)s) AND indisunique
   AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
"""


@dataclass(frozen=True)
class _Row:
    """A row that names a live file: one that is there, with another name."""

    table: str
    columns: list[str]
    column: str
    old: str
    new: str
    source: SourceSettings

    def __call__(self, database: Database, *, keep: bool = True) -> bool:
        """Insert it, and say whether the source returns its name."""
        column = sql.Identifier(self.column)
        statement = sql.SQL(
            "INSERT INTO {table} ({all}) SELECT {values} FROM {table} WHERE {column} = {old}::text"
            " LIMIT 1"
        ).format(
            table=sql.Identifier(*self.table.split(".", 1)),
            all=sql.SQL(", ").join(map(sql.Identifier, self.columns)),
            values=sql.SQL(", ").join(
                sql.Literal(self.new) if it == self.column else sql.Identifier(it)
                for it in self.columns
            ),
            column=column,
            old=sql.Literal(self.old),
        )
        with closing(database.connect("plant")) as connection:
            try:
                with connection.transaction() as transaction, connection.cursor() as cursor:
                    # It has all of another row but the name; this copy of the copy is its own.
                    table = sql.Identifier(*self.table.split(".", 1)).as_string(cursor)
                    for (drop,) in cursor.execute(_UNIQUE.encode(), {"table": table}).fetchall():
                        cursor.execute(drop.encode())
                    cursor.execute(statement)
                    found = cursor.rowcount == 1 and self.new.encode() in {
                        _as_bytes(value) for (value,) in cursor.execute(self.source.sql.encode())
                    }
                    if not (found and keep):
                        raise psycopg.Rollback(transaction)
            except psycopg.Error:
                # A column of another type, or one that is made of others.
                return False
        return found


class NotPlanted(Exception):
    """Nothing can be planted in a table; the message says why."""


@dataclass(frozen=True)
class _Pair:
    """Two rows: one that a job must take, with its file, and one that it must not.

    Attributes:
        what: Whose they are.
        due: The key of the first.
        young: The key of the second.
        counted: The table whose rows it makes fewer, with its schema; empty where none goes.
    """

    what: str
    due: str
    young: str
    counted: str

    def plant(self, database: Database) -> str:
        """Insert both; why not, or nothing."""
        try:
            with (
                closing(database.connect("plant")) as connection,
                database.transaction(connection) as cursor,
            ):
                self._insert(cursor)
        except psycopg.Error as error:
            return f"a copy of a row is refused: {error.diag.message_primary or error}"
        return ""

    def _insert(self, cursor: psycopg.Cursor[Any]) -> None:
        raise NotImplementedError

    def is_there(self, database: Database) -> bool:
        """Whether the row that is not due is still there."""
        raise NotImplementedError


# What is due, and what is not, in the project's own table: by the job that takes it.
_FILES = {
    "upload_reservations": """
        INSERT INTO file (state, storage_key, upload_expires_at)
        VALUES ('pending', %(due)s, now() - interval '400 days'),
               ('pending', %(young)s, now() + interval '1 day')
    """,
    "deleted_files": """
        INSERT INTO file (state, storage_key, deleted_at)
        VALUES ('deleted', %(due)s, now() - interval '4000 days'), ('deleted', %(young)s, now())
    """,
}


@dataclass(frozen=True)
class _OwnPair(_Pair):
    """In the project's own table."""

    def _insert(self, cursor: psycopg.Cursor[Any]) -> None:
        cursor.execute(_FILES[self.what].encode(), {"due": self.due, "young": self.young})

    def is_there(self, database: Database) -> bool:
        """Whether the row that is not due is still there."""
        return self.young.encode() in _values(database, "SELECT storage_key FROM file")


# Columns of a unique index, with their types; what a foreign key has must stay as it is.
_UNIQUE_COLUMNS = """
SELECT DISTINCT a.attname::text, format_type(a.atttypid, NULL)
  FROM pg_index AS i
  JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
 WHERE i.indrelid = to_regclass(%(table)s) AND i.indisunique
   AND NOT EXISTS (SELECT FROM pg_constraint AS c
                    WHERE c.conrelid = i.indrelid AND c.contype = 'f' AND a.attnum = ANY(c.conkey))
"""


@dataclass(frozen=True)
class _TablePair(_Pair):
    """In a table of the operator's."""

    table: TableSettings
    name: sql.Identifier
    like: Mapping[str, Any]
    texts: tuple[str, ...]

    def _insert(self, cursor: psycopg.Cursor[Any]) -> None:
        named = {"table": self.name.as_string(cursor)}
        unique = cursor.execute(_UNIQUE_COLUMNS.encode(), named).fetchall()
        cursor.execute(COLUMNS_THERE.encode(), (named["table"],))
        columns = [column for (column,) in cursor.fetchall()]
        now = datetime.now(timezone.utc)
        for text, at in zip(self.texts, (now - PLANTED, now + PLANTED), strict=True):
            row = dict(self.like)
            for column, kind in unique:
                row[column] = self._other(cursor, column, kind)
            row |= {self.table.key: text, self.table.due: self._due(at)}
            cursor.execute(
                sql.SQL(
                    "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} "
                    "FROM jsonb_populate_record(NULL::{table}, %s::jsonb)"
                ).format(table=self.name, columns=sql.SQL(", ").join(map(sql.Identifier, columns))),
                (json.dumps(row),),
            )

    def _other(self, cursor: psycopg.Cursor[Any], column: str, kind: str) -> Any:
        """A value that no row has."""
        if kind == "uuid":
            return str(uuid.uuid4())
        if kind in ("smallint", "integer", "bigint", "numeric"):
            cursor.execute(
                sql.SQL("SELECT max({}) + 1 FROM {}").format(sql.Identifier(column), self.name)
            )
            return int(one(cursor)[0])
        if kind.startswith(("character", "text")):
            return uuid.uuid4().hex
        return self.like[column]

    def _due(self, at: datetime) -> Any:
        form = self.table.due_as
        if form.startswith("epoch_"):
            each = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6}
            return int(at.timestamp() * each[form.removeprefix("epoch_")])
        if form == "uuid_v7":
            rest = uuid.uuid4().int & (2**76 - 1) & ~(0b11 << 62) | (0b10 << 62)
            return str(uuid.UUID(int=int(at.timestamp() * 1000) << 80 | 0x7 << 76 | rest))
        return at.isoformat()

    def is_there(self, database: Database) -> bool:
        """Whether the row that is not due is still there."""
        statement = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {}::text = {})").format(
            self.name, sql.Identifier(self.table.key), sql.Literal(self.texts[1])
        )
        with closing(database.connect("look")) as connection:
            return bool(one(connection.execute(statement))[0])


def _as_run(mode: Mode, outcome: Outcome) -> dict[str, Any]:
    return {
        "mode": mode, "ok": outcome.ok, "error": outcome.error, "scanned": outcome.scanned,
        "acted": outcome.acted,
    }  # fmt: skip


def _below(prefix: str) -> str:
    return f"below {prefix or 'the whole bucket'}"


def _by(rewrite: str) -> str:
    return f"by the rewrite {rewrite}"


def _canary(what: str, key: str, expected: str, *, held: bool, error: str | None) -> dict[str, Any]:
    shown = display_key(key)
    why = "" if held else _first(error or "it was not so; see what the job keeps, and why")
    return {"what": what, "key": shown, "expected": expected, "held": held, "why": why}


def _mutated(
    would: int | None, sample: Sequence[str], lost: Sequence[str] | set[str], stopped: str
) -> dict[str, Any]:
    return {
        "would_have_gone": would,
        "gone": len(lost),
        "stopped_by": stopped,
        "sample": [display_key(it) for it in sample[:SAMPLE]],
    }


def _without_each(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The settings without each source, each transform, each rewrite and each protection."""
    (entry,) = document["buckets"]
    said = document["buckets"][entry]

    def without(*path: str | int) -> dict[str, Any]:
        made = copy.deepcopy(dict(document))
        part = made["buckets"][entry]
        for step in path[:-1]:
            part = part[step]
        del part[path[-1]]
        return made

    for number, source in enumerate(said.get("sources", [])):
        yield "source", source["name"], without("sources", number)
        for place, step in enumerate(source.get("transforms", [])):
            (kind,) = step
            cut = without("sources", number, "transforms", place)
            yield "transform", f"{kind} of {source['name']}", cut
    for number, rewrite in enumerate(said.get("rewrites", [])):
        yield "rewrite", rewrite["name"], without("rewrites", number)
    for number, protected in enumerate(said.get("protect", [])):
        yield "protection", protected, without("protect", number)


def _is_protected(key: str, bucket: BucketSettings) -> bool:
    return any(
        key.startswith(it) if it.endswith("/") else key == it for it in map(str, bucket.protect)
    )


def _keys_of(database: Database, source: SourceSettings) -> Iterator[tuple[bytes, bytes]]:
    """Each value of a source with the key that it means."""
    at = database if source.database is None else database.elsewhere(source.database.url.reveal())
    transforms = Transforms.of(source.transforms)
    for value in _values(at, str(source.sql)):
        key = transforms.apply(value)
        if key:
            yield value, key


def _values(database: Database, query: str) -> Iterator[bytes]:
    with (
        closing(database.connect("rehearsal")) as connection,
        database.transaction(connection, read_only=True, unlimited=True),
        connection.cursor(name="values") as cursor,
    ):
        cursor.itersize = AT_ONCE
        cursor.execute(query.encode())
        yield from (_as_bytes(value) for (value,) in cursor if value is not None)


def _as_bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()


def _classes(detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: Counter[str] = Counter()
    for row in detail.get("by_age", []):
        found[row["class"]] += row["objects"]
    return [{"class": name, "objects": count} for name, count in found.items()]


def _first(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""


def refuse_others(endpoint: str) -> None:
    """Let no socket of this process reach anything but the store, from now on and for good."""
    parts = urlsplit(endpoint)
    allowed = (parts.hostname, parts.port)

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "socket.connect" or not isinstance(arguments[1], tuple):
            return
        if arguments[1][:2] != allowed:
            raise PermissionError("A rehearsal reaches nothing but its own store.")

    sys.addaudithook(look)


def _end_with_owner() -> None:
    """Wait until standard input closes: whoever began this has gone."""
    with suppress(OSError):
        os.read(0, 1)
    os._exit(1)


def main() -> None:
    """Play, and write report.json into the folder."""
    folder = Path(sys.argv[1])
    threading.Thread(target=_end_with_owner, daemon=True).start()

    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    _LOG.addHandler(logging.NullHandler())
    _LOG.propagate = False
    with EmbeddedS3.start() as store:
        refuse_others(store.endpoint_url)
        with Rehearsal(folder, store.endpoint_url) as rehearsal:
            say("the job as it is: dry, a day later, live")
            found = rehearsal.play()
            say("with planted files")
            found["canaries"], found["unplanted"] = rehearsal.canaries()
            found["others"] = rehearsal.others(say)
            wanted = json.loads(sys.argv[2])
            found["mutations"] = [] if wanted is None else rehearsal.mutations(wanted, say)
    (folder / "report.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
