"""AdamW from the kit."""

from opal.kit import rules


class Updater:
    follow_user_scheduler = False

    def __init__(self, named_params):
        self.rule = rules.AdamW(list(dict(named_params).items()), lr=1e-3)
        self.param_groups = self.rule.param_groups

    def step(self, grads, update):
        self.rule.step(grads)

    def state_dict(self):
        return self.rule.state_dict()

    def load_state_dict(self, state):
        self.rule.load_state_dict(state)


def build(named_params, previous=None, spec=None):
    return Updater(named_params)
