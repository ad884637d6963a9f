"""Texts of a run cut so that the page stays small, whatever an agent wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

LARGEST_TEXT = 24_000
ALL_TEXTS = 2_800_000

_MARKUP_OF_A_LINE = 12


@dataclass(frozen=True, kw_only=True)
class CutText:
    """The beginning of a text. `whole` is its length in characters where something is left out, else 0."""

    text: str
    whole: int = 0


def cut_texts(texts: Sequence[str], *, largest: int = LARGEST_TEXT, together: int = ALL_TEXTS) -> list[CutText]:
    """Cut each text to the same length, the greatest with which all of them fit.

    Lengths are bytes of escaped UTF-8 with some markup a line, as the page holds them: at most `largest` for one text,
    `together` for all.
    """
    sizes = [_size(text) for text in texts]
    limit = _water_level(sizes, largest, together)
    return [CutText(text=text) if size <= limit else _cut(text, limit) for text, size in zip(texts, sizes, strict=True)]


def _size(text: str) -> int:
    return len(escape(text).encode("utf-8", "replace")) + _MARKUP_OF_A_LINE * text.count("\n")


def _water_level(sizes: Sequence[int], largest: int, together: int) -> int:
    """The greatest limit, up to `largest`, with which the sizes sum up to `together` at most."""
    left, remaining = together, len(sizes)
    for size in sorted(sizes):
        if size * remaining >= left:
            return min(largest, left // remaining)
        left -= size
        remaining -= 1
    return largest


def _cut(text: str, limit: int) -> CutText:
    """As much of a text as fits, found by halving: characters differ in bytes."""
    low, high = 0, min(len(text), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return CutText(text=text[:low], whole=len(text))
