"""The generated example does what the starting program does, from the first update on and after taking over."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from opal.config import RunConfig
from opal.prompts.example_updater import example_updater
from opal.types import GroupFacts, ModelFacts, OptimizerFacts, ParameterFacts, RunFacts, SchedulerFacts

MakeConfig = Callable[..., RunConfig]
UPDATES = 60


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.mix = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.mix(self.norm(x)))


class Small(torch.nn.Module):
    """Blocks with norms, a head, and a parameter that never gets a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(5, 8)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))
        self.head = torch.nn.Linear(8, 3, bias=False)
        self.unused = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Starting:
    """Stands for the starting program."""

    def __init__(self, optimizers: list[torch.optim.Optimizer]) -> None:
        self.optimizers = optimizers


def plain(value: Any) -> Any:
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def facts_of(model: torch.nn.Module, optimizers: list[Any], schedulers: list[Any]) -> RunFacts:
    """A run's facts as the engine gathers them."""
    groups = [(optimizer, group) for optimizer in optimizers for group in optimizer.param_groups]
    place = {id(param): index for index, (_, group) in enumerate(groups) for param in group["params"]}
    names = {id(param): name for name, param in model.named_parameters()}
    return RunFacts(
        parameters=tuple(
            ParameterFacts(name=name, role=".".join("N" if part.isdigit() else part for part in name.split(".")),
                           shape=tuple(param.shape), dtype="float32", device="cpu", count=param.numel(),
                           requires_grad=True, group=place[id(param)])
            for name, param in model.named_parameters()
        ),
        groups=tuple(
            GroupFacts(index=index, optimizer=type(optimizer).__name__,
                       options={key: plain(value) for key, value in group.items() if key != "params"},
                       names=tuple(names[id(param)] for param in group["params"]))
            for index, (optimizer, group) in enumerate(groups)
        ),
        optimizers=tuple(OptimizerFacts(name=type(optimizer).__name__) for optimizer in optimizers),
        schedulers=tuple(
            SchedulerFacts(name=type(scheduler).__name__,
                           settings={key: dict(value) if key == "milestones" else plain(value)
                                     for key, value in vars(scheduler).items() if key != "optimizer"})
            for scheduler in schedulers
        ),
        model=ModelFacts(name="Small", summary=repr(model)),
        script=None, world_size=1, torch_version="2", python_version="3", hardware="CPU",
    )  # fmt: skip


def train(
    make: Callable[[torch.nn.Module], tuple[list[Any], list[Any]]], config: RunConfig, *, takes_over: int | None
) -> tuple[list[torch.Tensor], list[list[float]]]:
    """60 updates; from the update `takes_over` on by the example. Returns parameters, and the rates of each update."""
    torch.manual_seed(0)
    model = Small()
    optimizers, schedulers = make(model)
    facts = facts_of(model, optimizers, schedulers)
    named = list(model.named_parameters())
    data = torch.Generator().manual_seed(1)
    updater: Any = None
    rates = []
    for update in range(1, UPDATES + 1):
        x = torch.randn(16, 5, generator=data)
        loss = (model(x) - x[:, :3].sin()).square().mean()
        for param in model.parameters():
            param.grad = None
        loss.backward()
        if update == takes_over:
            updater = built(config, facts, named, Starting(optimizers) if update > 1 else None, optimizers, schedulers)
        if updater is None:
            if config.update.clip_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_([param for _, param in named], config.update.clip_grad_norm)
            for optimizer in optimizers:
                optimizer.step()
            groups = [group for optimizer in optimizers for group in optimizer.param_groups]
            lr_of = {id(param): float(group["lr"]) for group in groups for param in group["params"]}
        else:
            with torch.no_grad():
                updater.step({name: param.grad for name, param in named}, update)
            lr_of = {id(param): float(group["lr"]) for group in updater.param_groups for param in group["params"]}
        rates.append([lr_of[id(param)] for _, param in named])
        if updater is None or updater.follow_user_scheduler:
            for optimizer in optimizers:
                optimizer._opt_called = True  # else torch warns that the scheduler goes before an optimizer
            for scheduler in schedulers:
                scheduler.step()
    return [param.detach().clone() for _, param in named], rates


