"""An edited program makes the updates from the one on that it was promised, byte for byte as written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cases.fingerprint import differences
from engine.edited_run import SWITCH, UPDATES, Loop, Step, assert_same_end, edit, kinds, sgd_program, train, wrapped
from opal.records import events
from opal.testing.scripted import ScriptedBackend


def by_hand(switch: int, *, follows: bool) -> Step:
    """The steps of a script that goes over to SGD with momentum at update `switch`."""
    momenta: list[torch.Tensor] = []

    @torch.no_grad()
    def step(loop: Loop, update: int, loss: torch.Tensor) -> None:
        params = list(loop.model.parameters())
        if update < switch:
            loop.inner.step()
            return
        if not momenta:
            momenta.extend(torch.zeros_like(param) for param in params)
        rate = loop.inner.param_groups[0]["lr"] if follows else 0.05 * (1 - update / 100)
        for param, momentum in zip(params, momenta, strict=True):
            momentum.mul_(0.9).add_(param.grad)
            param.sub_(rate * momentum)

    return step


@pytest.mark.parametrize("follows", [False, True], ids=["rates of its own", "the script's rates"])
@pytest.mark.parametrize("as_function", [True, False], ids=["function", "scripted"])
def test_sgd_written_at_a_decision_ends_with_the_bytes_of_a_script_that_switches_there(
    tmp_path: Path, follows: bool, as_function: bool
) -> None:
    def agent(workspace: str, message: str, system: str) -> str:
        (Path(workspace) / "updater.py").write_text(sgd_program(follows=follows))
        return "SGD with momentum"

    plain = train(step=by_hand(SWITCH, follows=follows))
    backend: Any = agent if as_function else ScriptedBackend({1: edit(sgd_program(follows=follows))})
    run = train(wrapped(tmp_path, backend=backend))
    assert_same_end(plain, run, but=() if follows else ("optimizer",))  # the script's groups are left alone
    assert differences(plain.end["optimizer"]["state"], run.end["optimizer"]["state"]) == []
    assert kinds(run) == ["ProgramApplied", "TrialPassed"]
    (applied,) = run.events(events.ProgramApplied)
    assert (applied.version, applied.effective_from, applied.sides) == ("v001", SWITCH, ("updater",))
    assert run.record.final_version == "v001"


@pytest.mark.parametrize("follows", [False, True])
def test_the_rates_that_are_logged_are_those_applied(tmp_path: Path, follows: bool) -> None:
    run = train(wrapped(tmp_path, {1: edit(sgd_program(follows=follows))}))
    script = train().applied
    want = [
        rate if follows or update < SWITCH else 0.05 * (1 - update / 100) for update, rate in enumerate(script, start=1)
    ]
    assert run.applied == want
    assert run.last_lr == want
    checks = {check.update: check for check in run.record.losses}
    assert sorted(checks) == [10, 20, 30, 40, 50, 60]
    # A check comes before its update: it names the rates of the program that ran until then.
    assert checks[10].learning_rates == (script[9],)
    assert checks[20].learning_rates == (script[19],)
    for update in (30, 40, 50, 60):
        assert checks[update].learning_rates == (want[update - 2],)  # this program sets its rate as it steps
        assert checks[update].version == "v001"


def test_without_waiting_the_edit_counts_from_the_first_update_after_the_answer(tmp_path: Path) -> None:
    backend = ScriptedBackend({1: edit(sgd_program())}, held=True)

    def release(loop: Loop, update: int) -> None:
        if update == 27:
            assert backend.asked.acquire(timeout=30)
            backend.release()
            assert loop.handle._parts.decisions._worker.wait(30)
            while loop.handle._parts.timeline.next_due != 0:  # the worker's last act
                pass

    run = train(wrapped(tmp_path, backend=backend, blocking=False, schedule=[SWITCH]), before=release)
    assert_same_end(train(step=by_hand(27, follows=False)), run, but=("optimizer",))
    (applied,) = run.events(events.ProgramApplied)
    assert (applied.asked_at, applied.effective_from) == (SWITCH, 27)
    (asked,) = run.events(events.DecisionAsked)
    assert (asked.update, asked.waits) == (SWITCH, False)


def test_an_edit_of_the_analysis_alone_keeps_the_updater_and_its_state(tmp_path: Path) -> None:
    seen: dict[int, Any] = {}

    def look(loop: Loop, update: int) -> None:
        seen[update] = loop.handle._parts.slots.running.updater

    analysis = "EVERY = 10\ndef analyze(obs, memory):\n    return {'report': {'own': obs.update}}\n"
    edits = {1: edit(sgd_program()), 2: edit(analysis=analysis)}
    run = train(wrapped(tmp_path, edits), before=look)
    assert_same_end(train(step=by_hand(SWITCH, follows=False)), run, but=("optimizer",))
    assert seen[31] is seen[UPDATES]
    assert seen[31] is seen[21]
    assert seen[21] is not seen[20]
    first, second = run.events(events.ProgramApplied)
    assert (first.version, first.sides, second.version, second.sides) == ("v001", ("updater",), "v002", ("analysis",))
    assert [event.version for event in run.events(events.TrialPassed)] == ["v001"]
    assert [report.values for report in run.record.reports if report.update > 30] == [
        {"own": 40}, {"own": 50}, {"own": 60}
    ]  # fmt: skip
    assert run.record.final_version == "v002"


def test_an_edit_of_both_sides_is_one_version(tmp_path: Path) -> None:
    analysis = "def analyze(obs, memory):\n    return {'report': {'is_own': hasattr(obs.updater, 'momentum')}}\n"
    run = train(wrapped(tmp_path, {1: edit(sgd_program(), analysis=analysis)}))
    (applied,) = run.events(events.ProgramApplied)
    assert (applied.version, applied.sides) == ("v001", ("updater", "analysis"))
    assert run.record.reports[-1].values == {"is_own": True}
    assert sorted(run.record.programs) == ["v000", "v001"]
    assert run.record.programs["v001"]["analysis.py"] == analysis


def test_a_program_that_takes_ctx_sees_update_and_loss(tmp_path: Path) -> None:
    program = """
