"""What cannot be wrapped, or not changed in a wrapped run, is refused in a sentence, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import opal
from cases.fingerprint import sha256
from cases.loops import keep
from cases.models import Mlp
from opal.engine.user_optimizers import UserOptimizers
from opal.errors import ArgumentTypeError, ArgumentValueError, NotBuiltError, OpalError, RunStateError


def refused(folder: Path, optimizer: Any, model: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        opal.wrap(optimizer, model, **keep(folder))
    assert isinstance(caught.value, OpalError)
    assert list(folder.iterdir()) == []


def test_an_optimizer_that_needs_a_closure_is_refused(tmp_path: Path) -> None:
    model = Mlp()
    refused(tmp_path, torch.optim.LBFGS(model.parameters()), model, ArgumentValueError, "only with a closure")


def test_a_model_without_the_optimizer_s_parameters_is_refused(tmp_path: Path) -> None:
    optimizer = torch.optim.SGD(Mlp().parameters(), lr=0.1)
    refused(tmp_path, optimizer, Mlp(), ArgumentValueError, "has none of the optimizer's parameters")


def test_things_that_are_no_optimizer_or_no_model_are_refused(tmp_path: Path) -> None:
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    refused(tmp_path, None, model, ArgumentTypeError, "a torch.optim.Optimizer, or a list of them")
    refused(tmp_path, [], model, ArgumentValueError, "a list of at least one")
    refused(tmp_path, [optimizer, 3], model, ArgumentTypeError, "a torch.optim.Optimizer, or a list of them")
    refused(tmp_path, optimizer, "model", ArgumentTypeError, "a torch.nn.Module")


def test_a_parameter_in_two_optimizers_is_refused(tmp_path: Path) -> None:
    model = Mlp()
    both = [torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.AdamW(model.first.parameters())]
    refused(tmp_path, both, model, ArgumentValueError, "in two of the optimizers")


def test_a_wrapped_optimizer_is_not_wrapped_again(tmp_path: Path) -> None:
    model = Mlp()
    optimizer = opal.wrap(torch.optim.SGD(model.parameters(), lr=0.1), model, **keep(tmp_path))
    with pytest.raises(ArgumentValueError, match="wrapped already"):
        opal.wrap(optimizer, model, **keep(tmp_path / "second"))
    optimizer.close()


@contextmanager
def process_group(world_size: int) -> Iterator[None]:
    """A process group whose other ranks are not there; it talks to nobody."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=world_size, store=FakeStore())
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def test_several_ranks_are_refused_and_one_is_not(tmp_path: Path) -> None:
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with process_group(2):
        refused(tmp_path, optimizer, model, NotBuiltError, "a run with 2 ranks is not built yet")
    with process_group(1):
        opal.wrap(optimizer, model, **keep(tmp_path)).close()


# ── The set of parameters is fixed ───────────────────────────────────────────────────────────────────────────────


def new_group() -> dict[str, Any]:
    return {"params": [nn.Parameter(torch.ones(2))]}


def drop(optimizer: Any) -> None:
    optimizer.param_groups[0]["params"].pop()


def test_the_wrapper_refuses_a_group_at_once(tmp_path: Path) -> None:
    model = Mlp()
    inside = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = opal.wrap(inside, model, **keep(tmp_path))
    with pytest.raises(RunStateError, match="requires_grad=False"):
        optimizer.add_param_group(new_group())
    assert len(inside.param_groups) == 1
    optimizer.step()
    optimizer.close()


