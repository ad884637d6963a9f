"""Schedules of torch that have a closed form, written out for a program that sets its own rates.

At wrap nobody knows whether a script calls `scheduler.step()` once an update or once an epoch. A form is given only
where its length says so: it spans all updates of the run, or is longer than the epochs that the person stated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opal.config import RunConfig
from opal.prompts.numbers import exact, is_number
from opal.types import RunFacts


@dataclass(frozen=True, kw_only=True)
class ClosedForm:
    """A schedule as code: `says` in words, `lines` the body of a function of `base` (a group's rate) and `done`.

    `done` counts the updates before this one: 0 at update 1, when torch's schedulers have made no step.
    """

    says: str
    lines: tuple[str, ...]


def closed_form(config: RunConfig, facts: RunFacts) -> ClosedForm | None:
    """The script's schedule in closed form, or None where it is not known for certain."""
    if len(facts.schedulers) != 1 or len(facts.optimizers) != 1:
        return None
    scheduler = facts.schedulers[0]
    form = _FORMS.get(scheduler.name)
    if form is None or scheduler.source is not None or scheduler.settings.get("last_epoch", 0) != 0:
        return None
    try:
        return form(scheduler.settings, _Length(config))
    except (KeyError, TypeError, ValueError):
        return None  # settings of another version of torch: following the script's scheduler is always right


def base_rates(facts: RunFacts) -> list[Any]:
    """The rate that each group's schedule scales: the scheduler's own record of it, else the group's."""
    if len(facts.schedulers) == 1 and len(facts.optimizers) == 1:
        rates = facts.schedulers[0].settings.get("base_lrs")
        if isinstance(rates, list | tuple) and len(rates) == len(facts.groups):
            return list(rates)
    return [group.options.get("initial_lr", group.options.get("lr")) for group in facts.groups]


class _Length:
    """How many scheduler steps can only be updates."""

    def __init__(self, config: RunConfig) -> None:
        self.total = config.task.total_steps
        epochs = config.task.epochs
        self.epochs = float(epochs) if epochs is not None and is_number(epochs) else None

    def in_updates(self, span: float) -> bool:
        """Whether a schedule of `span` scheduler steps is stepped once an update."""
        return span == self.total or (self.epochs is not None and self.epochs * 1.5 < span <= self.total)


def _cosine(s: Mapping[str, Any], length: _Length) -> ClosedForm | None:
    if not length.in_updates(s["T_max"]):
        return None
    low, span = float(s["eta_min"]), s["T_max"]
    wave = f"(1 + math.cos(math.pi * done / {span})) / 2"
    return ClosedForm(
        says=f"a cosine from the base rate to {exact(low)} over {span} updates",
        lines=(f"return base * {wave}" if low == 0 else f"return {low!r} + (base - {low!r}) * {wave}",),
    )


def _linear(s: Mapping[str, Any], length: _Length) -> ClosedForm | None:
    if not length.in_updates(s["total_iters"]):
        return None
    start, end, span = float(s["start_factor"]), float(s["end_factor"]), s["total_iters"]
    return ClosedForm(
        says=f"linear from {exact(start)} to {exact(end)} times the base rate over {span} updates, then constant",
        lines=(f"return base * ({start!r} + ({end!r} - {start!r}) * min(done, {span}) / {span})",),
    )


def _polynomial(s: Mapping[str, Any], length: _Length) -> ClosedForm | None:
    if not length.in_updates(s["total_iters"]):
        return None
    span, power = s["total_iters"], s["power"]
    return ClosedForm(
        says=f"from the base rate to zero over {span} updates, as a power {power!r} of what is left",
        lines=(f"return base * (1 - min(done, {span}) / {span}) ** {power!r}",),
    )


def _steps(s: Mapping[str, Any], length: _Length) -> ClosedForm | None:
    if not length.in_updates(s["step_size"]):
        return None
    gamma = float(s["gamma"])
    return ClosedForm(
        says=f"times {gamma!r} every {s['step_size']} updates",
        lines=(f"return base * {gamma!r} ** (done // {s['step_size']})",),
    )


def _milestones(s: Mapping[str, Any], length: _Length) -> ClosedForm | None:
    # A Counter: a milestone that is given twice counts twice.
    milestones = sorted(int(milestone) for milestone, count in dict(s["milestones"]).items() for _ in range(count))
    if not milestones or not length.in_updates(max(milestones)):
        return None
    gamma = float(s["gamma"])
    return ClosedForm(
        says=f"times {gamma!r} after each of the updates {', '.join(map(str, milestones))}",
        lines=(f"return base * {gamma!r} ** sum(milestone <= done for milestone in {milestones})",),
    )


_FORMS: dict[str, Callable[[Mapping[str, Any], _Length], ClosedForm | None]] = {
    "CosineAnnealingLR": _cosine,
    "LinearLR": _linear,
    "PolynomialLR": _polynomial,
    "StepLR": _steps,
    "MultiStepLR": _milestones,
}
