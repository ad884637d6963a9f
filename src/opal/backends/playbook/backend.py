"""The playbook as a backend: it reads what any agent reads, applies its rules, and edits the same files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opal.backends.base import BackendRun
from opal.backends.options import known_options
from opal.backends.playbook.program import program_text
from opal.backends.playbook.rules import Decision, decide
from opal.backends.playbook.situation import read_situation
from opal.types import AgentAnswer, Turn


class PlaybookBackend:
    """Applies `rules.py` to the inbox. What it decided before is its whole memory."""

    name = "playbook"

    def __init__(self) -> None:
        self._workspace = Path()
        self._decided = Decision.nothing()

    def setup(self, run: BackendRun) -> None:
        """Refuse options."""
        known_options(self.name, run.options, {})
        self._workspace = run.workspace

    def decide(self, turn: Turn) -> AgentAnswer:
        """Read the inbox, apply the rules, write `updater.py` if they changed something."""
        situation = read_situation(self._workspace, turn.decision)
        before, self._decided = self._decided, decide(situation, self._decided)
        if self._decided.settings is not None and self._decided.settings != before.settings:
            (self._workspace / "updater.py").write_text(program_text(self._decided.settings), encoding="utf-8")
        return AgentAnswer(text=self._decided.rationale)

    def cancel(self) -> None:
        """A decision takes milliseconds."""

    def close(self) -> None:
        """Nothing was started."""

    def save(self) -> Mapping[str, Any]:
        """What was decided last, as plain values."""
        return self._decided.as_dict()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what was decided last."""
        self._decided = Decision.from_dict(state)
