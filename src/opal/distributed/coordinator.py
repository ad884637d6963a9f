"""What ranks tell each other. A single process is the same path with nothing to communicate.

Every method is called by every rank at the same update, in the same order; none may be called by one rank alone. A
method that waits for others gives up after the control group's time-out and then raises `RunStateError`, naming the
rank.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")


class Coordinator(Protocol):
    """The contract of `single` and of the process group's side."""

    @property
    def rank(self) -> int:
        """This process's rank, from 0."""

    @property
    def world_size(self) -> int:
        """The number of ranks."""

    @property
    def is_main(self) -> bool:
        """Whether this rank asks the agent, analyses, and writes the records."""

    def mean_losses(self, losses: list[float]) -> list[float]:
        """The mean over ranks, position by position."""

    def share(self, value: T | None) -> T:
        """The main rank's value, on every rank. Others pass None."""

    def any_failed(self, failed: bool) -> bool:
        """Whether any rank failed."""

    def close(self) -> None:
        """Release what was made for it; never waits for a rank that is gone."""
