"""The command-line flags that all examples share, and what they mean for `opal.wrap`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

BLOCKING = {"true": True, "false": False, "auto": "auto"}


def example_parser(description: str, *, updates: int, every: int, decisions: int) -> argparse.ArgumentParser:
    """The parser of an example, with the shared flags; the example adds its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    training = parser.add_argument_group("training")
    training.add_argument("--updates", type=int, default=updates, help="how many updates to train")
    training.add_argument("--seed", type=int, default=0, help="fixes initial weights and batches")
    training.add_argument("--threads", type=int, default=1, help="torch threads; more is slower for models this small")
    training.add_argument("--out", type=Path, metavar="result.json", help="write the result to this file")
    training.add_argument("--save", type=Path, metavar="DIR", help="write the final weights into this folder")

    agent = parser.add_argument_group("agent (with --opal)")
    agent.add_argument("--opal", action="store_true", help="wrap the optimizer; without it the run is plain PyTorch")
    agent.add_argument("--backend", default="playbook", help="who is asked: playbook, keep, manual, claude, codex, …")
    agent.add_argument("--model", help="the agent's model, for backends that have one")
    agent.add_argument("--effort", help="the agent's effort, for backends that have one")
    agent.add_argument("--decisions", type=int, default=decisions, help="how often the agent is asked")
    agent.add_argument(
        "--decision-schedule", default="front", help='when: "front", "uniform", or updates as in 50,200,300'
    )
    agent.add_argument("--every", type=int, default=every, help="updates between checks")
    agent.add_argument(
        "--blocking", choices=sorted(BLOCKING), default="true", help="whether training waits for answers"
    )
    agent.add_argument("--max-cost-usd", type=float, help="stop asking once this is spent")
    agent.add_argument("--no-summarize", action="store_true", help="do not have code changes described for the report")
    agent.add_argument("--run-dir", help="the run folder; by default a new one under opal_runs/")
    return parser


def wrap_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of `opal.wrap` that the flags stand for. What was not asked for is left to its default."""
    schedule = options.decision_schedule
    arguments: dict[str, Any] = {
        "total_steps": options.updates,
        "backend": options.backend,
        "decisions": options.decisions,
        "every": options.every,
        "blocking": BLOCKING[options.blocking],
        "run_dir": options.run_dir,
    }
    if schedule[:1].isdigit():
        arguments["schedule"] = [int(update) for update in schedule.split(",")]
        arguments["decisions"] = None
    else:
        arguments["schedule"] = schedule
    chosen = {"model": options.model, "effort": options.effort}
    backend_options = {name: value for name, value in chosen.items() if value is not None}
    if backend_options:
        arguments["backend_options"] = backend_options
    if options.max_cost_usd is not None:
        arguments["max_cost_usd"] = options.max_cost_usd
    if options.no_summarize:
        arguments["summarize"] = False
    return arguments
