"""`filejobs serve-trigger`: lets an external cron start a job over HTTP.

It warns of an address that more than this machine can reach.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.instance import opened_instance
from filejobs_dagster.cli.terminal import Invocation, print_error

if TYPE_CHECKING:
    from filejobs_dagster.settings import Settings, TriggerSettings

# Which addresses only this machine can reach.


def is_loopback(host: str) -> bool:
    """Tell whether an address is reachable from this machine alone.

    A name other than localhost could mean anything tomorrow, so it is not.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


WITHOUT_SECTION = """\
The settings have no section `trigger`, so there is no token that could be known. Add one:

  trigger:
    tokens:
      cron:
        token: {env: FILEJOBS_TRIGGER_TOKEN}

and set FILEJOBS_TRIGGER_TOKEN to the output of `openssl rand -hex 32`."""


def serve_trigger(
    context: typer.Context,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; loopback unless told.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="The port to listen on.")
    ] = 8723,
    workspace: Annotated[
        Path | None,
        typer.Option(
            "--workspace",
            "-w",
            help="The workspace file of Dagster's daemon. Without it ./workspace.yaml, then the "
            "one in DAGSTER_HOME.",
            show_default=False,
        ),
    ] = None,
    beyond: Annotated[
        bool,
        typer.Option(
            "--listen-beyond-this-machine",
            help="Allow an address that others can reach. The tokens travel in clear: put a "
            "proxy with TLS in front.",
        ),
    ] = False,
) -> None:
    """Let an external cron start jobs over HTTP, until SIGTERM or Ctrl-C.

    POST /jobs/JOB/runs with a bearer token puts one run into Dagster's queue, as the job's
    schedule would: over everything that is due, in the mode and with the limits of the settings.
    Who holds which token, and how often it may ask, stands in the section trigger.

    It answers 202 with the run's id, 409 when a run of the job is queued or at work, 429 and
    Retry-After when it was started too often, 404 for an unknown job, 503 when something is away,
    and 401 for everything without a known token. GET /healthz says that the process lives.

    POST /jobs/JOB/reports says of a watched job of your own that it began or how it ended:
    {"said": "start"}, "success", or "failure" with an error; run names it, scanned and acted count.

    Each request reads filejobs.yaml again; tokens are those of the start. Several processes may
    serve one installation: the count is kept in the database, by its clock.

    [bold]Examples[/bold]
      filejobs serve-trigger --port 8723
      curl -X POST --oauth2-bearer "$TOKEN" 127.0.0.1:8723/jobs/audit_seal/runs

    [bold]Exit codes[/bold]
      0   stopped
      1   the settings are wrong, the instance, the workspace or the address cannot be used
      64  called wrongly
    """
    invocation = Invocation.of(context)
    settings = invocation.require()
    trigger = settings.trigger
    if trigger is None:
        print_error(WITHOUT_SECTION)
        raise typer.Exit(terminal.FAILED)
    _refuse_others(host, beyond=beyond)
    with opened_instance(invocation, "runs are queued in Dagster's instance") as instance:
        from filejobs_dagster.orchestration.launching import (  # noqa: PLC0415 (imports Dagster)
            NoWorkspace,
            workspace_path,
        )
        from filejobs_dagster.trigger.serving import serve_trigger as serve  # noqa: PLC0415

        try:
            where = workspace_path(workspace)
        except NoWorkspace as error:
            print_error(str(error))
            raise typer.Exit(terminal.FAILED) from None
        _announce(settings, trigger, host, port)
        serve(
            instance, settings, trigger,
            config=invocation.config, workspace=where, host=host, port=port,
        )  # fmt: skip


def _refuse_others(host: str, *, beyond: bool) -> None:
    if beyond or is_loopback(host):
        return
    print_error(
        f"{host} can be reached from other machines, and tokens would travel there in clear. "
        "Listen on 127.0.0.1 and let a proxy with TLS pass /jobs/ on, or say "
        "--listen-beyond-this-machine. Nothing was started."
    )
    raise typer.Exit(terminal.FAILED)


def _announce(settings: Settings, trigger: TriggerSettings, host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    typer.echo(
        f"{settings.installation}: POST http://{shown}:{port}/jobs/JOB/runs\n"
        f"tokens: {', '.join(trigger.tokens)}; at most {trigger.starts_per_hour} starts of a job "
        f"an hour, {trigger.live_per_minute} asked to be live a minute and token"
    )
