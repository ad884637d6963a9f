"""A mistake of OPAL's own ends its checks, never the training, and is logged as an error."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from engine.edited_run import Loop, assert_same_end, edit, sgd_program, train, wrapped
from opal.records import events


class _Quiet(logging.Filter):
    """Keeps what this file provokes from the fixture that fails tests on it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            self.lines.append(record.getMessage())
        return record.levelno < logging.ERROR


@pytest.fixture
def provoked() -> Any:
    """The lines at ERROR, which are meant here."""
    found = _Quiet()
    logger = logging.getLogger("opal")
    logger.addFilter(found)
    yield found.lines
    logger.removeFilter(found)


@pytest.mark.parametrize(
    "place", ["checker._measurement.observe", "decisions.consider", "checker._losses.add", "slots.pass_trial"]
)
def test_a_collaborator_that_raises_in_a_check_does_not_end_training(
    tmp_path: Path, place: str, provoked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_it(loop: Loop, update: int) -> None:
        if update == 24:
            parts = loop.handle._parts
            owner: Any = {"checker": parts.upkeep._checker, "decisions": parts.decisions, "slots": parts.slots}[
                place.split(".")[0]
            ]
            for name in place.split(".")[1:-1]:
                owner = getattr(owner, name)
            monkeypatch.setattr(owner, place.split(".")[-1], broken)

    def broken(*_: Any) -> None:
        raise KeyError("a mistake")

    run = train(wrapped(tmp_path, {1: edit(sgd_program())}), before=break_it)
    other = train(wrapped(tmp_path / "other", {1: edit(sgd_program())}))
    assert_same_end(other, run)
    assert len(provoked) == (2 if place == "slots.pass_trial" else 1)  # a trial has to end, also after this
    assert "training goes on (KeyError: 'a mistake')" in provoked[0]
    warned = run.events(events.Warned)
    assert any("in broken" in event.text for event in warned)
    assert run.record.info.outcome == "finished"


def test_more_updates_than_were_said_are_made_by_the_last_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "opal"):
        run = train(wrapped(tmp_path, {1: edit(sgd_program(follows=True))}, total_steps=45, schedule=[20]))
    whole = train(wrapped(tmp_path / "whole", {1: edit(sgd_program(follows=True))}, schedule=[20]))
    assert_same_end(whole, run)
    lines = [record.getMessage() for record in caplog.records if "past total_steps=45" in record.getMessage()]
    assert len(lines) == 1
    assert "v001 goes on" in lines[0]
    read = {check.first + index: loss for check in run.record.losses for index, loss in enumerate(check.values)}
    assert read == dict(enumerate(run.losses[:45], start=1))
    assert run.record.info.outcome == "finished"
