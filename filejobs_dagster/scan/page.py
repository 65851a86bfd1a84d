"""The report for people: its words, and one page with plots that needs nothing beside itself.

The plots are drawn by matplotlib, as SVG inside of the page: no script, no address, nothing that is
loaded. It comes with the extra `scan`, and nothing but the page needs it.
"""

from __future__ import annotations

import io
from html import escape
from importlib.util import find_spec
from string import Template
from typing import TYPE_CHECKING, Any

from filejobs_dagster.scan.result import CLASSES, Slice
from filejobs_dagster.streams.scratch import human_size as size_of
from filejobs_dagster.text import Teaching

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from filejobs_dagster.scan.result import Scan, Source, Uploads

__all__ = [
    "PlotsMissing",
    "card",
    "document",
    "headline",
    "how",
    "lines",
    "missing_lines",
    "require_plots",
    "share",
    "size_of",
    "table",
    "unsure_lines",
    "uploads_in_words",
    "write_page",
]

COLOURS = {
    "referenced": "#2b6a99",
    "derived": "#86b6d6",
    "unsure": "#e2a72e",
    "unreferenced": "#c4472b",
}
MEANINGS = {
    "referenced": "a row of the database names it",
    "derived": "made from one that a row names",
    "unsure": "something weak speaks for it",
    "unreferenced": "nothing that was looked at names it",
}
MOST_BARS = 12
MOST_MONTHS = 120
MOST_LINES = 40
_WIDE = 9.6
_PERCENT = 100
_A_LITTLE = 0.1


class PlotsMissing(Teaching):
    """matplotlib is not installed; the message says what to install."""


def require_plots() -> None:
    """Look whether a page can be written.

    Raises:
        PlotsMissing: It cannot.
    """
    if find_spec("matplotlib") is None:
        raise PlotsMissing(
            "The page with plots needs matplotlib, which is not installed: "
            "pip install 'filejobs_dagster[scan]'. Without --html nothing of it is needed."
        )


# Words ------------------------------------------------------------------------------------------


def headline(found: Scan) -> str:
    """The scan in a sentence."""
    total, gone = found.total.all, found.total.unreferenced
    where = f"bucket {found.bucket}{f', below {found.prefix}' if found.prefix else ''}"
    seen = f"{total.objects:,} objects, {size_of(total.bytes)}"
    if found.sampled is not None:
        seen = f"a sample of {seen}"
    said = f"{where}, against {found.database}: {seen}; "
    said += f"{size_of(gone.bytes)} ({share(gone.bytes, found)}) referenced by nothing"
    return f"{said}. NOT TO THE END: {found.stopped}" if found.stopped else f"{said}."


def share(size: int, found: Scan) -> str:
    """Of all bytes, in percent."""
    part = _PERCENT * size / max(found.total.all.bytes, 1)
    return f"{part:.1f} %" if part >= _A_LITTLE or not size else "< 0.1 %"


def how(source: Source) -> str:
    """What is done to a value so that it is a key."""
    said = [
        name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {_listed(value)}"
        for step in source.transforms
        for name, value in step.items()
    ]
    if source.names == "owners":
        said.append("names folders, stems or ids")
    if not source.complete:
        said.append("NOT READ TO ITS END")
    if source.unsure:
        said.append(f"unsure: {source.unsure}")
    return "; ".join(said) or "as it is"


def _listed(value: Any) -> str:
    return " or ".join(map(str, value)) if isinstance(value, list) else str(value)


def missing_lines(found: Scan) -> list[str]:
    """Sources whose rows name objects that are not there."""
    return [
        f"{each.column}: {each.missing:,} of {each.values:,}, for instance {each.missing_sample[0]}"
        for each in found.sources
        if each.missing and each.missing_sample and not each.unsure and not each.redundant
    ]


def unsure_lines(found: Scan) -> list[str]:
    """Why objects are neither in use nor unreferenced."""
    return [
        f"{size_of(each.objects.bytes)} in {each.objects.objects:,}: {each.why}"
        + (f", for instance {each.sample}" if each.sample else "")
        for each in found.unsure
    ]


def uploads_in_words(uploads: Uploads) -> str:
    """Multipart uploads in a sentence."""
    if not uploads.uploads:
        return "none."
    said = f"{uploads.uploads:,}, of which {uploads.over_a_week:,} began over a week ago"
    if uploads.bytes is not None:
        of = "they" if uploads.measured == uploads.uploads else f"{uploads.measured:,} of them"
        said += f"; {of} hold {size_of(uploads.bytes)}"
    if uploads.oldest is not None:
        said += f"; the oldest is of {uploads.oldest:%Y-%m-%d}"
    return f"{said}."


