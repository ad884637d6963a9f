"""The demo's comparison: plain against an agent, at equal updates and at equal seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opal.demo.data import Text
from opal.demo.training import AgentSetup, Progress, Task, Trained, train_plain, train_with_agent

StartProgress = Callable[[str, int], Progress]
"""Given what a run is called and its number of updates, gives where its progress is told."""

# Below this share of additional updates a longer plain run would measure the clock's noise.
WORTH_A_LONGER_RUN = 1.02


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run of the comparison, and what it is."""

    name: str
    trained: Trained


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The runs of the demo. `longer` is plain with OPAL's seconds, or `None` where OPAL took no longer than plain."""

    plain: Row
    opal: Row
    longer: Row | None

    @property
    def rows(self) -> tuple[Row, ...]:
        """All runs, in the order in which they are shown."""
        return tuple(row for row in (self.plain, self.longer, self.opal) if row is not None)

    @property
    def run_dir(self) -> Path:
        """Where the run with the agent is recorded."""
        folder = self.opal.trained.run_dir
        assert folder is not None, "a training with an agent has a run folder"
        return folder


def compare(text: Text, task: Task, updates: int, agent: AgentSetup, start_progress: StartProgress) -> Comparison:
    """Train plain and with the agent, then plain again for as many updates as fit into the seconds that OPAL took.

    The longer run has its cosine stretched over all its updates: it is what somebody without OPAL would have done with
    that time. OPAL's seconds include waiting for the agent.
    """
    name = f"OPAL, {agent.backend}"
    plain = train_plain(text, task, updates, start_progress("plain AdamW", updates))
    opal = train_with_agent(text, task, updates, start_progress(name, updates), agent)
    more = math.floor(updates * opal.seconds / plain.seconds)
    longer = None
    if more >= updates * WORTH_A_LONGER_RUN:
        longer_name = "plain AdamW, OPAL's seconds"
        longer = Row(name=longer_name, trained=train_plain(text, task, more, start_progress(longer_name, more)))
    return Comparison(plain=Row(name="plain AdamW", trained=plain), opal=Row(name=name, trained=opal), longer=longer)


def standard_error_of_difference(one: Trained, other: Trained) -> float:
    """Standard error of the difference of two validation losses; windows are paired, since both runs saw the same."""
    difference = one.window_losses - other.window_losses
    return float(difference.std() / math.sqrt(len(difference)))