class Updater:
    def __init__(self, optimizers):
        self.optimizers = optimizers
        self.seen = []
    def step(self, grads, update, ctx):
        assert ctx.loss.shape == () and not ctx.loss.requires_grad
        self.seen.append((ctx.update, update, ctx.loss.item(), len(grads)))
        for optimizer in self.optimizers:
            optimizer.step()
def build(named_params, previous=None, spec=None):
    return Updater(spec["user_optimizers"])
"""
    seen: list[Any] = []

    def look(loop: Loop, update: int) -> None:
        seen[:] = getattr(loop.handle._parts.slots.running.updater, "seen", [])

    run = train(wrapped(tmp_path, {1: edit(program)}), before=look)
    names = len(list(run.model.named_parameters()))
    assert seen == [(u, u, run.losses[u - 1], names) for u in range(SWITCH, UPDATES)]


def test_a_program_may_read_gradients_by_name_in_every_way_a_dict_has(tmp_path: Path) -> None:
    program = """
class Updater:
    def __init__(self, named_params):
        self.named = named_params
        self.param_groups = [{"params": [p for _, p in named_params], "lr": 0.01}]
    def step(self, grads, update):
        names = [name for name, _ in self.named]
        assert list(grads) == names and list(grads.keys()) == names and len(grads) == len(names)
        assert all(a is b for a, b in zip(grads.values(), [p.grad for _, p in self.named]))
        assert names[0] in grads and grads.get("no such") is None and grads | {} == dict(grads.items())
        scaled = {name: 2 * grad for name, grad in grads.items()}
        grads[names[0]] = None
        assert grads[names[0]] is None and grads.pop(names[1]) is self.named[1][1].grad
        for name, param in self.named:
            param.sub_(0.005 * scaled[name])
def build(named_params, previous=None, spec=None):
    return Updater(named_params)
"""

    @torch.no_grad()
    def step(loop: Loop, update: int, loss: torch.Tensor) -> None:
        if update < SWITCH:
            loop.inner.step()
            return
        for param in loop.model.parameters():
            param.sub_(0.005 * (2 * param.grad))  # type: ignore[operator]

    run = train(wrapped(tmp_path, {1: edit(program)}))
    assert kinds(run) == ["ProgramApplied", "TrialPassed"]
    assert_same_end(train(step=step), run, but=("optimizer",))