@pytest.mark.parametrize(
    ("change", "call"),
    [
        (lambda inside: inside.add_param_group(new_group()), lambda optimizer: optimizer.step()),
        (lambda inside: inside.add_param_group(new_group()), lambda optimizer: optimizer.zero_grad()),
        (drop, lambda optimizer: optimizer.zero_grad()),
        (lambda inside: inside.param_groups.append({**inside.param_groups[0], **new_group()}),
         lambda optimizer: optimizer.zero_grad()),
    ],
    ids=["added, step", "added, zero_grad", "dropped, zero_grad", "appended, zero_grad"],
)  # fmt: skip
def test_a_changed_set_inside_is_refused_at_the_next_call(
    tmp_path: Path, change: Callable[[Any], None], call: Callable[[Any], Any]
) -> None:
    model = Mlp()
    inside = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = opal.wrap(inside, model, **keep(tmp_path))
    model.loss(torch.Generator()).backward()
    optimizer.step()
    before = sha256(model.named_parameters())
    change(inside)
    with pytest.raises(RunStateError, match="make their group before wrap, with requires_grad=False"):
        call(optimizer)
    assert sha256(model.named_parameters()) == before
    assert optimizer.update == 1
    optimizer.close()


def test_a_parameter_that_was_exchanged_is_refused_at_the_next_check(tmp_path: Path) -> None:
    model = Mlp()
    inside = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = opal.wrap(inside, model, **keep(tmp_path))
    for _ in range(9):
        optimizer.step()
    inside.param_groups[0]["params"][0] = nn.Parameter(torch.ones(8, 6))
    with pytest.raises(RunStateError, match="the set is fixed for the run"):
        optimizer.step()
    optimizer.close()


def test_layers_that_are_unfrozen_later_train_like_without_opal(tmp_path: Path) -> None:
    def ended(*, wrap: bool) -> str:
        torch.manual_seed(0)
        model, data = Mlp(), torch.Generator().manual_seed(1)
        model.first.requires_grad_(False)
        optimizer: Any = torch.optim.AdamW(model.parameters(), lr=0.01)
        if wrap:
            optimizer = opal.wrap(optimizer, model, **keep(tmp_path))
        for update in range(40):
            if update == 20:
                model.first.requires_grad_(True)
            model.loss(data).backward()
            optimizer.step()
            optimizer.zero_grad()
        if wrap:
            optimizer.close()
        return sha256(model.named_parameters())

    assert ended(wrap=True) == ended(wrap=False)


def test_closing_takes_the_watch_off_the_optimizer_inside(tmp_path: Path) -> None:
    model = Mlp()
    inside = torch.optim.SGD(model.parameters(), lr=0.1)
    opal.wrap(inside, model, **keep(tmp_path)).close()
    assert "add_param_group" not in vars(inside)
    inside.add_param_group(new_group())
    assert len(inside.param_groups) == 2


# ── Names ────────────────────────────────────────────────────────────────────────────────────────────────────────


def names_of(model: nn.Module, *more: nn.Parameter) -> list[str]:
    optimizer = torch.optim.SGD([*model.parameters(), *more], lr=0.1)
    return [name for name, _ in UserOptimizers([optimizer], model).named_params]


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # of torch's own import
def test_names_come_without_what_wrappers_put_before_them() -> None:
    bare = names_of(Mlp())
    assert bare[0] == "first.weight"
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    try:
        distributed = nn.parallel.DistributedDataParallel(Mlp())
        assert next(iter(distributed.state_dict())) == "module.first.weight"
        assert names_of(distributed) == bare
        assert names_of(torch.compile(distributed)) == bare
    finally:
        torch.distributed.destroy_process_group()
    assert names_of(nn.DataParallel(Mlp())) == bare
    compiled = torch.compile(Mlp())
    assert next(iter(compiled.state_dict())) == "_orig_mod.first.weight"
    assert names_of(compiled) == bare
    assert names_of(nn.Sequential(torch.compile(Mlp()))) == [f"0.{name}" for name in bare]


def test_a_part_that_is_called_module_keeps_its_name() -> None:
    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(2, 2)

    assert names_of(Around()) == ["module.weight", "module.bias"]


def test_parameters_that_are_not_the_model_s_are_extra() -> None:
    model = nn.Linear(2, 2)
    assert names_of(model, nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(2))) == [
        "weight", "bias", "extra.0", "extra.1",
    ]  # fmt: skip
