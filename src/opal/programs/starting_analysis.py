"""What this run measures at each check. Change it freely: it is the instrument for your next decision.

Numbers have five digits; one that cannot be told is left out. Norms are Euclidean, ratios plain, slopes per update.

`loss`, in units of the loss: `mean` of the newest WINDOW updates; `spread`, the standard deviation of single losses
about their straight line; `standard_error` of the mean, spread / sqrt(n); `slope` of the line with its
`slope_standard_error`; `missing`, updates without a finite loss; `windows`, "last update: mean ± standard error",
oldest first; `epoch_earlier`, the same window one epoch before: its `mean`, the `change` since then with the
`standard_error` of the paired differences, and the `correlation` of single losses (near 1: batches repeat in order).

`roles` (a name with layer numbers replaced by N) and `all` (every parameter together):
`weight_norm`; `gradient_norm`, of the coming update's gradient, unclipped;
`update_to_weight`: norm of what the previous update changed / norm of the weights;
`cosine_momentum`: between this gradient and the momentum of earlier ones;
`cosine_last_step`: between this gradient and what the previous update changed. Negative: the loss still falls that way,
steps are too short. Positive: it rises again, steps are too long. Noise pulls it to 0;
`noise_to_signal` (of `all`): variance of the gradient's noise / squared norm of its mean, for the batch of one update:
at 4, a batch four times as large has as much signal as noise. A mean that turns within the momentum's memory counts as
noise. It takes a positive cosine to tell.

`blocks`: gradient norm below one layer number, or of one module. `nonfinite`: names of weights and gradients with NaN
or infinity (or too large to be squared).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any

import torch

EVERY = 50
NEEDS_LAST_STEP = True

WINDOW = EVERY * -(-20 // EVERY)  # updates: EVERY, or a multiple of it that is at least 20
SHOWN_WINDOWS = 6
KEPT_LOSSES = 10_000  # at most; an epoch and a window are kept for `epoch_earlier`
SHOWN_ROLES, SHOWN_BLOCKS, SHOWN_NAMES = 24, 48, 20  # the largest; the others are summed
SMALL = 2**16  # entries: what is copied to be multiplied fits into a CPU's cache
PICKED = (0, 5, 10, 15, 7, 6)  # ww, gg, dd, mm, gm, gd among the products of w, g, d, m with w, g, d, m
MOMENTA = ("exp_avg", "momentum_buffer", "momentum")  # what optimizers and rules call an average of gradients
USUAL_DECAY = 0.9  # of a momentum that does not say it

Groups = dict[str, list[int]]  # of parameters, by their place in obs.params


def analyze(obs: Any, memory: dict[str, Any]) -> dict[str, Any] | None:
    """The report of this check; with "wake": "why" beside it, a decision is asked at once. Gradients are off here."""
    return {"report": {"loss": loss_report(obs, memory), **parameter_report(obs)}}


# ── Losses ──


def loss_report(obs: Any, memory: dict[str, Any]) -> dict[str, Any]:
    epoch = round(obs.updates_per_epoch or 0)
    kept = memory.setdefault("losses", [])
    kept += obs.losses if math.isfinite(sum(obs.losses)) else [x if math.isfinite(x) else None for x in obs.losses]
    del kept[: -(WINDOW + epoch if WINDOW + epoch <= KEPT_LOSSES else WINDOW)]
    newest = kept[-WINDOW:]
    report = straight_line(newest)
    if report:
        error = f" ± {report['standard_error']}" if "standard_error" in report else ""
        windows = memory.setdefault("windows", [])
        windows.append([obs.update, f"{obs.update}: {report['mean']}{error}"])
        del windows[: -SHOWN_WINDOWS * WINDOW // EVERY]
        report["windows"] = ", ".join([text for update, text in windows if (obs.update - update) % WINDOW == 0])
    if 0 < epoch <= len(kept) - len(newest):
        earlier = compare(newest, kept[-len(newest) - epoch : len(kept) - epoch])
        if earlier:
            report["epoch_earlier"] = earlier
    return report


def straight_line(losses: Sequence[float | None]) -> dict[str, Any]:
    places: Sequence[int] = range(len(losses))
    known: Any = losses
    if None in losses:
        places = [place for place in places if losses[place] is not None]
        known = [losses[place] for place in places]
    n = len(known)
    if not n:
        return {}
    mean = math.fsum(known) / n
    report: dict[str, Any] = {"mean": short(mean)}
    if n < len(losses):
        report["missing"] = len(losses) - n
    if n >= 3:
        rests, middle = [loss - mean for loss in known], sum(places) / n
        xx, yy = sum(map(mul, places, places)) - n * middle**2, sum(map(mul, rests, rests))
        xy = sum(map(mul, places, rests)) - middle * sum(rests)
        spread = math.sqrt(max(yy - xy * xy / xx, 0.0) / (n - 2))
        report["standard_error"], report["slope"] = short(spread / math.sqrt(n)), short(xy / xx)
        report["slope_standard_error"], report["spread"] = short(spread / math.sqrt(xx)), short(spread)
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
    layout = layout_of(obs.params)
    momenta, decay = find_momenta(obs.updater, obs.params)
    rows = layout.products((obs.params, obs.grads, obs.last_step or {}, momenta))
    sums = {role: add([rows[place] for place in places]) for role, places in layout.roles.items()}
    total = add(list(sums.values()))
    report: dict[str, Any] = {
        "all": numbers(total) | noise_to_signal(total, decay, max(obs.update - 1, 1)),
        "roles": {role: numbers(row) for role, row in sums.items()},
        "blocks": {b: short(math.sqrt(sum([rows[p][1] for p in places]))) for b, places in layout.blocks.items()},
    }
    if not math.isfinite(total[0] + total[1]):
        report["nonfinite"] = {}
        for column, kind in enumerate(("weights", "gradients")):
            bad = [name for name, row in zip(obs.params, rows, strict=True) if not math.isfinite(row[column])]
            more = [f"and {len(bad) - SHOWN_NAMES} more"] if len(bad) > SHOWN_NAMES else []
            report["nonfinite"] |= {kind: bad[:SHOWN_NAMES] + more} if bad else {}
    return report


def numbers(row: Sequence[float]) -> dict[str, float]:
    ww, gg, dd, gm, gg_m, mm_g, gd, gg_d, dd_g = row
    found = {"weight_norm": short(math.sqrt(ww)), "gradient_norm": short(math.sqrt(gg))}
    if dd and ww:
        found["update_to_weight"] = short(math.sqrt(dd) / math.sqrt(ww))
    for name, value in (("cosine_last_step", cosine(gd, gg_d, dd_g)), ("cosine_momentum", cosine(gm, gg_m, mm_g))):
        if value is not None:
            found[name] = short(value)
    return found


def cosine(product: float, square: float, other_square: float) -> float | None:
    norms = math.sqrt(square) * math.sqrt(other_square)
    return max(-1.0, min(1.0, product / norms)) if 0 < norms < math.inf else None


def noise_to_signal(row: Sequence[float], decay: float, past: int) -> dict[str, float]:
    """The simple noise scale of McCandlish et al. 2018 (arXiv:1812.06162, section 2.2), in units of this batch.

    There it comes from a small and a large batch; here momentum, made of `past` earlier gradients, is the large one.
    With independent noise it has a gradient's signal and c = (1 - decay) / (1 + decay) of its noise variance (more
    while it is young), so that cosine² = 1 / ((1 + r) (1 + c r)), solved for r. Where there is no momentum, the last
    step stands in: exact for plain SGD.
    """
    _, _, _, gm, gg_m, mm_g, gd, gg_d, dd_g = row
    if not mm_g:
        gm, gg_m, mm_g, decay = -gd, gg_d, dd_g, 0.0
    near = cosine(gm, gg_m, mm_g)
    if near is None or near <= 0:
        return {}
    faded = decay**past
    c = (1 - decay) / (1 + decay) * (1 + faded) / (1 - faded)
    miss = 1 / near**2 - 1
    return {"noise_to_signal": short(2 * miss / (1 + c + math.sqrt((1 + c) ** 2 + 4 * c * miss)))}


def find_momenta(updater: Any, params: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """Momenta by name and their decay, from the updater or what its attributes hold: `x.state[p]["exp_avg"]` or
    `x.exp_avg[p]`, with p a parameter or a name; the decay from the first `param_groups` with one."""
    sources = [updater]
    for value in list(getattr(updater, "__dict__", {}).values()):
        sources += value if isinstance(value, list | tuple) else value.values() if isinstance(value, dict) else [value]
    names = {id(param): name for name, param in params.items()}
    momenta: dict[Any, Any] = {}
    decay = None
    for source in sources:
        if isinstance(source, torch.Tensor) or not hasattr(source, "__dict__"):
            continue
        state = getattr(source, "state", None)
        entries = list(state.items()) if isinstance(state, dict) else []
        for kind in MOMENTA:
            own = vars(source).get(kind)
            found = list(own.items()) if isinstance(own, dict) else []
            found += [(key, entry[kind]) for key, entry in entries if isinstance(entry, dict) and kind in entry]
            momenta |= {names.get(id(key), key): value for key, value in found}
        groups = getattr(source, "param_groups", None)
        if decay is None and isinstance(groups, list) and groups and isinstance(groups[0], dict):
            value = groups[0].get("betas") or groups[0].get("momentum")
            value = value[0] if isinstance(value, list | tuple) else value
            decay = value if isinstance(value, float) and 0 <= value < 1 else None
    return momenta, USUAL_DECAY if decay is None else decay


# ── What belongs together, and its inner products with few operations and one read from each device ──

layouts: list[Layout] = []  # the newest one


def layout_of(params: Mapping[str, Any]) -> Layout:
    if not layouts or layouts[0].names != list(params):
        layouts[:] = [Layout(params)]
    return layouts[0]


class Layout:
    """Places of parameters by role, by block and by what is multiplied at once; found out once."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.names = list(params)
        roles: Groups = {}
        blocks: Groups = {}
        homes: dict[Any, Groups] = {}
        for place, (name, param) in enumerate(params.items()):
            roles.setdefault(re.sub(r"(?<![^.])\d+(?![^.])", "N", name), []).append(place)
            numbered = re.match(r"(.*?\.)?\d+(?=\.)", name)
            blocks.setdefault(numbered[0] if numbered else name.rpartition(".")[0] or name, []).append(place)
            rounded = param.is_cuda and param.numel() <= SMALL  # to TF32, if it is multiplied in float32
            fine = rounded or param.dtype in (torch.float64, torch.complex128)
            home = param.device, torch.float64 if fine else torch.float32
            homes.setdefault(home, {}).setdefault(param.shape, []).append(place)
        sizes = [param.numel() for param in params.values()]
        self.roles = largest(roles, sizes, SHOWN_ROLES, "roles")
        self.blocks = largest(blocks, sizes, SHOWN_BLOCKS, "blocks")
        self.batches: list[Any] = []  # places, then buffers for small tensors of one shape and their products
        self.results = [self.allocate(device, dtype, shapes) for (device, dtype), shapes in homes.items()]

    def allocate(self, device: Any, dtype: torch.dtype, shapes: Mapping[Any, list[int]]) -> tuple[Any, Any]:
        products = torch.empty(sum(map(len, shapes.values())), 4, 4, dtype=dtype, device=device)
        room, start = torch.empty(4 * SMALL, dtype=dtype, device=device), 0
        for shape, places in shapes.items():
            size = math.prod(shape)
            together = max(1, SMALL // max(1, size))
            for batch in (places[first : first + together] for first in range(0, len(places), together)):
                n, copies = len(batch), None
                out = products[start : start + n]
                lines: Any = [out[0].view(16)[place] for place in PICKED]
                if size <= SMALL:
                    copies = room[: 4 * n * size].view(4 * n, *shape)
                    lines = copies.view(4, n, size).transpose(0, 1)
                self.batches.append((batch, copies, lines, out))
                start += n
        return products.view(-1, 16), torch.tensor(PICKED, device=device)

    def products(self, kinds: Sequence[Mapping[str, Any]]) -> list[Sequence[float]]:
        """Of each parameter's weights w, gradient g, last step d and momentum m, as `numbers` takes them."""
        columns = [list(map(kind.get, self.names)) for kind in kinds]
        for places, copies, lines, out in self.batches:
            tensors = [column[place] for column in columns for place in places]
            try:
                if copies is None:
                    multiply(tensors, lines)
                else:
                    torch.stack(tensors, out=copies)
                    torch.bmm(lines, lines.mT, out=out)  # with `out`, autocast does not make it coarse
            except (AttributeError, RuntimeError, TypeError, ValueError):  # not alike: missing, sparse, elsewhere …
                for place, product in enumerate(out.zero_()):
                    multiply_unlike(tensors[place :: len(out)], product)
        rows: list[Sequence[float]] = [()] * len(self.names)
        order = [place for places, *_ in self.batches for place in places]
        found = [row for products, picked in self.results for row in products.index_select(1, picked).tolist()]
        for place, (ww, gg, dd, mm, gm, gd) in zip(order, found, strict=True):
            # In a cosine, only parameters count that have both.
            rows[place] = (ww, gg, dd, gm, mm and gg, gg and mm, gd, dd and gg, gg and dd)
        return rows


def largest(groups: Groups, sizes: Sequence[int], limit: int, kind: str) -> Groups:
    if len(groups) <= limit:
        return groups
    ranked = sorted(groups, key=lambda group: -sum([sizes[place] for place in groups[group]]))
    small = set(ranked[limit - 1 :])
    rest = [place for group in groups if group in small for place in groups[group]]
    return {g: places for g, places in groups.items() if g not in small} | {f"{len(small)} smaller {kind}": rest}


def multiply(tensors: Sequence[torch.Tensor], out: Sequence[torch.Tensor]) -> None:
    """A large parameter's products, without a copy of it."""
    w, g, d, m = [tensor.reshape(-1) for tensor in tensors]
    for one, other, product in zip((w, g, d, m, g, g), (w, g, d, m, m, d), out, strict=True):
        torch.dot(one, other, out=product)


def multiply_unlike(tensors: Sequence[Any], out: torch.Tensor) -> None:
    """Add the products of one parameter's tensors, made dense, real, fine, and put where it is, to `out`.

    What is missing or of another shape (a factored momentum) counts as zeros.
    """
    alike = []
    for tensor in tensors:
        there = tensor is not None and tensor.shape == tensors[0].shape
        dense = tensor.to_dense().to(out.device) if there else torch.zeros_like(tensors[0])
        alike.append(torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense)
    for pieces in zip(*[tensor.reshape(-1).split(SMALL) for tensor in alike], strict=True):
        lines = torch.stack(pieces).to(out.dtype)
        torch.addmm(out, lines, lines.mT, out=out)


def add(rows: Sequence[Sequence[float]]) -> Sequence[float]:
    if len(rows) == 1:
        return rows[0]
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * 9


def short(value: float) -> float:
    return float(f"{value:.5g}")
