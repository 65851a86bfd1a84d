"""`filejobs restore`: takes back what a run has deleted, while its bytes exist."""

from __future__ import annotations

import json
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.bucket import Format, chosen_entry, opened_place
from filejobs_dagster.cli.terminal import Invocation, operator_name, print_error, print_json
from filejobs_dagster.text import display_key, sanitize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import psycopg

    from filejobs_dagster.door.adoption import AdoptionTarget
    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.objects.quarantine import Copy, Return
    from filejobs_dagster.postgres.locks import Lease
    from filejobs_dagster.settings import Settings

AT_ONCE = 100
"""Keys of one batch: its intent is written before, and its result after."""

SHOWN = 20
MOST_REASONS = 1000
"""So many failures are told with their reasons; the others are counted."""

# By the chain's own order, a page at a time: a run may have taken a million objects.
_INTENTS = """
SELECT seq, body
  FROM audit_event
 WHERE chain_id = 'collectors'
   AND seq > %(after)s
   AND body LIKE '%%"objects.delete.intent"%%'
   AND (%(since)s::timestamptz IS NULL OR recorded_at >= %(since)s)
   AND (%(run)s::text IS NULL OR body::jsonb ->> 'run_id' = %(run)s)
   AND body::jsonb ->> 'kind' = 'objects.delete.intent'
   AND body::jsonb ->> 'bucket' = %(bucket)s
   AND NOT body::jsonb ? 'quarantine'
 ORDER BY seq
 LIMIT 20
"""


# Rows of files and reservations, as their events keep them.
_ROWS = """
SELECT body, recorded_at
  FROM audit_event
 WHERE chain_id = 'collectors'
   AND body LIKE '%%"row"%%'
   AND (%(since)s::timestamptz IS NULL OR recorded_at >= %(since)s)
   AND (%(run)s::text IS NULL OR body::jsonb ->> 'run_id' = %(run)s)
   AND (%(keys)s::text[] IS NULL OR body::jsonb ->> 'storage_key' = ANY(%(keys)s))
   AND body::jsonb ? 'row'
 ORDER BY seq
 LIMIT %(limit)s
"""


# Columns that PostgreSQL computes: an INSERT that gives them a value is refused.
_COMPUTED = """
SELECT array_agg(attname::text)
  FROM pg_attribute
 WHERE attrelid = to_regclass(%(table)s)
   AND attgenerated <> ''
"""


@dataclass(frozen=True)
class Wanted:
    """Which keys: some by name, or those that runs have meant to delete.

    Attributes:
        keys: By name.
        run: Of this run.
        since: Of all runs since this moment.
    """

    keys: tuple[str, ...] = ()
    run: str | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class Found:
    """Where a key is now.

    Attributes:
        key: Exact.
        where: `there`, a copy in `quarantine`, behind a delete `marker`, or nowhere.
        copy: The newest copy in quarantine.
        why: Why nobody can tell; empty otherwise.
    """

    key: str
    where: Literal["there", "quarantine", "marker", "nowhere", "unknown"]
    copy: Copy | None = None
    why: str = ""


def restore(
    context: typer.Context,
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY]...", help="Exact keys.", show_default=False),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="What this run took.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="What all runs took since then: 2025-01-31 or 2025-01-31T12:00Z, in UTC.",
            show_default=False,
        ),
    ] = None,
    bucket: Annotated[
        str | None,
        typer.Option(
            "--bucket", metavar="ENTRY", help="The entry of buckets, of several.",
            show_default=False,
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Restore. Without it, only say what would come back.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Most objects to restore.")
    ] = 10_000,
    output: Annotated[
        Format, typer.Option("--format", help="table for people, json for programs.")
    ] = Format.TABLE,
) -> None:  # fmt: skip
    """Bring back objects that were deleted, from quarantine or from behind a delete marker.

    Nothing that is there now is written over. It works while no live run works on the bucket, and
    keeps such runs out: call `filejobs hold` first. Each batch stands in the audit log, before and
    after. Rows that the runs took are printed as INSERTs, and not run: look at them.

    What comes back is an orphan again: before `filejobs release`, declare the source that names it.

    [bold]Examples[/bold]
      filejobs restore files/a.png files/b.png
      filejobs restore --run 0f5e2a61-… --live
      filejobs restore --since 2025-01-31 --live --limit 100

    [bold]Exit codes[/bold]
      0   done; or printed what would come back
      1   refused, or some could not be restored; the message says which
      64  called wrongly
    """
    wanted = _wanted(keys or [], run, since)
    invocation = Invocation.of(context)
    settings = invocation.require()
    entry = chosen_entry(settings, bucket)
    with opened_place(settings, entry, invocation) as place:
        try:
            told = Restoring(settings, entry, place, live=live, limit=limit).run(wanted)
        except _refusals() as error:
            print_error(sanitize(str(error), known=invocation.secrets))
            raise typer.Exit(terminal.FAILED) from None
    if output is Format.JSON:
        print_json(told)
    else:
        _print(told, live=live)
    if told["failed_objects"] or (wanted.keys and told["nowhere"]):
        raise typer.Exit(terminal.FAILED)


