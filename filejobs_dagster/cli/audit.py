"""`filejobs audit`: the events of a file as sentences, holds, keys, proofs, a restored database."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from filejobs_dagster.audit.append import COLLECTORS_CHAIN
from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.arguments import instant, moment
from filejobs_dagster.cli.lazy import help_when_alone
from filejobs_dagster.cli.terminal import (
    Invocation,
    console,
    operator_name,
    print_error,
    print_json,
    print_table,
)
from filejobs_dagster.text import display_key, sanitize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from filejobs_dagster.audit.append import FileEvent

app = typer.Typer(
    help="Looks into the audit chains, and keeps parts of them from being trimmed.",
    rich_markup_mode="rich",
    add_completion=False,
)
hold = typer.Typer(
    help="Legal holds: nothing from an event on is trimmed until the hold is released.",
    rich_markup_mode="rich",
    add_completion=False,
)
app.add_typer(hold, name="hold")

Chain = Annotated[
    str, typer.Option("--chain", metavar="NAME", help="Which chain.")
]  # fmt: skip


class Format(str, Enum):
    """How something is printed."""

    TABLE = "table"
    JSON = "json"


@app.callback(invoke_without_command=True)
def _audit(context: typer.Context) -> None:
    help_when_alone(context)


@hold.callback(invoke_without_command=True)
def _hold(context: typer.Context) -> None:
    help_when_alone(context)


@app.command()
def show(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="The file's id, or its key.", show_default=False),
    ],
    output: Annotated[
        Format, typer.Option("--format", help="table for people, json for programs.")
    ] = Format.TABLE,
) -> None:
    """Tell the events of one file in words, with the seal and the pin that cover each.

    Looks into every chain for events that name the file's id (`file_id`), and for the deletions
    that name its key. What was trimmed is not found here. It reads, and verifies nothing: that is
    `filejobs verify`. The role needs SELECT on audit_event.

    [bold]Examples[/bold]
      filejobs audit show 0b3c5a1e-8f0e-4c55-9f0b-0c2d8f1f6a77
      filejobs audit show files/2025/report.pdf --format json

    [bold]Exit codes[/bold]
      0   shown
      1   no event names the file, or it could not be read
    """
    from filejobs_dagster.audit.append import events_of_file  # noqa: PLC0415 (--help stays fast)
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415

    settings = Invocation.of(context).require()
    database = Database.of(settings.database)
    with (
        database.connect("audit show") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        events = events_of_file(cursor, database, file)
    if output is Format.JSON:
        print_json({"file": file, "events": [_document(event) for event in events]})
    if not events:
        print_error(
            f"No event names {file!r}. It may never have been told of, or have been trimmed; an "
            "archive of trimmed events is not looked into."
        )
        raise typer.Exit(terminal.FAILED)
    if output is Format.TABLE:
        out = console()
        for event in events:
            for line in told(event):
                out.print(line)


def _document(event: FileEvent) -> dict[str, object]:
    return {
        "chain": event.chain,
        "seq": event.seq,
        "recorded_at": instant(event.recorded_at),
        "kind": event.kind,
        "body": event.body,
        "seal": event.seal_no,
        "sealed_at": instant(event.sealed_at),
        "pin": event.pin,
        "pinned_at": instant(event.pinned_at),
    }


@app.command()
def keygen(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The key's name in signatures, such as acme-production/audit; no + and no space.",
            show_default=False,
        ),
    ],
) -> None:
    """Print a new key pair for seals. It is stored nowhere.

    The first line is the private key: put it into the variable that `audit.signing_key` names, or
    into a file with mode 0600 that `audit.key_file` names, where audit_seal runs and nowhere else.
    The second is the public key, for `audit.public_keys` of whoever verifies.

    [bold]Example[/bold]
      filejobs audit keygen acme-production/audit

    [bold]Exit codes[/bold]
      0   printed
      1   no key can have this name
    """
    from filejobs_dagster.audit.note import UnusableKey, generate, private_text  # noqa: PLC0415

    try:
        signer = generate(name)
    except UnusableKey as error:
        _refuse(str(error))
    typer.echo(private_text(signer))
    typer.echo(str(signer.verifier))
    print_error(
        "The first line is the private key, a secret that is stored nowhere; the second is the "
        "public key, for audit.public_keys."
    )


@app.command()
def restore(
    context: typer.Context,
    reason: Annotated[
        str,
        typer.Option(
            "--reason",
            metavar="TEXT",
            help="What happened; goes into note and chain.",
            show_default=False,
        ),
    ],
    chain: Chain = COLLECTORS_CHAIN,
) -> None:
    """Acknowledge that the database was restored from a backup, so that its chain goes on.

    For ROLLED_BACK alone: the pins count more than the database has, and nothing else is wrong.
    The whole chain is verified first: it must agree with the newest pin that it still has a seal
    for. What was appended since the restore stays, and may contradict the pins that were lost. A
    signed note names what matched and every pin that was lost, and is pinned; the chain goes on
    under the next incarnation. The pins of what was lost stay where they are. It writes: call it
    once, with the key that seals, when you know that it was a restore.

    [bold]Example[/bold]
      filejobs audit restore --reason 'disk lost on 3 May, restored from the backup of 02:00'

    [bold]Exit codes[/bold]
      0   acknowledged
      1   refused, with the code; nothing was written
    """
    from filejobs_dagster.audit.note import UnusableKey  # noqa: PLC0415 (--help stays fast)
    from filejobs_dagster.audit.pins.store import Equivocation, PinStoreUnusable  # noqa: PLC0415
    from filejobs_dagster.audit.restore import acknowledge_restore  # noqa: PLC0415
    from filejobs_dagster.audit.session import RestoreRefused  # noqa: PLC0415
    from filejobs_dagster.jobs.audit_setup import seal_policy  # noqa: PLC0415
    from filejobs_dagster.objects.errors import BucketUnavailable  # noqa: PLC0415
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415

    if not reason.strip():
        raise typer.BadParameter("say what happened, for the audit log", param_hint="--reason")
    invocation = Invocation.of(context)
    settings = invocation.require()
    database = Database.of(settings.database)
    try:
        policy = seal_policy(settings)
        with database.connect("audit restore") as connection:
            row = acknowledge_restore(
                database, connection, chain, policy, actor=operator_name(), reason=reason
            )
    except (
        RestoreRefused, Equivocation, PinStoreUnusable, BucketUnavailable, UnusableKey,
    ) as error:  # fmt: skip
        _refuse(str(error), invocation)
    typer.echo(
        f"The chain {chain} goes on as incarnation {row.incarnation}. It has "
        f"{row.survived_size:,} events, of which pins vouch for {row.matched_size:,}; the newest "
        f"pin counted {row.lost_size:,} (seal {row.lost_seal}). Seal it now."
    )
    for pin in row.lost:
        typer.echo(f"lost: the events up to {pin.size}, pinned as {pin.head.hex()}")


@app.command()
def prove(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NUMBER",
            help="The file's id or its key, or the number of one event.",
            show_default=False,
        ),
    ],
    chain: Annotated[
        str | None,
        typer.Option(
            "--chain",
            metavar="NAME",
            help=f"Which chain. Of a number {COLLECTORS_CHAIN}, of a file all chains.",
            show_default=False,
        ),
    ] = None,
    is_file: Annotated[
        bool, typer.Option("--file", help="It is a file's id, though it looks like a number.")
    ] = False,
) -> None:
    """Print a proof that events stand in a chain, for somebody who has only public keys.

    Of one event by its number, or of all events that concern a file, as `audit show` finds them.
    The proof holds each event, the signed note of the first pinned seal that counts it, and the
    hashes between the two. `filejobs_dagster/audit/offline.py` checks it without the database and
    without any other file of the project. The role needs SELECT on the tables of the log. Nothing
    else is verified here: that is `filejobs verify`.

    [bold]Examples[/bold]
      filejobs audit prove 4711 > proof.json
      filejobs audit prove 0b3c5a1e-8f0e-4c55-9f0b-0c2d8f1f6a77 > proof.json
      python offline.py proof.json --origin acme-production/audit/collectors --key "$KEY"

    [bold]Exit codes[/bold]
      0   printed; events of the file that cannot be proven are named in it and on stderr
      1   no event is there, or none can be proven: trimmed, or no pinned seal counts it
    """
    from filejobs_dagster.audit.prove import (  # noqa: PLC0415 (--help stays fast)
        NothingToProve,
        prove_event,
        prove_file,
    )
    from filejobs_dagster.jobs.audit_setup import verify_policy  # noqa: PLC0415
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415

    invocation = Invocation.of(context)
    settings = invocation.require()
    database = Database.of(settings.database)
    pins: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    try:
        policy = verify_policy(settings)
        with database.connect("audit prove") as connection:
            if is_file or not (what.isascii() and what.isdigit()):
                proof = prove_file(database, connection, policy, what, chain)
                text, pins, left_out = proof.text, proof.pins, proof.left_out
            else:
                origin = policy.origin_of(chain or COLLECTORS_CHAIN)
                text, pin = prove_event(database, connection, origin, int(what))
                pins = (pin,)
    except NothingToProve as error:
        _refuse(str(error), invocation)
    typer.echo(text, nl=False)
    for why in left_out:
        print_error(f"Not proven: {why}")
    where = "" if policy.pins is None else f" ({policy.pins.description})"
    print_error(f"Whoever checks it fetches each pin by himself: {', '.join(pins)}{where}")


@hold.command("set")
def set_(
    context: typer.Context,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, in words.", show_default=False)
    ],
    chain: Chain = COLLECTORS_CHAIN,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="ID", help="Hold this file's events.", show_default=False),
    ] = None,
    from_seq: Annotated[
        int | None,
        typer.Option(
            "--from-seq",
            metavar="N",
            min=1,
            help="Hold everything from this event on.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Hold a file's events, or everything from an event on, or the whole chain.

    A trim removes a prefix only, so a hold on a file keeps everything from the file's first event
    on. Setting it is an event of the chain.

    [bold]Examples[/bold]
      filejobs audit hold set --file 0b3c5a1e-8f0e-4c55-9f0b-0c2d8f1f6a77 --reason 'case 7'
      filejobs audit hold set --chain application --from-seq 1200 --reason 'audit of 2025'

    [bold]Exit codes[/bold]
      0   set; the hold's id is printed
      1   refused
    """
    from filejobs_dagster.audit.holds import HoldRefused, set_hold  # noqa: PLC0415
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415

    if not reason.strip():
        raise typer.BadParameter("say why, for the audit log", param_hint="--reason")
    if file is not None and from_seq is not None:
        raise typer.BadParameter("choose one of --file and --from-seq")
    invocation = Invocation.of(context)
    database = Database.of(invocation.require().database)
    try:
        with (
            database.connect("audit hold") as connection,
            database.transaction(connection) as cursor,
        ):
            made = set_hold(
                cursor,
                chain=chain,
                actor=operator_name(),
                reason=reason,
                file_id=file,
                from_seq=from_seq,
            )
    except HoldRefused as error:
        _refuse(str(error), invocation)
    typer.echo(made.hold_id)
    print_error(f"Nothing of the chain {chain} from event {made.from_seq:,} on is trimmed.")


