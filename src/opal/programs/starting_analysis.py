"""What this run measures at each check. Change it freely: it is the instrument for your next decision.

Numbers have five digits; one that cannot be told is left out. Norms are Euclidean, ratios plain, slopes per update.

`loss`, in units of the loss: `mean` of the newest WINDOW updates; `spread`, the standard deviation of single losses
about their straight line; `standard_error` of the mean, spread / sqrt(n); `slope` of the line with its
`slope_standard_error`; `missing`, updates without a finite loss; `windows`, [last update, mean, standard error], oldest
first; `epoch_earlier`, the same window one epoch before: its `mean`, the `change` since then with the `standard_error`
of the paired differences, and the `correlation` of single losses (near 1: batches repeat in order).

`roles` (a name with layer numbers replaced by N) and `all` (every parameter together):
`weight_norm`; `gradient_norm`, of the coming update's gradient, unclipped;
`update_to_weight`: norm of what the previous update changed / norm of the weights;
`cosine_momentum`: between this gradient and the momentum of earlier ones;
`cosine_last_step`: between this gradient and what the previous update changed. Negative: the loss still falls that way,
steps are too short. Positive: it rises again, steps are too long. Noise pulls it to 0;
`noise_to_signal`: variance of the gradient's noise / squared norm of its mean, for the batch of one update: at 4, a
batch four times as large has as much signal as noise. A mean that turns within the momentum's memory counts as noise.
It takes a positive cosine to tell.

`blocks`: gradient norm below one layer number, or of one module. `nonfinite`: names of weights and gradients with NaN
or infinity (or too large to be squared).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

import torch
from torch._utils import _flatten_dense_tensors

EVERY = 50
NEEDS_LAST_STEP = True

WINDOW = EVERY * -(-20 // EVERY)  # updates: EVERY, or a multiple of it that is at least 20
SHOWN_WINDOWS = 6
KEPT_LOSSES = 10_000  # at most; an epoch and a window are kept for `epoch_earlier`
SHOWN_ROLES, SHOWN_BLOCKS, SHOWN_NAMES = 24, 48, 20  # the largest; the others are summed
MOMENTA = ("exp_avg", "momentum_buffer", "momentum")  # what optimizers and rules call an average of gradients
USUAL_DECAY = 0.9  # of a momentum that does not say it

Groups = dict[str, list[int]]  # of parameters, by their place in obs.params


def analyze(obs: Any, memory: dict[str, Any]) -> dict[str, Any] | None:
    """The report of this check; with "wake": "why" beside it, a decision is asked at once."""
    with torch.no_grad():
        return {"report": {"loss": loss_report(obs, memory), **parameter_report(obs)}}


# ── Losses ──


def loss_report(obs: Any, memory: dict[str, Any]) -> dict[str, Any]:
    epoch = round(getattr(obs, "updates_per_epoch", None) or 0)
    kept = memory.setdefault("losses", [])
    kept += [loss if math.isfinite(loss) else None for loss in obs.losses]
    del kept[: -(WINDOW + epoch if WINDOW + epoch <= KEPT_LOSSES else WINDOW)]
    newest = kept[-WINDOW:]
    report = straight_line(newest)
    if report:
        windows = memory.setdefault("windows", [])
        windows.append([obs.update, report["mean"], report.get("standard_error")])
        del windows[: -SHOWN_WINDOWS * WINDOW // EVERY]
        report["windows"] = [window for window in windows if (obs.update - window[0]) % WINDOW == 0]
    if 0 < epoch <= len(kept) - len(newest):
        earlier = compare(newest, kept[-len(newest) - epoch : len(kept) - epoch])
        if earlier:
            report["epoch_earlier"] = earlier
    return report


def straight_line(losses: Sequence[float | None]) -> dict[str, Any]:
    known = [loss for loss in losses if loss is not None]
    n = len(known)
    if not n:
        return {}
    mean = math.fsum(known) / n
    report: dict[str, Any] = {"mean": short(mean)}
    if n < len(losses):
        report["missing"] = len(losses) - n
    if n >= 3:
        places = range(n) if n == len(losses) else [place for place, loss in enumerate(losses) if loss is not None]
        middle = sum(places) / n
        xs, ys = [place - middle for place in places], [loss - mean for loss in known]
        xx, xy, yy = sum(map(mul, xs, xs)), sum(map(mul, xs, ys)), sum(map(mul, ys, ys))
        spread = math.sqrt(max(yy - xy * xy / xx, 0.0) / (n - 2))
        report |= {"standard_error": short(spread / math.sqrt(n)), "slope": short(xy / xx)}
        report |= {"slope_standard_error": short(spread / math.sqrt(xx)), "spread": short(spread)}
    return report


def compare(now: Sequence[float | None], before: Sequence[float | None]) -> dict[str, float]:
    pairs = [(a, b) for a, b in zip(now, before, strict=True) if a is not None and b is not None]
    n = len(pairs)
    if n < 3:
        return {}
    mean_now, mean_before = sum([a for a, _ in pairs]) / n, sum([b for _, b in pairs]) / n
    xs, ys = [a - mean_now for a, _ in pairs], [b - mean_before for _, b in pairs]
    xx, xy, yy = sum(map(mul, xs, xs)), sum(map(mul, xs, ys)), sum(map(mul, ys, ys))
    error = math.sqrt(max(xx + yy - 2 * xy, 0.0) / (n - 1) / n)
    report = {"mean": short(mean_before), "change": short(mean_now - mean_before), "standard_error": short(error)}
    return report | ({"correlation": short(xy / math.sqrt(xx * yy))} if xx * yy > 0 else {})


# ── Parameters ──


def parameter_report(obs: Any) -> dict[str, Any]:
    params = obs.params
    roles, blocks = layout(params)
    momenta, decay = find_momenta(obs.updater, params)
    kinds = [
        list(params.values()),
        *([kind.get(name) for name in params] for kind in (obs.grads, obs.last_step or {}, momenta)),
    ]
    try:
        sums, squares = measure_together(kinds, list(roles.values()))
    except (
        AttributeError,
        RuntimeError,
        TypeError,
        ValueError,
    ):  # some are missing, sparse, complex, coarse, elsewhere
        rows = measure_apart(kinds)
        sums = [add([rows[place] for place in members]) for members in roles.values()]
        squares = [row[1] for row in rows]
    past = max(obs.update - 1, 1)
    total = add(sums)
    report: dict[str, Any] = {
        "all": numbers(total, decay, past),
        "roles": {role: numbers(role_sum, decay, past) for role, role_sum in zip(roles, sums, strict=True)},
        "blocks": {
            block: short(math.sqrt(sum([squares[place] for place in members]))) for block, members in blocks.items()
        },
    }
    if not math.isfinite(total[0] + total[1]):
        report["nonfinite"] = nonfinite(list(params), kinds)
    return report


def nonfinite(names: list[str], kinds: list[list[Any]]) -> dict[str, list[str]]:
    rows, found = measure_apart(kinds), {}
    for place, kind in enumerate(("weights", "gradients")):
        bad = [name for name, row in zip(names, rows, strict=True) if not math.isfinite(row[place])]
        if bad:
            found[kind] = bad[:SHOWN_NAMES] + ([f"and {len(bad) - SHOWN_NAMES} more"] if len(bad) > SHOWN_NAMES else [])
    return found


def numbers(row: Row, decay: float, past: int) -> dict[str, float]:
    ww, gg, dd, gm, gg_m, mm_g, gd, gg_d, dd_g = row
    momentum, step = cosine(gm, gg_m, mm_g), cosine(gd, gg_d, dd_g)
    found = {"weight_norm": math.sqrt(ww), "gradient_norm": math.sqrt(gg)}
    if dd and ww:
        found["update_to_weight"] = math.sqrt(dd) / math.sqrt(ww)
    if step is not None:
        found["cosine_last_step"] = step
    if momentum is not None:
        found["cosine_momentum"] = momentum
    elif step is not None and not mm_g:  # where there is no momentum, the last step stands in: exact for plain SGD
        momentum, decay = -step, 0.0
    if momentum is not None and momentum > 0:
        found["noise_to_signal"] = noise_to_signal(momentum, decay, past)
    return dict(zip(found, map(float, ("%.5g " * len(found) % tuple(found.values())).split()), strict=True))


def cosine(product: float, square: float, other_square: float) -> float | None:
    norms = math.sqrt(square) * math.sqrt(other_square)
    return max(-1.0, min(1.0, product / norms)) if 0 < norms < math.inf else None


def noise_to_signal(cosine: float, decay: float, past: int) -> float:
    """The simple noise scale of McCandlish et al. 2018 (arXiv:1812.06162, section 2.2), in units of this batch.

    There it comes from a small and a large batch; here momentum, made of `past` earlier gradients, is the large one.
    With independent noise it has a gradient's signal and c = (1 - decay) / (1 + decay) of its noise variance (more
    while it is young), so that cosine² = 1 / ((1 + r) (1 + c r)), solved for r.
    """
    faded = decay**past
    c = (1 - decay) / (1 + decay) * (1 + faded) / (1 - faded)
    miss = 1 / cosine**2 - 1
    return 2 * miss / (1 + c + math.sqrt((1 + c) ** 2 + 4 * c * miss))


# ── What belongs together, and where the momentum is ──

layouts: dict[tuple[str, ...], tuple[Groups, Groups]] = {}


def layout(params: Mapping[str, Any]) -> tuple[Groups, Groups]:
    """Places by role and by block; found out once."""
    names = tuple(params)
    if names not in layouts:
        roles: Groups = {}
        blocks: Groups = {}
        for place, name in enumerate(params):
            roles.setdefault(re.sub(r"(?<![^.])\d+(?![^.])", "N", name), []).append(place)
            numbered = re.match(r"(.*?\.)?\d+(?=\.)", name)
            blocks.setdefault(numbered[0] if numbered else name.rpartition(".")[0] or name, []).append(place)
        sizes = [param.numel() for param in params.values()]
        shown = largest(roles, sizes, SHOWN_ROLES, "roles"), largest(blocks, sizes, SHOWN_BLOCKS, "blocks")
        layouts.clear()
        layouts[names] = shown
    return layouts[names]


def largest(groups: Groups, sizes: Sequence[int], limit: int, kind: str) -> Groups:
    if len(groups) <= limit:
        return groups
    ranked = sorted(groups, key=lambda group: -sum([sizes[place] for place in groups[group]]))
    small = set(ranked[limit - 1 :])
    rest = [place for group in groups if group in small for place in groups[group]]
    return {g: places for g, places in groups.items() if g not in small} | {f"{len(small)} smaller {kind}": rest}


def find_momenta(updater: Any, params: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], float]:
    """Momenta by name and their decay, from the updater or what its attributes hold: `x.state[p]["exp_avg"]` or
    `x.exp_avg[p]`, with p a parameter or a name; the decay from the first `param_groups` with one."""
    sources = [updater]
    for value in list(getattr(updater, "__dict__", {}).values()):
        sources += value if isinstance(value, list | tuple) else value.values() if isinstance(value, dict) else [value]
    names: dict[Any, str] = {id(param): name for name, param in params.items()}
    momenta: dict[str, torch.Tensor] = {}
    decay = None
    for source in sources:
        if isinstance(source, torch.Tensor) or not hasattr(source, "__dict__"):
            continue
        state = getattr(source, "state", None)
        entries = list(state.items()) if isinstance(state, dict) else []
        for kind in MOMENTA:
            own = vars(source).get(kind)
            found = [(key, entry[kind]) for key, entry in entries if isinstance(entry, dict) and kind in entry]
            for key, value in [*found, *(own.items() if isinstance(own, dict) else ())]:
                if isinstance(value, torch.Tensor):
                    momenta[key if isinstance(key, str) else names.get(id(key), "")] = value
        groups = getattr(source, "param_groups", None)
        if decay is None and isinstance(groups, list) and groups and isinstance(groups[0], dict):
            value = groups[0].get("betas") or groups[0].get("momentum")
            value = value[0] if isinstance(value, list | tuple) else value
            decay = value if isinstance(value, float) and 0 <= value < 1 else None
    return momenta, USUAL_DECAY if decay is None else decay


# ── Norms and inner products ──

EXACT = {torch.float32, torch.float64}
Row = Sequence[
    float
]  # ww, gg, dd, gm, gg, mm, gd, gg, dd of weights, gradient, last step (d), momentum (m); the last six
NOTHING: Row = (0.0,) * 9  # are a cosine's product and squares, 0 unless both are there


def measure_together(kinds: list[list[Any]], roles: list[list[int]]) -> tuple[list[Row], list[float]]:
    """A row for each role, and the square of each gradient's norm, with few operations and one read.

    All tensors, role after role, become one matrix with a line for each kind; a role's products are its part of the
    matrix times itself. Only where no kind is there for some parameters and missing for others.
    """
    if not kinds[0]:
        raise ValueError("nothing to measure")
    order = [place for members in roles for place in members]
    there = [kind for kind in kinds if kind[0] is not None]
    tensors = [kind[place] for kind in there for place in order]
    if not EXACT.issuperset([tensor.dtype for tensor in tensors]) or torch.is_autocast_enabled("cpu"):
        raise ValueError("too coarse to be summed")
    lines = _flatten_dense_tensors(tensors).view(len(there), -1)
    lines = lines.double() if lines.is_cuda else lines  # not to be rounded to TF32
    ends = list(accumulate(sum([kinds[0][place].numel() for place in members]) for members in roles))
    parts = [lines[:, start:end] for start, end in zip([0, *ends], ends, strict=False)]
    products = torch.stack([torch.mm(part, part.mT) for part in parts]).view(-1)
    norms = torch.stack(torch._foreach_norm(kinds[1])) if kinds[1][0] is not None else products[:0]
    values = torch.cat([products, norms]).tolist()
    n = len(there)
    counts = list(accumulate(kind[0] is not None for kind in kinds))  # a kind's line, counted from 1
    g, d, m = (count - 1 if kind[0] is not None else -1 for kind, count in zip(kinds[1:], counts[1:], strict=True))
    grams = [values[n * n * role : n * n * (role + 1)] for role in range(len(roles))]
    rows = [row_of(gram, n, g, d, m) for gram in grams]
    squares = [norm * norm for norm in values[n * n * len(roles) :]] or [0.0] * len(order)
    return rows, squares


def row_of(gram: Sequence[float], n: int, g: int, d: int, m: int) -> Row:
    """The row of a role from its products; a kind at place -1 is not there."""
    gg, dd, mm = (gram[place * n + place] if place >= 0 else 0.0 for place in (g, d, m))
    with_m = (gram[g * n + m], gg, mm) if g >= 0 and m >= 0 else (0.0, 0.0, 0.0)
    with_d = (gram[g * n + d], gg, dd) if g >= 0 and d >= 0 else (0.0, 0.0, 0.0)
    return (gram[0], gg, dd, *with_m, *with_d)


def measure_apart(kinds: list[list[Any]]) -> list[Row]:
    """A row for each parameter, whatever is there of it and how."""

    def product(a: Any, b: Any) -> float | None:
        return None if a is None or b is None else float(torch.dot(a, b))

    rows: list[Row] = []
    for tensors in zip(*kinds, strict=True):
        w, g, d, m = (None if x is None else x.reshape(-1) for x in alike(tensors))
        ww, gg, dd, mm = (product(x, x) or 0.0 for x in (w, g, d, m))
        gm, gd = product(g, m), product(g, d)
        with_m = (0.0, 0.0, 0.0) if gm is None else (gm, gg, mm)
        with_d = (0.0, 0.0, 0.0) if gd is None else (gd, gg, dd)
        rows.append((ww, gg, dd, *with_m, *with_d))
    return rows


def alike(tensors: Sequence[Any]) -> list[Any]:
    """One parameter's tensors dense, real, fine, on one device; None for one of another shape (a factored momentum)."""
    shape, device = tensors[0].shape, tensors[0].device
    dense = [None if x is None or x.shape != shape else x.to_dense().to(device) for x in tensors]
    real = [torch.view_as_real(x.resolve_conj()) if x is not None and x.is_complex() else x for x in dense]
    fine = torch.float64 if any(x is not None and x.dtype == torch.float64 for x in real) else torch.float32
    return [x if x is None else x.to(fine) for x in real]


def add(rows: Sequence[Row]) -> Row:
    if len(rows) == 1:
        return rows[0]
    return [sum(column) for column in zip(*rows, strict=True)] if rows else NOTHING


def short(value: float) -> float:
    return float(f"{value:.5g}")
