"""What this run measures at each check. Change it freely: it is the instrument for your next decision.

Numbers are rounded to five digits; one that cannot be told is left out. Losses are in the units of the loss, slopes per
update, norms are Euclidean, everything else is a plain ratio.

`loss`: `mean` of the newest WINDOW updates; `spread`: standard deviation of single losses about their straight line;
`standard_error` = spread / sqrt(n), of the mean; `slope` of that line with its `slope_standard_error`;
`missing`: updates of the window with no finite loss;
`windows`: [last update, mean, standard error] of the windows up to now, oldest first;
`epoch_earlier`: the same window one epoch before: its `mean`, the `change` since (negative: lower now) with the
`standard_error` of the paired differences, and the `correlation` of single losses (near 1: batches repeat in order).

`roles` (a name with layer numbers replaced by N) and `all` (every parameter together):
`update_to_weight`: norm of what the previous update changed / norm of the weights;
`weight_norm`; `gradient_norm`: of the coming update's gradient, unclipped;
`cosine_momentum`: gradient and momentum, which averages earlier gradients; 1: they agree;
`cosine_last_step`: gradient and what the previous update changed. Negative: the loss still falls that way, steps are
too short; positive: it rises again, steps are too long; noise pulls it to 0;
`noise_to_signal`: variance of the gradient's noise / squared norm of the mean gradient, for one whole update. It is
McCandlish et al. 2018 (arXiv:1812.06162), section 2.2, in units of the batch: at 4, a batch four times as large has as
much signal as noise. Momentum takes the place of their large batch, see `_noise_to_signal`; a mean gradient that turns
within the momentum's memory counts as noise. Left out where the cosine is not positive.

`blocks`: gradient norm of the parameters under one layer number, or of one module outside the numbered layers.
`nonfinite`: names of weights and gradients with NaN or infinity (or a squared norm too large for a float).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter, mul
from typing import Any

import torch

EVERY = 50
NEEDS_LAST_STEP = True

WINDOW = EVERY * -(-20 // EVERY)  # updates in a window: EVERY, or a multiple of it with at least 20
SHOWN_WINDOWS = 6
KEPT_LOSSES = 10_000  # the comparison with the epoch before needs an epoch and a window of them
SHOWN_ROLES, SHOWN_BLOCKS, SHOWN_NAMES = 24, 48, 20  # the largest; what is left is summed
STACKED_SIZE = 10_000  # tensors up to this size are measured together with others of the same shape
MOMENTA = ("exp_avg", "momentum_buffer", "momentum", "m")  # what optimizers call an average of gradients
USUAL_DECAY = 0.9  # of a momentum whose decay cannot be found

EXACT = (torch.float32, torch.float64)

PRODUCTS = ("ww", "gg", "dd", "mm", "gm", "gd")  # of weights w, gradient g, last step d, momentum m
Row = tuple[float, ...]  # these inner products of one parameter, 0 for what is missing
EMPTY: Row = (0.0,) * len(PRODUCTS)


def analyze(obs: Any, memory: dict[str, Any]) -> dict[str, Any] | None:
    """Measure losses and parameters; add "wake": "why" to what is returned to be asked at once."""
    report: dict[str, Any] = {}
    loss = _loss_report(obs, memory)
    if loss:
        report["loss"] = loss
    with torch.no_grad():
        report.update(_parameter_report(obs))
    return {"report": report}


# ── Losses ──


def _loss_report(obs: Any, memory: dict[str, Any]) -> dict[str, Any]:
    epoch = round(getattr(obs, "updates_per_epoch", None) or 0)
    kept: list[float | None] = memory.setdefault("losses", [])
    kept.extend([loss if math.isfinite(loss) else None for loss in obs.losses])
    del kept[: -(WINDOW + epoch if WINDOW + epoch <= KEPT_LOSSES else WINDOW)]
    newest = kept[-WINDOW:]
    line = _line(newest)
    if not line:
        return {}
    windows: list[list[Any]] = memory.setdefault("windows", [])
    windows.append([obs.update, line["mean"], line.get("standard_error")])
    del windows[: -SHOWN_WINDOWS * WINDOW // EVERY]
    line["windows"] = [window for window in windows if (obs.update - window[0]) % WINDOW == 0]
    if 0 < epoch <= len(kept) - len(newest):
        earlier = _compare(newest, kept[-len(newest) - epoch : len(kept) - epoch])
        if earlier:
            line["epoch_earlier"] = earlier
    return line


def _line(losses: Sequence[float | None]) -> dict[str, Any]:
    """The straight line through losses, by least squares."""
    known = [loss for loss in losses if loss is not None]
    count = len(known)
    if not count:
        return {}
    mean = math.fsum(known) / count
    line: dict[str, Any] = {"mean": _short(mean)}
    if count < len(losses):
        line["missing"] = len(losses) - count
    if count < 3:
        return line
    places = range(count) if count == len(losses) else [x for x, loss in enumerate(losses) if loss is not None]
    middle = sum(places) / count
    xs, ys = [x - middle for x in places], [loss - mean for loss in known]
    xx, xy, yy = sum(map(mul, xs, xs)), sum(map(mul, xs, ys)), sum(map(mul, ys, ys))
    spread = math.sqrt(max(yy - xy * xy / xx, 0.0) / (count - 2))
    line["standard_error"] = _short(spread / math.sqrt(count))
    line["slope"], line["slope_standard_error"] = _short(xy / xx), _short(spread / math.sqrt(xx))
    line["spread"] = _short(spread)
    return line


def _compare(now: Sequence[float | None], before: Sequence[float | None]) -> dict[str, float]:
    """Losses against those of the same places one epoch earlier, pair by pair."""
    pairs = [(a, b) for a, b in zip(now, before, strict=True) if a is not None and b is not None]
    count = len(pairs)
    if count < 3:
        return {}
    mean_now, mean_before = sum([a for a, _ in pairs]) / count, sum([b for _, b in pairs]) / count
    ups, downs = [a - mean_now for a, _ in pairs], [b - mean_before for _, b in pairs]
    aa, bb, ab = sum(map(mul, ups, ups)), sum(map(mul, downs, downs)), sum(map(mul, ups, downs))
    error = math.sqrt(max(aa + bb - 2 * ab, 0.0) / (count - 1) / count)
    earlier = {"mean": mean_before, "change": mean_now - mean_before, "standard_error": error}
    if aa * bb > 0:
        earlier["correlation"] = ab / math.sqrt(aa * bb)
    return {key: _short(value) for key, value in earlier.items()}


# ── Parameters ──


def _parameter_report(obs: Any) -> dict[str, Any]:
    names = list(obs.params)
    roles, blocks, batches = _layout(obs.params)
    momenta, decays = _momenta(obs.updater, obs.params)
    rows, there = _measure(names, batches, (obs.params, obs.grads, obs.last_step or {}, momenta))
    past = max(obs.update - 1, 1)
    report: dict[str, Any] = {"all": {}, "roles": {}, "blocks": {}}
    for role, members in roles.items():
        report["roles"][role] = _role_report(
            [rows[member] for member in members],
            [there[member] for member in members],
            decays.get(names[members[0]], USUAL_DECAY),
            past,
        )
    if rows:
        report["all"] = _role_report(rows, there, next(iter(decays.values()), USUAL_DECAY), past)
    for block, members in blocks.items():
        report["blocks"][block] = _short(math.sqrt(sum([rows[member][1] for member in members])))
    if not math.isfinite(sum([row[0] + row[1] for row in rows])):
        for kind, place in (("weights", 0), ("gradients", 1)):
            bad = [name for name, row in zip(names, rows, strict=True) if not math.isfinite(row[place])]
            if bad:
                more = [f"and {len(bad) - SHOWN_NAMES} more"] if len(bad) > SHOWN_NAMES else []
                report.setdefault("nonfinite", {})[kind] = bad[:SHOWN_NAMES] + more
    return report


def _role_report(rows: list[Row], there: list[str], decay: float, past: int) -> dict[str, float]:
    ww, gg, dd, *_ = _sum(rows)
    found = {"weight_norm": math.sqrt(ww), "gradient_norm": math.sqrt(gg)}
    if dd and ww:
        found["update_to_weight"] = math.sqrt(dd) / math.sqrt(ww)
    with_momentum = _cosine(rows, there, "m")
    with_step = _cosine(rows, there, "d")
    if with_momentum is not None:
        found["cosine_momentum"] = with_momentum
        noise = _noise_to_signal(with_momentum, decay, past)
    else:
        noise = _noise_to_signal(-(with_step or 0.0), 0.0, past)  # right for plain SGD, otherwise rough
    if with_step is not None:
        found["cosine_last_step"] = with_step
    if noise is not None:
        found["noise_to_signal"] = noise
    return dict(zip(found, map(float, ("%.5g " * len(found) % tuple(found.values())).split()), strict=True))


def _cosine(rows: list[Row], there: list[str], kind: str) -> float | None:
    """The cosine between the gradient and momentum or last step, over the parameters that have both."""
    if any(["g" not in kinds or kind not in kinds for kinds in there]):
        rows = [row for row, kinds in zip(rows, there, strict=True) if "g" in kinds and kind in kinds]
    _, gg, dd, mm, gm, gd = _sum(rows)
    product, other = (gm, mm) if kind == "m" else (gd, dd)
    norms = math.sqrt(gg) * math.sqrt(other)
    return max(-1.0, min(1.0, product / norms)) if 0 < norms < math.inf else None


def _sum(rows: list[Row]) -> Row:
    return tuple([sum(column) for column in zip(*rows, strict=True)]) if rows else EMPTY


def _noise_to_signal(cosine: float, decay: float, past: int) -> float | None:
    """Noise variance per squared signal, r, from the cosine of a gradient and the momentum of `past` earlier ones.

    With independent noise, momentum has the signal of a gradient and c = (1 - decay) / (1 + decay) of its noise
    variance (more while the average is young), so that cosine² = 1 / ((1 + r) (1 + c r)); solved for r.
    """
    if not 0 < cosine <= 1:
        return None
    faded = decay**past
    c = (1 - decay) / (1 + decay) * (1 + faded) / (1 - faded)
    miss = 1 / cosine**2 - 1
    return 2 * miss / (1 + c + math.sqrt((1 + c) ** 2 + 4 * c * miss))


Groups = dict[str, list[int]]
_layouts: dict[tuple[str, ...], tuple[Groups, Groups, list[list[int]]]] = {}


def _layout(params: Mapping[str, Any]) -> tuple[Groups, Groups, list[list[int]]]:
    """The places of parameters by role, by block, and by what can be measured together; found out once."""
    key = tuple(params)
    if key not in _layouts:
        roles: Groups = {}
        blocks: Groups = {}
        batches: dict[Any, list[int]] = {}
        for place, (name, param) in enumerate(params.items()):
            roles.setdefault(re.sub(r"(?<![^.])\d+(?![^.])", "N", name), []).append(place)
            numbered = re.match(r"(.*?\.)?\d+(?=\.)", name)
            blocks.setdefault(numbered[0] if numbered else name.rpartition(".")[0] or name, []).append(place)
            alike = (param.shape, param.dtype, param.device) if param.numel() <= STACKED_SIZE else place
            batches.setdefault(alike, []).append(place)
        sizes = [param.numel() for param in params.values()]
        shown = _largest(roles, sizes, SHOWN_ROLES, "roles"), _largest(blocks, sizes, SHOWN_BLOCKS, "blocks")
        _layouts.clear()
        _layouts[key] = (*shown, list(batches.values()))
    return _layouts[key]


def _largest(groups: Groups, sizes: list[int], limit: int, kind: str) -> Groups:
    """The groups with most weights, in their order, and the others as one."""
    if len(groups) <= limit:
        return groups
    ranked = sorted(groups, key=lambda group: -sum([sizes[member] for member in groups[group]]))
    shown = set(ranked[: limit - 1])
    rest = [member for group in groups if group not in shown for member in groups[group]]
    return {group: groups[group] for group in groups if group in shown} | {
        f"{len(groups) - len(shown)} smaller {kind}": rest
    }


def _momenta(updater: Any, params: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """Momentum and its decay by parameter name: of the updater, its optimizers and its rules, as far as it has any."""
    names: dict[Any, str] = {id(param): name for name, param in params.items()}
    momenta: dict[str, torch.Tensor] = {}
    decays: dict[str, float] = {}
    for source in _sources(updater):
        for by_key in _source_momenta(source):
            found = {
                key if isinstance(key, str) else names.get(id(key), ""): value
                for key, value in by_key.items()
                if isinstance(value, torch.Tensor)
            }
            if found:
                momenta = {**found, **momenta}
                decays = {**dict.fromkeys(found, _decay(source)), **decays}
    return momenta, decays


def _sources(updater: Any) -> list[Any]:
    """The updater, and what its attributes hold, also within one list, tuple or dict."""
    found = [updater]
    for value in vars(updater).values() if hasattr(updater, "__dict__") else ():
        if isinstance(value, dict):
            found += value.values()
        elif isinstance(value, list | tuple):
            found += value
        else:
            found.append(value)
    return [source for source in found if hasattr(source, "__dict__") and not isinstance(source, torch.Tensor)]


def _source_momenta(source: Any) -> Iterator[dict[Any, Any]]:
    """name or parameter → momentum, from `exp_avg[p]`, `state["exp_avg"][p]` or `state[p]["exp_avg"]`."""
    state = getattr(source, "state", None)
    state = state if isinstance(state, dict) else {}
    for kind in MOMENTA:
        for by_key in (vars(source).get(kind), state.get(kind)):
            if isinstance(by_key, dict):
                yield by_key
    entries = [(key, entry) for key, entry in state.items() if isinstance(entry, dict)]
    for kind in MOMENTA:
        found = {key: entry[kind] for key, entry in entries if kind in entry}
        if found:
            yield found
        if len(found) == len(entries):
            break


def _decay(source: Any) -> float:
    """What is left of a momentum after one update, from the first parameter group or an attribute."""
    groups = getattr(source, "param_groups", None)
    settings = [groups[0]] if isinstance(groups, list) and groups and isinstance(groups[0], dict) else []
    for values in [*settings, source.__dict__]:
        for kind in ("betas", "momentum", "beta"):
            value = values.get(kind)
            value = value[0] if isinstance(value, list | tuple) and value else value
            if isinstance(value, float) and 0 <= value < 1:
                return value
    return USUAL_DECAY


# ── Inner products, with few operations and one read from each device ──


def _measure(
    names: list[str], batches: list[list[int]], kinds: tuple[Mapping[str, Any], ...]
) -> tuple[list[Row], list[str]]:
    """A row for each parameter, and which of the `kinds` (weights, gradients, last steps, momenta by name) it has."""
    done: dict[Any, list[tuple[list[int], str, bool, torch.Tensor]]] = {}
    for places in batches:
        columns = [[kind.get(names[place]) for place in places] for kind in kinds]
        try:
            results = [(places, *_products(columns))]
        except (RuntimeError, TypeError, ValueError):  # something among them is unlike the others
            results = [([place], *_products(_alike(row))) for place, *row in zip(places, *columns, strict=True)]
        for result in results:
            done.setdefault(result[3].device, []).append(result)
    rows, there = [EMPTY] * len(names), [""] * len(names)
    for results in done.values():
        values: list[float] = torch.cat([products for *_, products in results]).tolist()
        start = 0
        for places, letters, stacked, _ in results:
            count, pick = _picker(letters, stacked)
            for place in places:
                rows[place], there[place] = pick([*values[start : start + count], 0.0]), letters
                start += count
    return rows, there


def _products(columns: list[list[Any]]) -> tuple[str, bool, torch.Tensor]:
    """Which kinds are there, whether they were stacked, and the inner products, one parameter after the other."""
    there, tensors, count = "", [], len(columns[0])
    for letter, column in zip("wgdm", columns, strict=True):
        missing = sum([tensor is None for tensor in column])
        if missing == 0:
            there += letter
            tensors += column
        elif missing < count:
            raise ValueError("only some have this kind")
    size = tensors[0].numel()
    if size > STACKED_SIZE:  # one parameter: nothing is copied
        if any([tensor.shape != tensors[0].shape or tensor.dtype not in EXACT for tensor in tensors]):
            raise ValueError("these cannot be multiplied as they are")
        flat = {letter: tensor.reshape(-1) for letter, tensor in zip(there, tensors, strict=True)}
        return there, False, torch.stack([torch.dot(flat[pair[0]], flat[pair[1]]) for pair in _pairs(there, False)])
    stack = torch.stack(tensors)
    if stack.dtype is not torch.float32 or torch.is_autocast_enabled(stack.device.type):
        stack = stack.to(_exact(stack))  # autocast leaves float64 alone
    matrices = stack.view(len(there), count, size).transpose(0, 1)
    return there, True, torch.bmm(matrices, matrices.mT).view(-1)


def _alike(tensors: list[Any]) -> list[list[Any]]:
    """A parameter's tensors as dense real ones on its device; a momentum of another shape is left out."""
    weight = tensors[0]
    made: list[Any] = [None if tensor is None or tensor.shape != weight.shape else tensor for tensor in tensors]
    made = [x if x is None or x.layout is torch.strided else x.to_dense() for x in made]
    made = [torch.view_as_real(x.resolve_conj()) if x is not None and x.is_complex() else x for x in made]
    return [[None if x is None else x.to(weight.device, _exact(x))] for x in made]


def _exact(tensor: torch.Tensor) -> torch.dtype:
    return torch.float32 if tensor.device.type == "mps" else torch.float64


@cache
def _pairs(there: str, stacked: bool) -> list[str]:
    pairs = [first + second for first in there for second in there]
    return pairs if stacked else [pair for pair in pairs if pair in PRODUCTS]


@cache
def _picker(there: str, stacked: bool) -> tuple[int, Any]:
    """How many products there are, and what picks a row from them and a 0 for the missing ones."""
    pairs = _pairs(there, stacked)
    return len(pairs), itemgetter(*[pairs.index(pair) if pair in pairs else -1 for pair in PRODUCTS])


def _short(value: float) -> float:
    return float(f"{value:.5g}")
