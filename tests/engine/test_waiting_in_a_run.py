"""A run that waits, that does not, and that chooses; notes, closing, and answers that come too late."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import torch

import opal
from opal.records.commands import append_command
from opal.records.reader import read_run
from opal.records.run_folder import RunFolder
from opal.testing.scripted import Edit, ScriptedBackend

HALF_RATE = """
class Updater:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups
    def step(self, grads, update):
        for group in self.param_groups:
            group["lr"] = 0.005
        self.optimizer.step()
def build(named_params, previous=None, spec=None):
    return Updater(spec["user_optimizers"][0])
"""


def _wrap(tmp_path: Path, backend: Any, **options: Any) -> tuple[Any, torch.nn.Module]:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    inner = torch.optim.SGD(model.parameters(), lr=0.01)
    arguments: dict[str, Any] = {"total_steps": 60, "goal": "g", "every": 5, "schedule": [10, 30]}
    return opal.wrap(inner, model, backend=backend, run_dir=tmp_path / "run", **{**arguments, **options}), model


def _update(optimizer: Any, model: torch.nn.Module) -> None:
    loss = model(torch.ones(3, 4)).square().mean()
    loss.backward()
    optimizer.step(loss=loss)
    optimizer.zero_grad()


def _events(tmp_path: Path) -> list[Any]:
    return list(read_run(tmp_path / "run").events)


def _kinds(tmp_path: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]


def test_without_waiting_an_edit_counts_from_the_first_update_after_the_answer(tmp_path: Path) -> None:
    backend = ScriptedBackend({1: Edit(files={"updater.py": HALF_RATE})}, held=True)
    optimizer, model = _wrap(tmp_path, backend, blocking=False, schedule=[10])
    for _ in range(20):
        _update(optimizer, model)
    assert backend.asked.acquire(timeout=10)
    assert optimizer.param_groups[0]["lr"] == 0.01
    backend.release()
    worker = optimizer._parts.decisions._worker
    assert worker.wait(10)
    _update(optimizer, model)
    assert optimizer.param_groups[0]["lr"] == 0.005
    optimizer.close()
    applied = next(event for event in _events(tmp_path) if type(event).__name__ == "ProgramApplied")
    assert (applied.asked_at, applied.effective_from) == (10, 21)
    assert optimizer.agent_wait_seconds == 0.0


def test_auto_waits_first_and_goes_on_once_answers_are_known_to_be_quick(tmp_path: Path) -> None:
    optimizer, model = _wrap(tmp_path, ScriptedBackend(), blocking="auto", max_lag_updates=10**6)
    for _ in range(60):
        _update(optimizer, model)
    optimizer.close()
    chosen = [event for event in _events(tmp_path) if type(event).__name__ == "WaitingChosen"]
    assert [event.waits for event in chosen] == [True, False]
    assert "expected" in chosen[1].why


def test_auto_waits_where_an_answer_would_come_too_late(tmp_path: Path) -> None:
    optimizer, model = _wrap(tmp_path, ScriptedBackend(), blocking="auto", max_lag_updates=0)
    for _ in range(60):
        _update(optimizer, model)
    optimizer.close()
    chosen = [event for event in _events(tmp_path) if type(event).__name__ == "WaitingChosen"]
    assert [event.waits for event in chosen] == [True, True]


def test_a_loss_that_is_not_finite_makes_a_run_wait_that_does_not_wait_otherwise(tmp_path: Path) -> None:
    backend = ScriptedBackend()
    optimizer, model = _wrap(tmp_path, backend, blocking=False, schedule=[50])
    for update in range(1, 41):
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step(loss=float("nan") if update in (7, 8, 12) else 1.0)
        optimizer.zero_grad()
    optimizer.close()
    asked = [event for event in _events(tmp_path) if type(event).__name__ == "DecisionAsked"]
    # At 10 for update 7; 12 belongs to the same trouble, as the window from 11 to 15 is the first with finite losses.
    assert [event.waits for event in asked][:1] == [True]
    assert asked[0].update == 10
    assert "first at update 7" in asked[0].reasons[0]
    assert "first at update 7" in backend.turns[0].message


def test_a_persons_note_reaches_the_next_message(tmp_path: Path) -> None:
    backend = ScriptedBackend()
    optimizer, model = _wrap(tmp_path, backend)
    for _ in range(12):
        _update(optimizer, model)
    append_command(RunFolder(tmp_path / "run"), "note", text="mind the embedding")
    deadline = time.monotonic() + 20
    while not optimizer._parts.upkeep._commands and time.monotonic() < deadline:
        threading.Event().wait(0.05)  # the writer's thread looks once a second
    for _ in range(20):
        _update(optimizer, model)
    optimizer.close()
    assert "mind the embedding" not in backend.turns[0].message
    assert "mind the embedding" in backend.turns[1].message
    assert "note_received" in _kinds(tmp_path)


def test_closing_with_a_decision_open_ends_soon_and_uses_nothing_that_comes_later(tmp_path: Path) -> None:
    backend = ScriptedBackend({1: Edit(files={"updater.py": HALF_RATE})}, held=True)
    optimizer, model = _wrap(tmp_path, backend, blocking=False, schedule=[10])
    for _ in range(60):
        _update(optimizer, model)
    began = time.monotonic()
    optimizer.close()
    assert time.monotonic() - began < 9
    assert optimizer.param_groups[0]["lr"] == 0.01
    kinds = _kinds(tmp_path)
    assert "decision_unanswered" in kinds
    assert kinds[-1] == "run_ended"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("opal-")]


def test_a_backend_that_fails_leaves_the_decision_unanswered_and_the_workspace_as_it_was(tmp_path: Path) -> None:
    broken = Edit(files={"updater.py": "half an edit"}, error=RuntimeError("the agent crashed"))
    backend = ScriptedBackend({1: broken})
    optimizer, model = _wrap(tmp_path, backend)
    for _ in range(60):
        _update(optimizer, model)
    optimizer.close()
    assert "the agent crashed" in backend.turns[1].message
    assert "half an edit" not in (tmp_path / "run" / "workspace" / "updater.py").read_text()
    assert _kinds(tmp_path).count("program_applied") == 0
    assert optimizer.update == 60


def test_an_answer_that_keeps_does_so_whatever_lies_in_the_workspace(tmp_path: Path) -> None:
    backend = ScriptedBackend({1: Edit(files={"updater.py": HALF_RATE}, keeps=True, text="not yet")})
    optimizer, model = _wrap(tmp_path, backend)
    for _ in range(60):
        _update(optimizer, model)
    optimizer.close()
    assert _kinds(tmp_path).count("program_applied") == 0
    assert optimizer.param_groups[0]["lr"] == 0.01
    assert (tmp_path / "run" / "workspace" / "updater.py").read_text() != HALF_RATE


def test_the_closing_message_comes_after_the_last_decision(tmp_path: Path) -> None:
    optimizer, model = _wrap(tmp_path, ScriptedBackend())
    for _ in range(60):
        _update(optimizer, model)
    optimizer.close()
    closing = (tmp_path / "run" / "decisions" / "closing.txt").read_text()
    assert (tmp_path / "run" / "workspace" / "inbox" / "closing.md").read_text() == closing
    assert "60" in closing
    assert read_run(tmp_path / "run").is_finished


def test_without_the_pause_a_loss_that_is_not_finite_is_asked_about_and_not_waited_for(tmp_path: Path) -> None:
    backend = ScriptedBackend()
    optimizer, model = _wrap(tmp_path, backend, blocking=False, schedule=[50], pause_on_nonfinite=False)
    for update in range(1, 21):
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step(loss=float("nan") if update == 7 else 1.0)
        optimizer.zero_grad()
    optimizer.close()
    asked = [event for event in _events(tmp_path) if type(event).__name__ == "DecisionAsked"]
    assert [event.waits for event in asked] == [False]
    assert "first at update 7" in asked[0].reasons[0]


def test_an_answer_past_the_end_is_not_used(tmp_path: Path) -> None:
    backend = ScriptedBackend({1: Edit(files={"updater.py": HALF_RATE})}, held=True)
    optimizer, model = _wrap(tmp_path, backend, blocking=False, schedule=[10])
    for _ in range(62):
        _update(optimizer, model)
    backend.release()
    assert optimizer._parts.decisions._worker.wait(10)
    for _ in range(3):
        _update(optimizer, model)
    assert optimizer.param_groups[0]["lr"] == 0.01
    optimizer.close()
    assert "program_applied" not in _kinds(tmp_path)


def test_groups_that_a_program_spoils_after_its_build_end_neither_training_nor_decisions(tmp_path: Path) -> None:
    spoilt = HALF_RATE.replace(
        "        self.optimizer.step()", '        self.optimizer.step()\n        self.param_groups = [{"lr": None}]'
    )
    backend = ScriptedBackend({1: Edit(files={"updater.py": spoilt})})
    optimizer, model = _wrap(tmp_path, backend)
    for _ in range(60):
        _update(optimizer, model)
        assert isinstance(optimizer.param_groups, list)
    optimizer.close()
    assert len(backend.turns) == 2
    assert "program_applied" in _kinds(tmp_path)


def test_a_refusal_for_the_files_names_the_file_and_no_place_inside_opal(tmp_path: Path) -> None:
    shadow = {"updater.py": "import random\n" + HALF_RATE, "random.py": "x = 1\n"}
    backend = ScriptedBackend({1: Edit(files=shadow)})
    optimizer, model = _wrap(tmp_path, backend)
    for _ in range(60):
        _update(optimizer, model)
    optimizer.close()
    assert "random.py" in backend.turns[1].message
    assert "contract.py" not in backend.turns[1].message
    assert "Traceback" not in backend.turns[1].message
