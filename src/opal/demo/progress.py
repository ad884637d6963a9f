"""Progress of the demo: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from opal.demo.comparison import StartProgress
from opal.demo.training import Progress

LINES_PER_RUN = 8


@contextmanager
def show_progress(console: Console) -> Iterator[StartProgress]:
    """Give the function that starts a run's progress display; bars stay until the end of the block."""
    if not console.is_terminal:
        yield lambda name, updates: _lines(console, name, updates)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, expand=True) as bars:
        yield lambda name, updates: _bar(bars, name, updates)


def _bar(bars: Bars, name: str, updates: int) -> Progress:
    task = bars.add_task(name, total=updates, loss="-")

    def tell(update: int, loss: float) -> None:
        bars.update(task, completed=update, loss="-" if math.isnan(loss) else f"{loss:.2f}")

    return tell


def _lines(console: Console, name: str, updates: int) -> Progress:
    distance = max(1, math.ceil(updates / LINES_PER_RUN))

    def tell(update: int, loss: float) -> None:
        if update % distance == 0 or update == updates:
            shown = "" if math.isnan(loss) else f", training loss {loss:.3f}"
            console.print(f"{name}: update {update} of {updates}{shown}", highlight=False, soft_wrap=True)

    return tell
