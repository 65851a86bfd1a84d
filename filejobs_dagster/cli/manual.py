"""The command `man`: the help of every command as man pages, written from what the commands say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BOLD = re.compile(r"\[/?bold\]")
_HEADING = re.compile(r"^\[bold\](.*?)\[/bold\](.*)$")


def man(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]…", help="Whose page, such as audit show.", show_default=False
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FOLDER",
            help="Write every page into this folder instead.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the man page of a command, or write all of them.

    They say what --help says; nothing is asked of any server.

    [bold]Examples[/bold]
      filejobs man status | man -l -
      filejobs man --to ~/.local/share/man/man1

    [bold]Exit codes[/bold]
      0   written
      64  called wrongly
    """
    root: Any = context.find_root()
    pages = dict(_pages(root.command, root.info_name or "filejobs", root))
    if to is not None:
        to.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            (to / f"{name}.1").write_text(page, encoding="utf-8")
        typer.echo(f"{len(pages)} pages are in {to}.")
        return
    wanted = "-".join(["filejobs", *(words or [])])
    if wanted not in pages:
        raise typer.BadParameter(
            f"there is no command {' '.join(words or [])}; `filejobs --help` shows them",
            param_hint="COMMAND",
        )
    typer.echo(pages[wanted], nl=False)


def _pages(command: Any, path: str, parent: Any) -> Iterator[tuple[str, str]]:
    """Name and roff of the page of a command, and of those below it."""
    own = (
        parent
        if command is parent.command
        else type(parent)(command, parent=parent, info_name=path.rpartition(" ")[2])
    )
    names = command.list_commands(own) if hasattr(command, "list_commands") else []
    yield path.replace(" ", "-"), _page(command, path, own, names)
    for name in names:
        yield from _pages(command.get_command(own, name), f"{path} {name}", own)


def _page(command: Any, path: str, context: Any, below: Sequence[str]) -> str:
    name = path.replace(" ", "-")
    text = (command.help or "").strip()
    first = re.split(r"\.\s", text, maxsplit=1)[0]
    lines = [
        f'.TH "{_said(name.upper())}" 1 "" "filejobs" "filejobs"',
        ".SH NAME",
        f"{_said(name)} \\- {_said(' '.join(first.split()).rstrip('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{_said(path)}\\fR {_said(' '.join(command.collect_usage_pieces(context)))}",
        ".SH DESCRIPTION",
        *_prose(text),
    ]
    described = [each.get_help_record(context) for each in command.params]
    if any(described):
        lines.append(".SH OPTIONS")
    for record in described:
        if record is not None:
            lines += [
                ".TP",
                f"\\fB{_said(record[0])}\\fR",
                _line(_plain(" ".join(record[1].split()))),
            ]
    more = [f"{name}-{each}" for each in below] or [path.rpartition(" ")[0].replace(" ", "-")]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_said(each)}\\fR(1)" for each in more)]
    return "\n".join(lines) + "\n"


def _prose(text: str) -> Iterator[str]:
    """The paragraphs of a help; what is indented in it stays as it is."""
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.split("\n")
        heading = _HEADING.match(lines[0])
        if heading is not None:
            yield f".SH {_said(heading[1].upper())}"
            lines = ([heading[2].strip()] if heading[2].strip() else []) + lines[1:]
        else:
            yield ".PP"
        drawn = any(line.startswith(" ") for line in lines)
        if drawn:
            yield ".nf"
        yield from (_line(_plain(line)) for line in lines)
        if drawn:
            yield ".fi"


def _plain(text: str) -> str:
    return _BOLD.sub("", text).rstrip()


def _line(text: str) -> str:
    r"""A line of text that begins no request of roff."""
    said = _said(text)
    return f"\\&{said}" if said.startswith((".", "'")) else said


def _said(text: str) -> str:
    """A text in ASCII as roff reads it; a hyphen is one that can be copied."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return "".join(it if it.isascii() else f"\\[u{ord(it):04X}]" for it in plain)
