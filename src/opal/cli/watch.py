"""`opal watch`: events as they come."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from opal.cli.arguments import OptionalRunArgument
from opal.cli.event_lines import event_colour, event_line
from opal.cli.terminal import fit, output_width, paint
from opal.records.events import RunEnded
from opal.records.line_tail import LineTail
from opal.records.reader import UnknownEvent, decode_event
from opal.records.run_info import chosen_run, read_run_info, unfinished_state

_LOOK_FOR_PROCESS_EVERY = 5.0
_LONGEST_LINE = 400

Timeout = Annotated[
    float | None,
    typer.Option("--timeout", min=0, help="Longest silence in seconds, then exit 1; 0: print what is there and end."),
]
Interval = Annotated[float, typer.Option("--interval", min=0.05, help="Seconds between two looks.")]


def watch(run: OptionalRunArgument = None, timeout: Timeout = None, interval: Interval = 1.0) -> None:
    """Print the events of a run as they come, until it ends.

    A killed run never writes its end: on its own machine that is noticed and ends the watch with exit 1, from elsewhere
    only --timeout ends it.

    Example:  opal watch --timeout 600
    """
    folder = chosen_run(run)
    read_run_info(folder)  # a damaged run is said at once
    tail = LineTail(folder.events)
    news, looked = time.monotonic(), 0.0
    while True:
        printed, ended = _print_new(tail)
        if ended or timeout == 0:
            return
        now = time.monotonic()
        if printed:
            news = now
        elif timeout is not None and now - news >= timeout:
            _stop(f"no event for {timeout:g} s")
        elif now - looked >= _LOOK_FOR_PROCESS_EVERY:
            looked = now
            if unfinished_state(read_run_info(folder)) == "killed" and not _print_new(tail)[1]:
                _stop("the run's process is gone without an end: it was killed or crashed")
        time.sleep(interval)


def _print_new(tail: LineTail) -> tuple[bool, bool]:
    """Print what is new; whether there was something, and whether the newest event is the run's end."""
    ended = printed = False
    for data in tail.read():
        event = decode_event(data)
        if event is None or isinstance(event, UnknownEvent):
            continue
        line = fit(event_line(event), output_width() if sys.stdout.isatty() else _LONGEST_LINE)
        print(paint(line, event_colour(event)), flush=True)
        printed = True
        ended = isinstance(event, RunEnded)
    return printed, ended


def _stop(why: str) -> None:
    print(f"opal: {why}", file=sys.stderr)
    raise typer.Exit(1)
