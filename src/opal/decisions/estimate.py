"""What a run would wait and cost, and how many decisions it can afford: computed before or while it runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opal.config import Schedule
from opal.decisions.schedule import DEFAULT_DECISIONS, Plan, plan
from opal.decisions.wait_figures import DEFAULT, Figures, Span, figures_for
from opal.errors import ArgumentValueError

MOST_WAITING = 4
"""A planned run waits at most this many times the time it trains."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What `opal estimate` prints. Times are in seconds, costs in US dollars, multiples of `training_seconds`."""

    total_steps: int
    sec_per_step: float
    every: int
    blocking: bool
    mailbox: bool
    model: str
    effort: str
    figures: Figures
    figures_are_of_model: bool
    """False: the table has none for this model and effort, and those of another stand in."""
    decisions_given: int | None
    decisions_asked_for: int
    decisions_scheduled: int
    """What remains after merging and dropping."""
    decisions_merged: int
    decisions_dropped: int
    questions: Span
    """What is really asked: all, or fewer where answers of a run that does not wait come too late for more."""
    training_seconds: float
    """Without the agent."""
    waiting_seconds: Span
    waiting_multiple: Span
    cost_usd: Span
    largest_within_limit: int
    """The largest `decisions` (at most 50) whose typical waiting is within four times the training time; or 0."""
    even_one_exceeds_limit: bool
    ends_before_first_answer: bool | None
    """Whether training, if it does not wait, typically ends first; `None` where nothing is asked."""


def estimate_run(
    *,
    total_steps: int,
    sec_per_step: float,
    decisions: int | None = None,
    every: int = 50,
    model: str | None = None,
    effort: str | None = None,
    blocking: bool = True,
    mailbox: bool = False,
) -> Estimate:
    """Time, waiting and cost of a run with the schedule `"front"`.

    With `decisions=None` the count is the one that such a run would plan at its first check, or 50 if it does not wait.

    Raises:
        ArgumentValueError: a number out of its range.
    """
    if not 0 < sec_per_step < math.inf:
        raise ArgumentValueError("sec_per_step", sec_per_step, "a finite number of seconds above 0")
    figures, own = figures_for(model, effort)
    asked_for = decisions
    if asked_for is None and blocking:
        asked_for = planned_count(
            total_steps=total_steps, sec_per_step=sec_per_step, every=every, from_update=every, figures=figures
        )
    scheduled = plan(total_steps, every, asked_for, "front")
    training = total_steps * sec_per_step
    waiting = _waiting(figures, len(scheduled.updates)) if blocking else _nothing()
    questions = _questions(scheduled, total_steps, every, sec_per_step, figures, blocking)
    largest = _largest_within(MOST_WAITING * training, total_steps, every, "front", 0, figures)
    return Estimate(
        total_steps=total_steps,
        sec_per_step=sec_per_step,
        every=every,
        blocking=blocking,
        mailbox=mailbox,
        model=model or DEFAULT.model,
        effort=effort or DEFAULT.effort,
        figures=figures,
        figures_are_of_model=own,
        decisions_given=decisions,
        decisions_asked_for=scheduled.asked_for,
        decisions_scheduled=len(scheduled.updates),
        decisions_merged=scheduled.merged,
        decisions_dropped=scheduled.dropped,
        questions=questions,
        training_seconds=training,
        waiting_seconds=waiting,
        waiting_multiple=Span(
            low=waiting.low / training, typical=waiting.typical / training, high=waiting.high / training
        ),
        cost_usd=_cost(figures, questions),
        largest_within_limit=largest,
        even_one_exceeds_limit=largest == 0,
        ends_before_first_answer=_ends_first(scheduled, total_steps, sec_per_step, figures.first_seconds.typical),
    )


