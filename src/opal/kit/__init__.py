"""What programs may import: building blocks for update rules that need torch and nothing else.

An updater in full, which takes its state from whatever ran before it:

```python
from opal.kit import carry, group_by_kind, rules, schedules

class Updater:
    def __init__(self, matrices, others, total):
        self.muon = rules.Muon([{"params": matrices, "lr": 0.02, "peak": 0.02}])
        self.adamw = rules.AdamW([{"params": others, "lr": 1e-3, "peak": 1e-3, "weight_decay": 0.01}])
        self.param_groups = self.muon.param_groups + self.adamw.param_groups
        self.total = total

    def step(self, grads, update):
        factor = schedules.combined(update, self.total, warmup=20, shape=schedules.cosine)
        for group in self.param_groups:
            group["lr"] = group["peak"] * factor
        self.muon.step(grads)
        self.adamw.step(grads)

    def state_dict(self):
        return {"muon": self.muon.state_dict(), "adamw": self.adamw.state_dict()}

    def load_state_dict(self, state):
        self.muon.load_state_dict(state["muon"])
        self.adamw.load_state_dict(state["adamw"])

def build(named_params, previous=None, spec=None):
    matrices = group_by_kind(named_params)["hidden"]
    hidden = {name for name, _ in matrices}
    others = [(name, param) for name, param in named_params if name not in hidden]
    updater = Updater(matrices, others, spec["total_updates"])
    carried = carry.from_updater(previous, named_params)
    updater.muon.load(carried)
    updater.adamw.load(carried)
    return updater
```
"""

from opal.kit import carry, rules, schedules
from opal.kit.roles import group_by_kind, group_by_role, role

__all__ = ["carry", "group_by_kind", "group_by_role", "role", "rules", "schedules"]
