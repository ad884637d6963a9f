"""Nobody is asked: every decision keeps the programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opal.backends.base import BackendRun
from opal.backends.options import known_options
from opal.types import AgentAnswer, Turn


class KeepBackend:
    """Answers at once, and changes nothing."""

    name = "keep"

    def setup(self, run: BackendRun) -> None:
        """Refuse options."""
        known_options(self.name, run.options, {})

    def decide(self, turn: Turn) -> AgentAnswer:
        """Keep the programs."""
        return AgentAnswer(text="kept")

    def cancel(self) -> None:
        """Nothing is in progress for long."""

    def close(self) -> None:
        """Nothing was started."""

    def save(self) -> Mapping[str, Any]:
        """No conversation."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """No conversation."""
