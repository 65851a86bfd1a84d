"""Work that is not ours: a Python callable that is given the run, and a command.

A command is told of the run by a few variables and by the protocol of Dagster Pipes, which is JSON
in two files: `dagster_pipes` speaks it, and so do a few lines in any language. What it reports
becomes the run's progress; one that reports nothing succeeds by its exit code alone.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import zlib
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filejobs_dagster.ledger.outcome import Outcome, sanitized_detail
from filejobs_dagster.postgres.connect import READ_ONLY_OPTION
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.settings.known import known_secrets
from filejobs_dagster.settings.secrets import Secret
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from filejobs_dagster.collector import Resources
    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.jobs.own.settings import OwnCommandSettings, OwnPythonSettings
    from filejobs_dagster.ledger.outcome import Mode, Window
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.run_context import RunContext

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME")
"""Of our own environment a command is given these alone: what else is in it are our secrets."""

LOOK_EVERY = 0.2
"""Seconds between two looks at a command and at what it reports."""

PROVE_EVERY = 5.0
"""Seconds between two proofs that the run of a command may still go on."""

ENDS_WITHIN = 10.0
"""Seconds that a command has after SIGTERM, before SIGKILL."""

LAST_WORDS = 4000
"""Characters of what a command wrote last that its error shows."""

LONGEST_LINE = 65_536
"""Bytes of one report; a longer one is no report."""

READ_AT_ONCE = 1_048_576
"""Bytes of what a command reports that one look takes; so many of its output are kept."""

MOST_SAID = 16_384
"""Characters of JSON that a record shows of what was reported, beside the numbers."""

MOST = 2**63 - 1
"""The largest number of items that a record holds."""

# It ends the command's group when the pipe closes, which the kernel does however we end.
_GUARD = 'read -r line; kill -TERM "-$1" 2>/dev/null; sleep "$2"; kill -KILL "-$1" 2>/dev/null'

_NO_DETAIL = frozenset({"scanned", "acted", "log", "truncated", "oldest_left", "error"})


@dataclass
class OwnRun:
    """What a callable of yours is given.

    Attributes:
        run_id: The run, as `job_run` calls it.
        job: Its job.
        mode: `dry` changes nothing; `live` acts.
        limit: The most items to act on.
        ends_at: By `time.monotonic()`: begin nothing further after it.
        window: What to cover: everything that is due, or from `begins` to before `ends`.
        database: Where the project's tables are. Sessions of a dry run are read-only.
        connection: Open, outside a transaction; use `transaction()`. In a dry run read-only.
        log: Lines of the run's page.
    """

    run_id: str
    job: str
    mode: Mode
    limit: int
    ends_at: float
    window: Window
    database: Database
    log: logging.Logger
    _context: RunContext
    _has: Resources
    _said: dict[str, Any] = field(default_factory=dict)
    _scanned: int | None = None
    _acted: int | None = None
    _reading: Connection | None = None

    @property
    def live(self) -> bool:
        """True when the run may change something."""
        return self.mode == "live"

    @property
    def out_of_time(self) -> bool:
        """True when no further batch should begin."""
        return time.monotonic() >= self.ends_at

    @property
    def connection(self) -> Connection:
        """The run's own connection, made anew where it broke; in a dry run one that only reads.

        Raises:
            DatabaseUnavailable: The database is away, or a pooler lets no session be read-only.
        """
        if self.live:
            return self._context.connected()
        if self._reading is None or self._reading.closed:
            self._reading = self.database.connect(f"{self.job} {self.run_id}")
        return self._reading

    def close(self) -> None:
        """Close what a dry run has opened."""
        if self._reading is not None:
            self._reading.close()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A transaction with a cursor; in a dry run PostgreSQL refuses every change in it.

        Raises:
            GivenUp: The run was given up for dead: everything is rolled back.
        """
        # The run's own, also when it is dry: a pooler that refuses options of a session is no
        # reason to refuse it a transaction.
        connection = self._context.connected()
        with self.database.transaction(connection, read_only=not self.live) as cursor:
            yield cursor
            if self.live:
                self._context.progress.must_be_open(cursor)

    def progress(
        self, *, scanned: int | None = None, acted: int | None = None, **said: Any
    ) -> None:
        """Write how far the run is; what was written stays when it is killed.

        Args:
            scanned: Items looked at, in all; None leaves what was said before.
            acted: Items acted on, in all.
            said: JSON values that the record is to show, `MOST_SAID` characters of them.

        Raises:
            GivenUp: The run was given up for dead: stop.
            TypeError: A value is none of JSON's.
        """
        self._write(scanned, acted, said)

    def _write(self, scanned: int | None, acted: int | None, said: Mapping[str, Any]) -> None:
        more = {name: value for name, value in said.items() if name not in _NO_DETAIL}
        if len(json.dumps(self._said | more)) > MOST_SAID:
            self.log.warning("What is reported is too long for the record, which leaves it out.")
            more = {}
        self._scanned = self._scanned if scanned is None else scanned
        if acted is not None:
            # A dry run acts on nothing, whatever it would have.
            self._acted = acted if self.live else 0
        self._said.update(sanitized_detail(more, known_secrets(self._has.settings)))
        with self._context.database.transaction(self._context.connected()) as cursor:
            self._context.progress.advance(
                cursor,
                scanned=self._scanned,
                acted=self._acted,
                detail={"reported": dict(self._said)} if self._said else {},
            )

    def prove_alive(self) -> None:
        """Make sure, before each batch, that this run may still act.

        Raises:
            GivenUp: It was given up for dead.
            LeaseLost: Its locks are gone.
            Refusal: A guard of the door says stop, such as `filejobs hold`.
        """
        self._context.prove_alive()

    def storage(self) -> Any:
        """The job's bucket with the gate, the only way to delete an object: a context manager.

        Raises:
            TypeError: The job does not say that it touches objects.
        """
        opened: Any = self._has.storage(self._context)
        return opened

    def outcome(self, *, truncated: bool = False, error: str | None = None) -> Outcome:
        """The run's final word, from what `progress` was told.

        Args:
            truncated: True when something due was left.
            error: Why it failed, or None.
        """
        detail = {
            "truncated": truncated,
            "stopped_reason": "limit" if truncated else None,
            "swept": self.live and not truncated and error is None,
            **({"reported": dict(self._said)} if self._said else {}),
        }
        return Outcome(scanned=self._scanned, acted=self._acted, detail=detail, error=error)


