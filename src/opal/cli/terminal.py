"""What fits a terminal: widths, colours where they are wanted, texts of others without control characters."""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata

from rich.cells import cell_len, set_cell_size

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)")
_WIDTH_WITHOUT_TERMINAL = 120


def output_width() -> int:
    """Columns of the terminal; 120 where the output is none."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL


def wants_colour() -> bool:
    """Colours on terminals only, and never against `NO_COLOR`."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str) -> str:
    """The text in a colour, where colours are wanted."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colour and wants_colour() else text


def one_line(text: str) -> str:
    """A text of somebody else's on one line: no line breaks, no control characters that a terminal would obey."""
    spaced = " ".join(_ESCAPES.sub("", text).split())
    return "".join(char for char in spaced if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn"))


def fit(text: str, width: int) -> str:
    """The text cut to a number of columns, with an ellipsis where something is missing."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…" if width > 0 else ""


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text filled up to a number of columns."""
    space = " " * max(width - cell_len(text), 0)
    return space + text if right else text + space


def duration(seconds: float | None) -> str:
    """A time as a person says it."""
    if seconds is None or not seconds >= 0:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def dollars(amount: float | None) -> str:
    """A cost; `-` where it is not known."""
    return "-" if amount is None else f"${amount:.2f}"
