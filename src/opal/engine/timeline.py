"""The next update before which anything but an update is due.

The training loop compares one integer, `next_due`, with the update that comes. Nothing polls: who wants attention sets
a point, and another thread makes itself heard with `interrupt`.
"""

from __future__ import annotations

_NEVER = 1 << 62


class Timeline:
    """Named points; each is the update before which its owner wants to be called."""

    def __init__(self) -> None:
        self._points: dict[str, int] = {}
        self._urgent = False
        self.next_due = _NEVER

    def set(self, name: str, update: int) -> None:
        """Let `name` be due before `update`; an earlier setting of it is replaced."""
        self._points[name] = update
        self.settle()

    def clear(self, name: str) -> None:
        """`name` is not due any more."""
        self._points.pop(name, None)
        self.settle()

    def is_due(self, name: str, update: int) -> bool:
        """Whether `name` is due before `update`."""
        return self._points.get(name, _NEVER) <= update

    def interrupt(self) -> None:
        """Make the next update look up, from any thread."""
        self._urgent = True
        self.next_due = 0

    def heard(self) -> bool:
        """Whether somebody interrupted since the last time; only the training thread asks."""
        urgent, self._urgent = self._urgent, False
        self.settle()
        return urgent

    def settle(self) -> None:
        """Bring `next_due` up to date. An interruption that comes in between is not lost."""
        self.next_due = min(self._points.values(), default=_NEVER)
        if self._urgent:
            self.next_due = 0
