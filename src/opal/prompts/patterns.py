"""Short programs that the system prompt shows: a schedule, a feedback rule, a wake-up. Tests run each of them."""

from __future__ import annotations

from opal.prompts.known_rules import known_groups
from opal.prompts.known_schedules import base_rates
from opal.types import RunFacts

FEEDBACK = """\
def step(self, grads, update):  # __init__ has made self.rule, and self.usual = None
    present = [grad for grad in grads.values() if grad is not None]
    norm = torch.stack(torch._foreach_norm(present)).norm()
    self.usual = norm.clone() if self.usual is None else self.usual.lerp(norm, 0.05)
    torch._foreach_mul_(present, (2 * self.usual / norm).clamp(max=1.0))  # a spike shrinks to twice the usual norm
    self.rule.step(grads)"""

WAKE = """\
def analyze(obs, memory):
    losses = [loss for loss in obs.losses if loss == loss]  # nan: none was given
    if not losses:
        return None
    mean = sum(losses) / len(losses)
    best = memory.get("best", mean)
    rose = mean > best + 0.3
    memory["best"] = mean if rose else min(best, mean)  # begins anew after a wake-up: one, not one at each check
    return {"report": {"loss": mean}, "wake": f"mean loss {mean:.3f}, it was {best:.3f}" if rose else None}"""


_SCHEDULE = """\
from opal.kit import carry, rules, schedules
PEAK = {peak}

class Updater:
    def __init__(self, named_params, total):
        self.rule = rules.{rule}(named_params, lr=PEAK{options})
        self.param_groups = self.rule.param_groups
        self.total = total

    def step(self, grads, update):
        for group in self.param_groups:
            group["lr"] = PEAK * schedules.cosine(update, self.total)
        self.rule.step(grads)

    def state_dict(self):
        return self.rule.state_dict()

    def load_state_dict(self, state):
        self.rule.load_state_dict(state)

def build(named_params, previous=None, spec=None):
    updater = Updater(named_params, spec["total_updates"])
    updater.rule.load(carry.from_updater(previous, named_params))  # by name, copied
    return updater"""


def schedule(facts: RunFacts) -> str:
    """A whole program with a schedule of its own and state taken over, for the first optimizer that the run has."""
    bases = base_rates(facts)
    peak = float(bases[0]) if bases and isinstance(bases[0], int | float) else 1e-3
    known = known_groups(facts, bases)
    if not known or known[0].rule == "Muon":  # which takes matrices only
        return _SCHEDULE.format(peak=repr(peak), rule="AdamW", options="")
    options = "".join(f", {name}={value}" for name, value in known[0].options.items())
    return _SCHEDULE.format(peak=repr(peak), rule=known[0].rule, options=options)