# The page ---------------------------------------------------------------------------------------


def write_page(found: Scan, path: Path) -> None:
    """Write the page.

    Raises:
        PlotsMissing: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    require_plots()
    path.write_text(page(found), encoding="utf-8")


def page(found: Scan) -> str:
    """The page as a document of HTML."""
    total = found.total
    used = total.referenced.bytes + total.derived.bytes
    cards = [
        ("In the bucket", size_of(total.all.bytes), _objects(total.all.objects), ""),
        (
            "In use",
            size_of(used),
            f"{share(used, found)}; {_objects(total.referenced.objects + total.derived.objects)}",
            COLOURS["referenced"],
        ),
        *(
            (
                what.capitalize(),
                size_of(total.of(what).bytes),
                f"{share(total.of(what).bytes, found)}; {_objects(total.of(what).objects)}",
                COLOURS[what],
            )
            for what in ("unsure", "unreferenced")
        ),
    ]
    if found.uploads and found.uploads.bytes is not None:
        half = f"uploads: {found.uploads.uploads:,}, over a week old: {found.uploads.over_a_week:,}"
        cards.append(("Half-sent", size_of(found.uploads.bytes), half, "#7a5195"))
    notes = []
    if found.stopped:
        notes.append(f"This report is not complete. {found.stopped}")
    if found.sampled is not None:
        notes.append(
            f"{found.sampled:,} pages of the listing were looked at, here and there: all amounts "
            "are of these objects, and not of the bucket."
        )
    body = _BODY.substitute(
        cards="".join(map(card, cards)),
        legend="".join(
            f'<li><i style="background:{COLOURS[what]}"></i><b>{what}</b> {MEANINGS[what]}</li>'
            for what in CLASSES
        ),
        whole=_plot("whole", 0.9, lambda axes: _bars(axes, [found.total], named=False)),
        prefixes=_plot(
            "prefixes",
            0.7 + 0.34 * min(len(found.prefixes), MOST_BARS + 1),
            lambda axes: _bars(axes, _largest(found.prefixes)),
        ),
        ages=_plot("ages", 0.7 + 0.38 * len(found.ages), lambda axes: _bars(axes, found.ages)),
        months=_plot("months", 3.2, lambda axes: _growth(axes, found.months)),
        uploads=escape(uploads_in_words(found.uploads) if found.uploads else "They were not seen."),
        sources=_sources(found.sources),
        shapes=_shapes(found),
        missing=lines(missing_lines(found), "No row names an object that is missing."),
        unsure=lines(unsure_lines(found), "Nothing is unsure."),
        unseen=lines([f"{it.what}: {it.why}" for it in found.unseen], "Nothing."),
        sample=lines(found.unreferenced_sample, "None."),
        cost=escape(
            f"The scan took {found.seconds:,.0f} seconds, and read about "
            f"{size_of(found.read_bytes)} of the database in {found.read_seconds:,.0f} seconds. It "
            "wrote nothing."
        ),
    )
    return document(
        f"What is in {found.bucket}",
        f"{found.bucket}{f' below {found.prefix}' if found.prefix else ''} at "
        f"{found.endpoint_url or 'AWS'}, compared with the database {found.database}",
        f"{found.at:%d %B %Y, %H:%M} UTC",
        notes,
        body,
    )


def document(title: str, where: str, when: str, notes: Iterable[str], body: str) -> str:
    """A page as a document of HTML.

    Args:
        title: Its title, as text, and so the next three.
        where: What it is about.
        when: Of which moment.
        notes: What must be read first.
        body: Cards, sections and a footer, as HTML.
    """
    return _DOCUMENT.substitute(
        title=escape(title),
        where=escape(where),
        when=escape(when),
        notes="".join(f'<p class="note">{escape(note)}</p>' for note in notes),
        body=body,
    )


def _objects(number: int) -> str:
    return f"{number:,} object{'' if number == 1 else 's'}"


def card(said: tuple[str, str, str, str]) -> str:
    """A number: its title, itself, what stands below, its colour or nothing."""
    title, number, below, colour = said
    return (
        f'<div class="card" style="border-top-color:{colour or "#555"}">'
        f"<span>{escape(title)}</span>"
        f"<strong>{escape(number)}</strong><span>{escape(below)}</span></div>"
    )


def lines(said: Sequence[str], otherwise: str) -> str:
    """Lines of text as a list, and other words where there are none."""
    if not said:
        return f"<p>{otherwise}</p>"
    more = len(said) - MOST_LINES
    shown = [*said[:MOST_LINES], *([f"and {more:,} more"] if more > 0 else [])]
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in shown)}</ul>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: range) -> str:
    """Rows of text as a table; the columns whose places are in `numbers` are numbers."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if place in numbers else ''}>{escape(text)}</{tag}>"
            for place, text in enumerate(texts)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', headings)}</tr>{body}</table>"


