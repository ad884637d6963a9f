"""`opal answer`: a person's answer to the open decision."""

from __future__ import annotations

import sys
import time
from typing import Annotated, NoReturn

import typer

from opal.cli.arguments import RunArgument
from opal.errors import ArgumentValueError, OpalError
from opal.records.commands import append_command
from opal.records.decision_rows import open_decision
from opal.records.events import RunStarted
from opal.records.reader import RunRecord, read_run

# a question is announced at once, and its event is on the disk a moment later
_PATIENCE = 2.0

Why = Annotated[str | None, typer.Argument(metavar="WHY", help="The rationale: observed, changed, prediction.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the programs, whatever lies in the workspace.")]


def answer(run: RunArgument, why: Why = None, keep: Keep = False) -> None:
    """Answer the open decision of a run with backend="manual": what lies in its workspace is the edit.

    Example:  opal answer opal_runs/20261201-101500-4242-3fa9c1 "Muon for the block matrices: expect -0.2"
    """
    if why is not None and not why.strip():
        raise ArgumentValueError("WHY", why, "a text that is not empty, or none")
    record = read_run(run)
    backend = next((event.backend for event in reversed(record.events) if isinstance(event, RunStarted)), "manual")
    if backend != "manual":
        raise OpalError(f"this run asks {backend!r}; only a run with backend='manual' takes answers from a person")
    number = _wait_for_question(record)
    arguments = {"keep": True} if keep else {}
    append_command(record.folder, "answer", text=(why or "").strip(), **arguments)
    print(f"answered decision {number}{': the programs stay' if keep else ''}")


def _wait_for_question(record: RunRecord) -> int:
    """The number of the open decision; without one, say so and end with 1."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        if record.state in ("finished", "killed"):
            _nothing(f"the run has {'ended' if record.is_finished else 'been killed'}")
        row = open_decision(record.events)
        if row is not None:
            return row.number
        if time.monotonic() >= give_up:
            _nothing("no decision is open: wait for the line that asks for one")
        time.sleep(0.1)
        record = read_run(record.folder.root)


def _nothing(why: str) -> NoReturn:
    print(f"opal: {why}; nothing was answered", file=sys.stderr)
    raise typer.Exit(1)
