"""A person answers, or any agent in an editor: edit the workspace, then `opal answer RUN ["why"]` or `--keep`."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opal.backends.base import BackendRun
from opal.backends.options import known_options
from opal.errors import BackendFailedError
from opal.records.commands import CommandReader
from opal.records.log import inform
from opal.records.run_folder import RunFolder
from opal.types import AgentAnswer, Turn

_POLL_SECONDS = 0.2


class ManualBackend:
    """Waits for the command `answer` in the run folder's `commands.jsonl`."""

    name = "manual"

    def __init__(self) -> None:
        self._commands: CommandReader | None = None
        self._folder: RunFolder | None = None
        self._cancelled = threading.Event()

    def setup(self, run: BackendRun) -> None:
        """Refuse options; answers that were given before the run began do not count."""
        known_options(self.name, run.options, {})
        self._folder = RunFolder(run.root)
        self._commands = CommandReader(self._folder.commands)

    def decide(self, turn: Turn) -> AgentAnswer:
        """Say what is asked, and wait for the answer."""
        assert self._commands is not None
        assert self._folder is not None
        message = self._folder.decision(turn.decision) / "message.txt"
        asked = _written(message)
        inform(f"decision {turn.decision} at update {turn.update} is yours: read {message}, edit "
               f"{self._folder.workspace}, then run: opal answer {self._folder.root} \"why\"  (or --keep)")  # fmt: skip
        while not self._cancelled.wait(_POLL_SECONDS):
            for command in self._commands.read():
                if command.name == "answer" and command.time >= asked:  # else it is one to an earlier question
                    keeps = bool(command.arguments.get("keep"))
                    return AgentAnswer(text=str(command.arguments.get("text") or "kept"), keeps=keeps)
        raise BackendFailedError("the run ended before an answer came")

    def cancel(self) -> None:
        """Stop waiting."""
        self._cancelled.set()

    def close(self) -> None:
        """Stop waiting."""
        self._cancelled.set()

    def save(self) -> Mapping[str, Any]:
        """No conversation."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """No conversation."""


def _written(message: Path) -> float:
    """When a question could be read first, in seconds since 1970."""
    try:
        return message.stat().st_mtime
    except OSError:
        return time.time()
