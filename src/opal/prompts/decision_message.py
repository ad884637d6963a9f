"""The message that asks for a decision, and the closing one after the last."""

from __future__ import annotations

from collections.abc import Iterable

from opal.prompts import message_parts
from opal.prompts.budget import BYTES_PER_TOKEN, cut, cut_middle, size
from opal.prompts.message_parts import Part
from opal.prompts.templates import render
from opal.types import DecisionRequest, Reason

MAX_TOKENS = 2_500
_MAX_BYTES = MAX_TOKENS * BYTES_PER_TOKEN

_PARTS: dict[str, Part] = {
    "previous": message_parts.previous,
    "losses": message_parts.losses,
    "development": message_parts.development,
    "reports": message_parts.reports,
    "metrics": message_parts.metrics,
    "skipped": message_parts.skipped,
    "failures": message_parts.failures,
    "warnings": message_parts.warnings,
    "rates": message_parts.rates,
    "timing": message_parts.timing,
    "notes": message_parts.notes,
}
# Bytes that each part may have where there is room, and what it keeps where there is none. Head, headings and end need
# less than 3,000 bytes, so that the sum of the second column always fits.
_BUDGETS: dict[str, tuple[int, int]] = {
    "previous": (1_600, 700),
    "losses": (1_600, 600),
    "development": (900, 400),
    "reports": (4_400, 1_100),
    "metrics": (900, 400),
    "skipped": (300, 150),
    "failures": (3_000, 1_500),
    "warnings": (500, 300),
    "rates": (600, 150),
    "timing": (900, 500),
    "notes": (2_500, 1_200),
}
# What is cut first. A person's words and errors are cut last.
_CUT_ORDER = (
    "reports", "losses", "metrics", "rates", "development", "timing", "skipped", "previous", "failures", "warnings",
    "notes",
)  # fmt: skip
_REASON_BYTES = 250
_MAX_REASONS = 3
_REASONS = {
    "scheduled": "scheduled",
    "wake": "your analysis woke you",
    "nonfinite": "a loss is not finite",
    "failed_program": "a program failed",
    "skips": "many updates in a row were skipped",
    "person": "a person asked",
}


def render_decision_message(request: DecisionRequest, *, workspace_files: Iterable[str] = ()) -> str:
    """The message of one decision, in Markdown: at most 2,500 tokens (UTF-8 bytes / 4) for any request.

    `workspace_files` are paths below the workspace that the first message names. What is cut is whole in the inbox.
    """
    return _render(request, "decision.md.jinja", files=_files(request, workspace_files))


def render_closing_message(request: DecisionRequest) -> str:
    """What became of the last answers, for the inbox and the records; nothing is asked."""
    return _render(request, "closing.md.jinja", files="")


def _render(request: DecisionRequest, template: str, *, files: str) -> str:
    budgets = {name: full for name, (full, _) in _BUDGETS.items()}
    parts = {name: part(request, budgets[name]) for name, part in _PARTS.items()}
    text = _fill(request, template, files, parts)
    for name in _CUT_ORDER:
        excess = size(text) - _MAX_BYTES
        if excess <= 0:
            return text
        budgets[name] = max(_BUDGETS[name][1], size(parts[name]) - excess)
        parts[name] = _PARTS[name](request, budgets[name])
        text = _fill(request, template, files, parts)
    return cut_middle(text, _MAX_BYTES)


def _fill(request: DecisionRequest, template: str, files: str, parts: dict[str, str]) -> str:
    text = render(
        template,
        r=request,
        share=f"{request.update / request.total_updates:.1%}",
        inbox=f"inbox/decision_{request.number:03d}.json",
        reasons=_reasons(request.reasons),
        files=files,
        **parts,
    )
    return text + "\n"


def _reasons(reasons: tuple[Reason, ...]) -> str:
    texts = []
    for reason in reasons[:_MAX_REASONS]:
        detail = cut(reason.detail.strip(), _REASON_BYTES)
        texts.append(_REASONS[reason.kind] + (f": {detail}" if detail else ""))
    if len(reasons) > _MAX_REASONS:
        texts.append(f"{len(reasons) - _MAX_REASONS} more")
    return "; ".join(texts)


def _files(request: DecisionRequest, workspace_files: Iterable[str]) -> str:
    """The workspace's files, those of a folder together, and folders inside folders by name only."""
    if not request.first:
        return ""
    folders: dict[str, dict[str, None]] = {}
    for path in sorted(workspace_files):
        folder, slash, name = path.partition("/")
        below, deeper, _ = name.partition("/")
        folders.setdefault(folder if slash else "", {})[below + deeper if slash else path] = None
    texts = [(f"{folder}/ with " if folder else "") + ", ".join(names) for folder, names in sorted(folders.items())]
    return cut("; ".join(texts), 500)
