"""One row a decision tells what became of it."""

from __future__ import annotations

from opal.records.decision_rows import DecisionRow, decision_rows, last_update, open_decision
from opal.records.events import (
    AnyEvent,
    DecisionAnswered,
    DecisionAsked,
    DecisionUnanswered,
    ProgramApplied,
    ProgramFailed,
    ProgramRefused,
    ProgramReverted,
    RunEnded,
    RunStarted,
)


def asked(number: int) -> DecisionAsked:
    return DecisionAsked(time=1.0, update=10 * number, decision=number, reasons=("scheduled",), waits=True)


def answered(number: int, *, edited: bool) -> DecisionAnswered:
    return DecisionAnswered(
        time=2.0,
        update=10 * number,
        decision=number,
        asked_at=10 * number,
        seconds=5.0,
        edited=edited,
        text=f"why {number}",
        cost_usd=0.5,
    )


def applied(number: int, version: str) -> ProgramApplied:
    return ProgramApplied(
        time=3.0,
        update=10 * number,
        decision=number,
        version=version,
        previous="v000",
        asked_at=10 * number,
        effective_from=10 * number + 1,
        sides=("updater",),
        seconds=0.1,
    )


ENDED = RunEnded(time=9.0, update=99, outcome="finished", version="v001", agent_wait_seconds=1.0, cost_usd=None)


def row(*events: AnyEvent) -> DecisionRow:
    (only,) = decision_rows(events)
    return only


def test_a_question_is_open_until_it_is_answered() -> None:
    assert row(asked(1)).outcome == "open"
    assert open_decision([asked(1)]) == row(asked(1))
    assert open_decision([asked(1), answered(1, edited=True)]) is None
    assert open_decision([]) is None


def test_an_answer_without_edit_is_kept() -> None:
    kept = row(asked(2), answered(2, edited=False))
    assert (kept.outcome, kept.asked_at, kept.seconds, kept.cost_usd, kept.rationale) == ("kept", 20, 5.0, 0.5, "why 2")


def test_an_edit_is_applied_whichever_event_comes_first() -> None:
    for events in ([answered(1, edited=True), applied(1, "v001")], [applied(1, "v001"), answered(1, edited=True)]):
        found = row(asked(1), *events)
        assert (found.outcome, found.version, found.effective_from) == ("applied", "v001", 11)
        assert found.rationale == "why 1"


def test_a_refused_edit_says_why() -> None:
    refused = ProgramRefused(
        time=3.0, update=10, decision=1, version="v001", stage="build", sentence="no such name", undone="exactly"
    )
    found = row(asked(1), answered(1, edited=True), refused)
    assert (found.outcome, found.note) == ("refused", "build: no such name")


def test_an_unanswered_question_says_why() -> None:
    nothing = DecisionUnanswered(time=3.0, update=10, decision=1, asked_at=10, seconds=600.0, why="no network")
    found = row(asked(1), nothing)
    assert (found.outcome, found.seconds, found.note) == ("unanswered", 600.0, "no network")


def test_a_revert_marks_the_decision_of_its_program_only() -> None:
    failed = ProgramFailed(
        time=4.0,
        update=33,
        version="v002",
        stage="trial",
        error="ValueError",
        message="bad",
        file=None,
        line=None,
        undone="not",
        goes_on_with="v001",
    )
    reverted = ProgramReverted(time=4.0, update=33, version="v002", goes_on_with="v001", why="its trial failed")
    events = [asked(1), answered(1, edited=True), applied(1, "v001")]
    events += [asked(2), answered(2, edited=True), applied(2, "v002"), failed, reverted]
    first, second = decision_rows(events)
    assert (first.reverted_at, first.note) == (None, "")
    assert (second.reverted_at, second.note) == (33, "failed at update 33: ValueError: bad")


def test_the_end_of_the_run_settles_what_was_open() -> None:
    rows = decision_rows([asked(1), answered(1, edited=True), asked(2), ENDED])
    assert [found.outcome for found in rows] == ["late", "unanswered"]


def test_the_last_update_counts_from_the_latest_start() -> None:
    start = RunStarted(time=0.0, update=5, total_steps=99, decision_updates=(), dropped=0, backend="keep")
    assert last_update([asked(3), start]) == 5
    assert last_update([start, asked(3), answered(2, edited=False)]) == 30
    assert last_update([]) == 0
