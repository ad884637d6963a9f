"""The contract between a run and whoever answers its decisions.

All decisions of a run are one conversation. A backend works on the files of the workspace and ends a turn with a text;
what the program then is, the run reads from the workspace itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from opal.types import AgentAnswer, Turn


@dataclass(frozen=True, kw_only=True)
class BackendRun:
    """What a backend is told of the run that it serves."""

    root: Path
    workspace: Path
    goal: str
    total_steps: int
    options: Mapping[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """One agent, for one run.

    `setup` comes first, once, on the thread of `wrap`; it raises for an unknown option and does nothing slow.
    `decide` runs on the worker thread, one call at a time, and may block for as long as the agent thinks. It returns
    the answer, or raises BackendUnavailableError (cannot be asked now), BackendFailedError (this turn failed), or
    anything else, which counts as failed. Edits of a turn that raised never apply.
    `cancel` may be called from any thread; a `decide` in progress then raises within seconds.
    `close` comes last, once; it ends what the backend started and blocks for at most ten seconds.
    `save` and `restore` carry the conversation across a checkpoint as plain values.
    """

    name: str

    def setup(self, run: BackendRun) -> None:
        """Take the run's facts and the options."""

    def decide(self, turn: Turn) -> AgentAnswer:
        """Answer one turn."""

    def cancel(self) -> None:
        """Let a `decide` in progress end soon."""

    def close(self) -> None:
        """End what was started."""

    def save(self) -> Mapping[str, Any]:
        """The conversation, as plain values."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with a saved conversation."""
