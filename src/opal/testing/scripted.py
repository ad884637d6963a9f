"""A backend that does what a test says: edits by decision, answers when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opal.backends.base import BackendRun
from opal.backends.options import known_options
from opal.errors import BackendFailedError
from opal.types import AgentAnswer, Turn


@dataclass(frozen=True, kw_only=True)
class Edit:
    """What the scripted agent does in one decision.

    `files` maps paths below the workspace to texts, or to None to delete. `error` is raised instead of answering.
    """

    files: Mapping[str, str | None] = field(default_factory=dict)
    text: str = "edited"
    keeps: bool = False
    error: BaseException | None = None


class ScriptedBackend:
    """Answers decision N with `edits[N]`, and keeps the programs where there is none.

    With `held=True` it answers only while `release()` has allowed as many answers as were given.
    """

    name = "scripted"

    def __init__(self, edits: Mapping[int, Edit] | None = None, *, held: bool = False) -> None:
        self._edits = dict(edits or {})
        self._allowed = threading.Semaphore(0) if held else None
        self._cancelled = threading.Event()
        self._workspace = Path()
        self.turns: list[Turn] = []
        self.asked = threading.Semaphore(0)

    def release(self) -> None:
        """Allow one more answer."""
        assert self._allowed is not None
        self._allowed.release()

    def setup(self, run: BackendRun) -> None:
        """Refuse options."""
        known_options(self.name, run.options, {})
        self._workspace = run.workspace

    def decide(self, turn: Turn) -> AgentAnswer:
        """Do what the script says for this decision."""
        self.turns.append(turn)
        self.asked.release()
        while self._allowed is not None and not self._allowed.acquire(timeout=0.05):
            if self._cancelled.is_set():
                raise BackendFailedError("cancelled")
        edit = self._edits.get(turn.decision)
        if edit is None:
            return AgentAnswer(text="kept")
        for name, text in edit.files.items():
            path = self._workspace / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        if edit.error is not None:
            raise edit.error
        return AgentAnswer(text=edit.text, keeps=edit.keeps)

    def cancel(self) -> None:
        """Let a held answer fail."""
        self._cancelled.set()

    def close(self) -> None:
        """Let a held answer fail."""
        self._cancelled.set()

    def save(self) -> Mapping[str, Any]:
        """How many questions were asked."""
        return {"asked": len(self.turns)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The script needs no memory."""