def built(config: RunConfig, facts: RunFacts, named: Any, previous: Any, optimizers: Any, schedulers: Any) -> Any:
    space: dict[str, Any] = {"__name__": "updater"}
    exec(compile(example_updater(config, facts), "updater.py", "exec"), space)
    spec = {"total_updates": UPDATES, "user_optimizers": optimizers, "user_schedulers": schedulers,
            "clip_grad_norm": config.update.clip_grad_norm}  # fmt: skip
    return space["build"](named, previous=previous, spec=spec)


def adamw(model: torch.nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1, **options)


def two_groups(model: torch.nn.Module) -> list[dict[str, Any]]:
    decayed = [param for param in model.parameters() if param.dim() > 1]
    others = [param for param in model.parameters() if param.dim() < 2]
    return [{"params": decayed, "weight_decay": 0.1, "lr": 0.02}, {"params": others, "weight_decay": 0.0}]


def with_cosine(optimizer: torch.optim.Optimizer) -> tuple[list[Any], list[Any]]:
    return [optimizer], [lr_scheduler.CosineAnnealingLR(optimizer, T_max=UPDATES)]


def muon_and_adamw(model: torch.nn.Module) -> tuple[list[Any], list[Any]]:
    blocks = [param for name, param in model.named_parameters() if "mix.weight" in name]
    chosen = {id(param) for param in blocks}
    others = [param for param in model.parameters() if id(param) not in chosen]
    # In float64 the iteration in bfloat16 differs from torch's by rounding all the same: the comparison is loose.
    return [torch.optim.Muon(blocks, lr=0.01), torch.optim.AdamW(others, lr=0.01)], []


def scheduled(kind: Any, **settings: Any) -> Callable[[torch.nn.Module], tuple[list[Any], list[Any]]]:
    def make(model: torch.nn.Module) -> tuple[list[Any], list[Any]]:
        optimizer = torch.optim.AdamW(two_groups(model), lr=0.01)
        return [optimizer], [kind(optimizer, **settings)]

    return make


def one_cycle(model: torch.nn.Module) -> tuple[list[Any], list[Any]]:
    optimizer = adamw(model)
    return [optimizer], [lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=UPDATES + 1)]


CASES: dict[str, tuple[Callable[[torch.nn.Module], tuple[list[Any], list[Any]]], dict[str, Any], bool]] = {
    # name: how it is made, arguments of wrap, whether the example has a schedule of its own
    "adamw, cosine": (lambda model: with_cosine(adamw(model)), {}, True),
    "adamw, cosine, aggressive": (lambda model: with_cosine(adamw(model)), {"prompt": "aggressive"}, True),
    "adamw, cosine to a floor, clipped": (
        lambda model: ([opt := adamw(model)], [lr_scheduler.CosineAnnealingLR(opt, T_max=UPDATES, eta_min=1e-3)]),
        {"clip_grad_norm": 0.05}, True,
    ),
    "adamw alone": (lambda model: ([adamw(model)], []), {}, True),
    "adam with coupled decay": (
        lambda model: with_cosine(torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1)), {}, True),
    "two groups, linear": (
        scheduled(lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.1, total_iters=UPDATES), {}, True),
    "two groups, polynomial": (scheduled(lr_scheduler.PolynomialLR, total_iters=UPDATES, power=2.0), {}, True),
    "steps of updates": (scheduled(lr_scheduler.StepLR, step_size=25, gamma=0.3), {"epochs": 3}, True),
    "milestones of updates": (
        scheduled(lr_scheduler.MultiStepLR, milestones=[15, 40, 40], gamma=0.5), {"epochs": 3}, True),
    "steps of who knows what": (scheduled(lr_scheduler.StepLR, step_size=25, gamma=0.3), {}, False),
    "warm restarts": (scheduled(lr_scheduler.CosineAnnealingWarmRestarts, T_0=20), {}, False),
    "lambda": (scheduled(lr_scheduler.LambdaLR, lr_lambda=lambda done: 1 / (1 + done)), {}, False),
    "one cycle, which moves betas too": (one_cycle, {}, False),
    "sgd, nesterov": (
        lambda model: with_cosine(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)), {}, True),
    "sgd without momentum": (lambda model: with_cosine(torch.optim.SGD(model.parameters(), lr=0.05)), {}, True),
    "amsgrad, which the kit lacks": (lambda model: with_cosine(adamw(model, amsgrad=True)), {}, True),
    "a rule that the kit lacks": (
        lambda model: with_cosine(torch.optim.RMSprop(model.parameters(), lr=0.01)), {"clip_grad_norm": 0.05}, True),
    "a rule that the kit lacks, warm restarts": (
        lambda model: ([opt := torch.optim.RMSprop(model.parameters(), lr=0.01)],
                       [lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=20)]), {}, False),
}  # fmt: skip

