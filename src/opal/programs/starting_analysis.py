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
from functools import cache
from operator import itemgetter, mul
from typing import Any

import torch

EVERY = 50
NEEDS_LAST_STEP = True

WINDOW = EVERY * -(-20 // EVERY)  # updates: EVERY, or a multiple of it that is at least 20
SHOWN_WINDOWS = 6
KEPT_LOSSES = 10_000  # at most; an epoch and a window are kept for `epoch_earlier`
SHOWN_ROLES, SHOWN_BLOCKS, SHOWN_NAMES = 24, 48, 20  # the largest; the others are summed
SMALL = 10_000  # entries; tensors up to this size are measured together with those of the same shape
PIECE = 2**24  # entries of a large tensor that are converted at a time, where its dtype is coarse
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
    roles, blocks, batches = layout(params)
    momenta, decay = find_momenta(obs.updater, params)
    rows = measure(list(params), batches, (params, obs.grads, obs.last_step or {}, momenta))
    past = max(obs.update - 1, 1)
    sums = {role: add([rows[member] for member in members]) for role, members in roles.items()}
    total = add(list(sums.values()))
    report: dict[str, Any] = {
        "all": numbers(total, decay, past),
        "roles": {role: numbers(role_sum, decay, past) for role, role_sum in sums.items()},
        "blocks": {b: short(math.sqrt(sum([rows[member][1] for member in members]))) for b, members in blocks.items()},
    }
    if not math.isfinite(total[0] + total[1]):
        report["nonfinite"] = {}
        for place, kind in enumerate(("weights", "gradients")):
            bad = [name for name, row in zip(params, rows, strict=True) if not math.isfinite(row[place])]
            more = [f"and {len(bad) - SHOWN_NAMES} more"] if len(bad) > SHOWN_NAMES else []
            report["nonfinite"] |= {kind: bad[:SHOWN_NAMES] + more} if bad else {}
    return report


def numbers(row: Sequence[float], decay: float, past: int) -> dict[str, float]:
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

layouts: dict[tuple[str, ...], tuple[Groups, Groups, list[list[int]]]] = {}


def layout(params: Mapping[str, Any]) -> tuple[Groups, Groups, list[list[int]]]:
    """Places by role, by block, and by what is measured in one go; found out once."""
    names = tuple(params)
    if names not in layouts:
        roles: Groups = {}
        blocks: Groups = {}
        batches: dict[Any, list[int]] = {}
        for place, (name, param) in enumerate(params.items()):
            roles.setdefault(re.sub(r"(?<![^.])\d+(?![^.])", "N", name), []).append(place)
            numbered = re.match(r"(.*?\.)?\d+(?=\.)", name)
            blocks.setdefault(numbered[0] if numbered else name.rpartition(".")[0] or name, []).append(place)
            shape = param.shape if param.numel() <= SMALL else "large"
            batches.setdefault((shape, param.dtype, param.device), []).append(place)
        sizes = [param.numel() for param in params.values()]
        shown = largest(roles, sizes, SHOWN_ROLES, "roles"), largest(blocks, sizes, SHOWN_BLOCKS, "blocks")
        layouts.clear()
        layouts[names] = (*shown, list(batches.values()))
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


# ── Inner products, with few operations and one read from each device ──

COLUMNS = ("ww", "gg", "dd", "gm", "gg", "mm", "gd", "gg", "dd")  # of weights, gradient, last step (d), momentum …
NEEDED = ("ww", "gg", "dd", "gm", "gm", "gm", "gd", "gd", "gd")  # … 0 unless both of these are there


def measure(names: list[str], batches: list[list[int]], kinds: Sequence[Mapping[str, Any]]) -> list[Sequence[float]]:
    """COLUMNS for each parameter; `kinds` are weights, gradients, last steps, momenta by name, some of them missing."""
    rows: list[Sequence[float]] = [()] * len(names)
    by_device: dict[Any, list[tuple[list[int], tuple[str, ...], torch.Tensor]]] = {}
    for places in batches:
        columns = [[kind.get(names[place]) for place in places] for kind in kinds]
        try:
            results = [(places, *products(columns))]
        except (
            AttributeError,
            RuntimeError,
            TypeError,
            ValueError,
        ):  # one is unlike the others: dtype, layout, shape, or not there
            results = [([place], *products(alike(row))) for place, *row in zip(places, *columns, strict=True)]
        for result in results:
            by_device.setdefault(result[2].device, []).append(result)
    for on_device in by_device.values():
        values = torch.cat([parts for _, _, parts in on_device]).tolist()
        start = 0
        for places, pairs, _ in on_device:
            pick = picker(pairs)
            for place in places:
                rows[place] = pick([*values[start : start + len(pairs)], 0.0])
                start += len(pairs)
    return rows


def products(columns: list[list[Any]]) -> tuple[tuple[str, ...], torch.Tensor]:
    """Which products there are, and these, one parameter after the other."""
    there, tensors, count = "", [], len(columns[0])
    for letter, column in zip("wgdm", columns, strict=True):
        if column[0] is not None:
            there += letter
            tensors += column
        elif any(tensor is not None for tensor in column):
            raise ValueError("some have it, some not")
    size = tensors[0].numel()
    if size > SMALL:
        pairs = pairs_of(there, False)
        ends = [(there.index(pair[0]), there.index(pair[1])) for pair in pairs]
        return pairs, torch.stack([dot for k in range(count) for dot in large_products(tensors[k::count], ends)])
    stack = torch.stack(tensors)
    wide = torch.float32 if stack.device.type == "mps" else torch.float64
    if stack.is_cuda:
        stack = stack.double()  # not to be rounded to TF32
    matrices = stack.reshape(len(there), count, size).transpose(0, 1)
    found = torch.bmm(matrices, matrices.mT)
    if found.is_complex():
        raise ValueError("to be taken as real")
    if found.dtype not in (torch.float32, torch.float64):  # coarse, or made so by autocast, which leaves float64 alone
        found = torch.bmm(matrices.to(wide), matrices.mT.to(wide))
    return pairs_of(there, True), found.view(-1)


def large_products(tensors: list[Any], ends: list[tuple[int, int]]) -> list[torch.Tensor]:
    """Of one parameter's tensors, without a copy of them."""
    dtypes, shape = {tensor.dtype for tensor in tensors}, tensors[0].shape
    if any(tensor.layout is not torch.strided or tensor.is_complex() or tensor.shape != shape for tensor in tensors):
        raise ValueError("not to be multiplied as they are")
    flat = [tensor.reshape(-1) for tensor in tensors]
    if dtypes == {torch.float32} and len(flat[0]) <= PIECE:
        return [torch.dot(flat[a], flat[b]) for a, b in ends]
    dtype = torch.float64 if torch.float64 in dtypes else torch.float32
    sums = []
    for piece in zip(*[x.split(PIECE) for x in flat], strict=True):
        fine = [x.to(dtype) for x in piece]
        sums.append(torch.stack([torch.dot(fine[a], fine[b]) for a, b in ends]))
    return list(torch.stack(sums).sum(0))


@cache
def pairs_of(there: str, every: bool) -> tuple[str, ...]:
    return tuple(a + b for a in there for b in there if every or a + b in ("ww", "gg", "gm", "mm", "gd", "dd"))


@cache
def picker(pairs: tuple[str, ...]) -> Any:
    """What picks COLUMNS from products and a 0 after them."""
    return itemgetter(*[pairs.index(p) if need in pairs else -1 for p, need in zip(COLUMNS, NEEDED, strict=True)])


def alike(tensors: Sequence[Any]) -> list[list[Any]]:
    """One parameter's tensors dense, real, on one device; one of another shape (a factored momentum) is left out."""
    shape, device = tensors[0].shape, tensors[0].device
    dense = [None if x is None or x.shape != shape else x.to_dense().to(device) for x in tensors]
    return [[torch.view_as_real(x.resolve_conj()) if x is not None and x.is_complex() else x] for x in dense]


def add(rows: Sequence[Sequence[float]]) -> Sequence[float]:
    if len(rows) == 1:
        return rows[0]
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * len(COLUMNS)


def short(value: float) -> float:
    return float(f"{value:.5g}")
