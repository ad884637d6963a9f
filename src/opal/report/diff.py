"""What differs between two versions of a program, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

CONTEXT = 3
MOST_LINES = 3_000


@dataclass(frozen=True, kw_only=True)
class FileDiff:
    """One file that differs. `lines` begin with `+`, `-`, a space, or `@@` before each place."""

    path: str
    lines: tuple[str, ...]
    added: int
    removed: int


def program_diff(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[FileDiff, ...]:
    """The files that differ between two programs, `updater.py` first, then by name."""
    paths = sorted({*old, *new}, key=lambda path: (path != "updater.py", path))
    return tuple(
        _file_diff(path, old.get(path, ""), new.get(path, "")) for path in paths if old.get(path) != new.get(path)
    )


def _file_diff(path: str, old: str, new: str) -> FileDiff:
    before, after = old.splitlines(), new.splitlines()
    lines = _whole_change(before, after) if _too_much(before, after) else _unified(before, after)
    return FileDiff(
        path=path,
        lines=tuple(lines),
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
    )


def _unified(before: list[str], after: list[str]) -> list[str]:
    """A unified diff without its two file lines. Equal beginnings and ends are set aside, which makes it fast."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    start = max(head - CONTEXT, 0)
    end = max(tail - CONTEXT, 0)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    lines: list[str] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        lines.append(_place(start + group[0][1], start + group[-1][2], start + group[0][3], start + group[-1][4]))
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[old_from:old_to]]
            else:
                lines += [f"-{line}" for line in old[old_from:old_to]]
                lines += [f"+{line}" for line in new[new_from:new_to]]
    return lines


def _whole_change(before: list[str], after: list[str]) -> list[str]:
    """Everything out, everything in: comparing so many lines would take too long."""
    lines = [_place(0, len(before), 0, len(after))]
    return lines + [f"-{line}" for line in before] + [f"+{line}" for line in after]


def _too_much(before: list[str], after: list[str]) -> bool:
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    return max(len(before), len(after)) - head - tail > MOST_LINES


def _place(old_from: int, old_to: int, new_from: int, new_to: int) -> str:
    return f"@@ lines {_span(old_from, old_to)} → {_span(new_from, new_to)} @@"


def _span(start: int, end: int) -> str:
    """Lines from 1, as an editor counts them."""
    if end <= start:
        return "none"
    return str(end) if end - start == 1 else f"{start + 1}-{end}"


def _common(before: list[str], after: list[str]) -> int:
    """How many lines at the beginning are equal."""
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            return place
    return min(len(before), len(after))
