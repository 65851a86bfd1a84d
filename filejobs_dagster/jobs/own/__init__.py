"""own_jobs: the operator's own jobs, each a declaration as ours, made of what the settings say.

- A rule in SQL is a declared table: candidates and claim are written from its one `where` and
  `due`. The claim is the write, and repeats every condition.
- A Python callable is given the run, and a command a few variables and a file for what it reports.
- What is watched is run by something else: it says when it begins and ends, or Dagster does.
- The door goes by what a job says that it touches. Its name begins with `own_`, as none of ours.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from filejobs_dagster.collector import WRITES_SETBACKS, Collector, Examination
from filejobs_dagster.jobs.own.settings import KINDS, kind_of, touches_of
from filejobs_dagster.registry import OWN
from filejobs_dagster.settings.section import part

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from filejobs_dagster.collector import Resources
    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.run_context import RunContext

_DOES = {
    "rule": "Takes the due rows of {}.",
    "python": "Calls {}.",
    "command": "Runs {}.",
    "reports": "Is run elsewhere, and reports.",
    "dagster_job": "Is the Dagster job {} of another code location.",
}


def declarations(said: Any) -> dict[str, Collector[Any, Any]]:
    """The jobs that a section `own_jobs` declares; an entry with mistakes as far as it is read.

    Args:
        said: The section as the file has it; nothing about its values is certain.
    """
    found = {}
    for name, entry in (said if isinstance(said, dict) else {}).items():
        if isinstance(name, str) and OWN.fullmatch(name):
            try:
                found[name] = _declared(name, kind_of(entry), entry)
            except PydanticCustomError:
                continue  # reported where the settings are read
    return found


def _declared(name: str, kind: str, entry: Mapping[str, Any]) -> Collector[Any, Any]:
    settings, request = KINDS[kind]
    what = part(entry.get("rule"), "table") if kind == "rule" else entry[kind]
    shown = what[0] if isinstance(what, list) and what else what
    about = entry.get("about")
    return Collector(
        name=name,
        summary=about if isinstance(about, str) else _DOES[kind].format(shown),
        touches=touches_of(kind, entry),
        settings=settings,
        request=request,
        run=partial(_run, kind),
        privileges=WRITES_SETBACKS if kind == "rule" else (),
        partitioned=kind == "rule" or entry.get("by_day") is True,
        watched=kind in ("reports", "dagster_job"),
        examine=_EXAMINED.get(kind),
    )


def _run(kind: str, context: RunContext, request: Any, has: Resources) -> Outcome:
    # Each part brings what it needs: a parser of SQL, or processes.
    if kind == "rule":
        from filejobs_dagster.jobs.own.rows import take_rows  # noqa: PLC0415

        return take_rows(context, request)
    from filejobs_dagster.jobs.own.foreign import call, start  # noqa: PLC0415

    return call(context, request, has) if kind == "python" else start(context, request, has)


def _rule(_: Any, configured: Any) -> Examination:
    def look(database: Database, connection: Connection) -> Iterable[Finding]:
        from filejobs_dagster.doctor.reservations import check_reservation_source  # noqa: PLC0415

        return check_reservation_source(configured.rule, (), database, connection, rows="own rule")

    return Examination(f"own rule {configured.rule.table}", look)


def _callable(_: Any, configured: Any) -> Examination:
    def look(*_: Any) -> Iterable[Finding]:
        from filejobs_dagster.jobs.own.foreign import look_at_callable  # noqa: PLC0415

        return look_at_callable(configured)

    return Examination(f"own job {configured.python}", look, needs_database=False)


def _command(_: Any, configured: Any) -> Examination:
    def look(*_: Any) -> Iterable[Finding]:
        from filejobs_dagster.jobs.own.foreign import look_at_command  # noqa: PLC0415

        return look_at_command(configured)

    return Examination(f"own job {configured.command[0]}", look, needs_database=False)


_EXAMINED: Mapping[str, Any] = {"rule": _rule, "python": _callable, "command": _command}
