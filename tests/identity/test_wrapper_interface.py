"""The wrapped optimizer is a `torch.optim.Optimizer` that answers as the optimizer inside does."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import opal
from cases.fingerprint import differences, sha256
from cases.loops import Script, keep, train, unlike
from cases.models import Mlp, fresh, loss_of
from opal.errors import NotBuiltError


class Wrapped:
    """A small model, its optimizer, and the wrapped one."""

    def __init__(self, folder: Path, **changed: Any) -> None:
        self.model = fresh(Mlp)
        self.data = torch.Generator().manual_seed(1)
        self.inside = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.optimizer = opal.wrap(self.inside, self.model, **keep(folder, **changed))

    def update(self, count: int = 1) -> None:
        for _ in range(count):
            self.optimizer.zero_grad()
            self.model.loss(self.data).backward()
            self.optimizer.step()


@pytest.fixture
def run(tmp_path: Path) -> Any:
    wrapped = Wrapped(tmp_path)
    yield wrapped
    wrapped.optimizer.close()


def test_it_is_an_optimizer_of_torch(run: Wrapped) -> None:
    assert isinstance(run.optimizer, torch.optim.Optimizer)
    assert isinstance(run.optimizer, opal.AgentOptimizer)


def test_groups_state_and_defaults_are_those_of_the_optimizer_inside(run: Wrapped) -> None:
    run.update(3)
    assert run.optimizer.param_groups is run.inside.param_groups
    assert run.optimizer.state is run.inside.state
    assert run.optimizer.defaults is run.inside.defaults
    run.optimizer.param_groups[0]["lr"] = 0.5
    assert run.inside.param_groups[0]["lr"] == 0.5


def test_groups_and_state_of_several_optimizers_are_all_of_them(tmp_path: Path) -> None:
    model = Mlp()
    inside = [torch.optim.SGD(part.parameters(), lr=0.1, momentum=0.9) for part in (model.first, model.second)]
    optimizer = opal.wrap(inside, model, **keep(tmp_path))
    model.first(torch.randn(2, 6)).sum().backward()
    optimizer.step()
    groups = optimizer.param_groups
    assert [id(group) for group in groups] == [id(one.param_groups[0]) for one in inside]
    assert set(optimizer.state) == set(model.first.parameters()) | set(inside[1].state)
    optimizer.close()


def test_its_text_is_that_of_the_optimizer_inside_but_for_the_name(run: Wrapped) -> None:
    assert repr(run.optimizer) == repr(run.inside).replace("AdamW", "AgentOptimizer", 1)


def test_its_state_dict_is_the_plain_one_and_survives_copying_and_saving(run: Wrapped, tmp_path: Path) -> None:
    run.update(15)
    state = run.optimizer.state_dict()
    assert differences(state, run.inside.state_dict()) == []
    torch.save(state, tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    for copied in (copy.deepcopy(state), pickle.loads(pickle.dumps(state)), loaded):
        assert differences(copied, state) == []


def test_a_copy_or_a_pickle_is_one_of_the_optimizer_inside(run: Wrapped) -> None:
    run.update(15)
    for copied in (copy.deepcopy(run.optimizer), pickle.loads(pickle.dumps(run.optimizer))):
        assert type(copied) is torch.optim.AdamW
        assert differences(copied.state_dict(), run.inside.state_dict()) == []
        before = sha256(run.model.named_parameters())
        copied.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
        for param in copied.param_groups[0]["params"]:
            param.grad = torch.ones_like(param)
        copied.step()
        assert sha256(run.model.named_parameters()) == before
    run.update()
    assert run.optimizer.update == 16


def test_a_plain_checkpoint_goes_on_where_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    script = Script(updates=60)
    plain = train(script)
    half = Wrapped(tmp_path)
    half.model.load_state_dict(train(Script(updates=30)).model.state_dict())
    half.optimizer.load_state_dict(train(Script(updates=30)).optimizer.state_dict())
    warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert "a plain optimizer's checkpoint was loaded" in warned[0]
    for _ in range(30):
        half.model.loss(half.data)
    half.update(30)
    half.optimizer.close()
    assert sha256(half.model.named_parameters()) == plain.parameters


def test_gradients_are_set_to_zero_or_none_as_asked(run: Wrapped) -> None:
    params = list(run.model.parameters())
    run.model.loss(run.data).backward()
    run.optimizer.zero_grad(set_to_none=False)
    assert all(torch.equal(param.grad, torch.zeros_like(param)) for param in params if param.grad is not None)
    assert all(param.grad is not None for param in params)
    run.optimizer.zero_grad()
    assert all(param.grad is None for param in params)


def test_train_and_eval_reach_the_optimizers_that_have_them(tmp_path: Path) -> None:
    class ScheduleFree(torch.optim.SGD):
        calls: list[str] = []  # noqa: RUF012

        def train(self) -> None:
            self.calls.append("train")

        def eval(self) -> None:
            self.calls.append("eval")

    model = Mlp()
    inside = [ScheduleFree(model.first.parameters(), lr=0.1), torch.optim.SGD(model.second.parameters(), lr=0.1)]
    optimizer = opal.wrap(inside, model, **keep(tmp_path))
    optimizer.eval()
    optimizer.train()
    assert ScheduleFree.calls == ["eval", "train"]
    optimizer.close()


def test_step_returns_what_the_step_inside_returns_and_evaluates_a_closure_once(run: Wrapped) -> None:
    seen = []

    def closure() -> torch.Tensor:
        seen.append(torch.is_grad_enabled())
        run.optimizer.zero_grad()
        loss: torch.Tensor = run.model.loss(run.data)
        loss.backward()
        return loss

    with torch.no_grad():
        value = run.optimizer.step(closure)
    assert seen == [True]
    assert value.requires_grad
    assert run.optimizer.step() is None
    assert run.optimizer.update == 2


def test_a_disabled_grad_scaler_makes_the_plain_update(tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    wrapped, plain = Wrapped(tmp_path), train(Script(updates=40))
    for _ in range(40):
        loss = wrapped.model.loss(wrapped.data)
        scaler.scale(loss).backward()
        scaler.unscale_(wrapped.optimizer)
        scaler.step(wrapped.optimizer, loss=loss)
        scaler.update()
        wrapped.optimizer.zero_grad()
    wrapped.optimizer.close()
    assert sha256(wrapped.model.named_parameters()) == plain.parameters
    assert wrapped.optimizer.update == 40


def test_an_enabled_grad_scaler_raises_and_changes_no_parameter(run: Wrapped) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = sha256(run.model.named_parameters())
    scaler.scale(run.model.loss(run.data)).backward()
    with pytest.raises(NotImplementedError, match="enabled GradScaler is not built yet: train in bfloat16") as caught:
        scaler.step(run.optimizer)
    assert isinstance(caught.value, NotBuiltError)
    assert sha256(run.model.named_parameters()) == before
    assert run.optimizer.update == 0


def test_more_updates_than_planned_go_on_like_plain_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script(updates=80)
    arguments = keep(tmp_path, total_steps=40, schedule=[10, 20])
    wrapped = train(script, arguments)
    assert unlike(train(script), wrapped) == []
    warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert warned[0].startswith("opal: update 41 is past total_steps=40")
    assert "v000 goes on" in warned[0]
    assert wrapped.optimizer.update == 80


def test_a_second_close_does_nothing_and_training_may_go_on_like_plain(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Wrapped(tmp_path)
    run.update(25)
    run.optimizer.close()
    files = {path: path.read_bytes() for path in Path(run.optimizer.run_dir).rglob("*") if path.is_file()}
    run.optimizer.close(interrupted=True)
    run.update(35)
    run.optimizer.close()
    assert sha256(run.model.named_parameters()) == train(Script(updates=60)).parameters
    assert {path: path.read_bytes() for path in Path(run.optimizer.run_dir).rglob("*") if path.is_file()} == files
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


@pytest.mark.parametrize("kind", ["compiled", "data parallel"])
def test_a_run_inside_a_wrapper_of_the_model_is_the_plain_one(tmp_path: Path, kind: str) -> None:
    def ended(*, wrap: bool) -> str:
        model, data = fresh(Mlp), torch.Generator().manual_seed(1)
        outer: Any = nn.DataParallel(model) if kind == "data parallel" else torch.compile(model, backend="eager")
        optimizer: Any = torch.optim.AdamW(outer.parameters(), lr=0.01)
        if wrap:
            optimizer = opal.wrap(optimizer, outer, **keep(tmp_path))
        for _ in range(40):
            loss = loss_of(outer, torch.randn(8, 6, generator=data), torch.randn(8, 3, generator=data))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if wrap:
            optimizer.close()
        return sha256(model.named_parameters())

    assert ended(wrap=True) == ended(wrap=False)
