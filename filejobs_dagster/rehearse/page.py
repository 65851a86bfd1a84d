"""A rehearsal's report as one page that needs nothing beside itself: no script, nothing loaded."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from filejobs_dagster.scan.page import card, document, lines, size_of, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GOOD = "#2b6a99"
BAD = "#c4472b"


def page(found: Mapping[str, Any]) -> str:
    """The page as a document of HTML.

    Args:
        found: The report, as `rehearse` returns it.
    """
    taken, gone = found["taken"], found["gone"]
    unstopped = [it for it in found["mutations"] if it["gone"]]
    canaries = all_canaries(found)
    fared_ill = [it for it in canaries if not it["held"]]
    planted = len(canaries)
    seconds = found["estimated_seconds"]
    requests = sum(found["requests"].values())
    cards = [
        ("Gone in the rehearsal", f"{gone['objects']:,}", size_of(gone["bytes"]), ""),
        (
            "Planted files",
            f"{planted - len(fared_ill)} of {planted}",
            "fared as they must",
            BAD if fared_ill else GOOD,
        ),
        (
            "Rules left out",
            f"{len(unstopped)} of {len(found['mutations'])}",
            "nothing would have stopped",
            BAD if unstopped else GOOD,
        ),
        (
            "The real one",
            f"{requests:,}",
            "requests" + ("" if seconds is None else f", about {seconds:,} seconds"),
            "",
        ),
    ]
    sections = [
        _section("Nothing would have stopped it", _mutations(unstopped), alarm=True)
        if unstopped
        else "",
        _section("Planted files that did not fare as they must", _canaries(fared_ill), alarm=True)
        if fared_ill
        else "",
        _section(
            "Runs",
            table(
                ("Run", "Looked at", "Acted on", "How it ended"),
                (
                    (
                        it["mode"],
                        _number(it["scanned"]),
                        "" if it["mode"] == "dry" else _number(it["acted"]),
                        "well" if it["ok"] else it["error"],
                    )
                    for it in found["runs"]
                ),
                range(1, 3),
            ),
        ),
        *(_section(f"The job {it['job']}", _other(it)) for it in found["others"]),
        _section("What went, by age", _sizes(gone["by_age"], "age")),
        _section("What went, for instance", lines(gone["sample"], "Nothing went.")),
        _section(
            "Everything, by class and prefix",
            table(
                ("Class", "Below", "Objects", "Size"),
                (
                    (it["class"], it["prefix"], f"{it['objects']:,}", size_of(it["bytes"]))
                    for it in found["by_prefix"]
                ),
                range(2, 4),
            ),
        ),
        _section(
            "Everything, by class and age",
            table(
                ("Class", "Age", "Objects", "Size"),
                (
                    (it["class"], it["age"], f"{it['objects']:,}", size_of(it["bytes"]))
                    for it in found["by_age"]
                ),
                range(2, 4),
            ),
        ),
        _section(
            "Each rule left out in turn",
            _mutations(found["mutations"]) if found["mutations"] else "<p>None was left out.</p>",
        ),
        _section(
            "Planted files",
            _canaries(canaries)
            + lines([f"{it}: nothing could be planted" for it in found["unplanted"]], ""),
        ),
        _section(
            "Requests of the live run",
            table(
                ("Request", "How many"),
                ((name, f"{count:,}") for name, count in sorted(found["requests"].items())),
                range(1, 2),
            ),
        ),
        _section(
            "What was copied",
            table(
                ("Table", "Columns"),
                ((name, ", ".join(columns)) for name, columns in taken["tables"].items()),
                range(0),
            ),
        ),
        _section("What was not rehearsed", lines(not_rehearsed(found), "Nothing.")),
    ]
    footer = (
        f"<footer>{escape(by_hash(found))} A rehearsal shows what happens to the rows and objects "
        "of its moment.</footer>"
    )
    notes = [f"The {it['mode']} run failed: {it['error']}" for it in found["runs"] if not it["ok"]]
    return document(
        f"Rehearsal of {found['bucket']}",
        f"{found['installation']}: {taken['objects']:,} objects, {size_of(taken['object_bytes'])} "
        f"at {found['endpoint']}; {size_of(taken['table_bytes'])} of tables",
        taken["at"],
        notes,
        f'<div class="cards">{"".join(map(card, cards))}</div>{"".join(sections)}{footer}',
    )


def all_canaries(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Every planted file, of every job."""
    return [*found["canaries"], *(one for it in found["others"] for one in it["canaries"])]


