"""The system prompt: what an agent is told once, before the first decision."""

from __future__ import annotations

import re

from opal.config import RunConfig
from opal.prompts import patterns
from opal.prompts.budget import cut, cut_middle
from opal.prompts.facts_text import common, group_lines, role_lines, scheduler_lines
from opal.prompts.numbers import counted, exact, is_number
from opal.prompts.share import is_shared
from opal.prompts.task_facts import fact_lines
from opal.prompts.templates import check_template, load_template, render
from opal.types import RunFacts

__all__ = ["check_template", "render_system_prompt"]

# Bytes for what differs from run to run; with the fixed text, a prompt stays below 12,000 tokens.
_GOAL_BYTES = 2_000
_TASK_FACTS_BYTES = 8_000
_MODEL_BYTES = 4_000
_ROLES_BYTES = 6_000
_GROUPS_BYTES = 3_000
_SCHEDULERS_BYTES = 2_000


def render_system_prompt(config: RunConfig, facts: RunFacts) -> str:
    """The system prompt of a run, in Markdown; only what concerns this run is in it.

    About 5,000 tokens (UTF-8 bytes / 4) for a small run, and at most 12,000 for any with a template of this package.
    What is cut for that is whole in the workspace's `reference/`.

    Raises:
        ArgumentValueError: the template lacks a required field or has an unknown one.
    """
    text = load_template(config).format(**_fields(config, facts))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _fields(config: RunConfig, facts: RunFacts) -> dict[str, str]:
    every = config.decisions.every
    common_values = {
        "ranks": facts.world_size > 1,
        "world_size": facts.world_size,
        "clips": None if config.update.clip_grad_norm is None else exact(config.update.clip_grad_norm),
        "schedulers": bool(facts.schedulers),
        "bounds": _bounds(config),
        "every": every,
        "counted": counted,
    }
    return {
        "goal": cut(config.task.goal, _GOAL_BYTES, " … (whole in reference/task.txt)"),
        "task_facts": cut(config.task.task_facts or "", _TASK_FACTS_BYTES, " … (whole in reference/task.txt)"),
        "run_facts": _run_facts(config, facts),
        "validation_note": _validation_note(config),
        "scope": render("sections/scope.md.jinja", **common_values),
        "protocol": render(
            "sections/protocol.md.jinja",
            **common_values,
            blocking=config.decisions.blocking,
            pause_on_nonfinite=config.decisions.pause_on_nonfinite,
            total=f"{config.task.total_steps:,}",
            reference=_reference(config, facts),
        ),
        "failures": render(
            "sections/failures.md.jinja",
            **common_values,
            trial_steps=config.safety.trial_steps,
            snapshot_fits=_snapshot_fits(config, facts),
            snapshot_limit=exact(config.safety.snapshot_limit_gb),
        ),
        "updater_interface": render(
            "sections/updater_interface.md.jinja",
            **common_values,
            schedule_pattern=patterns.schedule(facts),
            feedback_pattern=patterns.FEEDBACK,
        ),
        "analysis_interface": render(
            "sections/analysis_interface.md.jinja",
            **common_values,
            activations=cut(", ".join(config.update.activations), 600),
            epochs=is_number(config.task.epochs),
            wake_pattern=patterns.WAKE,
        ),
        "kit": render("sections/kit.md.jinja"),
        "efficiency": render("sections/efficiency.md.jinja"),
        "directions": render("sections/directions.md.jinja"),
        "model": _model(facts),
        "parameters": _parameters(facts),
    }


def _run_facts(config: RunConfig, facts: RunFacts) -> str:
    lines = [f"- {line}" for line in fact_lines(config.task)]
    clip = config.update.clip_grad_norm
    if clip is not None:
        lines.append(f"- Clipping is handed over: the starting program clips the global norm at {exact(clip)}.")
    if facts.world_size > 1:
        lines.append(f"- Ranks: {facts.world_size}.")
    lines.append(f"- Hardware: {cut(facts.hardware, 300)}. Python {facts.python_version}, torch {facts.torch_version}.")
    optimizers = cut(", ".join(optimizer.name for optimizer in facts.optimizers), 400)
    lines.append(f"- The starting program calls the script's own optimizer{_s(facts.optimizers)}: {optimizers}.")
    lines += [f"  {line}" for line in group_lines(facts, _GROUPS_BYTES)]
    if facts.schedulers:
        lines.append(f"- Learning-rate scheduler{_s(facts.schedulers)} of the script:")
        lines += [f"  {line}" for line in scheduler_lines(facts, _SCHEDULERS_BYTES)]
    return "\n".join(lines)


def _model(facts: RunFacts) -> str:
    summary = facts.model.summary.strip()
    if not summary:
        return f"{facts.model.name}."
    return "```\n" + cut_middle(summary, _MODEL_BYTES, "\n  … (whole in reference/model.txt)\n") + "\n```"


def _parameters(facts: RunFacts) -> str:
    total = sum(parameter.count for parameter in facts.parameters)
    line = f"{counted(len(facts.parameters), 'tensor')} with {counted(total, 'number')}"
    shared = [value for value in (common(facts, "dtype"), common(facts, "device")) if value is not None]
    line += f", all {' on '.join(shared)}" if len(shared) == 2 else "".join(f", all {value}" for value in shared)
    numbered = any(parameter.role != parameter.name for parameter in facts.parameters)
    line += ". A role is a name with its layer numbers replaced by N." if numbered else "."
    return line + "\n\n" + "\n".join(role_lines(facts, _ROLES_BYTES))


def _reference(config: RunConfig, facts: RunFacts) -> str:
    parts = []
    if is_shared(config, facts.script):
        parts.append("the training script")
    if any(is_shared(config, name) for name in facts.model.sources):
        parts.append("the model's source")
    parts.append("`starting_optimizer.txt` with every option and parameter")
    parts.append("`example_updater.py`,\n    which does what the starting program does, written out")
    return ", ".join(parts)


def _validation_note(config: RunConfig) -> str:
    """Nothing until a development set can be given: an agent is never promised what the run does not do."""
    steps = config.task.validation
    if steps is None:
        return ""
    held = "" if config.task.validation_size is None else f" ({config.task.validation_size} examples)"
    return (
        f"A development set{held}, apart from the unseen test set, is measured about every {steps:,} updates, at "
        "updates that are not announced. Messages give its history; `obs.metrics` has `dev_loss` and `dev_accuracy`."
    )


def _snapshot_fits(config: RunConfig, facts: RunFacts) -> bool:
    """Whether parameters, gradients and four states of their size fit into the limit: no condition is needed."""
    widths = {"float64": 8, "complex64": 8, "complex128": 16}
    total = sum(
        widths.get(parameter.dtype.removeprefix("torch."), 4) * parameter.count for parameter in facts.parameters
    )
    return 6 * total <= config.safety.snapshot_limit_gb * 1e9


def _bounds(config: RunConfig) -> str:
    bounds = config.update.bounds
    return "" if not bounds else cut("; ".join(f"{name}: {exact(value)}" for name, value in bounds.items()), 1_000)


def _s(items: tuple[object, ...]) -> str:
    return "" if len(items) == 1 else "s"