def _sources(sources: Sequence[Source]) -> str:
    rows = [
        (
            f"{each.column} {each.path}".rstrip(),
            f"{each.objects.objects:,}",
            size_of(each.objects.bytes),
            "" if each.missing is None else f"{each.missing:,}",
            how(each),
            each.sample[0],
        )
        for each in sources
        if not each.redundant
    ]
    if not rows:
        return "<p>No column of this database was found to name an object of this bucket.</p>"
    headings = ("Column", "Objects", "Size", "Missing", "How", "For instance")
    return table(headings, rows, range(1, 4))


def _shapes(found: Scan) -> str:
    rows = [
        (
            each.sample,
            f"{each.objects.objects:,}",
            size_of(each.objects.bytes),
            f"{each.owners:,}",
            each.unsure or "",
        )
        for each in found.shapes
    ]
    if not rows:
        return "<p>No objects were found to be made from others.</p>"
    return table(("For instance", "Objects", "Size", "Made from", "Unsure"), rows, range(1, 4))


# Plots ------------------------------------------------------------------------------------------


def _plot(name: str, height: float, draw: Any) -> str:
    """A figure as SVG."""
    import matplotlib as mpl  # noqa: PLC0415 (only the page needs it)
    from matplotlib.figure import Figure  # noqa: PLC0415

    looks: Any = {
        # Letters stay letters: they can be searched, copied and read aloud.
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.family": "sans-serif",
        "font.size": 10,
        # A key may hold what would be a formula.
        "text.parse_math": False,
    }
    with mpl.rc_context(looks):
        figure = Figure(figsize=(_WIDE, height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0)
        held = io.StringIO()
        figure.savefig(held, format="svg", transparent=True, metadata={"Date": None})
    drawn = held.getvalue()
    return drawn[drawn.index("<svg") :]


def _largest(slices: Sequence[Slice]) -> list[Slice]:
    """As many as are readable, and the others together."""
    if len(slices) <= MOST_BARS + 1:
        return list(slices)
    rest = slices[MOST_BARS:]
    sums = {
        what: {
            "objects": sum(it.of(what).objects for it in rest),
            "bytes": sum(it.of(what).bytes for it in rest),
        }
        for what in CLASSES
    }
    others = Slice.model_validate({"label": f"{len(rest)} others", **sums})
    return [*slices[:MOST_BARS], others]


def _bars(axes: Axes, slices: Sequence[Slice], *, named: bool = True) -> None:
    places = list(range(len(slices)))
    unit, scale = _scale(max((each.all.bytes for each in slices), default=0))
    left = [0.0] * len(slices)
    for what in CLASSES:
        widths = [each.of(what).bytes / scale for each in slices]
        axes.barh(places, widths, left=left, color=COLOURS[what], height=0.72, edgecolor="white")
        left = [sum(pair) for pair in zip(left, widths, strict=True)]
    axes.set_yticks(places, [_short(each.label) for each in slices] if named else [""])
    axes.invert_yaxis()
    axes.margins(y=0.02)
    axes.set_xlabel(unit)
    if named:
        most = max(left, default=0.0)
        for place, each in zip(places, slices, strict=True):
            part = _PERCENT * each.unreferenced.bytes / max(each.all.bytes, 1)
            said = size_of(each.all.bytes)
            if each.unreferenced.bytes:
                said += f", {part:.0f} % unreferenced" if part >= 1 else ", < 1 % unreferenced"
            axes.text(left[place] + most * 0.01, place, said, va="center", color="#444", fontsize=9)
        axes.set_xlim(0, max(most, 1e-9) * 1.28)
    elif left and left[0]:
        axes.set_xlim(0, left[0])


def _growth(axes: Axes, months: Sequence[Slice]) -> None:
    """What is there now, by the month since which it is."""
    months = months[-MOST_MONTHS:]
    sums = dict.fromkeys(CLASSES, 0)
    stacked: dict[str, list[float]] = {what: [] for what in CLASSES}
    unit, scale = _scale(sum(each.all.bytes for each in months))
    for each in months:
        for what in CLASSES:
            sums[what] += each.of(what).bytes
            stacked[what].append(sums[what] / scale)
    places = list(range(len(months)))
    bottom = [0.0] * len(places)
    for what in CLASSES:
        axes.bar(places, stacked[what], bottom=bottom, color=COLOURS[what], width=0.86)
        bottom = [sum(pair) for pair in zip(bottom, stacked[what], strict=True)]
    step = max(1, len(months) // 10)
    axes.set_xticks(places[::step], [each.label for each in months][::step])
    axes.margins(x=0.01)
    axes.set_ylabel(unit)


def _scale(most: float) -> tuple[str, float]:
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if most >= scale:
            return unit, float(scale)
    return "bytes", 1.0


def _short(label: str) -> str:
    return label if len(label) <= MOST_LINES else f"{label[: MOST_LINES - 1]}…"


_BODY = Template("""<div class="cards">$cards</div>
<section><h2>The whole</h2>$whole<ul class="legend">$legend</ul></section>
<section><h2>Where the bytes are</h2><p>By the first folders of the keys; an asterisk stands for
ids and numbers.</p>$prefixes</section>
<section><h2>How old it is</h2><p>By the last change of each object. What is younger than two days
may be an upload that is still being made.</p>$ages</section>
<section><h2>How it grew</h2><p>What is there today, added up by the month of its last change.
</p>$months</section>
<section><h2>Half-sent uploads</h2><p>Multipart uploads that were begun and never completed: they
cost as objects do, and no listing of objects shows them.</p>$uploads</section>
<section><h2>Which columns name objects</h2>$sources</section>
<section><h2>Objects made from others</h2>$shapes</section>
<section><h2>Rows whose object is missing</h2>$missing</section>
<section><h2>What is unsure, and why</h2>$unsure</section>
<section><h2>Unreferenced, for instance</h2>$sample</section>
<section><h2>What was not looked at</h2>$unseen</section>
<footer>$cost This page is no list to delete by: what is written while a bucket is scanned, and what
stands above under <i>not looked at</i>, may name more.</footer>
""")

_DOCUMENT = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; color: #222;
       background: #f4f5f7; margin: 0; }
main { max-width: 1040px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 28px; margin: 0; } h2 { font-size: 18px; margin: 0 0 8px; }
header p { margin: 4px 0 0; color: #555; }
section { background: #fff; border: 1px solid #dfe2e6; border-radius: 8px; padding: 20px 24px;
          margin-top: 20px; overflow-x: auto; break-inside: avoid; }
section > p { margin: 0 0 10px; color: #555; }
.cards { display: grid; gap: 16px; margin-top: 24px;
         grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); }
.card { background: #fff; border: 1px solid #dfe2e6; border-top: 5px solid; border-radius: 8px;
        padding: 14px 18px; }
.card span { display: block; color: #555; font-size: 14px; }
.card strong { display: block; font-size: 27px; line-height: 1.3; color: #222; }
.note { background: #fff4d6; border-left: 5px solid #e2a72e; padding: 10px 14px; }
.legend { list-style: none; display: grid; grid-template-columns: repeat(2, 1fr); gap: 2px 24px;
          margin: 4px 0 0; padding: 0; color: #555; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 2px;
            margin-right: 8px; }
.legend b { color: #222; }
svg { width: 100%; height: auto; display: block; }
svg text { font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif !important; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; border-bottom: 2px solid #dfe2e6; color: #555; }
th, td { padding: 5px 12px 5px 0; vertical-align: top; overflow-wrap: anywhere; }
td:first-child { min-width: 230px; } td:last-child { min-width: 120px; } .n { min-width: 70px; }
.alarm { border-left: 6px solid #c4472b; background: #fdecea; }
.alarm h2 { color: #a32a12; }
td { border-bottom: 1px solid #eef0f2; } .n { text-align: right; white-space: nowrap; }
ul { margin: 0; padding-left: 20px; overflow-wrap: anywhere; } li { margin: 2px 0; }
footer { color: #555; margin-top: 20px; font-size: 13.5px; }
@media (max-width: 640px) {
  main { padding: 20px 12px 40px; } section { padding: 16px; }
  .cards { grid-template-columns: repeat(2, 1fr); gap: 10px; } .card { padding: 10px 12px; }
  .card strong { font-size: 21px; } .legend { grid-template-columns: 1fr; }
  /* What would be too small to read is moved sideways, within its box. */
  section ~ section svg { width: 680px; } table { min-width: 680px; } }
@media print { body { background: #fff; } main { padding: 0; } }
</style>
<main>
<header><h1>$title</h1><p>$where</p><p>$when</p></header>
$notes
$body</main>
</html>
""")