PLAIN: dict[str, Any] = {}  # the run without the example, made once for each case


@pytest.mark.parametrize("takes_over", [1, 20])
@pytest.mark.parametrize("case", CASES)
def test_the_example_reproduces_the_starting_run(make_config: MakeConfig, case: str, takes_over: int) -> None:
    make, arguments, own_schedule = CASES[case]
    config = make_config(total_steps=UPDATES, **arguments)
    if case not in PLAIN:
        PLAIN[case] = train(make, config, takes_over=None)
    expected, expected_rates = PLAIN[case]
    found, rates = train(make, config, takes_over=takes_over)
    torch.testing.assert_close(torch.tensor(rates), torch.tensor(expected_rates), rtol=1e-6, atol=1e-12)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)
    torch.manual_seed(0)
    model = Small()
    follows = "follow_user_scheduler = False" not in example_updater(config, facts_of(model, *make(model)))
    assert follows is not own_schedule


@pytest.mark.parametrize("takes_over", [1, 20])
def test_without_a_schedule_the_bytes_are_those_of_torch_s_foreach(make_config: MakeConfig, takes_over: int) -> None:
    def make(model: torch.nn.Module) -> tuple[list[Any], list[Any]]:
        return [adamw(model, foreach=True)], []

    config = make_config(total_steps=UPDATES)
    expected, _ = train(make, config, takes_over=None)
    found, _ = train(make, config, takes_over=takes_over)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("takes_over", [1, 20])
def test_two_optimizers_become_two_rules(make_config: MakeConfig, takes_over: int) -> None:
    config = make_config(total_steps=UPDATES)
    expected, _ = train(muon_and_adamw, config, takes_over=None)
    found, _ = train(muon_and_adamw, config, takes_over=takes_over)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.02)


def example_for(config: RunConfig) -> tuple[Any, Any, torch.nn.Module]:
    torch.manual_seed(0)
    model = Small()
    optimizers, schedulers = with_cosine(adamw(model))
    facts = facts_of(model, optimizers, schedulers)
    return facts, (optimizers, schedulers), model


def test_factors_by_role_and_block_scale_the_rates(make_config: MakeConfig) -> None:
    config = make_config(total_steps=UPDATES)
    facts, (optimizers, _), model = example_for(config)
    source = example_updater(config, facts)
    assert '"blocks.N.mix.weight": 1.0,' in source
    assert '"blocks.2": 1.0,' in source
    changed = source.replace('"blocks.N.mix.weight": 1.0,', '"blocks.N.mix.weight": 3.0,')
    changed = changed.replace('"blocks.2": 1.0,', '"blocks.2": 0.5,')
    space: dict[str, Any] = {}
    exec(changed, space)
    named = list(model.named_parameters())
    updater = space["build"](named, spec={"user_optimizers": optimizers, "clip_grad_norm": None})
    updater.step({name: torch.ones_like(param) for name, param in named}, 1)
    rate = {name: group["lr"] for group in updater.param_groups for name in group["names"]}
    assert rate["blocks.1.mix.weight"] == pytest.approx(0.03)
    assert rate["blocks.2.mix.weight"] == pytest.approx(0.015)
    assert rate["blocks.2.norm.bias"] == pytest.approx(0.005)
    assert rate["head.weight"] == pytest.approx(0.01)
    assert len(updater.param_groups) == 4


