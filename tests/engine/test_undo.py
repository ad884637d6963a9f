"""A program that fails as it starts leaves no trace: the run ends with the bytes of the run without that edit."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import OneCycleLR

from engine.edited_run import SWITCH, Loop, adamw, assert_same_end, edit, kinds, sgd_program, train, wrapped
from opal.records import events
from opal.testing.scripted import Edit, ScriptedBackend

SPOIL = '''
import random
import numpy
import torch

def spoil(named_params, optimizer, previous, scheduler):
    """Change everything that a program can reach."""
    torch.rand(7); random.random(); numpy.random.rand()
    with torch.no_grad():
        for index, (name, param) in enumerate(named_params):
            param.mul_(3)
            if index == 0:
                param.data = torch.zeros_like(param)
                param.grad = None
            if index == 1:
                param.requires_grad_(False)
                param.grad.zero_()
            if index == 2:
                param.grad = torch.ones_like(param)
    for number, state in enumerate(optimizer.state.values()):
        if number == 0:
            state["exp_avg"] = torch.ones(3)
        elif number == 1:
            state["exp_avg"].resize_(1)
        elif number == 2:
            state.clear()
        else:
            state["step"] += 5
            state["exp_avg_sq"].fill_(7)
    group = optimizer.param_groups[0]
    group["lr"] = 99.0
    group["new"] = 1
    group["betas"] = (0.0, 0.0)
    scheduler.base_lrs[0] = 5.0
    scheduler.last_epoch += 3
    if hasattr(previous, "momentum"):
        for momentum in previous.momentum:
            momentum.fill_(3)
        previous.momentum.append(None)
        previous.param_groups[0]["lr"] = 4.0
        previous.extra = 1
'''
BUILD_RAISES = """
from spoil import spoil
def build(named_params, previous=None, spec=None):
    spoil(named_params, spec["user_optimizers"][0], previous, spec["user_schedulers"][0])
    raise ValueError("half way")
"""
STEP_RAISES = """
import torch
from spoil import spoil
class Updater:
    def __init__(self, *args):
        self.args = args
    def step(self, grads, update):
        self.args[1].step()
        spoil(*self.args)
        for name in grads:
            grads[name] = None
        torch._foreach_add_([p for _, p in self.args[0]], 1.0)
        undefined
def build(named_params, previous=None, spec=None):
    return Updater(named_params, spec["user_optimizers"][0], previous, spec["user_schedulers"][0])
