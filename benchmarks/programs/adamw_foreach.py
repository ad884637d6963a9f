"""AdamW on tensor lists, written out."""

import math

import torch


class Updater:
    follow_user_scheduler = False

    def __init__(self, named_params):
        named = dict(named_params)
        self.names, self.params = list(named), list(named.values())
        self.exp_avg = [torch.zeros_like(p) for p in self.params]
        self.exp_avg_sq = [torch.zeros_like(p) for p in self.params]
        self.count = 0
        self.param_groups = [{"params": self.params, "lr": 1e-3, "weight_decay": 0.01}]

    @torch.no_grad()
    def step(self, grads, update):
        self.count += 1
        gradients = [grads[name] for name in self.names]
        group = self.param_groups[0]
        torch._foreach_mul_(self.params, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_lerp_(self.exp_avg, gradients, 0.1)
        torch._foreach_mul_(self.exp_avg_sq, 0.999)
        torch._foreach_addcmul_(self.exp_avg_sq, gradients, gradients, 0.001)
        root = torch._foreach_sqrt(self.exp_avg_sq)
        torch._foreach_div_(root, math.sqrt(1 - 0.999**self.count))
        torch._foreach_add_(root, 1e-8)
        torch._foreach_addcdiv_(self.params, self.exp_avg, root, -group["lr"] / (1 - 0.9**self.count))

    def state_dict(self):
        return {"exp_avg": self.exp_avg, "exp_avg_sq": self.exp_avg_sq, "count": self.count}

    def load_state_dict(self, state):
        self.exp_avg, self.exp_avg_sq, self.count = state["exp_avg"], state["exp_avg_sq"], state["count"]


def build(named_params, previous=None, spec=None):
    return Updater(named_params)
