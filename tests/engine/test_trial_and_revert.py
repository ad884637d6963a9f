"""A program that fails later goes, and an earlier one goes on: the latest that passed its trial, or the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.edited_run import SWITCH, Loop, edit, kinds, sgd_program, train, wrapped
from opal.records import events
from opal.testing.scripted import Edit, ScriptedBackend

FAILS_AT = """
class Updater:
    def __init__(self, named_params):
        self.params = [param for _, param in named_params]
        self.param_groups = [{"params": self.params, "lr": RATE}]
    def step(self, grads, update):
        for param in self.params:
            param.sub_(RATE * param.grad)
        if update == FAILS:
            raise RuntimeError("at last")
def build(named_params, previous=None, spec=None):
    return Updater(named_params)
"""
BUILT_AGAIN = """
    if spec["update"] != FIRST:
        raise RuntimeError("only once")
"""


def failing(at: int, *, rate: float = 0.01) -> Edit:
    """A program of plain SGD that raises at update `at`, when the parameters are changed already."""
    return edit(FAILS_AT.replace("FAILS", str(at)).replace("RATE", str(rate)))


def only_once(first: int) -> Edit:
    """A program that can be built for `first` and never again."""
    text = FAILS_AT.replace("FAILS", "0").replace("RATE", "0.02")
    return edit(text.replace("spec=None):\n", "spec=None):" + BUILT_AGAIN.replace("FIRST", str(first))))


def versions(**wrap: Any) -> tuple[Loop, dict[int, str]]:
    """Train, and say which version was in force after each update."""
    seen: dict[int, str] = {}

    def look(loop: Loop, update: int) -> None:
        seen[update - 1] = loop.handle._parts.slots.running.version

    run = train(wrap, before=look)
    seen[60] = run.handle._parts.slots.running.version
    return run, seen


def test_a_trial_is_the_first_updates_of_a_program(tmp_path: Path) -> None:
    run, _ = versions(**wrapped(tmp_path, {1: edit(sgd_program())}, trial_steps=7))
    (passed,) = run.events(events.TrialPassed)
    assert (passed.version, passed.update) == ("v001", SWITCH + 7)  # before update 27, after 20 … 26


@pytest.mark.parametrize("last", [21, 23, 24])
def test_a_failure_on_trial_goes_back_to_the_starting_program_with_the_next_update(tmp_path: Path, last: int) -> None:
    backend = ScriptedBackend({1: failing(last)})
    run, seen = versions(**wrapped(tmp_path, backend=backend))
    (failed,) = run.events(events.ProgramFailed)
    assert (failed.stage, failed.update, failed.undone, failed.goes_on_with) == ("trial", last, "not", "v000")
    assert [seen[update] for update in (19, 20, last - 1, last, 60)] == ["v000", "v001", "v001", "v000", "v000"]
    assert kinds(run) == ["ProgramApplied", "ProgramFailed", "ProgramReverted"]
    assert "what it did is not undone; v000 goes on" in backend.turns[1].message
    assert [turn.update for turn in backend.turns] == [20, 30, 40]  # nothing else is asked for it

    @torch.no_grad()
    def by_hand(loop: Loop, update: int, loss: torch.Tensor) -> None:
        if SWITCH <= update <= last:
            for param in loop.model.parameters():
                param.sub_(0.01 * param.grad)  # type: ignore[operator]
        else:
            loop.inner.step()

    plain = train(step=by_hand)
    assert run.losses == plain.losses
    assert run.applied[last:] == plain.applied[last:]
    assert run.end["scheduler"] == plain.end["scheduler"]


def test_a_failure_after_the_trial_builds_the_starting_program_anew_and_asks(tmp_path: Path) -> None:
    backend = ScriptedBackend({1: failing(25)})
    run, seen = versions(**wrapped(tmp_path, backend=backend, schedule=[SWITCH, 50]))
    (failed,) = run.events(events.ProgramFailed)
    assert (failed.stage, failed.update, failed.undone, failed.goes_on_with) == ("update", 25, "not", "v000")
    assert [seen[update] for update in (24, 25)] == ["v001", "v000"]
    assert [turn.update for turn in backend.turns] == [20, 30, 50]
    asked = run.events(events.DecisionAsked)[1]
    assert asked.reasons == ("failed_program: v001 failed at update 25, after its trial",)
    assert "updater.py:10" in backend.turns[1].message
    assert run.record.final_version == "v000"


def test_a_second_program_failing_on_trial_gives_way_to_the_first_that_passed(tmp_path: Path) -> None:
    run, seen = versions(**wrapped(tmp_path, {1: edit(sgd_program()), 2: failing(32)}))
    assert kinds(run) == ["ProgramApplied", "TrialPassed", "ProgramApplied", "ProgramFailed", "ProgramReverted"]
    assert [seen[update] for update in (29, 30, 31, 32, 60)] == ["v001", "v002", "v002", "v001", "v001"]
    assert run.record.final_version == "v001"
    # At update 32 the second one stepped; what the first one has in its groups is of its last update.
    assert run.last_lr[30:] == [0.01, 0.05 * (1 - 29 / 100), *(0.05 * (1 - update / 100) for update in range(33, 61))]


def test_a_second_program_while_the_first_is_on_trial_falls_back_to_the_starting_one(tmp_path: Path) -> None:
    run, seen = versions(**wrapped(tmp_path, {1: edit(sgd_program()), 2: failing(33)}, trial_steps=15))
    assert kinds(run) == ["ProgramApplied", "ProgramApplied", "ProgramFailed", "ProgramReverted"]
    assert [seen[update] for update in (29, 30, 32, 33, 60)] == ["v001", "v002", "v002", "v000", "v000"]


def test_a_first_update_that_is_undone_gives_the_program_before_the_rest_of_its_trial(tmp_path: Path) -> None:
    run, seen = versions(**wrapped(tmp_path, {1: edit(sgd_program()), 2: failing(30)}, trial_steps=15))
    assert kinds(run) == ["ProgramApplied", "ProgramApplied", "ProgramFailed", "ProgramReverted", "TrialPassed"]
    assert seen[30] == "v001"
    (passed,) = run.events(events.TrialPassed)
    assert (passed.version, passed.update) == ("v001", 35)


def test_after_the_trials_the_latest_earlier_version_is_built_anew(tmp_path: Path) -> None:
    run, seen = versions(**wrapped(tmp_path, {1: edit(sgd_program()), 2: failing(45)}, schedule=[20, 30]))
    assert [seen[update] for update in (44, 45, 60)] == ["v002", "v001", "v001"]
    assert run.record.final_version == "v001"
    updater = run.handle._parts.slots.running.updater
    momentum = torch.zeros_like(updater.momentum[0])
    assert not torch.equal(updater.momentum[0], momentum)
    assert run.last_lr[-1] == 0.05 * (1 - 60 / 100)


def test_an_earlier_version_that_cannot_be_built_again_is_passed_over(tmp_path: Path) -> None:
    run, seen = versions(**wrapped(tmp_path, {1: only_once(20), 2: failing(45)}, schedule=[20, 30]))
    assert [seen[update] for update in (29, 44, 45)] == ["v001", "v002", "v000"]
    assert run.record.final_version == "v000"


def test_an_analysis_edited_on_trial_goes_with_its_updater(tmp_path: Path) -> None:
    analysis = "def analyze(obs, memory):\n    return None\n"
    edits = {1: failing(33), 2: edit(analysis=analysis)}
    run, seen = versions(**wrapped(tmp_path, edits, trial_steps=15))
    assert [seen[update] for update in (29, 30, 32, 33)] == ["v001", "v002", "v002", "v000"]
    (failed,) = run.events(events.ProgramFailed)
    assert (failed.version, failed.file, failed.line) == ("v002", "updater.py", 10)
    assert run.handle._parts.slots.running.analysis.version == "v000"


def test_after_a_revert_the_agent_finds_the_program_that_runs(tmp_path: Path) -> None:
    texts: list[str] = []

    def agent(workspace: str, message: str, system: str) -> str:
        texts.append((Path(workspace) / "updater.py").read_text())
        if len(texts) == 1:
            (Path(workspace) / "updater.py").write_text(failing(22).files["updater.py"])
        return "done"

    run = train(wrapped(tmp_path, backend=agent))
    assert texts == [run.record.programs["v000"]["updater.py"]] * 3
    assert kinds(run) == ["ProgramApplied", "ProgramFailed", "ProgramReverted"]


def test_a_program_reverted_while_a_decision_is_open_does_not_come_back_by_keeping_it(tmp_path: Path) -> None:
    backend = ScriptedBackend({1: failing(32)}, held=True)

    def release(loop: Loop, update: int) -> None:
        if update in (21, 35):
            assert backend.asked.acquire(timeout=30)
            backend.release()
            assert loop.handle._parts.decisions._worker.wait(30)
            while loop.handle._parts.timeline.next_due != 0:
                pass

    arguments = wrapped(tmp_path, backend=backend, blocking=False, schedule=[20, 30], trial_steps=20)
    run = train(arguments, before=release)
    assert kinds(run) == ["ProgramApplied", "ProgramFailed", "ProgramReverted"]
    assert run.record.final_version == "v000"
    assert [event.edited for event in run.events(events.DecisionAnswered)] == [True, False]