def _run_of(context: RunContext, request: Any, has: Resources) -> OwnRun:
    return OwnRun(
        run_id=context.identity.run_id,
        job=context.identity.job,
        mode=context.identity.mode,
        limit=request.limit,
        ends_at=time.monotonic() + request.max_runtime.total_seconds(),
        window=context.window,
        database=context.database if context.live else replace(context.database, reads_only=True),
        log=context.log,
        _context=context,
        _has=has,
    )


# A callable ---------------------------------------------------------------------------------------


def found_callable(place: str) -> Callable[[OwnRun], Any]:
    """The callable at `module:name`.

    Raises:
        JobFailed: There is none.
    """
    module, _, name = place.partition(":")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:
        raise JobFailed(
            f"{place} cannot be imported ({type(error).__name__}: {error}). Install its package "
            "where the code location runs. Nothing was touched."
        ) from error
    if not callable(found):
        raise JobFailed(f"{place} cannot be called: it is {type(found).__name__}.")
    called: Callable[[OwnRun], Any] = found
    return called


def call(context: RunContext, request: OwnPythonSettings, has: Resources) -> Outcome:
    """Call the operator's callable with the run.

    Returns:
        The outcome that it returns; for a callable that returns nothing, that of `progress`.

    Raises:
        JobFailed: There is no such callable, or it returned something else.
    """
    work = found_callable(request.python)
    run = _run_of(context, request, has)
    if context.live:
        run.prove_alive()
    with closing(run):
        said = work(run)
    if said is None:
        return run.outcome()
    if not isinstance(said, Outcome):
        raise JobFailed(
            f"{request.python} returned {type(said).__name__}. Return run.outcome(), or nothing."
        )
    return said


def look_at_callable(configured: OwnPythonSettings) -> Iterable[Finding]:
    """See that the callable can be imported."""
    from filejobs_dagster.doctor.finding import failed, ok  # noqa: PLC0415 (the doctor alone)

    try:
        found_callable(configured.python)
    except JobFailed as error:
        yield failed(f"own job {configured.python}", str(error), "install it, or mend its name")
    else:
        yield ok(f"own job {configured.python}", "it can be imported")


# A command ----------------------------------------------------------------------------------------