"""
BUILD_NONE = "def build(named_params, previous=None, spec=None):\n    return None\n"
GOOD = (
    "class U:\n    def step(self, grads, update):\n        pass\ndef build(named_params, previous=None, spec=None):\n"
)

# name: (text, stage, where, what the message says)
FAILING: dict[str, tuple[str, str, str, str]] = {
    "does not compile": ("import torch\ndef build(:\n", "import", "updater.py:2", "SyntaxError"),
    "imports what is not there": ("\nimport no_such_module_x\n", "import", "updater.py:2", "no_such_module_x"),
    "raises on import": ("x = 1\n1 / 0\n", "import", "updater.py:2", "ZeroDivisionError: division by zero"),
    "exits on import": ("import sys\nsys.exit(3)\n", "import", "updater.py:2", "SystemExit: 3"),
    "has no build": ("x = 1\n", "build", "updater.py", "has no function build"),
    "build returns None": (BUILD_NONE, "build", "updater.py", "build() returned None"),
    "build takes other arguments": ("def build(a):\n    pass\n", "build", "updater.py", "build(a) is called as"),
    "returns an object without step": (GOOD + "    return 3\n", "build", "updater.py", "a int without step"),
    "step takes too little": (
        GOOD.replace("(self, grads, update)", "(self)") + "    return U()\n",
        "build",
        "updater.py",
        "takes neither (grads, update) nor",
    ),
    "a parameter is listed twice": (
        GOOD + "    u = U(); p = named_params[0][1]; u.param_groups = [{'params': [p, p], 'lr': 1}]\n    return u\n",
        "build",
        "updater.py",
        "lists first.weight twice",
    ),
    "a group without a rate": (
        GOOD + "    u = U(); u.param_groups = [{'params': []}]\n    return u\n",
        "build",
        "updater.py",
        "param_groups[0] has a list 'params' and an 'lr'",
    ),
    "wants to skip": (
        GOOD + "    U.can_skip = True\n    return U()\n",
        "build",
        "updater.py",
        "can_skip is not available",
    ),
    "build recurses without end": (
        "def build(named_params, previous=None, spec=None):\n    return build(named_params)\n",
        "build",
        "updater.py:2",
        "RecursionError",
    ),
    "build runs out of memory": (
        "def build(named_params, previous=None, spec=None):\n    raise MemoryError\n",
        "build",
        "updater.py:2",
        "MemoryError",
    ),
    "build spoils everything and raises": (BUILD_RAISES, "build", "updater.py:5", "ValueError: half way"),
}  # fmt: skip


def spoiled(text: str) -> Edit:
    return edit(text, spoil=SPOIL) if "spoil" in text else edit(text)


def one_cycle(optimizer: Any) -> OneCycleLR:
    return OneCycleLR(optimizer, max_lr=0.03, total_steps=100)


@pytest.mark.parametrize("name", FAILING)
def test_a_candidate_that_cannot_start_leaves_no_trace(tmp_path: Path, name: str) -> None:
    text, stage, where, says = FAILING[name]
    backend = ScriptedBackend({1: spoiled(text)})
    run = train(wrapped(tmp_path, backend=backend), scheduler=one_cycle)
    assert_same_end(train(scheduler=one_cycle), run)
    (refused,) = run.events(events.ProgramRefused)
    assert (refused.decision, refused.version, refused.stage, refused.undone) == (1, "v001", stage, "exactly")
    assert kinds(run) == ["ProgramRefused"]
    told = backend.turns[1].message
    assert "v001" in told
    assert where in told
    assert says in told
    assert run.record.decisions[1].rejected["updater.py"] == text
    assert list(run.record.programs) == ["v000"]
    assert run.record.final_version == "v000"
    assert (run.record.folder.workspace / "updater.py").read_text() == run.record.programs["v000"]["updater.py"]


def test_what_a_failing_build_changed_in_the_updater_before_it_is_undone(tmp_path: Path) -> None:
    good = edit(sgd_program())
    run = train(wrapped(tmp_path, {1: good, 2: spoiled(BUILD_RAISES)}))
    assert_same_end(train(wrapped(tmp_path / "other", {1: good})), run)
    assert kinds(run) == ["ProgramApplied", "TrialPassed", "ProgramRefused"]
    assert run.record.final_version == "v001"


@pytest.mark.parametrize("before", [False, True], ids=["after the starting program", "after another program"])
def test_a_first_update_that_fails_is_made_again_by_the_program_before(tmp_path: Path, before: bool) -> None:
    first = {1: edit(sgd_program())} if before else {}
    backend = ScriptedBackend({**first, 2: spoiled(STEP_RAISES)})
    run = train(wrapped(tmp_path, backend=backend))
    assert_same_end(train(wrapped(tmp_path / "other", first)), run)
    version = "v002" if before else "v001"
    (failed,) = run.events(events.ProgramFailed)
    assert (failed.version, failed.update, failed.stage, failed.undone) == (version, 30, "first update", "exactly")
    assert (failed.file, failed.line, failed.error) == ("updater.py", 13, "NameError")
    assert failed.goes_on_with == ("v001" if before else "v000")
    told = backend.turns[2].message
    assert f"{version} failed at update 30" in told
    assert "every trace of it is undone" in told
    assert "updater.py:13" in told
    assert "undefined" in told
    assert run.record.final_version == failed.goes_on_with


@pytest.mark.parametrize("raised", ["SystemExit(1)", "MemoryError()", "RecursionError()", "GeneratorExit()"])
def test_whatever_a_first_update_raises_is_a_failure(tmp_path: Path, raised: str) -> None:
    text = GOOD.replace("pass", f"raise {raised}") + "    return U()\n"
    run = train(wrapped(tmp_path, {1: edit(text)}))
    assert_same_end(train(), run)
    assert kinds(run) == ["ProgramApplied", "ProgramFailed", "ProgramReverted"]


def test_real_recursion_and_exhausted_memory_in_a_step_are_failures(tmp_path: Path) -> None:
    deep = GOOD.replace("pass", "self.step(grads, update)") + "    return U()\n"
    large = "import torch\n" + GOOD.replace("pass", "torch.empty(1 << 60)") + "    return U()\n"
    run = train(wrapped(tmp_path, {1: edit(deep), 2: edit(large)}))
    assert_same_end(train(), run)
    assert [event.error for event in run.events(events.ProgramFailed)] == ["RecursionError", "RuntimeError"]


def test_an_interruption_from_the_keyboard_comes_through(tmp_path: Path) -> None:
    text = GOOD.replace("pass", "raise KeyboardInterrupt") + "    return U()\n"
    with pytest.raises(KeyboardInterrupt):
        train(wrapped(tmp_path, {1: edit(text)}))
    with pytest.raises(KeyboardInterrupt):
        train(wrapped(tmp_path / "2", {1: edit("raise KeyboardInterrupt\n")}))


@pytest.mark.parametrize("text", [BUILD_RAISES.replace("spoil(", "break_("), STEP_RAISES.replace("spoil(", "break_(")])
def test_without_a_snapshot_a_failure_is_not_undone_and_this_is_said(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    # A milder program than the others: training has to survive what is not undone.
    mild = "import torch\ndef spoil(*args):\n    pass\ndef break_(params, *rest):\n    with torch.no_grad():\n"
    mild += "        params[0][1].mul_(0.5)\n"
    text = text.replace("import spoil", "import break_")
    again = edit(text + "# again\n", spoil=mild)
    backend = ScriptedBackend({1: edit(text, spoil=mild), 2: again})
    with caplog.at_level(logging.WARNING, "opal"):
        run = train(wrapped(tmp_path, backend=backend, snapshot_limit_gb=0))
    with pytest.raises(AssertionError):
        assert_same_end(train(), run)
    found = run.events(events.ProgramRefused) + run.events(events.ProgramFailed)
    assert [event.undone for event in found] == ["not", "not"]
    assert "not undone" in backend.turns[1].message
    assert sum("snapshot_limit_gb" in record.getMessage() for record in caplog.records) == 1
    assert all(value == value for value in run.losses)


def test_sparse_gradients_and_state_are_put_back(tmp_path: Path) -> None:
    from cases.models import SparseBag

    text = """
