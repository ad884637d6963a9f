"""What the playbook knows at a decision: the inbox file, and the names of the script's optimizers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One report, as far as the rules use it: by role the cosine of gradient and last step, and update to weight."""

    update: int
    gradient_norm: float | None
    cosines: Mapping[str, float]
    update_to_weight: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The facts of one decision."""

    update: int
    total_updates: int
    optimizers: tuple[str, ...]
    unusual: tuple[str, ...]
    """Options of the script's optimizers that the playbook's program does not have."""
    reports: tuple[Measured, ...]
    losses: tuple[float, ...]
    failed: tuple[str, ...]
    """Sentences about earlier answers of the playbook that were refused, failed or reverted."""


def read_situation(workspace: Path, decision: int) -> Situation:
    """Read the inbox of one decision.

    Raises:
        OSError, ValueError, KeyError: the files are not what every agent gets.
    """
    inbox = json.loads((workspace / "inbox" / f"decision_{decision:03d}.json").read_text(encoding="utf-8"))
    previous = inbox.get("previous", ())
    starting = (workspace / "reference" / "starting_optimizer.txt").read_text(encoding="utf-8")
    return Situation(
        update=inbox["update"],
        total_updates=inbox["total_updates"],
        optimizers=_optimizers(starting),
        unusual=tuple(dict.fromkeys(re.findall(r"^  (amsgrad|maximize) = True$", starting, re.MULTILINE))),
        reports=tuple(_measured(report) for report in inbox.get("reports", ())),
        losses=tuple(_numbers(pair[1] for pair in inbox.get("losses", {}).get("all", ()))),
        failed=tuple(item["sentence"] for item in previous if item["kind"] in ("refused", "failed", "reverted")),
    )


def _optimizers(starting: str) -> tuple[str, ...]:
    """Class names from lines such as `group 0: AdamW, 37 tensors`."""
    found = re.findall(r"^group \d+: (\w+)", starting, re.MULTILINE)
    return tuple(dict.fromkeys(found))


def _measured(report: Mapping[str, Any]) -> Measured:
    values = report["values"]
    roles = values.get("roles", {})
    norm = values.get("all", {}).get("gradient_norm")
    return Measured(
        update=report["update"],
        gradient_norm=norm if _is_number(norm) else None,
        cosines=_column(roles, "cosine_last_step"),
        update_to_weight=_column(roles, "update_to_weight"),
    )


def _column(roles: Mapping[str, Any], name: str) -> dict[str, float]:
    return {role: row[name] for role, row in roles.items() if isinstance(row, Mapping) and _is_number(row.get(name))}


def _numbers(values: Any) -> list[float]:
    """Numbers as they are; the texts "NaN" and "Infinity" of strict JSON as what they mean."""
    return [float(value) for value in values if value is not None]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