def planned_count(
    *,
    total_steps: int,
    sec_per_step: float,
    every: int,
    schedule: Schedule = "front",
    from_update: int = 0,
    figures: Figures = DEFAULT,
) -> int:
    """How many decisions a run that waits plans where the person gave no count.

    Args:
        total_steps: updates in the run.
        sec_per_step: seconds for an update, agent waits left out.
        every: updates between checks.
        schedule: as for `wrap`; a list fixes the count, which stands.
        from_update: the check at which this is asked; only training and decisions from there on count.
        figures: how long answers take.

    Returns the largest count, at most 50 and at least 1, whose typical waiting is within four times the training time
    to come.
    """
    if not isinstance(schedule, str):
        return plan(total_steps, every, None, schedule).asked_for
    limit = MOST_WAITING * max(0, total_steps - from_update) * sec_per_step
    return max(1, _largest_within(limit, total_steps, every, schedule, from_update, figures))


def as_dict(estimate: Estimate) -> dict[str, Any]:
    """The estimate as plain containers, for JSON."""
    return dataclasses.asdict(estimate)


def describe(estimate: Estimate) -> str:
    """The estimate as lines for a person."""
    e = estimate
    ahead = (
        f"{e.total_steps} {_plural('update', e.total_steps)} of {_duration(e.sec_per_step)}, a check every {e.every}, "
        f"{e.model} at effort {e.effort}"
    )
    rows = [("training alone", _duration(e.training_seconds)), ("decisions", _decisions_text(e))]
    if e.blocking:
        waiting, multiple = _range(e.waiting_seconds, _duration), _range(e.waiting_multiple, _multiple)
        rows += [("waiting", waiting), ("", f"{multiple} times the training time")]
    else:
        rows += [("waiting", "none, training goes on"), ("questions", _range(e.questions, lambda n: f"{n:.0f}"))]
    rows.append(("cost", _range(e.cost_usd, lambda usd: f"${usd:.2f}")))
    table = [f"{name:<16}{text}" for name, text in rows]
    return "\n".join([ahead, *table, *(_waits_long(e) if e.blocking else _comes_late(e)), *_sources(e)])


def _waiting(figures: Figures, count: int) -> Span:
    """The waiting for this many answers, one after the other."""
    return _sum(figures.first_seconds, figures.later_seconds, Span(low=count, typical=count, high=count))


def _cost(figures: Figures, questions: Span) -> Span:
    return _sum(figures.first_usd, figures.later_usd, questions)


def _sum(first: Span, later: Span, count: Span) -> Span:
    """One `first` and then `later` up to the count, each end of the spans for itself."""

    def total(first: float, later: float, count: float) -> float:
        return first + (count - 1) * later if count else 0.0

    return Span(
        low=total(first.low, later.low, count.low),
        typical=total(first.typical, later.typical, count.typical),
        high=total(first.high, later.high, count.high),
    )


def _nothing() -> Span:
    return Span(low=0.0, typical=0.0, high=0.0)


def _largest_within(
    limit: float, total_steps: int, every: int, schedule: Schedule, from_update: int, figures: Figures
) -> int:
    """The largest count, at most 50, whose typical waiting is within `limit` seconds; 0 where one is too many."""
    for count in range(DEFAULT_DECISIONS, 0, -1):
        to_come = sum(update >= from_update for update in plan(total_steps, every, count, schedule).updates)
        if _waiting(figures, to_come).typical <= limit:
            return count
    return 0


def _questions(
    scheduled: Plan, total_steps: int, every: int, sec_per_step: float, figures: Figures, blocking: bool
) -> Span:
    """How many questions are asked; the slower the answers, the fewer fit into a run that does not wait for them."""
    if blocking:
        count = len(scheduled.updates)
        return Span(low=count, typical=count, high=count)

    def fit(first: float, later: float) -> int:
        return _questions_that_fit(scheduled.updates, total_steps, every, first / sec_per_step, later / sec_per_step)

    first, later = figures.first_seconds, figures.later_seconds
    return Span(
        low=fit(first.high, later.high), typical=fit(first.typical, later.typical), high=fit(first.low, later.low)
    )


