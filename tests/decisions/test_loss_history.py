"""The losses since the last decision: bounded, exact where they are kept, honest about noise."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from opal.decisions.loss_history import LossMemory


def test_recent_losses_are_those_given_with_their_updates() -> None:
    memory = LossMemory()
    memory.add(1, [3.0, None, 2.0])
    memory.add(4, [1.0])
    assert memory.recent() == [(1, 3.0), (3, 2.0), (4, 1.0)]
    memory.mark()
    assert memory.recent() == []
    memory.add(5, [0.5])
    assert memory.recent() == [(5, 0.5)]


def test_at_most_a_hundred_means_which_together_are_the_mean_of_all() -> None:
    memory = LossMemory()
    losses = [math.sin(update) for update in range(12_345)]
    for first in range(0, len(losses), 50):
        memory.add(first + 1, losses[first : first + 50])
    means = memory.since().means
    assert 50 <= len(means) <= 100
    assert means[-1][0] == 12_345
    chunk = means[0][0]
    assert means[0] == (chunk, pytest.approx(fmean(losses[:chunk])))
    assert means[1][1] == pytest.approx(fmean(losses[chunk : 2 * chunk]))
    assert [update for update, _ in means] == sorted({update for update, _ in means})


def test_a_short_history_is_shown_update_by_update() -> None:
    memory = LossMemory()
    memory.add(1, [3.0, 2.0, 1.0])
    assert memory.since().means == ((1, 3.0), (2, 2.0), (3, 1.0))


def test_a_loss_that_falls_along_a_line_has_no_noise_and_noise_is_measured() -> None:
    memory = LossMemory()
    memory.add(1, [5.0 - 0.1 * update for update in range(50)])
    now = memory.since().now
    assert now is not None
    assert (now.update, now.mean) == (50, pytest.approx(2.55))
    assert now.standard_error == pytest.approx(0.0, abs=1e-9)
    noisy = LossMemory()
    source = random.Random(0)
    noisy.add(1, [source.gauss(2.0, 0.5) for _ in range(50)])
    measured = noisy.since().now
    assert measured is not None
    assert measured.standard_error == pytest.approx(0.5 / math.sqrt(50), rel=0.3)


def test_now_and_then_are_the_last_window_and_the_one_at_the_mark() -> None:
    memory = LossMemory()
    memory.add(1, [4.0] * 60)
    assert memory.since().before is None
    memory.mark()
    memory.add(61, [1.0] * 60)
    history = memory.since()
    assert history.before is not None
    assert history.now is not None
    assert (history.before.update, history.before.mean) == (60, 4.0)
    assert (history.now.update, history.now.mean) == (120, 1.0)


def test_losses_that_are_not_finite_are_kept_as_they_are_and_left_out_of_the_smoothed_one() -> None:
    memory = LossMemory()
    memory.add(1, [1.0, math.inf, math.nan, 1.0, 1.0])
    assert [update for update, _ in memory.recent()] == [1, 2, 3, 4, 5]
    now = memory.since().now
    assert now is not None
    assert now.mean == 1.0


def test_memory_is_bounded_without_any_decision() -> None:
    memory = LossMemory()
    for first in range(1, 250_001, 1000):
        memory.add(first, [1.0] * 1000)
    assert len(memory.recent()) == 100_000
    assert memory.recent()[-1][0] == 250_000
    assert len(memory.since().means) <= 100
