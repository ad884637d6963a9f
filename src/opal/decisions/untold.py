"""What happened since the last message, waiting for the next one."""

from __future__ import annotations

from dataclasses import dataclass, field

from opal.types import Failure, Metric, Outcome, ProgramAudit

_MAX_EACH = 50


@dataclass
class Untold:
    """Collected by whoever sees it happen; taken whole when a message is made."""

    outcomes: list[Outcome] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    audits: list[ProgramAudit] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Tell the agent of something, once per message."""
        if text not in self.warnings:
            self.warnings.append(text)

    def take(self) -> Untold:
        """Everything, the newest 50 of each kind; nothing is left."""
        taken = Untold(
            outcomes=self.outcomes[-_MAX_EACH:],
            failures=self.failures[-_MAX_EACH:],
            metrics=self.metrics[-_MAX_EACH:],
            notes=self.notes[-_MAX_EACH:],
            warnings=self.warnings[-_MAX_EACH:],
            audits=self.audits[-_MAX_EACH:],
        )
        for items in (self.outcomes, self.failures, self.metrics, self.notes, self.warnings, self.audits):
            items.clear()
        return taken
