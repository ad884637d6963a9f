"""The playbook's rules. Each looks at what was measured, changes settings or does not, and says why.

The numbers are common practice or round ones; none was fitted to a task.

1. Hidden matrices go to Muon at the rate of its authors (Jordan et al. 2024: 0.02), everything else stays with the
   script's rule and rates. The shape of the script's schedule is kept.
2. The sign of the cosine between a gradient and the last step: negative, the loss still falls that way, so the rate of
   this role doubles; positive, it rises again, so it falls by 0.7. Only where it is clear from noise, only in the first
   60 % of the run (later the schedule makes steps short on purpose), within a quarter and eight times.
3. A role whose update is more than a tenth of its weights in every report halves its rate.
4. A spike in the loss: the gradient's global norm is clipped at twice its median.
5. Rates go to zero over the last fifth of the run at the latest, as most schedules do anyway.
6. After a failure of its own program the playbook changes nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, median, stdev
from typing import Any

from opal.backends.playbook.situation import Situation

MUON_RATE = 0.02
COOLDOWN = 0.2
SUPPORTED = ("AdamW", "Adam", "SGD")

_RAISE, _LOWER = 2.0, 0.7
_FACTOR_BOUNDS = (0.25, 8.0)
_SIGN_UNTIL = 0.6
_CLEAR_ALONE, _CLEAR_MEAN = 0.3, 0.05
_LARGE_RATIO = 0.1
_SPIKE = 8.0
_MAX_REPORTS = 10


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The constants of the playbook's program. `factors`: by role, on the rate of its rule."""

    muon_rate: float = MUON_RATE
    cooldown: float = COOLDOWN
    factors: Mapping[str, float] = field(default_factory=dict)
    max_norm: float | None = None


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What was decided: settings (None: the starting program), since when, why, and whether that was the end."""

    settings: Settings | None
    since: int
    ended: bool
    rationale: str

    @staticmethod
    def nothing() -> Decision:
        """Before the first decision."""
        return Decision(settings=None, since=0, ended=False, rationale="")

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> Decision:
        """Back from plain values."""
        settings = state["settings"]
        return Decision(
            settings=None if settings is None else Settings(**settings),
            since=state["since"],
            ended=state["ended"],
            rationale=state["rationale"],
        )


def decide(situation: Situation, before: Decision) -> Decision:
    """Apply the rules to a situation."""
    if before.ended or situation.failed:
        seen = situation.failed[-1] if situation.failed else "an earlier program of mine failed"
        return _say(before, [seen], [], ended=True, rule="6 (nothing more after a failure)")
    unsupported = [name for name in situation.optimizers if name not in SUPPORTED] + list(situation.unusual)
    if unsupported:
        seen = f"the script uses {', '.join(unsupported)}, and I know {', '.join(SUPPORTED)}"
        return _say(before, [seen], [], ended=True, rule="none applies")
    observed: list[str] = []
    changed: list[str] = []
    settings = before.settings
    if settings is None:
        # What was measured under the script's rule says nothing about Muon's rates: the other rules wait.
        settings = Settings()
        observed.append(f"the script's {' and '.join(situation.optimizers)} updates every parameter alike")
        changed.append(f"hidden matrices to Muon at {MUON_RATE:g}, in the shape of the script's schedule")
    else:
        settings = _by_sign(situation, before, settings, observed, changed)
        settings = _by_ratio(situation, before, settings, observed, changed)
        settings = _by_spikes(situation, settings, observed, changed)
    since = situation.update if changed else before.since
    return _say(replace(before, settings=settings, since=since), observed, changed, ended=False, rule="1 to 5")


def _by_sign(
    situation: Situation, before: Decision, settings: Settings, observed: list[str], changed: list[str]
) -> Settings:
    if situation.update > _SIGN_UNTIL * situation.total_updates:
        return settings
    factors = dict(settings.factors)
    for role, cosines in _by_role(situation, before, "cosines").items():
        mean = fmean(cosines)
        if not _is_clear(cosines):
            continue
        old = factors.get(role, 1.0)
        new = _bounded(old * (_RAISE if mean < 0 else _LOWER))
        if new != old:
            factors[role] = new
            meaning = "steps too short" if mean < 0 else "steps too long"
            observed.append(f"{role}: gradient against last step {mean:+.2f} in {len(cosines)} reports, {meaning}")
            changed.append(f"{role}: rate factor {old:g} → {new:g}")
    return replace(settings, factors=factors)


def _by_ratio(
    situation: Situation, before: Decision, settings: Settings, observed: list[str], changed: list[str]
) -> Settings:
    factors = dict(settings.factors)
    for role, ratios in _by_role(situation, before, "update_to_weight").items():
        # A bias begins at zero: its ratio is large whatever the rate is.
        if role.endswith("bias") or len(ratios) < 2 or min(ratios) <= _LARGE_RATIO:
            continue
        old = factors.get(role, 1.0)
        new = _bounded(old * 0.5)
        if new != old:
            factors[role] = new
            observed.append(f"{role}: an update is {fmean(ratios):.2g} of the weights")
            changed.append(f"{role}: rate factor {old:g} → {new:g}")
    return replace(settings, factors=factors)


def _by_spikes(situation: Situation, settings: Settings, observed: list[str], changed: list[str]) -> Settings:
    finite = [loss for loss in situation.losses if math.isfinite(loss)]
    norms = [report.gradient_norm for report in situation.reports[-_MAX_REPORTS:] if report.gradient_norm is not None]
    if settings.max_norm is not None or len(finite) < 10 or not norms:
        return settings
    centre = median(finite)
    spread = 1.4826 * median(abs(loss - centre) for loss in finite)
    spikes = [loss for loss in finite if loss > centre + _SPIKE * spread and loss > 1.3 * abs(centre)]
    lost = len(situation.losses) - len(finite)
    if not spikes and not lost:
        return settings
    max_norm = float(f"{2 * median(norms):.3g}")
    what = f"{lost} losses not finite" if lost else f"a spike to {max(spikes):.3g} above {centre:.3g}"
    observed.append(f"{what}; median gradient norm {median(norms):.3g}")
    changed.append(f"the gradient's global norm is clipped at {max_norm:g}")
    return replace(settings, max_norm=max_norm)


def _by_role(situation: Situation, before: Decision, field_name: str) -> dict[str, list[float]]:
    """The values of each role in the reports since the last change, the newest ten."""
    recent = [report for report in situation.reports if report.update > before.since + 1][-_MAX_REPORTS:]
    values: dict[str, list[float]] = {}
    for report in recent:
        for role, value in getattr(report, field_name).items():
            values.setdefault(role, []).append(value)
    return values


def _is_clear(cosines: Sequence[float]) -> bool:
    """Whether the sign stands out of the noise: alone when large, together by two standard errors."""
    mean = abs(fmean(cosines))
    if len(cosines) < 3:
        return mean > _CLEAR_ALONE and all(value * cosines[0] > 0 for value in cosines)
    return mean > max(_CLEAR_MEAN, 2 * stdev(cosines) / math.sqrt(len(cosines)))


def _bounded(factor: float) -> float:
    return float(f"{min(max(factor, _FACTOR_BOUNDS[0]), _FACTOR_BOUNDS[1]):.3g}")


def _say(decision: Decision, observed: list[str], changed: list[str], *, ended: bool, rule: str) -> Decision:
    """The rationale in the parts that every agent is asked for."""
    prediction = "the loss falls below its present trend" if changed else "no change of the trend"
    introduction = [] if decision.rationale else ["I am OPAL's playbook: a set of fixed rules, no model."]
    text = "\n".join(
        [
            *introduction,
            f"Observed: {'; '.join(observed) or 'nothing that a rule acts on'}.",
            f"Changed: {'; '.join(changed)}." if changed else "Kept: the program stays as it is.",
            f"Prediction: {prediction}.",
            f"Rules: {rule}.",
        ]
    )
    return replace(decision, ended=ended, rationale=text)