def _questions_that_fit(updates: Sequence[int], total_steps: int, every: int, first: float, later: float) -> int:
    """Questions of a run that trains on: what falls due while one is open merges, at the first check after its answer.

    `first` and `later` are the answer times in updates.
    """
    asked, answered_at = 0, 0.0
    to_come = list(updates)
    while to_come and answered_at <= total_steps:
        at = max(to_come[0], math.ceil(answered_at / every) * every)
        if at > total_steps:
            break
        answered_at = at + (later if asked else first)
        asked += 1
        to_come = [update for update in to_come if update > at]
    return asked


def _ends_first(scheduled: Plan, total_steps: int, sec_per_step: float, answer_seconds: float) -> bool | None:
    """Whether training that goes on is over before the first answer is there."""
    if not scheduled.updates:
        return None
    return (total_steps - scheduled.updates[0]) * sec_per_step < answer_seconds


def _decisions_text(e: Estimate) -> str:
    """How many remain, and what became of the others."""
    parts = [f"{e.decisions_scheduled} of {e.decisions_asked_for}"]
    if e.decisions_merged:
        parts.append(f"{e.decisions_merged} at the check of another")
    if e.decisions_dropped:
        parts.append(f"{e.decisions_dropped} in the last {e.every} updates")
    if e.decisions_given is None and e.decisions_asked_for < DEFAULT_DECISIONS:
        parts.append(
            f"planned instead of {DEFAULT_DECISIONS}, to wait at most {MOST_WAITING} times as long as is trained after "
            "the first check"
        )
    return "; ".join(parts)


def _waits_long(e: Estimate) -> list[str]:
    """What to do about a run that waits for more than four times its training."""
    if e.waiting_multiple.typical <= MOST_WAITING:
        return []
    if e.even_one_exceeds_limit:
        found = f"Even one decision typically waits longer than {MOST_WAITING} times the training time"
        if e.ends_before_first_answer:
            return [
                f"{found}, and without waiting the run ends before its first answer: it is too short for this agent."
            ]
        return [f"{found}; with --no-blocking the run trains on meanwhile."]
    return [
        f"This waits longer than {MOST_WAITING} times the training time; --decisions {e.largest_within_limit} is the "
        "most that would not."
    ]


def _comes_late(e: Estimate) -> list[str]:
    """How the answers of a run that does not wait lie to its updates."""
    if e.ends_before_first_answer is None:
        return []
    first, later = (
        f"{span.typical / e.sec_per_step:.0f} updates" for span in (e.figures.first_seconds, e.figures.later_seconds)
    )
    if e.ends_before_first_answer:
        return [f"Training typically ends before its first answer, which would come {first} after its question."]
    return [f"The first answer typically comes {first} after its question, a later one after {later}."]


def _sources(e: Estimate) -> list[str]:
    """Where the figures come from, and what they leave out."""
    f = e.figures
    said = f"{f.decisions} decisions of {f.model} at effort {f.effort} ({f.source})"
    if e.figures_are_of_model:
        lines = [f"Figures: {said}; lowest, median and highest."]
    else:
        lines = [f"There are no figures for {e.model} at effort {e.effort}; shown are those of {said}."]
    if e.mailbox:
        lines.append("A mailbox adds the way there and back, and the time until a broker is there.")
    return lines


def _range(span: Span, text: Callable[[float], str]) -> str:
    low, typical, high = (text(value) for value in (span.low, span.typical, span.high))
    return typical if low == typical == high else f"{low} to {high}, typically {typical}"


def _duration(seconds: float) -> str:
    if seconds == 0:
        return "none"
    for limit, unit, name in ((0.1, 1e-3, "ms"), (100, 1, "s"), (100 * 60, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{_short(seconds / unit)} {name}"
    return f"{_short(seconds / 86_400)} days"


def _multiple(value: float) -> str:
    return "under 0.01" if 0 < value < 0.01 else _short(value)


def _short(value: float) -> str:
    """At least two digits that count, and no exponent for what occurs."""
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else word + "s"
