"""How long agents were seen to take and what they cost: the one table, with its source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Span:
    """A quantity as it was seen: the lowest, the median, the highest."""

    low: float
    typical: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a decision takes. The first one, which reads everything, stands apart from later ones.

    The spans of later decisions are of averages over a run, not of single decisions.
    """

    model: str
    effort: str
    decisions: int
    source: str
    first_seconds: Span
    later_seconds: Span
    first_usd: Span
    later_usd: Span


TABLE: tuple[Figures, ...] = (
    Figures(
        model="claude-opus-5-5",
        effort="high",
        decisions=567,
        source="runs of the original project",
        first_seconds=Span(low=100, typical=250, high=430),
        later_seconds=Span(low=10, typical=27, high=50),
        first_usd=Span(low=0.30, typical=1.08, high=1.60),
        later_usd=Span(low=0.05, typical=0.23, high=0.38),
    ),
)

DEFAULT = TABLE[0]


def figures_for(model: str | None, effort: str | None) -> tuple[Figures, bool]:
    """The figures of a model and effort (`None`: the default's), and whether they are of these.

    Where the table has none, the default's stand in, and the second value is false.
    """
    wanted = (model or DEFAULT.model, effort or DEFAULT.effort)
    for figures in TABLE:
        if (figures.model, figures.effort) == wanted:
            return figures, True
    return DEFAULT, False
