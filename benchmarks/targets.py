"""Reads `targets.toml` and judges a measured ratio by it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TARGETS = Path(__file__).parent / "targets.toml"


@dataclass(frozen=True)
class Verdict:
    """A limit in words, and whether what was measured keeps it; `None` where nothing is judged."""

    limit: str
    passed: bool | None


def load_targets() -> dict[str, Any]:
    """The table as it stands."""
    return tomllib.loads(TARGETS.read_text(encoding="utf-8"))


def judge_ratio(target: dict[str, Any], model: str, ratio: float, added_us: float) -> Verdict:
    """A ratio passes below its limit, or where what is added in all is below the row's microseconds."""
    limit, or_added = target["limit"][model], target.get("or_added_us")
    words = f"{limit:g}" + (f" or +{or_added} us" if or_added else "")
    return Verdict(words, ratio <= limit or (or_added is not None and added_us <= or_added))


def judge_check(target: dict[str, Any], model: str, plain_us: float, added_us: float) -> Verdict:
    """A check may cost some plain steps, or the row's microseconds if that is more."""
    limit = max(target["limit"][model] * plain_us, target["or_added_us"])
    return Verdict(f"{limit:.0f} us", added_us <= limit)


def judge_amount(target: dict[str, Any], amount: float) -> Verdict:
    """An amount in the row's unit."""
    return Verdict(f"{target['limit']['all']:g} {target['unit']}", amount <= target["limit"]["all"])
