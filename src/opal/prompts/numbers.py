"""Numbers as an agent reads them: short, and never more digits than mean something."""

from __future__ import annotations

import math
from typing import Any


def short(value: Any) -> str:
    """Four significant digits for a float, all digits for a whole number, `nan` and `inf` by name."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return str(value)
        if value == int(value) and abs(value) < 1e6:
            return str(int(value))
        text = f"{value:.4g}"
        return text.replace("e-0", "e-").replace("e+0", "e")
    return str(value)


def exact(value: Any) -> str:
    """A setting with all its digits, as one would write it in a program."""
    if isinstance(value, float):
        text = repr(value)
        return text[:-2] if text.endswith(".0") and abs(value) < 1e6 else text
    if isinstance(value, tuple):
        return "(" + ", ".join(exact(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(exact(item) for item in value) + "]"
    return str(value)


def is_number(value: Any) -> bool:
    """Whether a report's value is a number to tabulate."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def counted(count: int, noun: str) -> str:
    """`1 tensor`, `2 tensors`, `1,234 tensors`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
