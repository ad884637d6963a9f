"""Step hooks run as often, in the same order and with the same arguments as without OPAL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

import opal
from cases.loops import Script, Trained, keep, kept_like_plain, train
from cases.models import Mlp

Calls = list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]


def note(calls: Calls, name: str) -> Any:
    """A hook that notes its name, the kind of optimizer, and the arguments' types."""

    def hook(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append((name, type(optimizer).__name__, tuple(type(arg).__name__ for arg in args), tuple(kwargs)))

    return hook


@contextmanager
def global_hooks(calls: Calls) -> Iterator[None]:
    """Hooks on every optimizer of the process."""
    handles = [
        register_optimizer_step_pre_hook(note(calls, "global pre")),
        register_optimizer_step_post_hook(note(calls, "global post")),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def noting(calls: Calls, *, closure: bool = False) -> Script:
    def register(optimizer: Optimizer) -> None:
        optimizer.register_step_pre_hook(note(calls, "pre"))
        optimizer.register_step_post_hook(note(calls, "post"))

    return Script(prepare=register, closure=closure)


@pytest.mark.parametrize("with_global", [False, True], ids=["own", "own and global"])
def test_hooks_of_the_optimizer_inside_are_called_as_without_opal(tmp_path: Path, with_global: bool) -> None:
    calls: Calls = []
    if with_global:
        with global_hooks(calls):
            kept_like_plain(noting(calls), tmp_path)
    else:
        kept_like_plain(noting(calls), tmp_path)
    half = len(calls) // 2
    assert half == (480 if with_global else 240)
    assert calls[:half] == calls[half:]
    assert calls[half - 1][1:] == ("AdamW", ("AdamW",), ())


def wrapper_calls(folder: Path, *, closure: bool, **step: Any) -> tuple[Calls, Calls]:
    """What hooks are given in three updates of a plain optimizer, and in those of a wrapped one."""
    both = []
    for wrapped in (False, True):
        calls: Calls = []
        torch.manual_seed(0)
        model, data = Mlp(), torch.Generator().manual_seed(1)
        optimizer: Any = torch.optim.AdamW(model.parameters())
        if wrapped:
            optimizer = opal.wrap(optimizer, model, **keep(folder))
        optimizer.register_step_pre_hook(note(calls, "pre"))
        optimizer.register_step_post_hook(note(calls, "post"))
        for _ in range(3):
            model.loss(data).backward()
            optimizer.step(*([lambda: 1.0] if closure else []), **(step if wrapped else {}))
        if wrapped:
            optimizer.close()
        both.append(calls)
    return both[0], both[1]


@pytest.mark.parametrize("closure", [False, True], ids=["without a closure", "with a closure"])
def test_hooks_on_the_wrapper_are_called_like_those_of_a_plain_optimizer(tmp_path: Path, closure: bool) -> None:
    plain, wrapped = wrapper_calls(tmp_path, closure=closure)
    assert len(plain) == 6
    assert {kind for _, kind, _, _ in wrapped} == {"AgentOptimizer"}
    assert eval(repr(wrapped).replace("AgentOptimizer", "AdamW")) == plain


def test_hooks_on_the_wrapper_see_the_loss_as_a_keyword(tmp_path: Path) -> None:
    _, wrapped = wrapper_calls(tmp_path, closure=False, loss=1.0)
    assert {kwargs for _, _, _, kwargs in wrapped} == {("loss",)}


def test_a_pre_hook_on_the_wrapper_may_change_the_arguments_as_torch_allows(tmp_path: Path) -> None:
    model = Mlp()
    optimizer = opal.wrap(torch.optim.SGD(model.parameters(), lr=0.1), model, **keep(tmp_path))
    optimizer.register_step_pre_hook(lambda _, args, __: (args, {"loss": 2.0}))
    for _ in range(10):
        optimizer.step(loss=1.0)
    optimizer.close()
    lines = (Path(optimizer.run_dir) / "losses.jsonl").read_text()
    assert "2.0,2.0" in lines.replace(" ", "")
    assert "1.0,1.0" not in lines.replace(" ", "")


def test_a_pre_hook_on_the_wrapper_that_returns_something_else_raises(tmp_path: Path) -> None:
    model = Mlp()
    optimizer = opal.wrap(torch.optim.SGD(model.parameters(), lr=0.1), model, **keep(tmp_path))
    optimizer.register_step_pre_hook(lambda *_: "nonsense")
    with pytest.raises(TypeError, match="returns None or \\(args, kwargs\\)"):
        optimizer.step()
    assert optimizer.update == 0
    optimizer.close()


def test_a_hook_that_changes_gradients_changes_both_runs_alike(tmp_path: Path) -> None:
    def halve(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    param.grad.mul_(0.5)

    def momentum(model: torch.nn.Module) -> list[Optimizer]:
        return [torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)]

    halved: Trained
    halved, _ = kept_like_plain(
        Script(optimizers=momentum, prepare=lambda optimizer: optimizer.register_step_pre_hook(halve)), tmp_path
    )
    assert halved.parameters != train(Script(optimizers=momentum)).parameters


def test_a_removed_hook_is_not_called(tmp_path: Path) -> None:
    model, calls = Mlp(), []
    optimizer = opal.wrap(torch.optim.SGD(model.parameters(), lr=0.1), model, **keep(tmp_path))
    handle = optimizer.register_step_post_hook(lambda *arguments: calls.append(arguments))
    optimizer.step()
    handle.remove()
    optimizer.step()
    optimizer.close()
    assert len(calls) == 1
