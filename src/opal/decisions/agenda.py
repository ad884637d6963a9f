"""Which decision is asked when: the schedule, wake-ups, the cap."""

from __future__ import annotations

from opal.decisions.schedule import Plan, may_ask
from opal.types import Reason

_MAX_PENDING = 8


class Agenda:
    """What is scheduled, what else wants a decision, and how many were asked. Knows nothing of answers."""

    def __init__(self, plan: Plan, cap: int) -> None:
        self._scheduled = list(plan.updates)
        self._cap = cap
        self._pending: list[Reason] = []
        self._missed: list[Reason] = []
        self.asked = 0

    @property
    def next_scheduled(self) -> int | None:
        """The update of the next scheduled decision."""
        return self._scheduled[0] if self._scheduled else None

    @property
    def left(self) -> int:
        """Scheduled decisions to come, as far as the cap leaves room."""
        return max(0, min(len(self._scheduled), self._cap - self.asked))

    @property
    def exhausted(self) -> bool:
        """Whether the cap is reached."""
        return self.asked >= self._cap

    def want(self, reason: Reason) -> None:
        """Ask at the next check, for this reason besides others."""
        if len(self._pending) < _MAX_PENDING and reason not in self._pending:
            self._pending.append(reason)

    def take(self, update: int) -> tuple[Reason, ...]:
        """The reasons for a decision now, which counts as asked; empty if none is due or the cap forbids it.

        Several scheduled decisions that fell due, while another was open, merge into one, as do all other reasons.
        """
        due = [point for point in self._scheduled if point <= update]
        reasons = [Reason(kind="scheduled")] if due else []
        reasons += self._pending
        if not reasons:
            return ()
        self._scheduled = self._scheduled[len(due) :]
        self._pending.clear()
        if not may_ask(self.asked, self._cap, len(self._scheduled), not due):
            self._missed += reasons
            return ()
        self.asked += 1
        return tuple(reasons)

    def missed(self) -> tuple[Reason, ...]:
        """Reasons for which nothing was asked, because the cap is reached or leaves no room; each is told once."""
        missed, self._missed = tuple(self._missed), []
        return missed