def test_its_state_goes_through_a_checkpoint(make_config: MakeConfig) -> None:
    config = make_config(total_steps=UPDATES, prompt="aggressive")
    facts, (optimizers, schedulers), model = example_for(config)
    named = list(model.named_parameters())
    first = built(config, facts, named, None, optimizers, schedulers)
    grads = {name: torch.full_like(param, 0.1) for name, param in named}
    first.step(grads, 1)
    second = built(config, facts, named, None, optimizers, schedulers)
    second.load_state_dict(first.state_dict())
    state = second.rules[0].state["head.weight"]
    assert state["step"] == 1
    assert torch.equal(state["exp_avg"], first.rules[0].state["head.weight"]["exp_avg"])
    assert state["exp_avg"] is not first.rules[0].state["head.weight"]["exp_avg"]


def test_the_controller_is_off_and_works_when_it_is_switched_on(make_config: MakeConfig) -> None:
    config = make_config(total_steps=UPDATES, prompt="aggressive")
    facts, (optimizers, _), model = example_for(config)
    source = example_updater(config, facts)
    assert "CONTROL = False\n" in source
    assert "CONTROL" not in example_updater(make_config(total_steps=UPDATES), facts)
    space: dict[str, Any] = {}
    exec(source.replace("CONTROL = False", "CONTROL = True").replace("CONTROL_EVERY = 20", "CONTROL_EVERY = 5"), space)
    named = list(model.named_parameters())
    updater = space["build"](named, spec={"user_optimizers": optimizers, "clip_grad_norm": None})
    for update in range(1, 41):
        # The head's gradient always points the same way; the embedding's turns round at every update.
        grads = {name: torch.full_like(param, -1.0 if update % 2 and "embed" in name else 1.0) for name, param in named}
        updater.step(grads, update)
    scales = {name: scale for group, scale in zip(updater.param_groups, updater.controller.scales, strict=True)
              for name in group["names"]}  # fmt: skip
    assert scales["head.weight"] > 1.5
    assert scales["embed.weight"] < 0.8
    assert updater.controller.scales == updater.state_dict()["scales"]
    rates = {name: group["lr"] for group in updater.param_groups for name in group["names"]}
    assert rates["head.weight"] / rates["embed.weight"] == pytest.approx(scales["head.weight"] / scales["embed.weight"])


def test_a_home_made_optimizer_or_sparse_gradients_leave_the_script_s_optimizer_alone(make_config: MakeConfig) -> None:
    config = make_config(total_steps=UPDATES)
    facts, _, _ = example_for(config)
    assert "rules" in example_updater(config, facts)
    mine = dataclasses.replace(facts, optimizers=(OptimizerFacts(name="AdamW", source="class AdamW: ..."),))
    sparse = dataclasses.replace(facts, model=ModelFacts(name="Small", summary="Embedding(9, 4, sparse=True)"))
    for other in (mine, sparse):
        assert "optimizer.step()" in example_updater(config, other)


def test_it_stays_readable_for_a_model_with_many_roles(make_config: MakeConfig) -> None:
    config = make_config(total_steps=UPDATES)
    facts, _, _ = example_for(config)
    many = tuple(dataclasses.replace(facts.parameters[0], name=f"part{index}.weight", role=f"part{index}.weight")
                 for index in range(3_000))  # fmt: skip
    source = example_updater(config, dataclasses.replace(facts, parameters=many))
    assert "ROLE_FACTORS = {}" in source
    assert len(source.splitlines()) < 120
