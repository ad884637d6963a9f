"""Turns what `measure.py` printed into rows, judged by the targets."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from targets import Verdict, judge_check, judge_ratio

# What targets.toml judges; the other variants show how large the noise is, or where the time goes.
JUDGED = {
    ("keep", "keep"): "ordinary_keep",
    ("keep", "keep_without_loss"): "ordinary_keep",
    ("program", "adamw_torch"): "ordinary_program",
    ("program", "adamw_kit"): "ordinary_program",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the result. Times are in `unit`; `passed` is `None` where no target judges."""

    source: str
    what: str
    model: str = ""
    plain: float | None = None
    p10: float | None = None
    p50: float | None = None
    ratio: float | None = None
    added: float | None = None
    unit: str = "us"
    limit: str = ""
    passed: bool | None = None


HEADINGS = (
    f"{'opal':10} {'model':7} {'what':44} {'plain':>9} {'p10':>9} {'p50':>9} {'ratio':>7} {'added':>9}       limit"
)


def shown(row: Row) -> str:
    """A row of the table on the terminal."""

    def number(value: float | None, form: str) -> str:
        return format("" if value is None else format(value, form), ">9")

    verdict = "" if row.passed is None else "pass" if row.passed else "MISSED"
    numbers = " ".join(number(value, ".2f") for value in (row.plain, row.p10, row.p50))
    ratio, added = number(row.ratio, ".3f")[2:], number(row.added, "+.2f")
    judged = f"{added} {row.unit:4} {row.limit:17} {verdict}"
    return f"{row.source:10} {row.model:7} {row.what:44} {numbers} {ratio} {judged}".rstrip()


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie, without interpolation."""
    return sorted(values)[int(share * (len(values) - 1))]


def of_kind(blocks: list[dict[str, list[float]]], kind: str) -> list[float]:
    """The times of all updates of a kind."""
    return [time for block in blocks for time in block[kind]]


def rows_of(source: str, result: dict[str, Any], targets: dict[str, Any]) -> list[Row]:
    """Ordinary updates of every variant against plain; checks of the kept program."""
    rows = [_ordinary(source, result, name, targets) for name in result["blocks_us"] if name != "plain"]
    kept = [name for name in result["blocks_us"] if name.startswith("keep")]
    return rows + [_check(source, result, name, targets) for name in kept]


def _ordinary(source: str, result: dict[str, Any], name: str, targets: dict[str, Any]) -> Row:
    """Ratio and difference are taken within each round of blocks, then the median over rounds: a machine that is
    slower for a while is so for both sides of a round."""
    plain, own = result["blocks_us"]["plain"], result["blocks_us"][name]
    pairs = [
        (percentile(before["ordinary"], 0.1), percentile(now["ordinary"], 0.1))
        for before, now in zip(plain, own, strict=True)
    ]
    ratio = median(now / before for before, now in pairs)
    added = median(now - before for before, now in pairs)
    judged = JUDGED.get((result["what"], name))
    verdict = judge_ratio(targets[judged], result["model"], ratio, added) if judged else Verdict("", None)
    return Row(
        source=source,
        what=f"{result['what']}: ordinary update, {name}",
        model=result["model"],
        plain=percentile(of_kind(plain, "ordinary"), 0.1),
        p10=percentile(of_kind(own, "ordinary"), 0.1),
        p50=percentile(of_kind(own, "ordinary"), 0.5),
        ratio=ratio,
        added=added,
        limit=verdict.limit,
        passed=verdict.passed,
    )


def _check(source: str, result: dict[str, Any], name: str, targets: dict[str, Any]) -> Row:
    """What a check adds to the update in it and, where it prepares something there, to the update before."""
    own = result["blocks_us"][name]
    ordinary, check, before = (percentile(of_kind(own, kind), 0.1) for kind in ("ordinary", "check", "before_check"))
    prepared = max(0.0, before - ordinary)
    added = check - ordinary + prepared
    plain = percentile(of_kind(result["blocks_us"]["plain"], "ordinary"), 0.1)
    verdict = judge_check(targets["check"], result["model"], plain, added)
    return Row(
        source=source,
        what=f"keep: check, {name} (+{prepared:.0f} before)",
        model=result["model"],
        plain=plain,
        p10=check,
        p50=percentile(of_kind(own, "check"), 0.5),
        added=added,
        limit=verdict.limit,
        passed=verdict.passed,
    )
