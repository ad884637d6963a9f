"""The analysis of a program: what the agent wants measured. It runs at checks and never changes the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch

from opal.errors import ProgramContractError
from opal.programs.load import ProgramModules
from opal.types import Report

_MAX_REPORT_BYTES = 64 << 10
_MAX_DEPTH = 8
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder()


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What `analyze` is given. Tensors are the run's own, to be read only.

    `losses` has one value per update since the last call (`nan` where none was given). `grads` are the gradients of the
    update that comes next, unclipped. `last_step` maps names to what the previous update changed, for an analysis that
    sets `NEEDS_LAST_STEP = True`, else None; these tensors are used again for the next call.
    """

    update: int
    total_updates: int
    losses: list[float]
    params: Mapping[str, torch.Tensor]
    grads: Mapping[str, torch.Tensor | None]
    last_step: Mapping[str, torch.Tensor] | None
    updater: Any
    metrics: list[dict[str, Any]] = field(default_factory=list)
    program_ms_per_update: float = math.nan
    wall_ms_per_update: float = math.nan
    activations: Mapping[str, Any] = field(default_factory=dict)
    updates_per_epoch: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Analysis:
    """A loaded `analysis.py`."""

    version: str
    modules: ProgramModules
    analyze: Any
    every: int
    needs_last_step: bool


@dataclass(frozen=True, kw_only=True)
class Analyzed:
    """What one call of `analyze` gave: a report, a wish to be asked, and whether the report was cut."""

    report: Report | None
    wake: str | None
    cut: bool


def load_analysis(modules: ProgramModules, every: int) -> Analysis:
    """Import `analysis.py` and check its contract; `every` is the default of `EVERY`.

    Raises:
        ProgramContractError: there is no `analyze`, or `EVERY` or `NEEDS_LAST_STEP` are of the wrong kind.
        BaseException: whatever the program itself raises.
    """
    module = modules.load("analysis")
    analyze = getattr(module, "analyze", None)
    if not callable(analyze):
        raise ProgramContractError("has no function analyze(obs, memory)", where="analysis.py")
    interval = getattr(module, "EVERY", every)
    if isinstance(interval, bool) or not isinstance(interval, int) or interval < 1:
        raise ProgramContractError(f"EVERY is {interval!r}; it is a whole number of at least 1", where="analysis.py")
    needs = getattr(module, "NEEDS_LAST_STEP", False)
    if not isinstance(needs, bool):
        raise ProgramContractError(f"NEEDS_LAST_STEP is {needs!r}; it is True or False", where="analysis.py")
    return Analysis(version=modules.version, modules=modules, analyze=analyze, every=interval, needs_last_step=needs)


def call_analysis(analysis: Analysis, observation: Observation, memory: dict[str, Any]) -> Analyzed:
    """Call `analyze` once. Its exceptions come through; what it returns is made plain and cut to size.

    Raises:
        ProgramContractError: it returned something else than None or a dict with `report` and `wake`.
        BaseException: whatever the program itself raises.
    """
    with torch.no_grad():
        result = analysis.analyze(observation, memory)
    if result is None:
        return Analyzed(report=None, wake=None, cut=False)
    if not isinstance(result, Mapping) or not set(result) <= {"report", "wake"}:
        raise ProgramContractError(
            'analyze() returned something else than None or {"report": {…}, "wake": "why"}', where="analysis.py"
        )
    report, wake = result.get("report"), result.get("wake")
    if report is not None and not isinstance(report, Mapping):
        raise ProgramContractError(f"the report is a {type(report).__name__}; it is a dict", where="analysis.py")
    if report is None:
        return Analyzed(report=None, wake=str(wake)[:500] if wake else None, cut=False)
    plain, cut = plain_report(report)
    return Analyzed(
        report=Report(update=observation.update, values=plain), wake=str(wake)[:500] if wake else None, cut=cut
    )


def plain_report(report: Mapping[Any, Any]) -> tuple[dict[str, Any], bool]:
    """A copy of a report with plain values only, at most 64 KiB as JSON; and whether something was left out."""
    try:
        data = _ENCODER.encode(report)
    except (TypeError, ValueError, OverflowError, RecursionError):  # something that JSON does not have
        data = b"null"
    if len(data) <= _MAX_REPORT_BYTES and b"null" not in data:  # a null may be a NaN
        copied: dict[str, Any] = _DECODER.decode(data)
        return copied, False
    return _plain_items(report)


def _plain_items(report: Mapping[Any, Any]) -> tuple[dict[str, Any], bool]:
    """The same for any report, value by value."""
    room = [_MAX_REPORT_BYTES]
    values: dict[str, Any] = {}
    for key, value in report.items():
        before = room[0]
        plain = _plain(value, room, 0)
        room[0] -= len(str(key)) + 6
        if room[0] < 0:
            room[0] = before
            return values, True
        values[str(key)] = plain
    return values, False


def _plain(value: Any, room: list[int], depth: int) -> Any:
    """Numbers, texts, lists and dicts; a tensor with one element is its number; other things their text."""
    if room[0] < 0:
        return None
    if value is None or isinstance(value, bool | int):
        room[0] -= 8 if value is None or isinstance(value, bool) else len(str(value)) if abs(value) > 1e9 else 10
        return value
    if isinstance(value, float):
        room[0] -= 22
        return float(value)
    if isinstance(value, str):
        room[0] -= len(value) + 4
        return str(value)
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        plain = {}
        for key, item in value.items():
            room[0] -= len(str(key)) + 6
            plain[str(key)] = _plain(item, room, depth + 1)
            if room[0] < 0:
                break
        return plain
    if isinstance(value, list | tuple | set | frozenset) and depth < _MAX_DEPTH:
        items = []
        for item in value:
            items.append(_plain(item, room, depth + 1))
            if room[0] < 0:
                break
        return items
    if hasattr(value, "tolist") and getattr(value, "size", None) is not None:
        small = value.numel() <= 4096 if isinstance(value, torch.Tensor) else value.size <= 4096
        return _plain(value.tolist() if small else f"<{type(value).__name__} with too many entries>", room, depth + 1)
    return _plain(f"<{type(value).__name__}>", room, depth + 1)