class Refused(Exception):
    """Nothing, or nothing more, is restored; the message says why."""


class Restoring:
    """One restore of one bucket."""

    def __init__(
        self, settings: Settings, entry: str, place: AdoptionTarget, *, live: bool, limit: int
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            settings: All of them.
            entry: The bucket's entry.
            place: The bucket and the database, opened.
            live: False to look only.
            limit: Most objects to restore.
        """
        self._settings = settings
        self._entry = entry
        self._place = place
        self._live = live
        self._limit = limit
        self._id = str(uuid.uuid4())
        self._batch = 0
        self._back = 0
        self._told: dict[str, Any] = {
            "restore": self._id,
            "bucket": place.bucket,
            "live": live,
            "asked": 0,
            "restored" if live else "would_restore": 0,
            "bytes": 0,
            "there": 0,
            "nowhere": 0,
            "only_looked": 0,
            "limit_reached": False,
            "keys": [],
            "failed": {},
            "failed_objects": 0,
        }

    def run(self, wanted: Wanted) -> dict[str, Any]:
        """Everything; what became of it.

        Raises:
            Refused: A live run works on the bucket, or nothing is known of the run.
            AdoptionRefused: The bucket is another installation's, or another database's.
        """
        from filejobs_dagster.door import adoption  # noqa: PLC0415 (--help stays fast)
        from filejobs_dagster.postgres.locks import Lease  # noqa: PLC0415

        place = self._place
        adoption.judge(place, adoption.inspect(place))
        lease = Lease(place.database, "restore")
        try:
            if self._live:
                self._keep_runs_out(lease)
            with _progress() as say:
                for some in _in_batches(self._keys(wanted)):
                    if not self._batch_of(some, lease):
                        self._told["limit_reached"] = True
                        break
                    say(f"{self._told['asked']:,} looked at, {self._back:,} back")
        finally:
            lease.release()
        self._told["rows"] = self._rows(wanted)
        if not self._told["asked"] and not wanted.keys:
            raise Refused(
                "The audit log names nothing that this would bring back. Events may have been "
                "trimmed: then name the keys, which an archive of them has."
            )
        return self._told

    # What is asked for --------------------------------------------------------------------------

    def _keys(self, wanted: Wanted) -> Iterator[str]:
        yield from dict.fromkeys(wanted.keys)
        if wanted.keys:
            return
        after = 0
        values = {"run": wanted.run, "since": wanted.since, "bucket": self._place.bucket}
        while True:
            with self._place.database.transaction(self._place.connection, read_only=True) as cursor:
                rows = cursor.execute(_INTENTS, {**values, "after": after}).fetchall()
            if not rows:
                return
            for after, body in rows:  # noqa: B007 (the last one is where the next page begins)
                yield from _keys_in(body)

    def _rows(self, wanted: Wanted) -> list[str]:
        """The INSERTs of the rows that the runs took, as far as their events keep them."""
        keys = list(wanted.keys) or None
        values = {"run": wanted.run, "since": wanted.since, "limit": self._limit, "keys": keys}
        place = self._place
        with place.database.transaction(place.connection, read_only=True) as cursor:
            rows = cursor.execute(_ROWS, values).fetchall()
            return [_insert(body, at, partial(_computed, cursor)) for body, at in rows]

    def _keep_runs_out(self, lease: Lease) -> None:
        """Hold the lock of every job that deletes from this bucket, as its live run would."""
        from filejobs_dagster.collector import BYTES  # noqa: PLC0415
        from filejobs_dagster.postgres.locks import LockTaken, exclusive_lock  # noqa: PLC0415
        from filejobs_dagster.registry import BY_NAME  # noqa: PLC0415

        mine = self._settings.buckets[self._entry].server_and_name
        for job in self._settings.jobs:
            if not BY_NAME[job].touches & BYTES:
                continue
            _, bucket = self._settings.bucket_of(job)
            if bucket.server_and_name != mine:
                continue
            try:
                lease.take(exclusive_lock(self._place.database.schema, job))
            except LockTaken:
                raise Refused(
                    f"A live run of {job} works on this bucket, or another restore does. Call "
                    "`filejobs hold --why …`, wait for it to stop, and restore then. Nothing was "
                    "restored."
                ) from None

    # A batch ------------------------------------------------------------------------------------

    def _batch_of(self, keys: Sequence[str], lease: Lease) -> bool:
        """Look at some, and bring back what is not there; False when the limit ends it."""
        found = self._find(keys)
        self._told["asked"] += len(found)
        for it in found:
            if it.where in ("there", "nowhere"):
                self._told[it.where] += 1
            elif it.where == "unknown":
                self._fail({it.key: it.why})
        ready = [it for it in found if it.where in ("quarantine", "marker")]
        room = self._limit - self._back
        some = ready[:room]
        if self._live and some:
            self._bring_back(some, lease)
        else:
            self._note([(it.key, 0 if it.copy is None else it.copy.size) for it in some])
        return len(ready) <= room

    def _fail(self, why: Mapping[str, str]) -> None:
        """Count what failed; of a million objects only the first reasons are remembered."""
        told = self._told["failed"]
        told |= islice(why.items(), max(0, MOST_REASONS - len(told)))
        self._told["failed_objects"] += len(why)

    def _note(self, back: Sequence[tuple[str, int]]) -> None:
        self._back += len(back)
        self._told["restored" if self._live else "would_restore"] += len(back)
        self._told["bytes"] += sum(size for _, size in back)
        shown = self._told["keys"]
        shown += [key for key, _ in back][: SHOWN - len(shown)]

    def _bring_back(self, some: Sequence[Found], lease: Lease) -> None:
        from filejobs_dagster.jobs.storage_orphans.review import named, reasons  # noqa: PLC0415

        self._batch += 1
        lease.prove()
        self._write(
            "objects.restore.intent",
            by=operator_name(),
            **named("keys", _bytes(it.key for it in some)),
        )
        gate = self._gate()
        ends: list[Return] = gate.bring_back([it.copy for it in some if it.copy is not None])
        hidden = [it.key for it in some if it.copy is None]
        if hidden:
            with ThreadPoolExecutor(8) as pool:
                ends += pool.map(lambda key: gate.uncover(key, lease.prove), hidden)
        back = [it for it in ends if it.word == "restored"]
        failed = {it.key: it.why for it in ends if it.word == "failed"}
        self._write(
            "objects.restore.result",
            restored=len(back),
            **named("keys", _bytes(it.key for it in back)),
            **reasons("failed", {key.encode(): why for key, why in failed.items()}),
        )
        self._note([(it.key, it.size) for it in back])
        self._fail(failed)
        self._told["only_looked"] += sum(it.only_looked for it in back)
        self._told["there"] += sum(it.word == "is there" for it in ends)
        self._told["nowhere"] += sum(it.word == "gone" for it in ends)

    def _write(self, kind: str, **facts: Any) -> None:
        from filejobs_dagster.audit.append import append  # noqa: PLC0415

        event = {
            "kind": kind,
            "job": "restore",
            "run_id": self._id,
            "bucket": self._place.bucket,
            "batch": self._batch,
            **facts,
        }
        with self._place.database.transaction(self._place.connection) as cursor:
            append(cursor, [event])

    def _gate(self) -> Gate:
        from filejobs_dagster.objects.gate import Gate  # noqa: PLC0415 (boto3)
        from filejobs_dagster.references.check import ReferenceCheck  # noqa: PLC0415

        # Nothing is deleted but delete markers, so no source has to be asked.
        settings = self._settings.buckets[self._entry]
        return Gate(self._place.client, settings, ReferenceCheck(self._place.connection, ()))

    def _find(self, keys: Sequence[str]) -> list[Found]:
        from filejobs_dagster.objects.errors import StorageError  # noqa: PLC0415
        from filejobs_dagster.objects.heads import Absent, look_at_targets  # noqa: PLC0415
        from filejobs_dagster.objects.targets import Target  # noqa: PLC0415

        client, bucket = self._place.client, self._place.bucket
        seen = look_at_targets(client, bucket, [Target(key) for key in keys])

        def one(target: Target) -> Found:
            now = seen[target]
            if isinstance(now, StorageError):
                return Found(target.key, "unknown", why=str(now))
            if not isinstance(now, Absent):
                return Found(target.key, "there")
            return self._where(target.key)

        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(one, seen))

    def _where(self, key: str) -> Found:
        """Of a key without an object: its newest copy, or a version behind a delete marker."""
        from filejobs_dagster.objects.errors import StorageError  # noqa: PLC0415
        from filejobs_dagster.objects.quarantine import copies_of  # noqa: PLC0415
        from filejobs_dagster.objects.versions import versions_of  # noqa: PLC0415

        client, bucket = self._place.client, self._place.bucket
        if copy := next(iter(copies_of(client, bucket, key)), None):
            return Found(key, "quarantine", copy)
        listed = versions_of(client, bucket, key)
        if isinstance(listed, StorageError):
            return Found(key, "nowhere", why=str(listed))
        hidden = any(not it.marker for it in listed.versions)
        return Found(key, "marker" if hidden else "nowhere")


def _refusals() -> tuple[type[Exception], ...]:
    """What ends a restore with a sentence."""
    import psycopg  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    from filejobs_dagster.book.outcomes import DeletionStopped  # noqa: PLC0415
    from filejobs_dagster.door.guard import (  # noqa: PLC0415
        AdoptionRefused,
        Refusal,
    )
    from filejobs_dagster.postgres.locks import LeaseLost  # noqa: PLC0415

    return (
        Refused, Refusal, AdoptionRefused, DeletionStopped, LeaseLost,
        psycopg.Error, ClientError, BotoCoreError,
    )  # fmt: skip


def _wanted(keys: Sequence[str], run: str | None, since: str | None) -> Wanted:
    if sum(map(bool, (keys, run, since))) != 1:
        raise typer.BadParameter("give keys, or --run, or --since")
    if since is None:
        return Wanted(tuple(keys), run)
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise typer.BadParameter("write it as 2025-01-31T12:00Z", param_hint="--since") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return Wanted(since=moment)


def _keys_in(body: str) -> Iterator[str]:
    """The keys of an intent; those that are no text were never an object's."""
    from filejobs_dagster.audit.append import read_body  # noqa: PLC0415
    from filejobs_dagster.jobs.storage_orphans.review import unescape_key  # noqa: PLC0415

    event = read_body(body)
    yield from (key for key in event.get("keys", ()) if isinstance(key, str))
    for escaped in event.get("keys_percent_encoded", ()):
        key = unescape_key(escaped)
        try:
            yield key.decode()
        except UnicodeDecodeError:
            continue


def _computed(cursor: psycopg.Cursor[Any], table: str) -> Sequence[str]:
    """Columns of a table that PostgreSQL computes; none where it is in another database."""
    found = cursor.execute(_COMPUTED, {"table": table}).fetchone()
    return (found and found[0]) or ()


def _insert(body: str, recorded_at: datetime, computed: Callable[[str], Sequence[str]]) -> str:
    """The SQL that would bring a row back; nobody runs it here."""
    from psycopg import sql  # noqa: PLC0415

    from filejobs_dagster.audit.append import read_body  # noqa: PLC0415

    event = read_body(body)
    table = sql.Identifier(*event["table"].split("."))
    without = computed(table.as_string())
    names = [name for name in json.loads(event["row"]) if name not in without]
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    # A number that the table gives out itself is kept, whatever it says of that.
    statement = sql.SQL(
        "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} "
        "FROM jsonb_populate_record(NULL::{table}, {row}::jsonb);"
    ).format(table=table, columns=columns, row=sql.Literal(event["row"]))
    left_out = ", ".join(event.get("left_out", ()))
    lacks = f"; without {left_out}" if left_out else ""
    # An identifier of an event could hold a line break, and end the comment.
    remark = display_key(
        f"{event.get('kind')}, run {event.get('run_id')}, {recorded_at.isoformat()}{lacks}"
    )
    return f"-- {remark}\n{statement.as_string()}"


def _bytes(keys: Iterable[str]) -> list[bytes]:
    return [key.encode() for key in keys]


def _in_batches(keys: Iterator[str]) -> Iterator[list[str]]:
    while some := list(islice(keys, AT_ONCE)):
        yield some


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Where it says how far it is: on a terminal only."""
    if not sys.stderr.isatty():
        with nullcontext():
            yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415

    with Console(stderr=True).status("restore begins …") as shown:
        yield shown.update


def _print(told: dict[str, Any], *, live: bool) -> None:
    for key in told["keys"]:
        typer.echo(display_key(key))
    many = told["restored" if live else "would_restore"]
    if many > len(told["keys"]):
        typer.echo(f"… and {many - len(told['keys']):,} more")
    did = "Restored" if live else "Would restore"
    typer.echo(
        f"{did} {many:,} objects, {told['bytes']:,} bytes known. Of {told['asked']:,} asked for, "
        f"{told['there']:,} are there and are left alone; of {told['nowhere']:,} nothing is left; "
        f"{told['failed_objects']:,} failed."
    )
    if told["only_looked"]:
        typer.echo(
            f"Before {told['only_looked']:,} of them, a look said that nothing was there: this "
            "server ignores the condition that would have made it certain."
        )
    if told["limit_reached"]:
        typer.echo("The limit ended it: call it again, or with a larger --limit.")
    if told["rows"]:
        typer.echo(
            "Rows that went, for a person to look at and to run: one that is due goes again. Rows "
            "of other tables that went with them are not among them."
        )
        for statement in told["rows"]:
            typer.echo(statement)
    for key, why in list(told["failed"].items())[:SHOWN]:
        print_error(f"{display_key(key)}: {why}")
    if many and live:
        typer.echo("They are orphans again, unless a source names them: declare it, then release.")
    elif many:
        typer.echo("Nothing was changed; --live restores.")
