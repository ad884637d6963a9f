"""The commands: listed without loading them, and loaded one at a time."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from opal._version import __version__
from opal.errors import OpalError

# name → (module, function, one line): what `opal --help` lists without loading any of them
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("opal.cli.demo", "demo", "Train a small model, plain and with the playbook."),
    "show": ("opal.cli.show", "show", "What became of every decision of a run."),
    "watch": ("opal.cli.watch", "watch", "Follow a run: events as they come."),
    "report": ("opal.cli.report", "report", "Build the page of a run."),
    "say": ("opal.cli.say", "say", "Leave a note for the agent of a run."),
    "answer": ("opal.cli.answer", "answer", "Answer the open decision of a run with backend='manual'."),
    "estimate": ("opal.cli.estimate", "estimate", "What a run would wait and cost, before it begins."),
}


class LazyGroup(TyperGroup):
    """Lists commands without loading them; the one that is called is loaded when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order in which a person meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A placeholder with the help line."""
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][2])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The real command that the arguments name."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, (load(name) if command is not None and name else command), rest


def load(name: str) -> Any:
    """Import one command's file and make its command.

    Raises:
        OpalError: the file needs a package that is not there; the text says which.
    """
    module, function, line = COMMANDS[name]
    try:
        run_command = getattr(importlib.import_module(module), function)
    except ImportError as error:
        raise OpalError(f"`opal {name}` cannot be loaded: {error}") from error
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    single.command(name, no_args_is_help=False, short_help=line)(run_command)
    return typer.main.get_command(single)


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"opal {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """OPAL: a coding agent in the loop of a PyTorch optimizer.

    Exit status: 0 fine, 1 found wanting, 2 wrong use. RUN is a run folder or a file in it; where it may be left out,
    the latest run in ./opal_runs is meant.

    Example:  opal demo
    """