class Updater:
    def __init__(self, params, optimizer):
        self.params, self.optimizer = params, optimizer
    def step(self, grads, update):
        grad = self.params[0][1].grad
        grad._values().fill_(9)
        self.params[0][1].grad = grad.coalesce() * 2
        self.optimizer.step()
        raise RuntimeError("now")
def build(named_params, previous=None, spec=None):
    return Updater(named_params, spec["user_optimizers"][0])
"""

    def sparse(params: Any) -> torch.optim.Optimizer:
        return torch.optim.SparseAdam(params, lr=0.01)

    run = train(wrapped(tmp_path, {1: edit(text)}), model=SparseBag, optimizer=sparse)
    assert_same_end(train(model=SparseBag, optimizer=sparse), run)
    assert kinds(run) == ["ProgramApplied", "ProgramFailed", "ProgramReverted"]


def test_the_exceptions_of_the_scripts_own_optimizer_are_the_scripts(tmp_path: Path) -> None:
    class Odd(torch.optim.AdamW):
        def step(self, closure: Any = None) -> Any:
            if len(caught) < 1 and self.state[self.param_groups[0]["params"][0]].get("step") == 24:
                raise ValueError("the script's own")
            return super().step(closure)

    caught: list[Exception] = []

    def step(loop: Loop, update: int, loss: torch.Tensor) -> None:
        for _ in range(2):
            try:
                loop.handle.step(loss=loss) if loop.handle is not None else loop.inner.step()
            except ValueError as error:
                caught.append(error)
            else:
                return

    run = train(wrapped(tmp_path), optimizer=lambda params: Odd(params, lr=0.02), step=step)
    assert [str(error) for error in caught] == ["the script's own"]
    assert_same_end(train(), run)
    assert run.handle.update == 60
    assert kinds(run) == []
    read = {check.first + index: loss for check in run.record.losses for index, loss in enumerate(check.values)}
    assert read == dict(enumerate(run.losses, start=1))


def test_a_rate_that_the_failed_program_wrote_is_gone_without_a_scheduler_too(tmp_path: Path) -> None:
    """A failure after the first update is not undone, but the script's groups have the script's rates again."""
    text = """
class Updater:
    def __init__(self, optimizer):
        self.optimizer, self.count = optimizer, 0
        self.param_groups = optimizer.param_groups
    def step(self, grads, update):
        self.param_groups[0]["lr"] = 0.5
        self.param_groups[0]["weight_decay"] = 0.9
        self.count += 1
        if self.count == 3:
            raise RuntimeError("now")
def build(named_params, previous=None, spec=None):
    return Updater(spec["user_optimizers"][0])
"""
    run = train(wrapped(tmp_path, {1: edit(text)}), scheduler=None, optimizer=adamw)
    assert run.applied[SWITCH - 1 : SWITCH + 1] == [0.5, 0.5]
    assert run.applied[SWITCH + 1 :] == [0.02] * (60 - SWITCH - 1)
    assert run.inner.param_groups[0]["weight_decay"] == 0.01
