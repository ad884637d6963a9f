"""torch's AdamW(foreach=True) inside a program: the same work as plain, so that the difference is OPAL's."""

import torch


class Updater:
    follow_user_scheduler = False

    def __init__(self, named_params):
        self.optimizer = torch.optim.AdamW(list(dict(named_params).values()), lr=1e-3, foreach=True)
        self.param_groups = self.optimizer.param_groups

    def step(self, grads, update):
        self.optimizer.step()

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)


def build(named_params, previous=None, spec=None):
    return Updater(named_params)
