"""Which decision is asked when: scheduled ones, wake-ups, and the cap."""

from __future__ import annotations

from opal.decisions.agenda import Agenda
from opal.decisions.schedule import Plan
from opal.types import Reason


def _agenda(*updates: int, cap: int = 100) -> Agenda:
    return Agenda(Plan(updates=updates, asked_for=len(updates), dropped=0, merged=0), cap)


WAKE = Reason(kind="wake", detail="the loss rose")
PERSON = Reason(kind="person", detail="why")


def test_a_scheduled_decision_is_asked_at_its_update_and_once() -> None:
    agenda = _agenda(10, 20)
    assert agenda.take(9) == ()
    assert agenda.next_scheduled == 10
    assert agenda.take(10) == (Reason(kind="scheduled"),)
    assert agenda.take(11) == ()
    assert (agenda.asked, agenda.next_scheduled, agenda.left) == (1, 20, 1)


def test_what_falls_due_while_one_is_open_merges_into_one() -> None:
    agenda = _agenda(10, 20, 30)
    agenda.want(WAKE)
    agenda.want(PERSON)
    agenda.want(WAKE)
    assert agenda.take(25) == (Reason(kind="scheduled"), WAKE, PERSON)
    assert agenda.asked == 1
    assert agenda.take(29) == ()
    assert agenda.left == 1


def test_the_cap_ends_all_questions_and_wakeups_leave_room_for_scheduled_ones() -> None:
    agenda = _agenda(10, 20, cap=3)
    agenda.want(WAKE)
    assert agenda.take(5) == (WAKE,)
    agenda.want(WAKE)
    assert agenda.take(6) == ()  # two scheduled ones are to come, and two may still be asked
    assert agenda.missed() == (WAKE,)
    assert agenda.missed() == ()
    assert agenda.take(10) == (Reason(kind="scheduled"),)
    assert agenda.take(20) == (Reason(kind="scheduled"),)
    assert agenda.exhausted
    agenda.want(PERSON)
    assert agenda.take(30) == ()
    assert (agenda.asked, agenda.left) == (3, 0)


def test_what_is_left_is_no_more_than_the_cap_allows() -> None:
    agenda = _agenda(10, 20, 30, cap=2)
    assert agenda.left == 2
    agenda.take(10)
    assert agenda.left == 1


def test_reasons_that_pile_up_are_bounded() -> None:
    agenda = _agenda(10)
    for number in range(100):
        agenda.want(Reason(kind="wake", detail=str(number)))
    assert [reason.detail for reason in agenda.take(5)] == [str(number) for number in range(8)]
