"""The coordinator of a single process."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class SingleProcess:
    """One rank, which is the main one."""

    rank = 0
    world_size = 1
    is_main = True

    def mean_losses(self, losses: list[float]) -> list[float]:
        """The losses themselves."""
        return losses

    def share(self, value: T | None) -> T:
        """The value itself."""
        assert value is not None
        return value

    def any_failed(self, failed: bool) -> bool:
        """What this process says."""
        return failed

    def close(self) -> None:
        """Nothing to release."""
