"""The analysis in a run: when it is called, what it sees, what becomes of what it says, and of its failures."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from cases.models import Mlp
from engine.edited_run import UPDATES, Loop, assert_same_end, edit, train, wrapped
from opal.records import events
from opal.testing.scripted import ScriptedBackend


def analysis(body: str, head: str = "") -> str:
    return f"{head}\ndef analyze(obs, memory):\n" + "".join(f"    {line}\n" for line in body.splitlines())


def reports(run: Loop) -> dict[int, Any]:
    return {report.update: report.values for report in run.record.reports if report.update > 20}


@pytest.mark.parametrize("every", [1, 3, 10, 14, 20])
def test_it_is_called_at_the_multiples_of_its_own_interval(tmp_path: Path, every: int) -> None:
    text = analysis("return {'report': {'losses': obs.losses}}", f"EVERY = {every}")
    run = train(wrapped(tmp_path, {1: edit(analysis=text)}))
    found = reports(run)
    assert list(found) == list(range(20 // every * every + every, UPDATES + 1, every))
    first = 21  # the analysis before took the losses up to update 20
    for update, values in found.items():
        assert values["losses"] == run.losses[first - 1 : update]
        first = update + 1
    read = {check.first + index: loss for check in run.record.losses for index, loss in enumerate(check.values)}
    assert read == dict(enumerate(run.losses, start=1))
    assert_same_end(train(), run)


def test_an_edit_that_comes_between_checks_is_called_at_its_next_multiple(tmp_path: Path) -> None:
    text = analysis("return {'report': {'n': len(obs.losses)}}", "EVERY = 3")
    backend = ScriptedBackend({1: edit(analysis=text)}, held=True)

    def release(loop: Loop, update: int) -> None:
        if update == 22:
            assert backend.asked.acquire(timeout=30)
            backend.release()
            assert loop.handle._parts.decisions._worker.wait(30)
            while loop.handle._parts.timeline.next_due != 0:
                pass

    run = train(wrapped(tmp_path, backend=backend, blocking=False, schedule=[20]), before=release)
    assert list(reports(run))[:3] == [24, 27, 30]


@pytest.mark.parametrize("every", [1, 4, 10])
def test_last_step_is_what_the_previous_update_changed(tmp_path: Path, every: int) -> None:
    text = analysis(
        "return {'report': {name: step.flatten().tolist() for name, step in obs.last_step.items()}}"
        " if obs.last_step else None",
        f"EVERY = {every}\nNEEDS_LAST_STEP = True",
    )
    states: dict[int, dict[str, torch.Tensor]] = {}

    def look(loop: Loop, update: int) -> None:
        states[update - 1] = {name: param.detach().clone() for name, param in loop.model.named_parameters()}

    run = train(wrapped(tmp_path, {1: edit(analysis=text)}), before=look)
    found = reports(run)
    assert list(found) == [update for update in range(21, 61) if update % every == 0]
    for update, values in found.items():
        after, before = states[update - 1], states[update - 2]
        assert values == {name: (after[name] - before[name]).flatten().tolist() for name in after}


def test_an_analysis_that_does_not_ask_for_the_last_step_has_none(tmp_path: Path) -> None:
    run = train(wrapped(tmp_path, {1: edit(analysis=analysis("return {'report': {'none': obs.last_step is None}}"))}))
    assert reports(run)[30] == {"none": True}


def test_it_sees_the_parameters_and_gradients_of_the_update_that_comes(tmp_path: Path) -> None:
    body = (
        "return {'report': {'grad': obs.grads['norm.bias'].tolist(), 'param': obs.params['norm.bias'].tolist(),"
        " 'total': obs.total_updates, 'wall': obs.wall_ms_per_update > obs.program_ms_per_update > 0,"
        " 'metrics': obs.metrics}}"
    )
    seen: dict[int, Any] = {}

    def step(loop: Loop, update: int, loss: torch.Tensor) -> None:
        assert isinstance(loop.model, Mlp)
        bias = loop.model.norm.bias
        assert bias.grad is not None
        seen[update] = (bias.grad.tolist(), bias.tolist())
        if update == 35:
            loop.handle.log(speed=2.5, show_agent=True)
            loop.handle.log(secret=1.0)
        loop.handle.step(loss=loss)

    run = train(wrapped(tmp_path, {1: edit(analysis=analysis(body))}), step=step)
    found = reports(run)
    for update in (30, 40, 60):
        assert (found[update]["grad"], found[update]["param"]) == seen[update]
        assert found[update]["total"] == 60
        assert found[update]["wall"] is True
    assert found[40]["metrics"] == [{"update": 34, "name": "speed", "value": 2.5}]
    assert found[50]["metrics"] == []


def test_a_wake_up_asks_at_once_with_its_reason_and_within_the_cap(tmp_path: Path) -> None:
    text = analysis("return {'wake': f'at {obs.update}'} if obs.update > 20 else None", "EVERY = 10")
    backend = ScriptedBackend({1: edit(analysis=text)})
    run = train(wrapped(tmp_path, backend=backend, schedule=[20, 50], max_decisions=3))
    asked = run.events(events.DecisionAsked)
    assert [(event.update, event.reasons) for event in asked] == [
        (20, ("scheduled",)),
        (30, ("wake: at 30",)),
        (50, ("scheduled", "wake: at 50")),
    ]
    assert "at 30" in backend.turns[1].message
    assert [event.why for event in run.events(events.AnalysisWoke)] == ["at 30", "at 40", "at 50", "at 60"]


FAILING = {
    "raises": ("memory['n'] = 1\n1 / 0", "ZeroDivisionError", "analysis.py:4"),
    "exits": ("raise SystemExit(1)", "SystemExit", "analysis.py:3"),
    "recurses": ("return analyze(obs, memory)", "RecursionError", "analysis.py:3"),
    "returns a number": ("return 3", "returned something else", "analysis.py"),
    "reports a list": ("return {'report': [1]}", "the report is a list", "analysis.py"),
    "has another key": ("return {'reprot': {}}", "returned something else", "analysis.py"),
}


@pytest.mark.parametrize("name", FAILING)
def test_one_that_fails_is_not_called_again_until_it_is_edited(tmp_path: Path, name: str) -> None:
    body, says, where = FAILING[name]
    good = analysis("return {'report': {'n': memory.get('n')}}")
    backend = ScriptedBackend({1: edit(analysis=analysis(body)), 3: edit(analysis=good)})
    run = train(wrapped(tmp_path, backend=backend))
    (failed,) = run.events(events.AnalysisFailed)
    assert (failed.version, failed.update) == ("v001", 30)
    told = backend.turns[1].message
    assert says in told
    assert where in told
    assert reports(run) == {update: {"n": 1 if name == "raises" else None} for update in (50, 60)}
    assert_same_end(train(), run)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def analyse(obs, memory):\n    pass\n", "has no function analyze"),
        ("EVERY = 0\ndef analyze(obs, memory):\n    pass\n", "EVERY is 0"),
        ("EVERY = True\ndef analyze(obs, memory):\n    pass\n", "EVERY is True"),
        ("NEEDS_LAST_STEP = 1\ndef analyze(obs, memory):\n    pass\n", "NEEDS_LAST_STEP is 1"),
        ("import absent_x\n", "No module named 'absent_x'"),
    ],
)
def test_one_that_cannot_be_loaded_is_refused_and_the_old_one_goes_on(tmp_path: Path, text: str, says: str) -> None:
    backend = ScriptedBackend({1: edit(analysis=text)})
    run = train(wrapped(tmp_path, backend=backend))
    (refused,) = run.events(events.ProgramRefused)
    assert refused.stage == "analysis"
    assert says in backend.turns[1].message
    assert list(reports(run)) == [30, 40, 50, 60]
    assert run.record.decisions[1].rejected["analysis.py"] == text


def test_reports_are_plain_json_at_most_64_kib(tmp_path: Path) -> None:
    body = (
        "import torch\n"
        "if obs.update == 30:\n"
        "    return {'report': {'nan': float('nan'), 'inf': [float('-inf')], 'tensor': torch.tensor(2.5), 3: {1: 2},"
        " 'object': object(), 'set': {1}}}\n"
        "return {'report': {'small': 1, 'large': 'x' * 70000, 'last': 2}}"
    )
    backend = ScriptedBackend({1: edit(analysis=analysis(body))})
    run = train(wrapped(tmp_path, backend=backend, schedule=[20, 40, 50]))
    found = reports(run)
    assert repr(found[30]["nan"]) == "nan"
    assert found[30]["inf"] == [float("-inf")]
    assert {key: found[30][key] for key in ("tensor", "3", "object", "set")} == {
        "tensor": 2.5, "3": {"1": 2}, "object": "<object>", "set": [1]
    }  # fmt: skip
    assert found[40] == {"small": 1}
    assert '"NaN"' in run.record.folder.reports.read_text()
    assert "was cut" in backend.turns[2].message


def test_memory_outlives_edits_and_reverts(tmp_path: Path) -> None:
    count = analysis("memory['n'] = memory.get('n', 0) + 1\nreturn {'report': {'n': memory['n']}}")
    edits = {1: edit(analysis=count), 2: edit(analysis=count + "# changed\n"), 3: edit("1 / 0\n", analysis="1 / 0\n")}
    run = train(wrapped(tmp_path, edits))
    assert reports(run) == {30: {"n": 1}, 40: {"n": 2}, 50: {"n": 3}, 60: {"n": 4}}


def test_named_activations_are_those_of_the_last_forward_pass(tmp_path: Path) -> None:
    body = "return {'report': {name: value.flatten().tolist() for name, value in obs.activations.items()}}"
    outputs: dict[int, Any] = {}

    def watch(loop: Loop, update: int) -> None:
        if update == 1:
            assert isinstance(loop.model, Mlp)
            loop.model.norm.register_forward_hook(
                lambda module, args, output: outputs.__setitem__(loop.handle.update + 1, output.flatten().tolist())
            )

    arguments = wrapped(tmp_path, {1: edit(analysis=analysis(body))}, activations=["norm"])
    run = train(arguments, before=watch)
    assert reports(run) == {update: {"norm": outputs[update]} for update in (30, 40, 50, 60)}
    assert len(run.model.norm._forward_hooks) == 1  # type: ignore[union-attr, arg-type]


def test_losses_that_turn_non_finite_are_asked_about_once_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def step(loop: Loop, update: int, loss: torch.Tensor) -> None:
        bad = update in range(24, 36) or update in (52, 53)
        loop.handle.step(loss=float("nan") if bad else loss)

    backend = ScriptedBackend()
    with caplog.at_level(logging.WARNING, "opal"):
        run = train(wrapped(tmp_path, backend=backend, schedule=[40], max_decisions=9), step=step)
    assert [event.first_update for event in run.events(events.NonfiniteLoss)] == [24, 52]
    assert [(event.update, event.reasons) for event in run.events(events.DecisionAsked)] == [
        (30, ("nonfinite: the loss is not finite, first at update 24",)),
        (40, ("scheduled",)),
        # the one at 60 would come after the last update
    ]
    assert "not finite" in backend.turns[0].message
