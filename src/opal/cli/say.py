"""`opal say`: a note for the agent."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from opal.cli.arguments import RunArgument
from opal.errors import ArgumentValueError
from opal.records.commands import append_command
from opal.records.reader import read_run

_LONGEST = 10_000

Note = Annotated[
    str, typer.Argument(metavar="NOTE", help="What the agent should know; it reads it with the next decision.")
]


def say(run: RunArgument, note: Note) -> None:
    """Leave a note for the agent; it is part of the next decision's message.

    Example:  opal say opal_runs/20261201-101500-4242-3fa9c1 "the last run diverged at a rate of 0.01"
    """
    if not note.strip():
        raise ArgumentValueError("NOTE", note, "a text that is not empty")
    if len(note) > _LONGEST:
        raise ArgumentValueError("NOTE", note, f"at most {_LONGEST} characters")
    record = read_run(run)
    if record.state in ("finished", "killed"):
        print(
            f"opal: the run has {'ended' if record.is_finished else 'been killed'}; nobody reads notes", file=sys.stderr
        )
        raise typer.Exit(1)
    append_command(record.folder, "note", text=note.strip())
    print("noted: the next decision's message has it")
