"""A function answers: `(workspace, message, system) -> str`, for tests and scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opal.backends.base import BackendRun
from opal.backends.options import known_options
from opal.errors import BackendFailedError
from opal.types import AgentAnswer, Turn


class FunctionBackend:
    """Calls a function on the worker thread. It edits files below the workspace's path and returns its rationale."""

    name = "function"

    def __init__(self, function: Callable[[str, str, str], str]) -> None:
        self._function = function
        self._workspace: Path | None = None

    def setup(self, run: BackendRun) -> None:
        """Refuse options."""
        known_options(self.name, run.options, {})
        self._workspace = run.workspace

    def decide(self, turn: Turn) -> AgentAnswer:
        """Call the function once."""
        text = self._function(str(self._workspace), turn.message, turn.system)
        if not isinstance(text, str):
            raise BackendFailedError(f"the function returned a {type(text).__name__}; it returns its rationale as text")
        return AgentAnswer(text=text)

    def cancel(self) -> None:
        """A function cannot be interrupted; what it returns after this is not used."""

    def close(self) -> None:
        """Nothing was started."""

    def save(self) -> Mapping[str, Any]:
        """No conversation."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """No conversation."""
