"""Sentences about the task, made of what the person stated. What was not given is not mentioned."""

from __future__ import annotations

from opal.config import Fact, TaskConfig
from opal.prompts.numbers import is_number, short

_LABELS = (("epochs", "Epochs"), ("train_size", "Training examples"), ("batch_size", "Batch size"))


def fact_lines(task: TaskConfig) -> list[str]:
    """One line for each fact that was given: length in updates, epochs, sizes, order of the data.

    Numbers and texts are given as the person gave them. Where epochs are a number, the updates of one are added.
    """
    lines = [f"Length: {task.total_steps:,} updates."]
    for name, label in _LABELS:
        value: Fact = getattr(task, name)
        if value is None:
            continue
        lines.append(f"{label}: {_shown(value)}.")
        if name == "epochs" and is_number(value) and float(value) > 0:
            lines[-1] = f"{label}: {_shown(value)}, of {short(task.total_steps / float(value))} updates each."
    order = task.same_order_each_epoch
    if isinstance(order, bool):
        same = "The data come in the same order in every epoch."
        lines.append(same if order else "The order of the data differs from epoch to epoch.")
    elif order is not None:
        lines.append(f"Order of the data in each epoch: {_shown(order)}.")
    return lines


def _shown(value: Fact) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value).strip().rstrip(".")
