"""A group whose commands are imported when they are called, or when their help is shown.

`filejobs status` must start fast and on a machine without the parts that other commands need.
"""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from typing import Any, ClassVar

import typer
import typer.core
import typer.main

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.terminal import Invocation, print_error

_NO_COLOR = "NO_COLOR"


class LazyGroup(typer.core.TyperGroup):
    """Finds each command as `module:name`, and turns every error into a sentence and a code."""

    places: ClassVar[Mapping[str, str]] = {}
    """Each command's name, and the function or `typer.Typer` that it is."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands in the order in which the help shows them."""
        del ctx
        return list(self.places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command."""
        del ctx
        if cmd_name not in self.commands and cmd_name in self.places:
            self.commands[cmd_name] = _load(cmd_name, self.places[cmd_name])
        return self.commands.get(cmd_name)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and exit with the code that the command's help explains."""
        invocation = Invocation()

        def go() -> Any:
            return super(LazyGroup, self).main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                obj=invocation,
                **extra,
            )

        if not standalone_mode:
            return go()
        sys.exit(_code_of(go, invocation))


def _code_of(go: Any, invocation: Invocation) -> int:
    """Call, tell what went wrong, and return the exit code."""
    try:
        code = go()
        sys.stdout.flush()
    except typer.TyperException as error:
        return _misused(error)
    except (KeyboardInterrupt, typer.Abort):
        print_error("Interrupted.")
        return terminal.INTERRUPTED
    except BrokenPipeError:
        # Whoever read this has seen enough. Python would complain once more while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return terminal.FAILED
    except Exception as error:  # noqa: BLE001 (the last line of defence: every error is told)
        from filejobs_dagster.cli.failures import failure_of  # noqa: PLC0415 (needs the database)

        failure = failure_of(error, invocation.secrets)
        print_error(failure.text)
        return failure.exit_code
    return code if isinstance(code, int) else terminal.OK


def _misused(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "filejobs"
    print_error(f"{command}: {error.format_message()}\n`{command} --help` explains the command.")
    return terminal.USAGE


def _with_habits(command: Any) -> None:
    """Let a command, and those below it, take what people type after any command.

    They are read before the command's own options, so that none has to declare them.
    """
    for each in getattr(command, "commands", {}).values():
        _with_habits(each)
    own = {option for parameter in command.params for option in getattr(parameter, "opts", ())}
    parse = command.parse_args

    def parse_args(ctx: Any, args: list[str]) -> Any:
        end = args.index("--") if "--" in args else len(args)
        given, rest = args[:end], args[end:]
        if "--json" in given and "--format" in own:
            given = ["--format=json" if each == "--json" else each for each in given]
        if "--no-color" in given:
            ctx.with_resource(_without_colours())
        if "--quiet" in given:
            ctx.with_resource(redirect_stdout(io.StringIO()))
        given = [each for each in given if each not in ("--no-color", "--quiet")]
        try:
            return parse(ctx, [*given, *rest])
        except BaseException:  # nobody closes a context that was never entered
            ctx.close()
            raise

    command.parse_args = parse_args


@contextmanager
def _without_colours() -> Iterator[None]:
    """Say NO_COLOR for as long as the call lasts, not to whatever this process does next."""
    before = os.environ.get(_NO_COLOR)
    os.environ[_NO_COLOR] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_COLOR]
        else:
            os.environ[_NO_COLOR] = before


def _load(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(name)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    _reflow(command)
    _with_habits(command)
    return command


def _reflow(command: Any) -> None:
    command.help = reflowed(command.help or "")
    for each in getattr(command, "commands", {}).values():
        _reflow(each)


def reflowed(text: str) -> str:
    """Help whose prose fills the terminal's lines; paragraphs with indented lines stay as are."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        paragraph if "\n " in paragraph else " ".join(paragraph.split("\n"))
        for paragraph in paragraphs
    )


def help_when_alone(context: typer.Context) -> None:
    """Show the help of a group that was called without a command, and exit with 64."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)
        raise typer.Exit(terminal.USAGE)
