"""Every backend that ships keeps the contract; a wrong choice lists what exists."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from opal.backends.base import BackendRun
from opal.backends.function import FunctionBackend
from opal.backends.keep import KeepBackend
from opal.backends.manual import ManualBackend
from opal.backends.select import select_backend
from opal.errors import ArgumentTypeError, ArgumentValueError, BackendFailedError, NotBuiltError
from opal.records.commands import append_command
from opal.records.run_folder import RunFolder
from opal.testing.conformance import check_backend
from opal.testing.scripted import Edit, ScriptedBackend
from opal.types import AgentAnswer, Turn


def _turn(folder: str, number: int = 1) -> Turn:
    return Turn(decision=number, round=0, update=50, message="what now?", system="a prompt", folder=folder)


def _run(root: Path, **options: Any) -> BackendRun:
    (root / "workspace").mkdir(parents=True, exist_ok=True)
    return BackendRun(root=root, workspace=root / "workspace", goal="g", total_steps=100, options=options)


def test_keep_keeps_the_contract_and_the_programs(tmp_path: Path) -> None:
    check_backend(KeepBackend, tmp_path)


def test_a_function_keeps_the_contract(tmp_path: Path) -> None:
    check_backend(lambda: FunctionBackend(lambda workspace, message, system: "kept"), tmp_path)


def test_the_scripted_backend_keeps_the_contract(tmp_path: Path) -> None:
    check_backend(lambda: ScriptedBackend({1: Edit(text="nothing")}), tmp_path / "free")
    check_backend(ScriptedBackend, tmp_path / "same")


def test_a_function_is_given_workspace_message_and_system_prompt(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str]] = []
    backend = FunctionBackend(lambda *given: seen.append(given) or "why")
    backend.setup(_run(tmp_path))
    assert backend.decide(_turn("x")).text == "why"
    assert seen == [(str(tmp_path / "workspace"), "what now?", "a prompt")]


def test_a_function_that_returns_no_text_has_failed(tmp_path: Path) -> None:
    backend = FunctionBackend(lambda *given: None)  # type: ignore[arg-type,return-value]
    backend.setup(_run(tmp_path))
    with pytest.raises(BackendFailedError, match="returned a NoneType"):
        backend.decide(_turn("x"))


def _decide_in_thread(backend: ManualBackend, root: Path) -> tuple[threading.Thread, list[Any]]:
    got: list[Any] = []

    def decide() -> None:
        try:
            got.append(backend.decide(_turn(str(root))))
        except BaseException as error:
            got.append(error)

    thread = threading.Thread(target=decide, daemon=True)
    thread.start()
    return thread, got


def test_manual_takes_the_answer_of_the_command_line_and_not_one_from_before(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    backend = ManualBackend()
    backend.setup(_run(tmp_path))
    append_command(folder, "answer", text="too early")
    thread, got = _decide_in_thread(backend, tmp_path)
    while thread.is_alive():  # the question may not be asked yet: what comes before it does not count
        append_command(folder, "answer", text="in time")
        append_command(folder, "note", text="no answer")
        thread.join(0.1)
    assert got == [AgentAnswer(text="in time")]


def test_manual_keeps_the_programs_when_told_to(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    backend = ManualBackend()
    backend.setup(_run(tmp_path))
    thread, got = _decide_in_thread(backend, tmp_path)
    while thread.is_alive():
        append_command(folder, "answer", keep=True)
        thread.join(0.1)
    assert got == [AgentAnswer(text="kept", keeps=True)]


def test_a_cancelled_manual_decision_fails_and_does_not_wait(tmp_path: Path) -> None:
    backend = ManualBackend()
    backend.setup(_run(tmp_path))
    thread, got = _decide_in_thread(backend, tmp_path)
    backend.cancel()
    thread.join(10)
    assert not thread.is_alive()
    assert isinstance(got[0], BackendFailedError)


@pytest.mark.parametrize("name", ["keep", "manual", "playbook"])
def test_an_unknown_option_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentValueError, match="speed") as caught:
        select_backend(name).setup(_run(tmp_path, speed=3))
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["claude", "codex", "acp:gemini --acp", "api:anthropic:model", "mailbox:/box"])
def test_a_documented_backend_that_is_not_built_says_so(name: str) -> None:
    with pytest.raises(NotBuiltError, match="'keep', 'manual', 'playbook'"):
        select_backend(name)


def test_a_wrong_name_lists_those_that_exist() -> None:
    with pytest.raises(ArgumentValueError) as caught:
        select_backend("claud")
    for name in ("keep", "manual", "playbook", "claude", "a function"):
        assert name in str(caught.value)
    with pytest.raises(ArgumentTypeError):
        select_backend(17)


def test_an_instance_and_a_function_are_taken_as_they_are() -> None:
    backend = ScriptedBackend()
    assert select_backend(backend) is backend
    assert isinstance(select_backend(lambda workspace, message, system: ""), FunctionBackend)


def test_an_entry_point_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "mine"

        def load(self) -> type[ScriptedBackend]:
            return ScriptedBackend

    monkeypatch.setattr(
        "opal.backends.select.entry_points", lambda group: [Point()] if group == "opal.backends" else []
    )
    assert isinstance(select_backend("mine"), ScriptedBackend)


class _Misbehaving(ScriptedBackend):
    def setup(self, run: BackendRun) -> None:
        """Takes any option: against the contract."""
        self._workspace = run.workspace


class _Wordless(ScriptedBackend):
    def decide(self, turn: Turn) -> AgentAnswer:
        """Answers with something that is no answer."""
        return "text"  # type: ignore[return-value]


class _Deaf(ScriptedBackend):
    def __init__(self) -> None:
        super().__init__(held=True)

    def cancel(self) -> None:
        """Does not listen."""

    def close(self) -> None:
        """Does not listen."""


@pytest.mark.parametrize(
    ("kind", "blocks", "text"),
    [(_Misbehaving, False, "refuses an option"), (_Wordless, False, "decide() returned a str")],
)
def test_the_suite_finds_a_backend_that_breaks_the_contract(kind: Any, blocks: bool, text: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=text.replace("(", r"\(").replace(")", r"\)")):
        check_backend(kind, tmp_path, blocks=blocks)


def test_the_suite_finds_a_backend_that_cannot_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opal.testing.conformance._CANCEL_SECONDS", 0.2)
    from opal.testing import conformance

    with pytest.raises(AssertionError, match="ends within seconds of cancel"):
        conformance._check_cancel(_Deaf, tmp_path)


def test_a_held_backend_ends_its_decision_when_cancelled(tmp_path: Path) -> None:
    from opal.testing import conformance

    conformance._check_cancel(lambda: ScriptedBackend(held=True), tmp_path)
