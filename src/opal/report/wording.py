"""Numbers, times and texts as a person reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

NOT_RECORDED = "not recorded"

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def clean(text: str) -> str:
    """`text` without control characters, which no HTML may hold; a carriage return ends a line."""
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def number(value: float | None) -> str:
    """Four digits, or all before the point of one below a billion; `NaN` and `infinity` by name."""
    if value is None:
        return NOT_RECORDED
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def count(value: int | None, what: str = "", plural: str = "") -> str:
    """A whole number with its noun: `1 update`, `1,200 updates`."""
    if value is None:
        return NOT_RECORDED
    noun = what if value == 1 else plural or (f"{what}s" if what else "")
    return f"{value:,} {noun}".rstrip()


def duration(seconds: float | None) -> str:
    """A time with the units that fit its length."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return NOT_RECORDED
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    whole = round(seconds / 60)
    hours, minutes = divmod(whole, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def dollars(amount: float | None) -> str:
    """A cost; one below a cent with two digits more."""
    if amount is None or not math.isfinite(amount):
        return NOT_RECORDED
    return f"${amount:.2f}" if amount >= 0.01 or amount == 0 else f"${amount:.4f}"


def shortened(text: str, most: int) -> str:
    """One line of at most `most` characters, ended at a word."""
    line = " ".join(clean(text[: 4 * most]).split())
    if len(line) <= most and len(text) <= 4 * most:
        return line
    head = line[: most - 1]
    word = head.rsplit(" ", 1)[0]
    return f"{word if len(word) > most // 2 else head}…"


def numbers_in_words(numbers: Sequence[int], most: int = 8) -> str:
    """`1, 2, 3 and 4 more`."""
    shown = ", ".join(str(value) for value in numbers[:most])
    return shown if len(numbers) <= most else f"{shown} and {len(numbers) - most} more"


def value_text(value: Any) -> str:
    """A recorded fact: a missing one says so, a list becomes its parts, a mapping its pairs."""
    if value is None or value == "" or value == [] or value == {}:
        return NOT_RECORDED
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_part(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_part(item) for item in value)
    return str(value)


def _part(value: Any) -> str:
    return "none" if value is None or value in ("", [], {}) else value_text(value)
