"""The losses since the last decision, in bounded memory: all recent ones, means of all."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import fmean, linear_regression

from opal.types import LossHistory, SmoothedLoss

_KEPT = 100_000
_SORT_AFTER = 10_000
_MEANS = 100
_WINDOW = 50


class LossMemory:
    """Takes the losses of every check; `since` tells what happened since the last `mark`."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        self._before: SmoothedLoss | None = None
        self._chunks: list[tuple[int, float, int]] = []
        self._chunk_size = 1
        self._newest: deque[float] = deque(maxlen=_WINDOW)
        self._update = 0
        self._unsorted: list[tuple[int, Sequence[float | None]]] = []
        self._unsorted_count = 0

    def add(self, first: int, losses: Sequence[float | None]) -> None:
        """The losses of the updates from `first` on; None where none was given. Sorted in when they are asked for."""
        self._unsorted.append((first, losses))
        self._unsorted_count += len(losses)
        if self._unsorted_count > _SORT_AFTER:
            self._sort_in()

    def _sort_in(self) -> None:
        for first, losses in self._unsorted:
            for update, loss in enumerate(losses, start=first):
                if loss is None:
                    continue
                self._recent.append((update, loss))
                self._newest.append(loss)
                self._add_to_chunks(update, loss)
            self._update = first + len(losses) - 1
        self._unsorted.clear()
        self._unsorted_count = 0

    def since(self) -> LossHistory:
        """What the message shows: at most 100 means, a smoothed loss now and at the last decision."""
        self._sort_in()
        return LossHistory(
            means=tuple((update, total / count) for update, total, count in self._chunks[:_MEANS]),
            now=self._smoothed(),
            before=self._before,
        )

    def recent(self) -> list[tuple[int, float]]:
        """(update, loss) since the last decision, the newest 100,000."""
        self._sort_in()
        return list(self._recent)

    def mark(self) -> None:
        """A decision was asked: the next history begins here."""
        self._sort_in()
        self._before = self._smoothed() or self._before
        self._recent.clear()
        self._chunks.clear()
        self._chunk_size = 1

    def _smoothed(self) -> SmoothedLoss | None:
        finite = [loss for loss in self._newest if math.isfinite(loss)]
        if not finite:
            return None
        return SmoothedLoss(update=self._update, mean=fmean(finite), standard_error=_standard_error(finite))

    def _add_to_chunks(self, update: int, loss: float) -> None:
        """Means of equal length; when there are too many, neighbours merge and the length doubles."""
        if self._chunks and self._chunks[-1][2] < self._chunk_size:
            _, total, count = self._chunks[-1]
            self._chunks[-1] = (update, total + loss, count + 1)
            return
        if len(self._chunks) == _MEANS:
            pairs = zip(self._chunks[::2], self._chunks[1::2], strict=True)
            self._chunks = [(late[0], early[1] + late[1], early[2] + late[2]) for early, late in pairs]
            self._chunk_size *= 2
        self._chunks.append((update, loss, 1))


def _standard_error(losses: list[float]) -> float:
    """Of the mean, from what is left about a straight line: a loss that falls is not noise."""
    count = len(losses)
    if count < 3:
        return math.nan
    line = linear_regression(range(count), losses)
    rest = sum((loss - line.intercept - line.slope * index) ** 2 for index, loss in enumerate(losses))
    return math.sqrt(rest / (count - 2) / count)
