"""`reference/starting_optimizer.txt`: every option, scheduler and parameter of the starting program."""

from __future__ import annotations

from opal.config import RunConfig
from opal.prompts.facts_text import parameter_lines, scheduler_text
from opal.prompts.numbers import counted, exact
from opal.prompts.share import is_shared
from opal.types import GroupFacts, RunFacts, SchedulerFacts


def starting_optimizer_text(config: RunConfig, facts: RunFacts) -> str:
    """Groups with all options and names, schedulers with settings and source, the whole parameter table."""
    lines = ["OPTIMIZERS AND GROUPS", ""]
    for group in facts.groups:
        lines += [*_group(group), ""]
    if config.update.clip_grad_norm is not None:
        norm = exact(config.update.clip_grad_norm)
        lines += [f"Before them the starting program clips the global gradient norm at {norm}.", ""]
    lines += ["SCHEDULERS", ""]
    if not facts.schedulers:
        lines += ["none was given: the rates stay as they are, unless the script sets them itself", ""]
    for scheduler in facts.schedulers:
        lines += [*_scheduler(config, scheduler), ""]
    total = sum(parameter.count for parameter in facts.parameters)
    lines += [f"PARAMETERS ({counted(len(facts.parameters), 'tensor')}, {counted(total, 'number')})", ""]
    return "\n".join([*lines, *parameter_lines(facts)]) + "\n"


def _group(group: GroupFacts) -> list[str]:
    lines = [f"group {group.index}: {group.optimizer}, {counted(len(group.names), 'tensor')}"]
    lines += [f"  {name} = {exact(value)}" for name, value in group.options.items() if name != "params"]
    return [*lines, "  parameters: " + ", ".join(group.names)]


def _scheduler(config: RunConfig, scheduler: SchedulerFacts) -> list[str]:
    lines = [scheduler_text(scheduler)]
    lines += [f"  {name} = {exact(value)}" for name, value in scheduler.settings.items()]
    if scheduler.source is not None and is_shared(config, f"{scheduler.name}.py"):
        lines += ["  source:", *(f"    {line}".rstrip() for line in scheduler.source.rstrip().splitlines())]
    return lines
