"""The starting program: the training script's own optimizers, called as the script would call them.

`follow_user_scheduler = True` lets the script's `scheduler.step()` go on setting the learning rates.
"""

import torch


class Updater:
    follow_user_scheduler = True

    def __init__(self, parameters, optimizers, max_norm):
        self.parameters = parameters
        self.optimizers = optimizers
        self.max_norm = max_norm
        self.param_groups = [group for optimizer in optimizers for group in optimizer.param_groups]

    def step(self, grads, update):
        if self.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.max_norm)
        for optimizer in self.optimizers:
            result = optimizer.step()
        return result

    def state_dict(self):
        return {}  # the state of the script's optimizers is kept with the run

    def load_state_dict(self, state):
        pass


def build(named_params, previous=None, spec=None):
    parameters = [parameter for _, parameter in named_params]
    return Updater(parameters, spec["user_optimizers"], spec["clip_grad_norm"])
