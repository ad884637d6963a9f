"""`opal estimate`: what a run would wait and cost, before it begins."""

from __future__ import annotations

from typing import Annotated

import typer

from opal.cli.arguments import JsonOption
from opal.records.strict_json import encode

TotalSteps = Annotated[int, typer.Option("--total-steps", metavar="N", help="Updates in the run.")]
SecPerStep = Annotated[
    float, typer.Option("--sec-per-step", metavar="S", help="Seconds for an update, without the agent.")
]
Decisions = Annotated[int | None, typer.Option("--decisions", metavar="K", help="How often the agent is asked.")]
Every = Annotated[int, typer.Option("--every", metavar="E", help="Updates between checks.")]
Model = Annotated[str | None, typer.Option("--model", metavar="M", help="The agent's model.")]
Effort = Annotated[str | None, typer.Option("--effort", metavar="F", help="The model's effort.")]
Blocking = Annotated[bool, typer.Option("--blocking/--no-blocking", help="Whether training waits for answers.")]
Mailbox = Annotated[bool, typer.Option("--mailbox", help="A broker elsewhere answers.")]


def estimate(
    total_steps: TotalSteps,
    sec_per_step: SecPerStep,
    decisions: Decisions = None,
    every: Every = 50,
    model: Model = None,
    effort: Effort = None,
    blocking: Blocking = True,
    mailbox: Mailbox = False,
    as_json: JsonOption = False,
) -> None:
    """Time without the agent, waiting as a range and as a multiple of it, and cost.

    Example:  opal estimate --total-steps 20000 --sec-per-step 0.25
    """
    from opal.decisions.estimate import as_dict, describe, estimate_run

    found = estimate_run(
        total_steps=total_steps,
        sec_per_step=sec_per_step,
        decisions=decisions,
        every=every,
        model=model,
        effort=effort,
        blocking=blocking,
        mailbox=mailbox,
    )
    print(encode(as_dict(found)).decode() if as_json else describe(found))
