"""What every backend must do, as one function for the tests of any backend, third parties' included."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from opal.backends.base import Backend, BackendRun
from opal.errors import ArgumentValueError, BackendError
from opal.programs.contract import read_program
from opal.programs.starting import starting_program
from opal.records.run_folder import RunFolder, new_run_folder
from opal.types import AgentAnswer, Turn

_CANCEL_SECONDS = 5.0
_CLOSE_SECONDS = 10.0


def check_backend(
    make: Callable[[], Backend], root: Path, *, answer: Callable[[RunFolder], None] | None = None, blocks: bool = False
) -> None:
    """Assert the contract of `backends/base.py`.

    Args:
        make: gives a fresh backend.
        root: an empty folder.
        answer: called from another thread once a question was asked, for backends that need somebody to answer.
        blocks: whether `decide` blocks until somebody answers; only then `cancel` can be seen to work.
    """
    _check_options(make, root / "options")
    _check_turns(make, root / "turns", answer)
    if blocks:
        _check_cancel(make, root / "cancel")


def _check_options(make: Callable[[], Backend], root: Path) -> None:
    refused = ""
    try:
        make().setup(_run(_folder(root), {"no_such_option": 1}))
    except ArgumentValueError as error:
        refused = str(error)
    assert "no_such_option" in refused, "setup() refuses an option that it does not know, by name"


def _check_turns(make: Callable[[], Backend], root: Path, answer: Callable[[RunFolder], None] | None) -> None:
    folder = _folder(root)
    backend = make()
    assert isinstance(backend.name, str), "a backend has a name"
    assert backend.name, "a backend has a name"
    backend.setup(_run(folder, {}))
    for number in (1, 2):
        turn = _turn(folder, number)
        helper = threading.Thread(target=answer, args=(folder,)) if answer else None
        if helper:
            helper.start()
        got = backend.decide(turn)
        if helper:
            helper.join()
        assert isinstance(got, AgentAnswer), f"decide() returned a {type(got).__name__}"
        assert isinstance(got.text, str), "an answer has a text"
        read_program(folder.workspace)  # what was left is a program
    state = backend.save()
    assert msgspec.json.decode(msgspec.json.encode(dict(state))) is not None, "save() gives plain values"
    other = make()
    other.setup(_run(folder, {}))
    other.restore(state)
    other.close()
    _check_close(backend)


def _check_close(backend: Backend) -> None:
    began = time.monotonic()
    backend.close()
    assert time.monotonic() - began < _CLOSE_SECONDS, "close() is bounded"


def _check_cancel(make: Callable[[], Backend], root: Path) -> None:
    folder = _folder(root)
    backend = make()
    backend.setup(_run(folder, {}))
    ended: list[BaseException | AgentAnswer] = []

    def decide() -> None:
        try:
            ended.append(backend.decide(_turn(folder, 1)))
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=decide, daemon=True)
    thread.start()
    backend.cancel()
    thread.join(_CANCEL_SECONDS)
    assert not thread.is_alive(), "decide() ends within seconds of cancel()"
    assert isinstance(ended[0], BackendError), f"a cancelled decide() raises a BackendError, not {ended[0]!r}"
    _check_close(backend)


def _folder(root: Path) -> RunFolder:
    folder = new_run_folder(str(root))
    for name, text in starting_program(50).texts.items():
        (folder.workspace / name).write_text(text)
    return folder


def _run(folder: RunFolder, options: dict[str, object]) -> BackendRun:
    return BackendRun(
        root=folder.root, workspace=folder.workspace, goal="a small model", total_steps=100, options=options
    )


def _turn(folder: RunFolder, number: int) -> Turn:
    path = folder.decision(number)
    path.mkdir(parents=True, exist_ok=True)
    (path / "message.txt").write_text("what now?")
    return Turn(
        decision=number, round=0, update=50 * number, message="what now?", system="a system prompt", folder=str(path)
    )
