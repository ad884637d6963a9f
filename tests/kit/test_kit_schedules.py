"""Schedules: bounds, ends, and torch's own schedulers."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opal.kit import schedules

totals = st.integers(1, 5000)
updates = st.integers(1, 6000)
lengths = st.one_of(st.integers(0, 6000), st.floats(0.0, 1.0))
finals = st.floats(0.0, 1.0)


@given(
    updates, totals, lengths, lengths, finals, st.sampled_from([schedules.constant, schedules.cosine, schedules.linear])
)
def test_every_factor_lies_between_0_and_1(
    update: int, total: int, up: float, down: float, final: float, shape: schedules.Shape
) -> None:
    for factor in (
        shape(update, total, start=7, final=final),
        schedules.warmup(update, total, length=up),
        schedules.constant_with_cooldown(update, total, cooldown=down, final=final),
        schedules.combined(update, total, warmup=up, shape=shape, cooldown=down, final=final),
    ):
        assert 0.0 <= factor <= 1.0


@given(st.integers(1, 300), st.integers(0, 400), finals)
def test_decays_never_rise_start_at_1_and_end_at_final(total: int, start: int, final: float) -> None:
    for shape in (schedules.cosine, schedules.linear):
        end = start + total
        factors = [shape(update, end, start=start, final=final) for update in range(1, end + 2)]
        assert factors[: start + 1] == pytest.approx([1.0] * (start + 1))
        assert all(later <= earlier + 1e-12 for earlier, later in pairwise(factors))
        assert factors[-1] == pytest.approx(final)
        assert min(factors) >= final - 1e-12


@given(st.integers(1, 500), st.integers(0, 600))
def test_a_warmup_rises_in_equal_parts_and_is_1_at_its_length(total: int, length: int) -> None:
    factors = [schedules.warmup(update, total, length=length) for update in range(1, length + 3)]
    assert factors == pytest.approx([min(1.0, update / length) if length else 1.0 for update in range(1, length + 3)])
    assert factors[0] > 0


@given(st.integers(1, 300), st.data())
def test_a_cooldown_leaves_the_plateau_alone_and_wastes_no_update(total: int, data: st.DataObject) -> None:
    cooldown = data.draw(st.integers(1, total))
    factors = [schedules.constant_with_cooldown(u, total, cooldown=cooldown) for u in range(1, total + 2)]
    assert factors[: total - cooldown + 1] == [1.0] * (total - cooldown + 1)
    assert factors[total - 1] == pytest.approx(1 / cooldown)
    assert factors[total] == 0.0


@pytest.mark.parametrize(("final", "total"), [(0.0, 17), (0.25, 40)])
def test_cosine_and_linear_are_torch_s_schedulers(final: float, total: int) -> None:
    for shape, make in (
        (schedules.cosine, lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, total, eta_min=final)),
        (schedules.linear, lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, final, total)),
    ):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        scheduler = make(optimizer)
        for update in range(1, total + 1):
            assert shape(update, total, final=final) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
            optimizer.step()
            scheduler.step()


def test_a_combination_is_the_product_of_its_parts() -> None:
    trapezoid = [schedules.combined(u, 10, warmup=2, cooldown=0.4) for u in range(1, 12)]
    assert trapezoid == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0.0])
    decay = [schedules.combined(u, 8, warmup=0.5, shape=schedules.cosine, final=0.1) for u in (2, 4, 5, 7, 9)]
    assert decay == pytest.approx([0.5, 1.0, 1.0, 0.1 + 0.45 * (1 + math.cos(math.pi / 2)), 0.1])


def test_a_shape_of_ones_own_can_be_combined() -> None:
    def square(update: int, total: int, *, start: int = 0, final: float = 0.0) -> float:
        return schedules.linear(update, total, start=start, final=final) ** 2

    assert schedules.combined(6, 10, shape=square) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: schedules.cosine(0, 10), "counted from 1"),
        (lambda: schedules.constant(1, 0), "at least 1"),
        (lambda: schedules.linear(1, 10, final=1.5), "final=1.5"),
        (lambda: schedules.cosine(1, 10, start=-1), "start=-1"),
        (lambda: schedules.warmup(1, 10, length=1.5), "length=1.5.*fraction"),
        (lambda: schedules.warmup(1, 10, length=-2), "length=-2"),
        (lambda: schedules.combined(1, 10, cooldown=2.0), "cooldown=2.0"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=words):
        call()
