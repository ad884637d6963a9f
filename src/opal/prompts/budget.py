"""Sizes of texts for an agent, and how a text is cut to one. A token is counted as four UTF-8 bytes."""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def size(text: str) -> int:
    """UTF-8 bytes of a text."""
    return len(text.encode("utf-8", "replace"))


def tokens(text: str) -> int:
    """Tokens of a text, counted as UTF-8 bytes / 4, rounded up."""
    return -(-size(text) // BYTES_PER_TOKEN)


def head(text: str, limit: int) -> str:
    """The longest beginning of `text` with at most `limit` bytes; no character is split."""
    return text.encode("utf-8", "replace")[: max(limit, 0)].decode("utf-8", "ignore")


def tail(text: str, limit: int) -> str:
    """The longest end of `text` with at most `limit` bytes; no character is split."""
    raw = text.encode("utf-8", "replace")
    return raw[max(len(raw) - max(limit, 0), 0) :].decode("utf-8", "ignore")


def cut(text: str, limit: int, mark: str = " …") -> str:
    """`text`, or its beginning and `mark` where it is longer than `limit` bytes."""
    if size(text) <= limit:
        return text
    return head(head(text, limit - size(mark)).rstrip() + mark, limit)


def cut_middle(text: str, limit: int, mark: str = "\n  …\n") -> str:
    """`text`, or beginning, `mark` and end where it is longer than `limit` bytes; the end gets two thirds.

    Whole lines are kept where the text has short ones.
    """
    if size(text) <= limit:
        return text
    room = limit - size(mark)
    if room < 20:
        return head(text, limit)
    first, _, broken = head(text, room // 3).rpartition("\n")
    if not first:
        first = broken
    last = tail(text, room - size(first))
    _, newline, whole = last.partition("\n")
    return first + mark + (whole if newline and size(last) - size(whole) < 200 else last)


def fit_lines(lines: list[str], limit: int, more: str = "… {count} more") -> list[str]:
    """The first lines, as many as fit into `limit` bytes; `more` says how many are left out."""
    if size("\n".join(lines)) + 1 <= limit:
        return lines
    kept: list[str] = []
    room = limit - size(more.format(count=len(lines))) - 1
    for line in lines:
        room -= size(line) + 1
        if room < 0:
            break
        kept.append(line)
    note = more.format(count=len(lines) - len(kept))
    return [*kept, note] if size(note) < limit else kept
