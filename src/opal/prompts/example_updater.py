"""`reference/example_updater.py`: a program that does what the starting program does, generated for the run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from opal.config import RunConfig
from opal.prompts.known_rules import KnownGroup, known_groups, literal
from opal.prompts.known_schedules import ClosedForm, base_rates, closed_form
from opal.prompts.numbers import counted
from opal.prompts.templates import render
from opal.types import RunFacts

_MAX_FACTORS = 64
_BLOCK = re.compile(r"(?:.*?\.)?\d+(?=\.)")


def example_updater(config: RunConfig, facts: RunFacts) -> str:
    """The source of an `updater.py` that reproduces the starting run and recommends nothing.

    It is made of the kit's rules where these do what the script's optimizers do (AdamW, Adam, SGD, Muon), else it steps
    those. It has a schedule of its own where the script's has a known closed form, else it follows the script's. With
    the aggressive prompt there is a controller for learning rates in it, switched off.
    """
    bases = base_rates(facts)
    form = closed_form(config, facts) if all(isinstance(base, int | float) for base in bases) else None
    groups = known_groups(facts, bases)
    values = {
        "closed_form": form,
        "follows": bool(facts.schedulers) and form is None,
        "clips": config.update.clip_grad_norm is not None,
        "says_schedule": _schedule_words(facts, form),
    }
    if groups is None:
        names = ", ".join(optimizer.name for optimizer in facts.optimizers)
        text = render("example_own_optimizer.py.jinja", **values, bases=bases, says_rule=f"the script's own {names}")
    else:
        text = render(
            "example_updater.py.jinja",
            **values,
            controller=config.agent.prompt == "aggressive",
            groups=[_group_values(group) for group in groups],
            roles=_quoted(parameter.role for parameter in facts.parameters),
            blocks=_quoted(found[0] for p in facts.parameters if (found := _BLOCK.match(p.name))),
            says_rule=_rule_words(facts, groups),
        )
    return text + "\n"


def _group_values(group: KnownGroup) -> dict[str, str]:
    options = ", ".join(f"{name}={value}" for name, value in group.options.items())
    return {"rule": group.rule, "base": repr(group.base), "options": options}


def _quoted(names: Iterable[str]) -> list[str]:
    """Distinct names as string literals; none where they are too many for a table in a program."""
    distinct = list(dict.fromkeys(names))
    return [_double_quoted(name) for name in distinct] if len(distinct) <= _MAX_FACTORS else []


def _double_quoted(name: str) -> str:
    text = literal(name)
    return f'"{text[1:-1]}"' if text.startswith("'") and '"' not in text else text


def _rule_words(facts: RunFacts, groups: list[KnownGroup]) -> str:
    tensors = counted(len(facts.parameters), "tensor")
    names = " and ".join(dict.fromkeys(optimizer.name for optimizer in facts.optimizers))
    return f"{names} on {tensors}" + (f" in {len(groups)} groups" if len(groups) > 1 else "")


def _schedule_words(facts: RunFacts, form: ClosedForm | None) -> str:
    if form is not None:
        return f"the rate is {form.says}"
    return "the rates follow the script's scheduler" if facts.schedulers else "the rates stay as they are"
