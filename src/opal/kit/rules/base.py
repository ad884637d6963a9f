"""What all rules share: groups, state by name, parameters side by side for `torch._foreach_*`, checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from opal.kit.rules.groups import Groups, Lot, make_groups, make_lots

__all__ = ["Rule"]

_PLAIN = (bool, int, float, str, Tensor)


class Rule:
    """An update rule; the base of those in `opal.kit.rules`, and of a program's own.

    A rule of one's own gives `fresh` (the state of a parameter that has none), `update` (one update of parameters that
    all have gradients) and, to take over state from other rules, `accept`.

    Attributes:
        param_groups: dicts with `params`, `names` and the options in force, `lr` among them. Options may be changed
            between updates; which parameters there are may not.
        state: name → state, made at a parameter's first gradient. Tensors of the parameter's shape, and plain numbers.
        state_dtype: dtype of state and arithmetic for parameters in float16 and bfloat16; None is the parameters' own.
    """

    def __init__(self, params: Groups, options: Mapping[str, Any], *, state_dtype: torch.dtype | None = None) -> None:
        self.param_groups = make_groups(params, options)
        self.state: dict[str, dict[str, Any]] = {}
        self.state_dtype = state_dtype
        self._lots = [make_lots(group, state_dtype) for group in self.param_groups]

    def fresh(self, param: Tensor) -> dict[str, Any]:
        """The state of a parameter before its first update; `param` has the dtype that the state shall have."""
        raise NotImplementedError

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[Any]) -> None:
        """One update, in place, of parameters with one device and dtype; `grads` must not be changed."""
        raise NotImplementedError

    def accept(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """What this rule can use of another rule's state of one parameter; None if it cannot."""
        raise NotImplementedError

    def step(self, grads: Mapping[str, Tensor | None]) -> None:
        """Make one update of all parameters that have a gradient; others, and their step counts, stay as they are.

        Args:
            grads: name → gradient of the parameter's shape, or None. They are not changed.

        Raises:
            KeyError: a parameter's name is not in `grads`.
        """
        with torch.no_grad():
            for group, lots in zip(self.param_groups, self._lots):  # noqa: B905 (as many, by construction)
                for lot in lots:
                    self._step_lot(group, lot, grads)

    def _step_lot(self, group: dict[str, Any], lot: Lot, grads: Mapping[str, Tensor | None]) -> None:
        names, params = lot.names, lot.params
        present = [grad for name in names if (grad := grads[name]) is not None]
        if len(present) != len(names):
            if not present:
                return
            having = [index for index, name in enumerate(names) if grads[name] is not None]
            names, params = [names[index] for index in having], [params[index] for index in having]
        if lot.wider is None:
            self.update(group, params, present, self._states(names, params))
            return
        wide = [param.to(lot.wider) for param in params]
        self.update(group, wide, [grad.to(lot.wider) for grad in present], self._states(names, wide))
        torch._foreach_copy_(params, wide)

    def _states(self, names: Sequence[str], params: Sequence[Tensor]) -> list[dict[str, Any]]:
        state = self.state
        try:
            return [state[name] for name in names]
        except KeyError:
            for name, param in zip(names, params, strict=True):
                if name not in state:
                    state[name] = self.fresh(param)
            return [state[name] for name in names]

    def load(self, carried: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Take over state by name where it fits: what the rule can use, in the parameter's shape. Copies it.

        Args:
            carried: name → state, as `opal.kit.carry` returns it. Other parameters keep the state that they have.

        Returns:
            The names whose state was taken over.
        """
        taken = []
        for name, param, dtype in self._parameters():
            entry = carried.get(name)
            accepted = None if entry is None else self.accept(entry)
            if accepted is None:
                continue
            tensors = [value for value in accepted.values() if isinstance(value, Tensor)]
            if all(value.shape == param.shape and value.is_complex() == param.is_complex() for value in tensors):
                self.state[name] = _copied(accepted, param, dtype)
                taken.append(name)
        return taken

    def state_dict(self) -> dict[str, Any]:
        """State by name, and the options of each group; its tensors are the rule's own, not copies."""
        groups = []
        for group in self.param_groups:
            options = {key: value for key, value in group.items() if key not in ("params", "names")}
            plain = {key: _as_plain(value) for key, value in options.items() if _is_plain(value)}
            groups.append({"names": list(group["names"]), **plain})
        return {"state": {name: dict(state) for name, state in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a `state_dict()` of a rule with the same groups. Copies it.

        Raises:
            ValueError: the groups hold other parameters, or a tensor has another shape. Nothing is changed then.
        """
        saved = state["param_groups"]
        found = [list(group["names"]) for group in saved]
        own = [list(group["names"]) for group in self.param_groups]
        if found != own:
            raise ValueError(f"the saved groups hold {found}, this rule's {own}; build the rule with the same groups")
        parameters = {name: (param, dtype) for name, param, dtype in self._parameters()}
        fresh: dict[str, dict[str, Any]] = {}
        for name, entry in state["state"].items():
            if name not in parameters:
                raise ValueError(f"the saved state has the parameter {name!r}, which this rule does not")
            param, dtype = parameters[name]
            shapes = [tuple(value.shape) for value in entry.values() if isinstance(value, Tensor)]
            if any(shape != tuple(param.shape) for shape in shapes):
                raise ValueError(f"the saved state of {name!r} has the shapes {shapes}, it has {tuple(param.shape)}")
            fresh[name] = _copied(entry, param, dtype)
        self.state = fresh
        for group, options in zip(self.param_groups, saved, strict=True):
            group.update({key: _as_found(value, group.get(key)) for key, value in options.items() if key != "names"})

    def _parameters(self) -> Iterable[tuple[str, Tensor, torch.dtype]]:
        """Each name with its parameter and the dtype of its state."""
        for lots in self._lots:
            for lot in lots:
                for name, param in zip(lot.names, lot.params, strict=True):
                    yield name, param, lot.wider or param.dtype


def _copied(entry: Mapping[str, Any], param: Tensor, dtype: torch.dtype) -> dict[str, Any]:
    return {
        key: value.detach().to(device=param.device, dtype=dtype, copy=True) if isinstance(value, Tensor) else value
        for key, value in entry.items()
    }


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, list | tuple) and all(map(_is_plain, value)))


def _as_plain(value: Any) -> Any:
    return [_as_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _as_found(value: Any, current: Any) -> Any:
    return tuple(value) if isinstance(current, tuple) else value