def start(context: RunContext, request: OwnCommandSettings, has: Resources) -> Outcome:
    """Run the operator's command until it ends.

    Returns:
        The outcome: failed when its exit code is not 0, or when it took longer than max_runtime.

    Raises:
        JobFailed: It could not be started.
        GivenUp, LeaseLost, Refusal: The run may not go on; the command was ended.
    """
    run = _run_of(context, request, has)
    if not run.live and not request.knows_dry:
        would = f"A live run starts {request.command[0]}; a dry one does not (knows_dry)."
        return Outcome(detail={"swept": False, "truncated": False, "explained": would})
    if run.live:
        run.prove_alive()
    secrets = known_secrets(has.settings)
    given = {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in request.environment.items()
    }
    with tempfile.TemporaryDirectory(prefix="filejobs-own-") as folder:
        reports = Reports(run, Path(folder), secrets)
        if not run.live:
            # Whatever of it asks PostgreSQL by libpq begins its sessions so.
            given["PGOPTIONS"] = f"{given.get('PGOPTIONS', '')} {READ_ONLY_OPTION}".lstrip()
        variables = {**_inherited(), **given, **_told(run, request.max_runtime), **reports.pipes()}
        code, last = run_command(
            request.command, variables, Path(folder),
            look=reports.take, prove=run.prove_alive if run.live else None, ends_at=run.ends_at,
        )  # fmt: skip
        reports.take(over=True)
    # Cut afterwards: half of a secret would be known to nobody.
    said = sanitize(last, limit=len(last) + 1, known=secrets)[-LAST_WORDS:]
    if code is None:
        return run.outcome(
            truncated=True, error=f"It took longer than max_runtime, and was ended. {said}".strip()
        )
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        error = reports.error or f"{request.command[0]} ended with {how}. {said}".strip()
        return run.outcome(truncated=reports.truncated, error=error)
    return run.outcome(truncated=reports.truncated, error=reports.error)


def _inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def _told(run: OwnRun, max_runtime: timedelta) -> dict[str, str]:
    begins, ends = run.window.begins, run.window.ends
    return {
        "FILEJOBS_RUN_ID": run.run_id,
        "FILEJOBS_JOB": run.job,
        "FILEJOBS_MODE": run.mode,
        "FILEJOBS_LIMIT": str(run.limit),
        "FILEJOBS_MAX_RUNTIME_SECONDS": str(int(max_runtime.total_seconds())),
        **({} if begins is None else {"FILEJOBS_FROM": begins.isoformat()}),
        **({} if ends is None else {"FILEJOBS_TO": ends.isoformat()}),
    }


