"""Update rules on lists of tensors, with their state kept by parameter name.

A rule is made from groups, as a torch optimizer is: `rules.AdamW([{"params": pairs, "lr": 1e-3}, …])` with `pairs` a
list of (name, parameter); or from one such list, `rules.AdamW(pairs, lr=1e-3)`. Its `param_groups` hold the options
in force, to be read and changed between updates, and can be a program's own `param_groups`. `step(grads)` makes an
update, `load(carried)` takes over state from another rule (`opal.kit.carry`), `state_dict()` and `load_state_dict()`
serve checkpoints.
"""

from opal.kit.rules.adamw import AdamW
from opal.kit.rules.base import Rule
from opal.kit.rules.muon import Muon
from opal.kit.rules.sgd import SGD

__all__ = ["SGD", "AdamW", "Muon", "Rule"]
