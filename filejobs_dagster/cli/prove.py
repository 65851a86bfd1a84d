"""`filejobs prove`: shows on a real PostgreSQL what careless collectors lose."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.terminal import Invocation, console, print_error, print_json

if TYPE_CHECKING:
    from filejobs_dagster.prove.evidence import Claim
    from filejobs_dagster.prove.report import Summary


class Format(str, Enum):
    """How the findings are printed."""

    text = "text"
    json = "json"


def prove(
    context: typer.Context,
    list_only: Annotated[
        bool, typer.Option("--list", help="Name the claims, and try none of them.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="NAME",
            help="Try this claim only; may be given several times.",
            show_default=False,
        ),
    ] = None,
    database_url_env: Annotated[
        str | None,
        typer.Option(
            "--database-url-env",
            metavar="NAME",
            help="Use the server whose URL is in this environment variable, instead of a "
            "temporary one. The role needs CREATE on the database.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="For people or for programs.")] = (
        Format.text
    ),
) -> None:
    """Show what careless collectors lose, beside what this project does instead.

    Each claim is tried for real: the careless version is executed and has to lose, then the
    project's own statements and functions do the same work under the same interleaving. A
    careless version that does not lose proves nothing, so the claim then counts as not proven.

    Without options it starts a temporary PostgreSQL and an S3 server, and removes both. With
    --database-url-env it works in new schemas of its own, named filejobs_prove_ and a random part,
    and drops them at the end, also after an error; it reads and writes nothing else there. Objects
    are always those of the S3 server that it starts. No settings file is read.

    [bold]Examples[/bold]
      filejobs prove
      filejobs prove --only completed-upload --only audit-fork
      filejobs prove --database-url-env MY_SERVER --format json

    [bold]Exit codes[/bold]
      0 every claim held, 1 one did not (or could not be tried, with the reason)
    """
    from filejobs_dagster.prove.claims import CLAIMS  # noqa: PLC0415 (--help stays light)

    claims = _chosen(CLAIMS, only)
    if list_only:
        _list(claims, output)
        return
    url = _url(Invocation.of(context), database_url_env)
    if not _try(claims, url, output).held:
        raise typer.Exit(terminal.FAILED)


def _chosen(claims: list[Claim], names: list[str] | None) -> list[Claim]:
    if not names:
        return claims
    known = {claim.name for claim in claims}
    for name in names:
        if name not in known:
            raise typer.BadParameter(
                f"no claim is called {name!r}; `filejobs prove --list` names them",
                param_hint="--only",
            )
    return [claim for claim in claims if claim.name in names]


def _list(claims: list[Claim], output: Format) -> None:
    from filejobs_dagster.prove import report  # noqa: PLC0415 (--help stays light)

    if output is Format.json:
        print_json(report.list_as_document(claims))
    else:
        sys.stdout.write(report.list_as_text(claims))


def _url(invocation: Invocation, variable: str | None) -> str | None:
    if variable is None:
        return None
    url = os.environ.get(variable, "")
    if not url.strip():
        raise typer.BadParameter(
            f"the environment variable {variable} is not set or empty; put the database's URL "
            "in it",
            param_hint="--database-url-env",
        )
    invocation.hide(url)
    return url


def _try(claims: list[Claim], url: str | None, output: Format) -> Summary:
    from filejobs_dagster.embedded.postgres import EmbeddedPostgresError  # noqa: PLC0415
    from filejobs_dagster.prove.stage import SchemaLeftBehind, StageUnavailable  # noqa: PLC0415
    from filejobs_dagster.text import sanitize  # noqa: PLC0415

    try:
        with _ended_politely():
            return _print_as_found(claims, url, output)
    except (StageUnavailable, SchemaLeftBehind, EmbeddedPostgresError) as error:
        print_error(sanitize(str(error), known=[] if url is None else [url]))
        raise typer.Exit(terminal.FAILED) from None


def _print_as_found(claims: list[Claim], url: str | None, output: Format) -> Summary:
    from filejobs_dagster.prove import report  # noqa: PLC0415 (--help stays light)
    from filejobs_dagster.prove.report import prove as findings_of  # noqa: PLC0415
    from filejobs_dagster.prove.stage import open_stage  # noqa: PLC0415

    out, begun, findings = console(), time.monotonic(), []
    with open_stage(url) as stage:
        server = stage.server()
        if output is Format.text:
            claims_in_words = "1 claim" if len(claims) == 1 else f"{len(claims)} claims"
            out.print(f"Trying {claims_in_words} on {server}.")
        for number, finding in enumerate(findings_of(claims, stage), start=1):
            findings.append(finding)
            if output is Format.text:
                with out.capture() as captured:
                    report.print_finding(out, finding, number)
                _write(captured.get())
    summary = report.Summary(server, findings, time.monotonic() - begun)
    if output is Format.text:
        out.print()
        report.print_summary(out, summary)
    else:
        print_json(report.as_document(summary))
    return summary


def _write(block: str) -> None:
    """Print a block without the spaces that fill its lines, as soon as it is known."""
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in block.splitlines()))
    sys.stdout.flush()


@contextmanager
def _ended_politely() -> Iterator[None]:
    """Let SIGTERM end the command as an exception does, so that schemas are dropped."""

    def end(*_: Any) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
