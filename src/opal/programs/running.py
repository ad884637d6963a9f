"""A loaded program: its updater is built, checked against the contract, and ready to be called."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from opal.errors import ProgramContractError
from opal.programs.analysis import Analysis
from opal.programs.contract import ProgramFiles
from opal.programs.load import ProgramModules

NamedParams: TypeAlias = Sequence[tuple[str, torch.nn.Parameter]]


class Gradients(dict[str, "torch.Tensor | None"]):
    """Name → `param.grad`, filled when it is first looked at: a program that never looks pays nothing."""

    __slots__ = ("_params",)

    def __init__(self, params: NamedParams) -> None:
        self._params: NamedParams | None = params

    def _fill(self) -> None:
        params, self._params = self._params, None
        if params is None:
            return
        written = dict(super().items()) if super().__len__() else None
        super().update({name: param.grad for name, param in params})
        if written:
            super().update(written)

    def __missing__(self, name: str) -> torch.Tensor | None:
        if self._params is None:
            raise KeyError(name)
        self._fill()
        return self[name]

    def __iter__(self) -> Any:
        self._fill()
        return super().__iter__()

    def __reversed__(self) -> Any:
        self._fill()
        return super().__reversed__()

    def __len__(self) -> int:
        self._fill()
        return super().__len__()

    def __contains__(self, name: object) -> bool:
        self._fill()
        return super().__contains__(name)

    def __eq__(self, other: object) -> bool:
        self._fill()
        return super().__eq__(other)

    __hash__ = None

    def __repr__(self) -> str:
        self._fill()
        return super().__repr__()

    def keys(self) -> Any:
        self._fill()
        return super().keys()

    def values(self) -> Any:
        self._fill()
        return super().values()

    def items(self) -> Any:
        self._fill()
        return super().items()

    def get(self, name: str, default: Any = None) -> Any:
        self._fill()
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        self._fill()
        return super().pop(name, *default)

    def copy(self) -> dict[str, torch.Tensor | None]:
        self._fill()
        return dict(super().items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()


class Context:
    """What a program that takes `ctx` is told of the update: `update`, and `loss` (a 0-d tensor, or None)."""

    __slots__ = ("loss", "update")

    def __init__(self, update: int, loss: torch.Tensor | None) -> None:
        self.update = update
        self.loss = loss


@dataclass(frozen=True, kw_only=True, eq=False)
class RunningProgram:
    """One version in force: its updater, what was found about it when it was built, and its analysis.

    `modules` may be of an earlier version, where only the analysis has changed since.
    """

    version: str
    files: ProgramFiles
    modules: ProgramModules
    updater: Any
    analysis: Analysis
    step: Callable[..., Any]
    takes_context: bool
    follows_scheduler: bool
    is_starting: bool


def build_program(
    modules: ProgramModules,
    analysis: Analysis,
    named_params: NamedParams,
    previous: Any,
    spec: Mapping[str, Any],
    *,
    is_starting: bool = False,
) -> RunningProgram:
    """Import `updater`, call its `build`, and check what it returns against the contract.

    Raises:
        ProgramContractError: there is no `build`, or what it returned does not keep the contract.
        BaseException: whatever the program itself raises.
    """
    module = modules.load("updater")
    build = getattr(module, "build", None)
    if not callable(build):
        raise ProgramContractError("has no function build(named_params, previous=None, spec=None)", where="updater.py")
    _check_signature(build)
    updater = build(list(named_params), previous=previous, spec=dict(spec))
    step = _checked_step(updater)
    _refuse_skipping(updater)
    follows = getattr(updater, "follow_user_scheduler", False)
    if not isinstance(follows, bool):
        raise ProgramContractError(f"follow_user_scheduler is {follows!r}; it is True or False", where="updater.py")
    _check_groups(updater, {id(param): name for name, param in named_params})
    return RunningProgram(
        version=modules.version,
        files=modules.files,
        modules=modules,
        updater=updater,
        analysis=analysis,
        step=step,
        takes_context=_takes_context(step),
        follows_scheduler=follows,
        is_starting=is_starting,
    )


def groups_in_force(updater: Any, named_params: NamedParams) -> list[dict[str, Any]]:
    """The updater's groups, and one more with `lr=nan` for the parameters that it leaves out."""
    groups = getattr(updater, "param_groups", None)
    groups = groups if isinstance(groups, list) and all(map(_is_group, groups)) else []
    mentioned = {id(param) for group in groups for param in group["params"]}
    left_out = [param for _, param in named_params if id(param) not in mentioned]
    return [*groups, {"params": left_out, "lr": math.nan}] if left_out else groups


def _is_group(group: Any) -> bool:
    """Whether a group can be shown: a program may have spoilt it after it was checked."""
    return isinstance(group, dict) and isinstance(group.get("params"), list) and is_rate(group.get("lr"))


def is_rate(rate: Any) -> bool:
    """Whether a learning rate is one number."""
    if isinstance(rate, torch.Tensor):
        return rate.numel() == 1
    return isinstance(rate, int | float)


def _check_signature(build: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(build)
    except (TypeError, ValueError):
        return
    try:
        signature.bind([], previous=None, spec={})
    except TypeError as error:
        raise ProgramContractError(
            f"build{signature} is called as build(named_params, previous=…, spec=…): {error}", where="updater.py"
        ) from error


def _checked_step(updater: Any) -> Callable[..., Any]:
    if updater is None:
        raise ProgramContractError("build() returned None; it returns the updater", where="updater.py")
    step = getattr(updater, "step", None)
    if not callable(step):
        found = type(updater).__name__
        raise ProgramContractError(f"build() returned a {found} without step(grads, update)", where="updater.py")
    return step  # type: ignore[no-any-return]


def _takes_context(step: Callable[..., Any]) -> bool:
    """Whether `step` takes (grads, update, ctx) and not only (grads, update)."""
    try:
        signature = inspect.signature(step)
    except (TypeError, ValueError):
        return False
    for arguments, takes in ((3, True), (2, False)):
        try:
            signature.bind(*range(arguments))
        except TypeError:
            continue
        return takes
    raise ProgramContractError(
        f"step{signature} takes neither (grads, update) nor (grads, update, ctx)", where="updater.py"
    )


def _refuse_skipping(updater: Any) -> None:
    for name in ("should_skip", "can_skip"):
        if getattr(updater, name, False):
            raise ProgramContractError(
                f"{name} is not available in this version of OPAL; to leave an update out, return from step() early",
                where="updater.py",
            )


def _check_groups(updater: Any, names: Mapping[int, str]) -> None:
    """`param_groups`, where there are any: dicts with `params` and `lr`, each parameter of the run at most once."""
    groups = getattr(updater, "param_groups", None)
    if groups is None:
        return
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise ProgramContractError("param_groups is a list of dicts", where="updater.py")
    seen: set[int] = set()
    for index, group in enumerate(groups):
        params = group.get("params")
        if not isinstance(params, list) or "lr" not in group:
            raise ProgramContractError(f"param_groups[{index}] has a list 'params' and an 'lr'", where="updater.py")
        if not is_rate(group["lr"]):
            raise ProgramContractError(f"the 'lr' of param_groups[{index}] is one number", where="updater.py")
        for param in params:
            if id(param) not in names:
                raise ProgramContractError(f"param_groups[{index}] holds something that is no parameter of the run",
                                           where="updater.py")  # fmt: skip
            if id(param) in seen:
                raise ProgramContractError(f"param_groups lists {names[id(param)]} twice", where="updater.py")
            seen.add(id(param))
