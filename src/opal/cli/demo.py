"""`opal demo`: trains a small model, plain and with an agent, and compares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opal.errors import ArgumentValueError, InstallationError
from opal.records.strict_json import encode

if TYPE_CHECKING:
    from rich.console import Console

    from opal.demo.comparison import Comparison

UPDATES, QUICK_UPDATES, FEWEST_UPDATES = 400, 60, 40
EVERY = 10


def demo(
    updates: Annotated[int | None, typer.Option(help="Updates to train; 400, or 60 with --quick.")] = None,
    seed: Annotated[int, typer.Option(help="Fixes initial weights and batches.")] = 0,
    backend: Annotated[str, typer.Option(help="Who is asked: playbook, keep, manual, …")] = "playbook",
    decisions: Annotated[int, typer.Option(help="How often it is asked.")] = 8,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default a new one in opal_runs/.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny model and few updates: shows the form only.")] = False,
    threads: Annotated[int, typer.Option(help="Threads of torch; two are slower than one for this model.")] = 1,
) -> None:
    """Train a small GPT on the sources of Python's standard library, plain and with an agent, and compare.

    Needs no account and no network. Takes under four minutes on two cores: plain AdamW, the same with the agent, and
    plain AdamW once more for as many seconds as the run with the agent took. Initial weights and batches are the same.

    Example:  opal demo --seed 1
    """
    for name, value, least in (
        ("updates", updates, FEWEST_UPDATES),
        ("decisions", decisions, 1),
        ("threads", threads, 1),
    ):
        if value is not None and value < least:
            raise ArgumentValueError(f"--{name}", value, f"an integer from {least} on")
    try:
        import torch
    except ImportError as error:
        raise InstallationError(
            "the demo trains with PyTorch, which is not installed: see https://pytorch.org/get-started for the build "
            "that fits this machine, or pip install 'opal-optimizer[torch,demo]'"
        ) from error
    from rich.console import Console

    from opal.demo.comparison import compare
    from opal.demo.data import load_text
    from opal.demo.progress import show_progress
    from opal.demo.training import AgentSetup, Task, describe_task

    torch.set_num_threads(threads)
    console = Console(highlight=False)
    text = load_text()
    task = (
        Task(seed=seed, layers=1, width=32, context=32, batch_size=4, validation_windows=64)
        if quick
        else Task(seed=seed)
    )
    count = updates if updates is not None else QUICK_UPDATES if quick else UPDATES
    console.print(text.describe(), describe_task(task, count), f"Threads: {threads}.", sep="\n", soft_wrap=True)
    agent = AgentSetup(backend=backend, decisions=decisions, every=EVERY, run_dir=str(out) if out else None)
    with show_progress(console) as start_progress:
        comparison = compare(text, task, count, agent, start_progress)
    _print_result(console, comparison)


def _print_result(console: Console, comparison: Comparison) -> None:
    """The table, what it says, what the agent did, and where the rest is."""
    from opal.demo.changes import describe_changes
    from opal.demo.table import judgement, result_data, result_table

    run = comparison.run_dir
    console.print()
    console.print(result_table(comparison))
    for line in judgement(comparison):
        console.print(line)
    console.print()
    for line in describe_changes(run, min(console.width, 100)):
        console.print(line, markup=False, soft_wrap=True)
    data = run / "demo.json"
    data.write_bytes(encode(result_data(comparison)) + b"\n")
    console.print(f"\nThe run: {run}\nThe table as data: {data}", markup=False, soft_wrap=True)
    from opal.report.page import write_report  # last, so that nothing above waits for the page

    console.print(f"The page: {write_report(run)}", markup=False, soft_wrap=True)
