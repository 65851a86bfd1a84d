"""`filejobs verify`: the audit chains against their seals and pins, without Dagster."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.terminal import (
    Invocation,
    console,
    print_error,
    print_json,
    print_table,
    refuse,
)
from filejobs_dagster.text import display_key, sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filejobs_dagster.audit.verify import ChainFinding, Mode, Verification, VerifyPolicy
    from filejobs_dagster.jobs.audit import Check
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import Settings

MOST_PARTS = 366


class Format(str, Enum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"


def verify(
    context: typer.Context,
    chain: Annotated[
        str | None,
        typer.Option("--chain", metavar="NAME", help="Verify this chain only.", show_default=False),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Compute every event again. This is the default.")
    ] = False,
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental",
            help="Compute only the events behind the newest pin; damage below it is not found.",
        ),
    ] = False,
    rolling: Annotated[
        int | None,
        typer.Option(
            "--rolling",
            metavar="N",
            min=1,
            max=MOST_PARTS,
            help="Incremental, and today's part of N of what is sealed.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="table for people, json for programs.")
    ] = Format.TABLE,
) -> None:
    """Verify the audit chains: events, links, seals, signatures, receipts, holds and pins.

    Reads the database in one read-only snapshot, and the place of the pins; writes nothing, and
    needs no Dagster. Run it from a machine that the database's administrators cannot enter, with
    a settings file of its own: whom it believes stands there, under `audit`.

    What stands behind the newest pin is unprotected: it is linked, and whoever may write the
    table may have changed it all the same. It is counted, never called verified.

    [bold]Examples[/bold]
      filejobs verify
      filejobs verify --chain collectors --rolling 7
      filejobs verify --format json > verdict.json

    [bold]Exit codes[/bold]
      0   everything matches, and everything is pinned
      1   everything matches; some events are unprotected, there is a
          warning, or the settings name no pins or no public key; or, with
          --incremental, older events were not read
      2   something does not match: `filejobs verify` names code and event, and
          docs/reference/audit-codes.md says what each code means
      3   could not verify: the settings, the database or the pins cannot be
          read
      64  called wrongly
    """
    if sum((full, incremental, rolling is not None)) > 1:
        raise typer.BadParameter("choose one of --full, --incremental and --rolling")
    invocation = Invocation.of(context)
    loaded = invocation.read()
    if loaded.settings is None:
        refuse(loaded, terminal.UNKNOWN)
    results = _verified(
        loaded.settings, invocation, chain, incremental=incremental, rolling=rolling
    )
    code = exit_code_of(results, older_unread=incremental)
    if output is Format.JSON:
        print_json(
            {
                "installation": loaded.settings.installation,
                "verdict": UNCHANGED if incremental and code != terminal.CRITICAL else _WORDS[code],
                "exit_code": code,
                "chains": [result.as_json() for result in results],
            }
        )
    else:
        _print(results)
    raise typer.Exit(code)


_WORDS = {
    terminal.OK: "matches",
    terminal.WARNING: "matches, and some is unprotected",
    terminal.CRITICAL: "does not match",
}


UNCHANGED = "unchanged since the pin, older events not read"


def exit_code_of(results: Sequence[Verification], *, older_unread: bool = False) -> int:
    """0 clean, 1 with unprotected events or a warning, 2 with findings.

    Args:
        results: Of each chain.
        older_unread: Whether events that no other run of this kind reads make it 1: a rolling
            check reads them on another day.
    """
    if not all(result.clean for result in results):
        return terminal.CRITICAL
    unsure = any(
        result.warnings
        or result.unprotected
        or result.pins is None
        or not result.signatures
        or (older_unread and result.unread)
        for result in results
    )
    return terminal.WARNING if unsure else terminal.OK


def _verified(
    settings: Settings,
    invocation: Invocation,
    chain: str | None,
    *,
    incremental: bool,
    rolling: int | None,
) -> list[Verification]:
    import psycopg  # noqa: PLC0415 (--help works without it)

    from filejobs_dagster.audit.pins.store import PinStoreUnusable  # noqa: PLC0415
    from filejobs_dagster.cli.failures import expected_failure  # noqa: PLC0415
    from filejobs_dagster.jobs.audit_setup import verify_policy  # noqa: PLC0415
    from filejobs_dagster.objects.errors import BucketUnavailable  # noqa: PLC0415
    from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable  # noqa: PLC0415

    database = Database.of(settings.database)
    try:
        policy = verify_policy(settings)
        with database.connect("verify") as connection:
            return _each(
                database, connection, policy, chain,
                _mode(database, connection, incremental=incremental, rolling=rolling),
            )  # fmt: skip
    except (PinStoreUnusable, BucketUnavailable) as error:
        _give_up(str(error), invocation)
    except (psycopg.Error, DatabaseUnavailable) as error:
        _give_up(expected_failure(error, invocation.secrets) or type(error).__name__, invocation)


def _each(
    database: Database,
    connection: Connection,
    policy: VerifyPolicy,
    chain: str | None,
    mode: Mode,
) -> list[Verification]:
    from filejobs_dagster.audit.verify import known_chains, verify_chain  # noqa: PLC0415

    chains = known_chains(database, connection, policy)
    if chain is not None and chain not in chains:
        raise typer.BadParameter(
            f"neither the database nor the pins know a chain {chain!r}; they know: "
            f"{', '.join(chains) or 'none'}",
            param_hint="--chain",
        )
    wanted = chains if chain is None else [chain]
    return [verify_chain(database, connection, one, policy, mode=mode) for one in wanted]


def _mode(
    database: Database, connection: Connection, *, incremental: bool, rolling: int | None
) -> Mode:
    from filejobs_dagster.jobs.audit_verify import mode_for  # noqa: PLC0415

    check: Check = "incremental" if incremental else "full" if rolling is None else "rolling"
    return mode_for(check, rolling or 1, database, connection)


def _give_up(reason: str, invocation: Invocation) -> NoReturn:
    print_error(f"Nothing can be said of any chain: {sanitize(reason, known=invocation.secrets)}")
    raise typer.Exit(terminal.UNKNOWN) from None


def _print(results: Sequence[Verification]) -> None:
    out = console()
    if not results:
        out.print("There is no chain yet.")
        return
    table = Table(box=SIMPLE_HEAD)
    headings = ("chain", "verdict", "computed", "head", "trimmed to", "sealed to", "pinned to",
                "unprotected")  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="left" if heading in headings[:2] else "right")
    for result in results:
        table.add_row(
            display_key(result.chain), result.verdict, f"{result.rows:,}", _count(result.head_seq),
            f"{result.trimmed_to:,}", f"{result.sealed_to:,}", _count(result.pinned_to),
            f"{result.unprotected:,}",
        )  # fmt: skip
    print_table(out, table)
    for line in _said(results):
        out.print(line)


def _said(results: Sequence[Verification]) -> Iterator[str]:
    for result in results:
        for finding in result.findings:
            yield _line(result.chain, finding, "FINDING")
        for finding in result.warnings:
            yield _line(result.chain, finding, "warning")
    for explanation in dict.fromkeys(result.explanation for result in results):
        chains = [result.chain for result in results if result.explanation == explanation]
        yield f"{', '.join(map(display_key, chains))}: {explanation}"
    for result in results:
        for said in result.restores:
            yield f"{display_key(result.chain)}: {said}"
    first = results[0]
    yield f"Checked {first.mode}. Pins: {first.pins or 'none'}."
    if not first.signatures:
        yield "Signatures were not checked: the settings name no public key."


def _line(chain: str, finding: ChainFinding, word: str) -> str:
    where = "" if finding.seq is None else f" at event {finding.seq}"
    return f"{word} {display_key(chain)}: {finding.code}{where}: {finding.message}"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