def other_in_words(it: Mapping[str, Any]) -> str:
    """How another job fared, in a line."""
    failed = next((run for run in it["runs"] if not run["ok"]), None)
    rows = ", ".join(f"{n:,} rows of {table}" for table, n in it["rows"].items() if n)
    said = f"took {rows or 'no rows'}, {it['objects']:,} objects, {size_of(it['bytes'])}"
    if failed is not None:
        said = f"its {failed['mode']} run FAILED: {failed['error']}; it {said}"
    return "; ".join([said, *(f"no row could be planted for {why}" for why in it["unplanted"])])


def _other(it: Mapping[str, Any]) -> str:
    said = f"<p>It {escape(other_in_words(it))}.</p>"
    return said + lines(it["sample"], "")


def by_hash(found: Mapping[str, Any]) -> str:
    """What the first live run is given."""
    if found["taken"]["doubt"]:
        return (
            f"There is no hash for the first live run: of the dump nobody knows whose it is, since "
            f"{found['taken']['doubt']}. Adopt the bucket (filejobs bucket adopt), and take a dump "
            "of that database after it, with the tables of this project."
        )
    if found["hash"] is None:
        return "There is no hash for the first live run: not everything went as it must."
    return f"For the first live run: --rehearsed {found['hash']}"


def not_rehearsed(found: Mapping[str, Any]) -> list[str]:
    """What a rehearsal says nothing about, in lines."""
    taken = found["taken"]
    said = [f"the job {name}" for name in found["not_rehearsed"]]
    if taken["left"]:
        said.append(
            f"{len(taken['left'])} tables, of which nothing was copied (--all-tables): what only "
            f"they name went here. {', '.join(taken['left'][:5])}, …"
        )
    said += [
        f"what needs {name}, which this machine's PostgreSQL lacks" for name in taken["missing"]
    ]
    if taken["newest_run"]:
        said.append(f"what changed after the dump, whose newest run ended {taken['newest_run']}")
    return said


def _section(title: str, body: str, *, alarm: bool = False) -> str:
    kind = ' class="alarm"' if alarm else ""
    return f"<section{kind}><h2>{escape(title)}</h2>{body}</section>"


def _sizes(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    return table(
        (name.capitalize(), "Objects", "Size"),
        ((it[name], f"{it['objects']:,}", size_of(it["bytes"])) for it in rows),
        range(1, 3),
    )


def _mutations(rows: Sequence[Mapping[str, Any]]) -> str:
    return table(
        ("Without", "Would go by names alone", "Went", "What stopped the rest", "For instance"),
        (
            (
                f"the {it['kind']} {it['name']}",
                _number(it["would_have_gone"]),
                f"{it['gone']:,}",
                it["stopped_by"] or "NOTHING would have stopped it",
                it["sample"][0] if it["sample"] else "",
            )
            for it in rows
        ),
        range(1, 3),
    )


def _canaries(rows: Sequence[Mapping[str, Any]]) -> str:
    return table(
        ("Planted", "Must", "Did it", "Key"),
        (
            (
                it["what"],
                {"goes": "go", "stays": "stay"}.get(it["expected"], it["expected"]),
                "yes" if it["held"] else f"NO. {it['why']}",
                it["key"],
            )
            for it in rows
        ),
        range(0),
    )


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"
