"""What a run would wait and cost, and how many decisions it can afford."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opal.decisions.estimate import as_dict, describe, estimate_run, planned_count
from opal.decisions.schedule import plan
from opal.decisions.wait_figures import DEFAULT, TABLE, Figures, Span, figures_for
from opal.errors import ArgumentValueError
from opal.records.strict_json import decode, encode

SLOW = Figures(
    model="slow",
    effort="any",
    decisions=1,
    source="made up",
    first_seconds=Span(low=1_000, typical=1_000, high=1_000),
    later_seconds=Span(low=100, typical=100, high=100),
    first_usd=Span(low=0, typical=0, high=0),
    later_usd=Span(low=0, typical=0, high=0),
)


def spans(*values: float) -> Any:
    """A span with about these ends."""
    low, typical, high = (pytest.approx(value) for value in values)
    return Span(low=low, typical=typical, high=high)


# ── The figures ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_figures_are_those_of_the_original_project() -> None:
    assert (DEFAULT.model, DEFAULT.effort, DEFAULT.decisions) == ("claude-opus-5-5", "high", 567)
    assert DEFAULT.first_seconds == Span(low=100, typical=250, high=430)
    assert DEFAULT.first_usd == Span(low=0.30, typical=1.08, high=1.60)
    assert DEFAULT.later_seconds == Span(low=10, typical=27, high=50)
    assert DEFAULT.later_usd == Span(low=0.05, typical=0.23, high=0.38)


@pytest.mark.parametrize(
    ("model", "effort", "own"),
    [
        (None, None, True),
        ("claude-opus-5-5", None, True),
        (None, "high", True),
        (None, "low", False),
        ("another", None, False),
        ("another", "high", False),
    ],
)
def test_figures_of_another_model_or_effort_are_told_from_their_own(
    model: str | None, effort: str | None, own: bool
) -> None:
    assert figures_for(model, effort) == (DEFAULT, own)


def test_every_span_of_the_table_rises() -> None:
    for figures in TABLE:
        for span in (figures.first_seconds, figures.later_seconds, figures.first_usd, figures.later_usd):
            assert 0 < span.low < span.typical < span.high


# ── A run that waits ─────────────────────────────────────────────────────────────────────────────────────────────


def test_waiting_and_cost_are_the_first_decision_and_the_later_ones() -> None:
    found = estimate_run(total_steps=400, sec_per_step=2.5, decisions=8, every=10)
    assert (found.decisions_asked_for, found.decisions_scheduled) == (8, 8)
    assert found.training_seconds == 1_000
    assert found.waiting_seconds == spans(100 + 7 * 10, 250 + 7 * 27, 430 + 7 * 50)
    assert found.waiting_multiple == spans(0.17, 0.439, 0.78)
    assert found.cost_usd == spans(0.30 + 7 * 0.05, 1.08 + 7 * 0.23, 1.60 + 7 * 0.38)
    assert found.questions == Span(low=8, typical=8, high=8)


def test_only_decisions_that_remain_are_waited_for() -> None:
    found = estimate_run(total_steps=100, sec_per_step=100, decisions=50, every=10)
    scheduled = plan(100, 10, 50, "front")
    assert found.decisions_scheduled == len(scheduled.updates) == 9
    assert (found.decisions_merged, found.decisions_dropped) == (scheduled.merged, scheduled.dropped) == (40, 1)
    assert found.waiting_seconds.typical == 250 + 8 * 27


def test_nothing_asked_costs_and_waits_nothing() -> None:
    for found in (
        estimate_run(total_steps=400, sec_per_step=1, decisions=0),
        estimate_run(total_steps=40, sec_per_step=1, decisions=5, every=50),
        estimate_run(total_steps=400, sec_per_step=1, decisions=0, blocking=False),
    ):
        assert found.waiting_seconds == found.waiting_multiple == found.cost_usd == Span(low=0, typical=0, high=0)
        assert found.ends_before_first_answer is None


def test_the_largest_count_within_four_times_the_training_time() -> None:
    # 250 + 9 × 27 = 493 s is four times 123.25 s
    at = {"total_steps": 10_000, "every": 10, "decisions": 50}
    assert estimate_run(sec_per_step=0.012325 * (1 + 1e-9), **at).largest_within_limit == 10
    assert estimate_run(sec_per_step=0.012325 * (1 - 1e-6), **at).largest_within_limit == 9
    assert estimate_run(sec_per_step=1.0, **at).largest_within_limit == 50  # never more


def test_one_decision_may_exceed_four_times_the_training_time() -> None:
    # one answer, 250 s, is four times 62.5 s
    just, less = (estimate_run(total_steps=100, sec_per_step=sec, every=10, decisions=1) for sec in (0.625, 0.6249))
    assert (just.largest_within_limit, just.even_one_exceeds_limit) == (1, False)
    assert (less.largest_within_limit, less.even_one_exceeds_limit) == (0, True)


# ── Planning a count ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_long_run_plans_fifty() -> None:
    assert planned_count(total_steps=100_000, sec_per_step=0.1, every=50) == 50


def test_a_short_run_plans_at_least_one() -> None:
    assert planned_count(total_steps=400, sec_per_step=0.001, every=10) == 1


def test_training_to_come_is_what_counts() -> None:
    # 4 × 0.1 × 2,000 s = 800 s: 250 + 20 × 27 = 790; from update 1,000 on 400 s: 250 + 5 × 27 = 385
    assert planned_count(total_steps=2_000, sec_per_step=0.1, every=1) == 21
    assert planned_count(total_steps=2_000, sec_per_step=0.1, every=1, from_update=1_000, schedule="uniform") > 6
    assert _to_come(2_000, planned_count(total_steps=2_000, sec_per_step=0.1, every=1, from_update=1_000), 1_000) == 6


def test_figures_of_the_run_itself_replace_the_table() -> None:
    # 4 × 1,000 s: 1,000 + 30 × 100
    assert planned_count(total_steps=10_000, sec_per_step=0.1, every=1, figures=SLOW) == 31


def test_a_list_of_updates_or_segments_stands() -> None:
    assert planned_count(total_steps=400, sec_per_step=0.001, every=10, schedule=(100, 200, 300)) == 3
    assert planned_count(total_steps=400, sec_per_step=0.001, every=10, schedule=((0.5, 60), (1.0, 10))) == 70


@settings(deadline=None)
@given(st.integers(1, 3_000), st.floats(1e-3, 10), st.integers(1, 100), st.integers(0, 3_000))
def test_a_planned_count_is_the_largest_that_keeps_the_limit(
    total: int, sec_per_step: float, every: int, from_update: int
) -> None:
    count = planned_count(total_steps=total, sec_per_step=sec_per_step, every=every, from_update=from_update)
    limit = 4 * max(0, total - from_update) * sec_per_step

    def waits(decisions: int) -> float:
        to_come = sum(update >= from_update for update in plan(total, every, decisions, "front").updates)
        return 250 + 27 * (to_come - 1) if to_come else 0

    assert count == 1 or waits(count) <= limit
    assert count == 50 or waits(count + 1) > limit


def test_without_a_count_a_run_that_waits_is_estimated_as_it_will_plan() -> None:
    found = estimate_run(total_steps=2_000, sec_per_step=0.1, every=50)
    assert found.decisions_given is None
    assert found.decisions_asked_for == planned_count(total_steps=2_000, sec_per_step=0.1, every=50, from_update=50)
    assert 1 < found.decisions_asked_for < 50


def test_without_a_count_a_run_that_does_not_wait_asks_for_fifty() -> None:
    assert estimate_run(total_steps=2_000, sec_per_step=0.1, every=50, blocking=False).decisions_asked_for == 50


def test_a_given_count_stands_however_long_it_waits() -> None:
    found = estimate_run(total_steps=400, sec_per_step=0.001, decisions=8, every=10)
    assert (found.decisions_given, found.decisions_scheduled) == (8, 8)
    assert found.waiting_multiple.typical == pytest.approx(439 / 0.4)


# ── A run that does not wait ─────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_does_not_wait_pays_for_the_questions_that_fit() -> None:
    found = estimate_run(total_steps=400, sec_per_step=1, decisions=8, every=10, blocking=False)
    assert found.waiting_seconds == found.waiting_multiple == Span(low=0, typical=0, high=0)
    # due: 10, 20, 80, 130, 190, 240, 300, 350. Answers of 250 s, then 27 s: asked at 10, answered at 260; those until
    # 240 merge at 260, answered at 287; 300, answered at 327; 350. Of 430 s: at 10 only. Of 100 s, then 10 s: 10, 110
    # (20 and 80), 130, 190, 240, 300, 350.
    assert found.questions == Span(low=1, typical=4, high=7)
    assert found.cost_usd == spans(0.30, 1.08 + 3 * 0.23, 1.60 + 6 * 0.38)


def test_a_merged_question_waits_for_the_next_check() -> None:
    # asked at 100, answered at 350 in the middle of an interval, so 200 and 300 are asked at 400, not at once
    found = estimate_run(total_steps=500, sec_per_step=1, decisions=50, every=100, blocking=False)
    assert found.decisions_scheduled == 4
    assert found.questions.typical == 2


def test_no_question_comes_after_the_last_check() -> None:
    # asked at 100, answered 310 updates later at 410; the next check would be 500, and the run has 430 updates
    found = estimate_run(total_steps=430, sec_per_step=250 / 310, decisions=50, every=100, blocking=False)
    assert found.decisions_scheduled == 3
    assert found.questions.typical == 1


@pytest.mark.parametrize(("sec_per_step", "ends"), [(0.63, True), (0.65, False)])
def test_whether_training_ends_before_its_first_answer(sec_per_step: float, ends: bool) -> None:
    # the first question is at 10; 390 updates later the run ends, after 246 s or 254 s, and an answer takes 250 s
    found = estimate_run(total_steps=400, sec_per_step=sec_per_step, decisions=8, every=10, blocking=False)
    assert found.ends_before_first_answer is ends
    assert ("ends before its first answer" in describe(found)) is ends


# ── What a person reads ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_text_of_a_run_that_waits() -> None:
    assert describe(estimate_run(total_steps=400, sec_per_step=2.5, decisions=8, every=10)).splitlines() == [
        "400 updates of 2.5 s, a check every 10, claude-opus-5-5 at effort high",
        "training alone  17 min",
        "decisions       8 of 8",
        "waiting         2.8 min to 13 min, typically 7.3 min",
        "                0.17 to 0.78, typically 0.44 times the training time",
        "cost            $0.65 to $4.26, typically $2.69",
        "Figures: 567 decisions of claude-opus-5-5 at effort high (runs of the original project); lowest, median and "
        "highest.",
    ]


def test_the_text_of_a_run_that_does_not_wait() -> None:
    found = estimate_run(total_steps=400, sec_per_step=1, decisions=8, every=10, blocking=False)
    assert describe(found).splitlines()[3:6] == [
        "waiting         none, training goes on",
        "questions       1 to 7, typically 4",
        "cost            $0.30 to $3.88, typically $1.77",
    ]
    assert "first answer typically comes 250 updates after its question, a later one after 27 updates" in describe(
        found
    )


def test_the_text_says_what_became_of_decisions_and_of_the_count() -> None:
    assert "9 of 50; 40 at the check of another; 1 in the last 10 updates" in describe(
        estimate_run(total_steps=100, sec_per_step=100, decisions=50, every=10)
    )
    assert "planned instead of 50" in describe(estimate_run(total_steps=2_000, sec_per_step=0.1, every=50))
    assert "planned" not in describe(estimate_run(total_steps=2_000, sec_per_step=0.1, every=50, decisions=17))
    assert "planned" not in describe(estimate_run(total_steps=200_000, sec_per_step=0.1, every=50))


def test_the_text_names_the_count_that_would_wait_less() -> None:
    found = estimate_run(total_steps=10_000, sec_per_step=0.01233, decisions=50, every=10)
    assert "waits longer than 4 times the training time; --decisions 10 is the most that would not" in describe(found)
    within = estimate_run(total_steps=10_000, sec_per_step=0.01233, decisions=10, every=10)
    assert "--decisions" not in describe(within)


def test_the_text_says_when_even_one_waits_too_long() -> None:
    short = describe(estimate_run(total_steps=400, sec_per_step=0.1, decisions=8, every=10))
    assert "Even one decision typically waits longer than 4 times the training time" in short
    assert "too short for this agent" in short


def test_figures_of_another_model_are_shown_as_such() -> None:
    text = describe(estimate_run(total_steps=400, sec_per_step=1, model="claude-next", effort="low"))
    assert "claude-next at effort low" in text.splitlines()[0]
    assert "no figures for claude-next at effort low; shown are those of 567 decisions of claude-opus-5-5" in text


def test_a_mailbox_is_said_to_add_time() -> None:
    with_mailbox, without = (
        describe(estimate_run(total_steps=400, sec_per_step=1, mailbox=mailbox)) for mailbox in (True, False)
    )
    assert "A mailbox adds" in with_mailbox
    assert "mailbox" not in without


@pytest.mark.parametrize(
    ("sec_per_step", "said"),
    [(0.0004, "0.4 ms"), (0.25, "0.25 s"), (99, "99 s"), (150, "2.5 min"), (7_200, "2 h"), (259_200, "3 days")],
)
def test_times_are_said_in_a_unit_that_fits(sec_per_step: float, said: str) -> None:
    first = describe(estimate_run(total_steps=1, sec_per_step=sec_per_step)).splitlines()[0]
    assert first == f"1 update of {said}, a check every 50, claude-opus-5-5 at effort high"


@settings(deadline=None)
@given(
    st.integers(1, 10**9),
    st.floats(min_value=0, max_value=1e300, exclude_min=True),
    st.none() | st.integers(0, 100),
    st.integers(1, 10**6),
    st.booleans(),
)
def test_any_run_can_be_estimated_and_said(
    total: int, sec_per_step: float, decisions: int | None, every: int, blocking: bool
) -> None:
    found = estimate_run(
        total_steps=total, sec_per_step=sec_per_step, decisions=decisions, every=every, blocking=blocking
    )
    assert "nan" not in describe(found)
    for span in (found.waiting_seconds, found.waiting_multiple, found.cost_usd, found.questions):
        assert 0 <= span.low <= span.typical <= span.high or not blocking
    assert found.questions.high <= found.decisions_scheduled <= found.decisions_asked_for


def test_as_dict_is_plain_and_survives_json() -> None:
    found = as_dict(estimate_run(total_steps=400, sec_per_step=2.5, decisions=8, every=10))
    assert decode(encode(found)) == found
    assert found["waiting_seconds"] == {"low": 170, "typical": 439, "high": 780}
    assert found["figures"]["source"] == "runs of the original project"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"total_steps": 0}, "total_steps"),
        ({"sec_per_step": 0.0}, "sec_per_step"),
        ({"sec_per_step": -1.0}, "sec_per_step"),
        ({"sec_per_step": math.inf}, "sec_per_step"),
        ({"sec_per_step": math.nan}, "sec_per_step"),
        ({"every": 0}, "every"),
        ({"decisions": -1}, "decisions"),
    ],
)
def test_a_wrong_number_is_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ArgumentValueError) as caught:
        estimate_run(**{"total_steps": 400, "sec_per_step": 0.1, **arguments})
    assert caught.value.argument == name


def _to_come(total: int, decisions: int, from_update: int) -> int:
    return sum(update >= from_update for update in plan(total, 1, decisions, "front").updates)