@hold.command()
def release(
    context: typer.Context,
    hold_id: Annotated[
        str, typer.Argument(metavar="HOLD", help="The hold's id.", show_default=False)
    ],
) -> None:
    """Release a hold. That is an event of the chain, too.

    [bold]Exit codes[/bold]
      0   released
      1   there is no such hold, or it was released before
    """
    from filejobs_dagster.audit.holds import HoldRefused, release_hold  # noqa: PLC0415
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415

    invocation = Invocation.of(context)
    database = Database.of(invocation.require().database)
    try:
        with (
            database.connect("audit hold") as connection,
            database.transaction(connection) as cursor,
        ):
            release_hold(cursor, hold_id=hold_id, actor=operator_name())
    except HoldRefused as error:
        _refuse(str(error), invocation)
    typer.echo(f"released {hold_id}")


_HOLDS = """
SELECT hold_id, chain_id, from_seq, file_id, reason, set_at, set_by, released_at, released_by
  FROM audit_hold
 WHERE %(all)s OR released_at IS NULL
 ORDER BY set_at, hold_id
"""
_COLUMNS = ("hold", "chain", "from event", "file", "reason", "set at", "set by", "released at",
            "released by")  # fmt: skip


@hold.command("list")
def list_(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Released ones, too.")] = False,
    output: Annotated[
        Format, typer.Option("--format", help="table for people, json for programs.")
    ] = Format.TABLE,
) -> None:
    """List the holds that stand.

    [bold]Exit codes[/bold]
      0   listed, also when there is none
      1   could not be read
    """
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415 (--help stays fast)

    database = Database.of(Invocation.of(context).require().database)
    with (
        database.connect("audit hold") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        rows = cursor.execute(_HOLDS, {"all": everything}).fetchall()
    plain = [
        [instant(value) if hasattr(value, "astimezone") else value for value in row]
        for row in rows
    ]  # fmt: skip
    if output is Format.JSON:
        names = [name.replace(" ", "_") for name in _COLUMNS]
        print_json([dict(zip(names, row, strict=True)) for row in plain])
    elif not plain:
        typer.echo("no hold stands")
    else:
        table = Table(box=SIMPLE_HEAD)
        for name in _COLUMNS:
            table.add_column(name)
        for row in plain:
            table.add_row(*("-" if value is None else str(value) for value in row))
        print_table(console(), table)


def _refuse(reason: str, invocation: Invocation | None = None) -> NoReturn:
    print_error(sanitize(reason, known=() if invocation is None else invocation.secrets))
    raise typer.Exit(terminal.FAILED) from None


# Events of the audit chains as sentences.

RESTORE_INTENT = "objects.restore.intent"

LONGEST = 10_000
"""Characters of a line; the JSON has all."""


def told(event: FileEvent) -> Iterator[str]:
    """One event: when, where, what happened, and what covers it.

    An application writes its own words into its events: they must not look like another line.
    """
    happened = display_key(f"{event.chain} {event.seq}  {in_words(event)}", LONGEST)
    yield f"{moment(event.recorded_at)}  {happened}"
    yield f"    {covered(event)}"


def covered(event: FileEvent) -> str:
    """Which seal and which pin cover an event, as the database remembers them."""
    if event.seal_no is None:
        return "not sealed yet: unprotected"
    sealed = f"covered by seal {event.seal_no} of {moment(event.sealed_at)}"
    if event.pin is None:
        return f"{sealed}, of which no pin is known here: unprotected"
    return f"{sealed}, pinned at {moment(event.pinned_at)} as {event.pin}"


def in_words(event: FileEvent) -> str:
    """What happened; an event of a kind that is not known here is told by its fields."""
    tell = _KINDS.get(event.kind)
    return _fields(event) if tell is None else tell(event.body)


def _fields(event: FileEvent) -> str:
    kind = event.kind or "an event that does not say its kind"
    rest = ", ".join(
        f"{name}: {value}"
        for name, value in event.body.items()
        if name != "kind" and isinstance(value, str | int)
    )
    return f"{kind} ({rest})" if rest else kind


def _collected(body: Mapping[str, Any]) -> str:
    return (
        f"{body.get('job')} removed the reservation of {body.get('storage_key')!r}, which had "
        f"expired at {body.get('upload_expires_at')} (run {body.get('run_id')})"
    )


def _intent(body: Mapping[str, Any]) -> str:
    what = "bring back" if body.get("kind") == RESTORE_INTENT else "delete"
    return (
        f"{body.get('job')} was about to {what} {_keys(body.get('keys'))} in bucket "
        f"{body.get('bucket')} (run {body.get('run_id')}, batch {body.get('batch')})"
    )


_FATES = (
    "deleted",
    "marked",
    "quarantined",
    "restored",
    "already_gone",
    "never_arrived",
    "kept",
    "failed",
    "left",
)


def _result(body: Mapping[str, Any]) -> str:
    said = [f"{name.replace('_', ' ')}: {_amount(body[name])}" for name in _FATES if body.get(name)]
    return (
        f"storage answered to batch {body.get('batch')} of run {body.get('run_id')}: "
        f"{', '.join(said) or 'nothing was done'}"
    )


def _hold_set(body: Mapping[str, Any]) -> str:
    return (
        f"{body.get('by')} set hold {body.get('hold_id')} from event {body.get('from_seq')} on: "
        f"{body.get('reason')}"
    )


def _hold_released(body: Mapping[str, Any]) -> str:
    return f"{body.get('by')} released hold {body.get('hold_id')}"


def _keys(keys: Any) -> str:
    if isinstance(keys, list) and len(keys) == 1:
        return repr(keys[0])
    return f"{len(keys):,} objects" if isinstance(keys, list) else "objects"


def _amount(value: Any) -> str:
    return f"{len(value):,}" if isinstance(value, list | dict) else str(value)


_KINDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "upload_reservation.collected": _collected,
    "objects.delete.intent": _intent,
    "objects.delete.result": _result,
    RESTORE_INTENT: _intent,
    "objects.restore.result": _result,
    "audit.hold.set": _hold_set,
    "audit.hold.released": _hold_released,
}
