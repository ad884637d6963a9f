"""Learning-rate schedules: pure functions of the update, counted from 1, and the total, to a factor in [0, 1].

A rate is `peak * factor`. Decays are a function of the updates already made, `update - 1`, as torch's schedulers are,
so that update 1 has the factor 1; the last factor of a decay to zero belongs to update `total + 1`, and no update is
wasted on a rate of zero. Beyond `total` a schedule stays at its last value. They hold no state, so that a program may
take over at any update and a resumed run continues where it was.

A length (of a warmup, of a cooldown) is an `int`, in updates, or a `float` in [0, 1], a fraction of the total.
"""

from __future__ import annotations

import math
from typing import Protocol

__all__ = ["Shape", "combined", "constant", "constant_with_cooldown", "cosine", "linear", "warmup"]


class Shape(Protocol):
    """A decay that `combined` can use: `constant`, `cosine`, `linear`, or a function of a program's own."""

    def __call__(self, update: int, total: int, *, start: int = 0, final: float = 0.0) -> float:
        """The factor at `update`: 1 up to `start` + 1, `final` after `total`."""
        ...


def warmup(update: int, total: int, *, length: int | float) -> float:
    """Rise linearly to 1 over the first updates: `min(1, update / length)`.

    The first factor is `1 / length`, the factor at update `length` is 1. With length 0 it is 1 throughout.
    Source: Goyal et al. 2017, arXiv:1706.02677, section 2.2 (gradual warmup).

    Raises:
        ValueError: `update` or `total` is below 1, or the length is no such length (see the module).
    """
    _check(update, total)
    updates = _in_updates(length, total, "length")
    return 1.0 if update >= updates else update / updates


def constant(update: int, total: int, *, start: int = 0, final: float = 0.0) -> float:
    """Stay at 1, whatever the arguments; the shape for a schedule that has a warmup and a cooldown only.

    Raises:
        ValueError: `update` or `total` is below 1.
    """
    _check(update, total)
    return 1.0


def cosine(update: int, total: int, *, start: int = 0, final: float = 0.0) -> float:
    """Fall from 1 to `final` along half a cosine: `final + (1 - final) * (1 + cos(pi * p)) / 2`.

    `p = (update - 1 - start) / (total - start)`, kept within [0, 1]: the decay begins after `start` updates (of
    warmup, or those that another program made). With `start=0` it is `CosineAnnealingLR(T_max=total, eta_min=final *
    lr)`. Source: Loshchilov and Hutter 2017, arXiv:1608.03983, equation 5.

    Raises:
        ValueError: `update` or `total` is below 1, `start` is negative, or `final` lies outside [0, 1].
    """
    _check(update, total, start, final)
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * _progress(update, total, start)))


def linear(update: int, total: int, *, start: int = 0, final: float = 0.0) -> float:
    """Fall from 1 to `final` along a line: `1 - (1 - final) * p`, with the `p` of `cosine`.

    With `start=0` it is `LinearLR(start_factor=1, end_factor=final, total_iters=total)`.
    Source: Defazio et al. 2023, arXiv:2310.07831 (linear decay, found best among the common shapes).

    Raises:
        ValueError: `update` or `total` is below 1, `start` is negative, or `final` lies outside [0, 1].
    """
    _check(update, total, start, final)
    return 1.0 - (1.0 - final) * _progress(update, total, start)


def constant_with_cooldown(update: int, total: int, *, cooldown: int | float, final: float = 0.0) -> float:
    """Stay at 1, then fall along a line over the last updates: `final + (1 - final) * min(1, left / cooldown)`.

    `left = total - (update - 1)` counts the updates that remain, this one included. With a warmup in front it is the
    trapezoid, also called warmup-stable-decay. Source: Hägele et al. 2024, arXiv:2405.18392.

    Raises:
        ValueError: `update` or `total` is below 1, the cooldown is no length (see the module), or `final` lies
            outside [0, 1].
    """
    _check(update, total, 0, final)
    updates = _in_updates(cooldown, total, "cooldown")
    left = max(0, total - (update - 1))
    if left >= updates and left > 0:
        return 1.0
    return final + (1.0 - final) * (left / updates if updates else 0.0)


def combined(
    update: int,
    total: int,
    *,
    warmup: int | float = 0,
    shape: Shape = constant,
    cooldown: int | float = 0,
    final: float = 0.0,
) -> float:
    """Warm up, follow a shape, cool down: the product of the three factors.

    The shape starts after the warmup. `final` is where the whole ends: the shape's own end, or, where there is a
    cooldown, the cooldown's.
    `combined(u, t, warmup=100, shape=cosine)` is the usual warmup and cosine;
    `combined(u, t, warmup=0.02, cooldown=0.3)` the trapezoid.

    Raises:
        ValueError: as the functions that it is made of.
    """
    _check(update, total, 0, final)
    rising = _in_updates(warmup, total, "warmup")
    factor = 1.0 if update >= rising else update / rising
    if _in_updates(cooldown, total, "cooldown"):
        factor *= constant_with_cooldown(update, total, cooldown=cooldown, final=final)
        return factor * shape(update, total, start=rising, final=0.0)
    return factor * shape(update, total, start=rising, final=final)


def _progress(update: int, total: int, start: int) -> float:
    done = update - 1 - start
    if done <= 0:
        return 0.0
    return done / (total - start) if done < total - start else 1.0


def _in_updates(length: int | float, total: int, what: str) -> int:
    if isinstance(length, int) and not isinstance(length, bool) and length >= 0:
        return length
    if isinstance(length, float) and 0.0 <= length <= 1.0:
        return round(length * total)
    raise ValueError(
        f"{what}={length!r}: give a whole number of updates (an int, at least 0) or a fraction of the total "
        "(a float between 0.0 and 1.0)"
    )


def _check(update: int, total: int, start: int = 0, final: float = 0.0) -> None:
    if update < 1 or total < 1:
        raise ValueError(f"update={update!r}, total={total!r}: updates are counted from 1, and the total is at least 1")
    if start < 0:
        raise ValueError(f"start={start!r}: give the number of updates before the decay begins, 0 or more")
    if not 0.0 <= final <= 1.0:
        raise ValueError(f"final={final!r}: give the factor at the end, between 0 and 1")
