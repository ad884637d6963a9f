"""Training losses in buckets that keep their extremes: mean, least and greatest of so many updates."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from opal.records.events import CheckRecord

MOST_BUCKETS = 50_000
MOST_MARKS = 1_000
LAST_UPDATE = 2**32 - 1  # what lies beyond is no update but a damaged line

Losses: TypeAlias = list[float | None]
_Finite: TypeAlias = list[float]


@dataclass(frozen=True, kw_only=True)
class LossCurve:
    """The losses of a run. Bucket b holds the updates b * size + 1 to (b + 1) * size.

    `indices`, `means`, `lows` and `highs` have one entry for each bucket with a finite loss, in order. `bad` are the
    first updates with a loss that is not finite, `bad_count` how many there are.
    """

    size: int = 1
    first: int = 0
    last: int = 0
    count: int = 0
    missing: int = 0
    indices: array[int] = field(default_factory=lambda: array("L"))
    means: array[float] = field(default_factory=lambda: array("d"))
    lows: array[float] = field(default_factory=lambda: array("d"))
    highs: array[float] = field(default_factory=lambda: array("d"))
    counts: array[int] = field(default_factory=lambda: array("L"))
    bad: tuple[int, ...] = ()
    bad_count: int = 0


@dataclass(frozen=True, kw_only=True)
class LossWindow:
    """The losses of some updates in a row: their mean, least and greatest."""

    first: int
    last: int
    mean: float
    low: float
    high: float


def loss_curve(checks: Iterable[CheckRecord], most: int = MOST_BUCKETS) -> LossCurve:
    """Put what the checks read into at most about `most` buckets, in time linear in the number of losses."""
    stretches = _stretches(checks)
    total = sum(len(losses) for _, losses in stretches)
    if not total:
        return LossCurve()
    last_first, last_losses = stretches[-1]
    buckets = _Buckets(size=-(-total // most))
    for first, losses in stretches:
        buckets.add(first, losses)
    return buckets.curve(stretches[0][0], last_first + len(last_losses) - 1)


def loss_windows(curve: LossCurve, most: int = 12) -> tuple[LossWindow, ...]:
    """The curve as a short table: `most` windows with as many buckets each."""
    filled = len(curve.indices)
    per_window = max(-(-filled // most), 1)
    windows = []
    for start in range(0, filled, per_window):
        part = slice(start, start + per_window)
        counts = curve.counts[part]
        weight = sum(counts)
        indices = curve.indices[part]
        windows.append(
            LossWindow(
                first=max(indices[0] * curve.size + 1, curve.first),
                last=min((indices[-1] + 1) * curve.size, curve.last),
                mean=sum(mean * (n / weight) for mean, n in zip(curve.means[part], counts, strict=True)),
                low=min(curve.lows[part]),
                high=max(curve.highs[part]),
            )
        )
    return tuple(windows)


def _stretches(checks: Iterable[CheckRecord]) -> list[tuple[int, Losses]]:
    """Losses of updates in a row with the first update. What a later check says of an update counts."""
    stretches: list[tuple[int, Losses]] = []
    for check in checks:
        if not check.values or not 1 <= check.first <= LAST_UPDATE - len(check.values):
            continue
        while stretches and stretches[-1][0] >= check.first:
            stretches.pop()
        if stretches:
            first, losses = stretches[-1]
            del losses[check.first - first :]
            if first + len(losses) == check.first:
                losses.extend(check.values)
                continue
        stretches.append((check.first, list(check.values)))
    return stretches


class _Buckets:
    """The buckets while they are filled, from the first update to the last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._indices = array("L")
        self._means, self._lows, self._highs = array("d"), array("d"), array("d")
        self._counts = array("L")
        self._bad: list[int] = []
        self._bad_count = 0
        self._missing = 0

    def add(self, first: int, losses: Losses) -> None:
        """Take the losses of a stretch."""
        place = 0
        while place < len(losses):
            index = (first + place - 1) // self._size
            end = min((index + 1) * self._size - first + 1, len(losses))
            self._fill(index, first + place, losses[place:end])
            place = end

    def curve(self, first: int, last: int) -> LossCurve:
        """What was filled."""
        return LossCurve(
            size=self._size,
            first=first,
            last=last,
            count=sum(self._counts),
            missing=self._missing,
            indices=self._indices,
            means=self._means,
            lows=self._lows,
            highs=self._highs,
            counts=self._counts,
            bad=tuple(self._bad),
            bad_count=self._bad_count,
        )

    def _fill(self, index: int, first: int, losses: Losses) -> None:
        finite = cast(_Finite, losses)  # unless the sum says otherwise
        total = _finite_sum(finite)
        if total is None:
            finite = self._sort_out(first, losses)
            if not finite:
                return
            total = _finite_sum(finite)
        count = len(finite)
        mean = total / count if total is not None else sum(loss / count for loss in finite)  # their sum is too large
        low, high = min(finite), max(finite)
        if self._indices and self._indices[-1] == index:  # two stretches meet in it
            before = self._counts[-1]
            self._means[-1] += (mean - self._means[-1]) * (count / (before + count))
            self._lows[-1], self._highs[-1] = min(low, self._lows[-1]), max(high, self._highs[-1])
            self._counts[-1] = before + count
            return
        self._indices.append(index)
        self._means.append(mean)
        self._lows.append(low)
        self._highs.append(high)
        self._counts.append(count)

    def _sort_out(self, first: int, losses: Losses) -> _Finite:
        """The finite losses; the others are counted."""
        finite: _Finite = []
        for update, loss in enumerate(losses, first):
            if loss is None:
                self._missing += 1
            elif math.isfinite(loss):
                finite.append(loss)
            else:
                self._bad_count += 1
                if len(self._bad) < MOST_MARKS:
                    self._bad.append(update)
        return finite


def _finite_sum(losses: _Finite) -> float | None:
    """The sum where all losses are finite numbers, found without looking at each in Python; else None."""
    try:
        total = float(sum(losses))
    except TypeError:  # one of them is None
        return None
    return total if math.isfinite(total) else None