class Reports:
    """What a command says of itself, a JSON object a line.

    Attributes:
        truncated: True when it says that it left something.
        error: Why it says that it failed.
    """

    def __init__(self, run: OwnRun, folder: Path, secrets: tuple[str, ...]) -> None:
        self._run = run
        self._secrets = secrets
        self._messages = folder / "messages"
        self._context = folder / "context"
        self._read = 0
        self._rest = b""
        self._counts: dict[str, int] = {}
        self._more: dict[str, Any] = {}
        self.truncated = False
        self.error: str | None = None

    def pipes(self) -> dict[str, str]:
        """The variables by which the command finds both files."""
        run = self._run
        self._messages.touch(mode=0o600)
        window = run.window
        day = window.label if window.begins is not None else None
        self._context.write_text(
            json.dumps(
                {
                    "asset_keys": None,
                    "code_version_by_asset_key": None,
                    "provenance_by_asset_key": None,
                    "partition_key": day,
                    "partition_key_range": None,
                    "partition_time_window": None,
                    "run_id": run.run_id,
                    "job_name": run.job,
                    "retry_number": 0,
                    "extras": {"mode": run.mode, "limit": run.limit},
                }
            ),
            encoding="utf-8",
        )
        return {
            "FILEJOBS_REPORT": str(self._messages),
            "DAGSTER_PIPES_CONTEXT": _packed({"path": str(self._context)}),
            "DAGSTER_PIPES_MESSAGES": _packed({"path": str(self._messages)}),
        }

    def take(self, *, over: bool = False) -> None:
        """Take over what is new, and write it as one progress.

        Args:
            over: True when nothing more comes: all of it, and the last line without its end.

        Raises:
            GivenUp: The run was given up for dead.
        """
        # The command may have taken the file away, or begun it anew.
        with suppress(FileNotFoundError), self._messages.open("rb") as file:
            if self._messages.stat().st_size < self._read:
                self._read, self._rest = 0, b""
            file.seek(self._read)
            while chunk := file.read(READ_AT_ONCE):
                self._read += len(chunk)
                *whole, rest = (self._rest + chunk).split(b"\n")
                # Of a line that is too long no more is kept than shows that it is.
                self._rest = rest[: LONGEST_LINE + 1]
                for line in whole:
                    self._one(line)
                if not over:
                    break
        if over:
            self._one(self._rest)
            self._rest = b""
        if self._counts or self._more:
            counts, more = self._counts, self._more
            self._counts, self._more = {}, {}
            self._run._write(counts.get("scanned"), counts.get("acted"), more)  # noqa: SLF001

    def _one(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            said = None if len(line) > LONGEST_LINE else json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            self._run.log.warning("The command reported a line that is no JSON object.")
            return
        if "method" in said:
            said = _of_pipes(said)
        for name in ("scanned", "acted"):
            count = said.get(name)
            if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST:
                self._counts[name] = count
        if said.get("log") is not None:
            self._run.log.info("%s", sanitize(str(said["log"]), known=self._secrets))
        self.truncated = self.truncated or said.get("truncated") is True
        if said.get("error") is not None:
            self.error = sanitize(str(said["error"]), known=self._secrets)
        self._more.update(
            {str(name): value for name, value in said.items() if name not in _NO_DETAIL}
        )


def _of_pipes(message: Mapping[str, Any]) -> dict[str, Any]:
    """What a message of Dagster Pipes says, as a report."""
    method, params = message.get("method"), message.get("params")
    params = params if isinstance(params, dict) else {}
    if method == "log":
        return {"log": params.get("message")}
    if method == "report_custom_message":
        payload = params.get("payload")
        return payload if isinstance(payload, dict) else {}
    if method == "closed" and isinstance(params.get("exception"), dict):
        raised = params["exception"]
        return {"error": f"{raised.get('name')}: {raised.get('message')}"}
    if method == "report_asset_materialization" and isinstance(params.get("metadata"), dict):
        found = params["metadata"]
        return {
            name: value.get("raw_value") if isinstance(value, dict) else value
            for name, value in found.items()
        }
    return {}


def _packed(params: Mapping[str, Any]) -> str:
    """Parameters as Dagster Pipes hands them over."""
    return base64.b64encode(zlib.compress(json.dumps(params).encode())).decode()


def run_command(
    command: Sequence[str],
    variables: Mapping[str, str],
    folder: Path,
    *,
    look: Callable[[], None] = lambda: None,
    prove: Callable[[], None] | None = None,
    ends_at: float | None = None,
    quiet: bool = True,
) -> tuple[int | None, str]:
    """Run a command in a group of its own, which ends with this process, however that ends.

    Args:
        command: The program and its arguments; no shell reads them.
        variables: Its whole environment.
        folder: Where its output goes.
        look: Called again and again while it works.
        prove: Called every few seconds; raises when it may not go on.
        ends_at: By `time.monotonic()`; then it is ended.
        quiet: True keeps its output in the folder; false leaves it where ours goes.

    Returns:
        Its exit code, None when its time was over; and the end of what it wrote, several times
        `LAST_WORDS`.

    Raises:
        JobFailed: It could not be started.
    """
    written = _Output(folder / "output")
    # Appended: it goes on at the end of a file that was emptied meanwhile.
    with written.path.open("ab") as output:
        try:
            process = subprocess.Popen(
                list(command),
                env=dict(variables),
                stdin=subprocess.DEVNULL if quiet else None,
                stdout=output if quiet else None,
                stderr=subprocess.STDOUT if quiet else None,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise JobFailed(
                f"{command[0]} could not be started: {type(error).__name__}: "
                f"{getattr(error, 'strerror', None) or error}. Nothing was touched."
            ) from error

        def look_at_both() -> None:
            written.shorten()
            look()

        with _guarded(process):
            code = _wait(process, look_at_both, prove, ends_at)
    return code, written.end()


class _Output:
    """What a command writes: a file whose beginning is forgotten when it becomes long."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before = b""

    def shorten(self) -> None:
        if self.path.stat().st_size > READ_AT_ONCE:
            self._before = self._tail()
            os.truncate(self.path, 0)

    def end(self) -> str:
        return self._tail().decode("utf-8", "replace").strip()

    def _tail(self) -> bytes:
        most = 4 * LAST_WORDS
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - most))
            return (self._before + file.read(most))[-most:]


def _wait(
    process: subprocess.Popen[bytes],
    look: Callable[[], None],
    prove: Callable[[], None] | None,
    ends_at: float | None,
) -> int | None:
    proven = time.monotonic()
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(LOOK_EVERY)
        look()
        now = time.monotonic()
        if ends_at is not None and now >= ends_at:
            return None
        if prove is not None and now - proven >= PROVE_EVERY:
            prove()
            proven = now


@contextmanager
def _guarded(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the command's group with this block, and when this process is killed."""
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "guard", str(process.pid), str(int(ENDS_WITHIN))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )
    try:
        yield
    finally:
        # What it started and left behind is of its group, and ends with it.
        _end(process)
        guard.kill()
        guard.wait()
        if guard.stdin is not None:
            guard.stdin.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(ENDS_WITHIN)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def look_at_command(configured: OwnCommandSettings) -> Iterable[Finding]:
    """See that the program is there."""
    from filejobs_dagster.doctor.finding import failed, ok  # noqa: PLC0415 (the doctor alone)

    program = configured.command[0]
    check = f"own job {program}"
    if shutil.which(program) is None:
        yield failed(check, "there is no such program here", "write its whole path, or install it")
    else:
        yield ok(check, "the program is there")
