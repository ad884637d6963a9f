"""The analysis that a run starts with: each number against plain float64 arithmetic."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import opal

SOURCE = opal.__path__[0] + "/programs/starting_analysis.py"
DIGITS = 6e-5  # five digits, and float32 sums


@pytest.fixture
def analysis() -> ModuleType:
    """A fresh copy of the module, loaded as a program's file is: from its text alone."""
    spec = importlib.util.spec_from_file_location("analysis_under_test", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def observe(params: dict[str, Any], **given: Any) -> SimpleNamespace:
    """An observation with the gradients that the parameters hold."""
    fields = {
        "update": 50,
        "total_updates": 1000,
        "losses": [],
        "params": params,
        "grads": {name: param.grad for name, param in params.items()},
        "last_step": None,
        "updater": SimpleNamespace(),
        "updates_per_epoch": None,
    }
    return SimpleNamespace(**{**fields, **given})


def report_of(
    analysis: ModuleType, observation: SimpleNamespace, memory: dict[str, Any] | None = None
) -> dict[str, Any]:
    with torch.no_grad():
        return analysis.analyze(observation, {} if memory is None else memory)["report"]


class Block(nn.Module):
    """A layer with a weight large enough to be measured alone and a small one."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(16, 700)
        self.back = nn.Linear(700, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.back(torch.tanh(self.wide(x)))


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 16)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inner(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def trained(make: Any, steps: int = 4) -> tuple[dict[str, Any], dict[str, torch.Tensor], torch.optim.Optimizer]:
    """A model after some updates, with the gradient of the next one: parameters, last step, optimizer."""
    torch.manual_seed(0)
    model = Small()
    optimizer = make(model.parameters())
    before: dict[str, torch.Tensor] = {}
    for step in range(steps + 1):
        optimizer.zero_grad()
        loss = model(torch.randn(12, 8)).square().mean()
        loss.backward()
        if step < steps:
            before = {name: param.detach().clone() for name, param in model.named_parameters()}
            optimizer.step()
    params = dict(model.named_parameters())
    return params, {name: param.detach() - before[name] for name, param in params.items()}, optimizer


def joined(tensors: Any) -> torch.Tensor:
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


def cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(one @ other / one.norm() / other.norm())


ROLES = {
    "inner.weight": ["inner.weight"],
    "inner.bias": ["inner.bias"],
    "blocks.N.wide.weight": ["blocks.0.wide.weight", "blocks.1.wide.weight"],
    "blocks.N.wide.bias": ["blocks.0.wide.bias", "blocks.1.wide.bias"],
    "blocks.N.back.weight": ["blocks.0.back.weight", "blocks.1.back.weight"],
    "head.weight": ["head.weight"],
    "head.bias": ["head.bias"],
}


@pytest.mark.parametrize(
    ("make", "key", "decay"),
    [
        (lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.8, 0.99)), "exp_avg", 0.8),
        (lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.7), "momentum_buffer", 0.7),
    ],
)
def test_each_number_of_a_role_equals_float64_arithmetic(
    analysis: ModuleType, make: Any, key: str, decay: float
) -> None:
    params, last_step, optimizer = trained(make)
    updater = SimpleNamespace(optimizers=[optimizer], parameters=list(params.values()))
    report = report_of(analysis, observe(params, last_step=last_step, updater=updater, update=5))
    assert list(report["roles"]) == list(ROLES)
    for role, names in [*ROLES.items(), (None, list(params))]:
        found = report["all"] if role is None else report["roles"][role]
        weight, gradient = joined(params[name] for name in names), joined(params[name].grad for name in names)
        step, momentum = (
            joined(last_step[name] for name in names),
            joined(optimizer.state[params[n]][key] for n in names),
        )
        ratio = (1 - decay) / (1 + decay) * (1 + decay**4) / (1 - decay**4)
        expected = {
            "weight_norm": float(weight.norm()),
            "gradient_norm": float(gradient.norm()),
            "update_to_weight": float(step.norm() / weight.norm()),
            "cosine_momentum": cosine(gradient, momentum),
            "cosine_last_step": cosine(gradient, step),
        }
        noise = found.pop("noise_to_signal", None)
        assert found == pytest.approx(expected, rel=DIGITS, abs=1e-6)
        if role is None and expected["cosine_momentum"] > 0:
            assert 1 / math.sqrt((1 + noise) * (1 + ratio * noise)) == pytest.approx(
                expected["cosine_momentum"], rel=1e-4
            )
        else:
            assert noise is None
    blocks = {"inner": "inner.", "blocks.0": "blocks.0.", "blocks.1": "blocks.1.", "head": "head."}
    assert report["blocks"] == pytest.approx(
        {b: float(joined(p.grad for n, p in params.items() if n.startswith(s)).norm()) for b, s in blocks.items()},
        rel=DIGITS,
    )


def test_noise_to_signal_finds_the_noise_that_was_put_in(analysis: ModuleType) -> None:
    torch.manual_seed(1)
    param = nn.Parameter(torch.ones(9000))
    optimizer = torch.optim.SGD([param], lr=0.0, momentum=0.9)
    signal = torch.randn(9000)
    for _ in range(60):
        param.grad = signal + 2 * torch.randn(9000)
        optimizer.step()
    param.grad = signal + 2 * torch.randn(9000)
    found = report_of(analysis, observe({"w": param}, updater=SimpleNamespace(optimizers=[optimizer]), update=61))
    assert found["all"]["noise_to_signal"] == pytest.approx(4.0, rel=0.1)
    last_step = {"w": -0.1 * (signal + 2 * torch.randn(9000))}  # plain SGD: the last step stands in
    found = report_of(analysis, observe({"w": param}, last_step=last_step, update=61))
    assert "cosine_momentum" not in found["all"]
    assert found["all"]["noise_to_signal"] == pytest.approx(4.0, rel=0.15)


@pytest.mark.parametrize(("rate", "sign"), [(0.1, -1), (1.9, 1)])
def test_the_cosine_with_the_last_step_is_negative_for_short_and_positive_for_long_steps(
    analysis: ModuleType, rate: float, sign: int
) -> None:
    param = nn.Parameter(torch.tensor([3.0, -2.0]))
    for _ in range(2):  # the loss |w|² / 2, whose gradient is w
        before = param.detach().clone()
        with torch.no_grad():
            param -= rate * param
    param.grad = param.detach().clone()
    found = report_of(analysis, observe({"w": param}, last_step={"w": param.detach() - before}))
    assert found["all"]["cosine_last_step"] == pytest.approx(sign)
    assert found["all"]["update_to_weight"] == pytest.approx(rate / abs(1 - rate), rel=DIGITS)


@pytest.mark.parametrize(
    "home", ["rule", "rule in a dict", "own dict by name", "own state by name", "optimizer subclass"]
)
def test_momentum_is_found_wherever_programs_keep_it(analysis: ModuleType, home: str) -> None:
    param = nn.Parameter(torch.randn(5, 4))
    param.grad = torch.randn(5, 4)
    momentum = torch.randn(5, 4)
    rule = SimpleNamespace(
        state={"w": {"step": 3, "exp_avg": momentum}}, param_groups=[{"lr": 1.0, "betas": (0.5, 0.9)}]
    )
    optimizer = torch.optim.SGD([param], momentum=0.5)
    optimizer.state[param]["momentum_buffer"] = momentum
    updater = {
        "rule": SimpleNamespace(rule=rule, momentum=0.9),
        "rule in a dict": SimpleNamespace(rules={"a": rule}),
        "own dict by name": SimpleNamespace(exp_avg={"w": momentum}, other=None),
        "own state by name": SimpleNamespace(state={"w": {"momentum": momentum}}),
        "optimizer subclass": optimizer,
    }[home]
    found = report_of(analysis, observe({"w": param}, updater=updater))["all"]
    assert found["cosine_momentum"] == pytest.approx(cosine(joined([param.grad]), joined([momentum])), rel=DIGITS)


def test_numbers_that_cannot_be_told_are_left_out(analysis: ModuleType) -> None:
    params = {"a": nn.Parameter(torch.zeros(3)), "b": nn.Parameter(torch.ones(2))}
    report = report_of(analysis, observe(params))
    assert report["all"] == {"weight_norm": pytest.approx(math.sqrt(2), rel=DIGITS), "gradient_norm": 0.0}
    assert report["loss"] == {}
    assert "nonfinite" not in report
    assert report_of(analysis, observe({})) == {
        "loss": {},
        "all": {"weight_norm": 0, "gradient_norm": 0},
        "roles": {},
        "blocks": {},
    }


def test_a_cosine_takes_only_parameters_that_have_both(analysis: ModuleType) -> None:
    """Experts without a gradient and parameters without momentum change no cosine."""
    params = {f"experts.{i}.w": nn.Parameter(torch.randn(6, 3)) for i in range(4)}
    for name in list(params)[:3]:
        params[name].grad = torch.randn(6, 3)
    state = {name: {"exp_avg": torch.randn(6, 3)} for name in list(params)[1:]}
    last_step = {name: torch.randn(6, 3) for name in params}
    updater = SimpleNamespace(rule=SimpleNamespace(state=state))
    found = report_of(analysis, observe(params, updater=updater, last_step=last_step))["roles"]["experts.N.w"]
    both, graded = list(params)[1:3], list(params)[:3]
    assert found["cosine_momentum"] == pytest.approx(
        cosine(joined(params[n].grad for n in both), joined(state[n]["exp_avg"] for n in both)), rel=DIGITS
    )
    assert found["cosine_last_step"] == pytest.approx(
        cosine(joined(params[n].grad for n in graded), joined(last_step[n] for n in graded)), rel=DIGITS
    )
    assert found["gradient_norm"] == pytest.approx(float(joined(params[n].grad for n in graded).norm()), rel=DIGITS)


def odd_parameters() -> dict[str, nn.Parameter]:
    torch.manual_seed(3)
    values = {
        "empty": torch.empty(0, 4),
        "scalar": torch.tensor(1.5),
        "complex": torch.randn(6, dtype=torch.complex64),
        "wide_complex": torch.randn(120, 100, dtype=torch.complex128),
        "coarse": torch.randn(40, 20).bfloat16(),
        "wide_coarse": torch.randn(120, 100).bfloat16(),
        "double": torch.randn(7, dtype=torch.float64),
        "image": torch.randn(8, 20, 9, 9).to(memory_format=torch.channels_last),
        "sparse": torch.randn(30, 4),
        "wide_sparse": torch.randn(300, 40),
    }
    params = {name: nn.Parameter(value) for name, value in values.items()}
    for name, param in params.items():
        param.grad = torch.randn_like(param)
        if "sparse" in name:
            picked = torch.tensor([[1, 5, 1]])
            param.grad = torch.sparse_coo_tensor(
                picked, torch.randn(3, param.shape[1]), param.shape, check_invariants=True
            )
    return params


def real(tensor: torch.Tensor) -> torch.Tensor:
    dense = tensor.detach().to_dense()
    return (torch.view_as_real(dense) if dense.is_complex() else dense).double().flatten()


def test_odd_tensors_are_measured_like_others(analysis: ModuleType) -> None:
    params = odd_parameters()
    last_step = {name: torch.randn_like(param) for name, param in params.items()}
    momenta = {name: torch.randn_like(param) for name, param in params.items()}
    report = report_of(analysis, observe(params, last_step=last_step, updater=SimpleNamespace(exp_avg=momenta)))
    for name, param in params.items():
        found, gradient = report["roles"][name], real(param.grad)
        assert found["weight_norm"] == pytest.approx(float(real(param).norm()), rel=DIGITS)
        assert found["gradient_norm"] == pytest.approx(float(gradient.norm()), rel=DIGITS)
        if param.numel():
            assert found["cosine_momentum"] == pytest.approx(cosine(gradient, real(momenta[name])), rel=1e-4)
            assert found["cosine_last_step"] == pytest.approx(cosine(gradient, real(last_step[name])), rel=1e-4)
    everything = torch.cat([real(param.grad) for param in params.values()])
    assert report["all"]["gradient_norm"] == pytest.approx(float(everything.norm()), rel=DIGITS)


def test_a_momentum_of_another_shape_or_dtype_is_no_obstacle(analysis: ModuleType) -> None:
    params = {"a": nn.Parameter(torch.randn(4, 6)), "b": nn.Parameter(torch.randn(200, 60))}
    for param in params.values():
        param.grad = torch.randn_like(param)
    momenta = {"a": torch.randn(4), "b": torch.randn(60, 200)}
    report = report_of(analysis, observe(params, updater=SimpleNamespace(exp_avg=momenta)))
    assert all("cosine_momentum" not in numbers for numbers in report["roles"].values())
    momenta = {name: torch.randn_like(param).double() for name, param in params.items()}
    report = report_of(analysis, observe(params, updater=SimpleNamespace(exp_avg=momenta)))
    for name, numbers in report["roles"].items():
        assert numbers["cosine_momentum"] == pytest.approx(
            cosine(real(params[name].grad), real(momenta[name])), rel=1e-4
        )


def fail(_: Any) -> Any:
    raise AssertionError("the analysis is not to be differentiated")


def test_nothing_is_changed(analysis: ModuleType) -> None:
    params = odd_parameters()
    momenta = {name: torch.randn_like(param) for name, param in params.items()}
    last_step = {name: torch.randn_like(param) for name, param in params.items()}
    tensors = [*params.values(), *(param.grad for param in params.values()), *momenta.values(), *last_step.values()]
    before = [(tensor._version, real(tensor)) for tensor in tensors]
    random = torch.get_rng_state()
    with torch.no_grad(), torch.autograd.graph.saved_tensors_hooks(fail, fail):
        for _ in range(2):
            analysis.analyze(observe(params, last_step=last_step, updater=SimpleNamespace(exp_avg=momenta)), {})
    assert torch.equal(torch.get_rng_state(), random)
    for tensor, (version, value) in zip(tensors, before, strict=True):
        assert tensor._version == version
        assert torch.equal(real(tensor), value)
    assert all(param.grad_fn is None for param in params.values())


def test_non_finite_values_are_named_and_stay_where_they_are(analysis: ModuleType) -> None:
    params = {f"layers.{i}.w": nn.Parameter(torch.ones(4, 4)) for i in range(30)}
    for param in params.values():
        param.grad = torch.ones(4, 4)
    params["layers.2.w"].grad[0, 0] = math.nan
    with torch.no_grad():
        params["layers.7.w"][1, 1] = math.inf
    report = report_of(analysis, observe(params))
    assert report["nonfinite"] == {"weights": ["layers.7.w"], "gradients": ["layers.2.w"]}
    assert math.isnan(report["all"]["gradient_norm"])
    assert report["all"]["weight_norm"] == math.inf
    assert math.isnan(report["blocks"]["layers.2"])
    assert report["blocks"]["layers.3"] == 4.0
    for param in params.values():
        param.grad.fill_(math.nan)
    names = report_of(analysis, observe(params))["nonfinite"]["gradients"]
    assert names == [*list(params)[:20], "and 10 more"]


def test_autocast_does_not_coarsen_the_numbers(analysis: ModuleType) -> None:
    params = {"w": nn.Parameter(torch.randn(30, 30))}
    params["w"].grad = 1e3 * torch.randn(30, 30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = report_of(analysis, observe(params))["all"]
    assert found["gradient_norm"] == pytest.approx(float(joined([params["w"].grad]).norm()), rel=DIGITS)


def test_a_model_with_three_thousand_parameters_gives_a_small_report_that_loses_nothing(analysis: ModuleType) -> None:
    torch.manual_seed(0)
    params = {
        f"stage{j}.layers.{i}.part_with_a_long_name_{j}.weight": nn.Parameter(torch.randn(2 + j % 7))
        for i in range(60)
        for j in range(50)
    }
    for param in params.values():
        param.grad = torch.randn_like(param)
    last_step = {name: torch.randn_like(param) for name, param in params.items()}
    report = report_of(analysis, observe(params, last_step=last_step))
    assert len(params) == 3000
    assert len(json.dumps(report)) < 64 << 10
    assert len(report["roles"]) == 24
    assert len(report["blocks"]) == 48
    assert list(report["roles"])[-1] == "27 smaller roles"
    assert list(report["blocks"])[-1] == "2953 smaller blocks"
    total = float(joined(param.grad for param in params.values()).norm())
    assert report["all"]["gradient_norm"] == pytest.approx(total, rel=DIGITS)
    for groups in (report["roles"].values(), ({"gradient_norm": value} for value in report["blocks"].values())):
        squares = sum(group["gradient_norm"] ** 2 for group in groups)
        assert math.sqrt(squares) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "role", "block"),
    [
        ("blocks.3.attn.weight", "blocks.N.attn.weight", "blocks.3"),
        ("transformer.h.11.mlp.2.bias", "transformer.h.N.mlp.N.bias", "transformer.h.11"),
        ("0.weight", "N.weight", "0"),
        ("layer1.0.conv2.weight", "layer1.N.conv2.weight", "layer1.0"),
        ("wte.weight", "wte.weight", "wte"),
        ("scale", "scale", "scale"),
        ("extra.4", "extra.N", "extra"),
    ],
)
def test_roles_and_blocks_come_from_names(analysis: ModuleType, name: str, role: str, block: str) -> None:
    report = report_of(analysis, observe({name: nn.Parameter(torch.ones(2))}))
    assert list(report["roles"]) == [role]
    assert list(report["blocks"]) == [block]


def test_roles_are_those_of_the_kit(analysis: ModuleType) -> None:
    kit = pytest.importorskip("opal.kit")
    params = {name: nn.Parameter(torch.ones(1)) for name in ("a.0.b", "0.w", "x.12", "h.3.c1.4.w", "c1.w")}
    assert list(report_of(analysis, observe(params))["roles"]) == list(kit.group_by_role(list(params.items())))


# ── Losses ──


def test_losses_of_a_straight_line_with_noise_equal_least_squares(analysis: ModuleType) -> None:
    torch.manual_seed(0)
    xs = torch.arange(50, dtype=torch.float64)
    losses = 3 - 0.01 * xs + 0.1 * torch.randn(50, dtype=torch.float64)
    loss = report_of(analysis, observe({}, losses=losses.tolist()))["loss"]
    design = torch.stack([torch.ones_like(xs), xs], 1)
    fit = torch.linalg.lstsq(design, losses[:, None]).solution.flatten()
    spread = float((losses - design @ fit).square().sum().div(48).sqrt())
    error = spread / math.sqrt(float((xs - xs.mean()).square().sum()))
    assert loss.pop("windows") == f"50: {loss['mean']} ± {loss['standard_error']}"
    assert loss == pytest.approx(
        {
            "mean": float(losses.mean()),
            "standard_error": spread / math.sqrt(50),
            "slope": float(fit[1]),
            "slope_standard_error": error,
            "spread": spread,
        },
        rel=DIGITS,
    )


def test_the_last_six_windows_are_shown_and_memory_stays_small(analysis: ModuleType) -> None:
    memory: dict[str, Any] = {}
    for window in range(1, 11):
        losses = [float(window)] * 50
        loss = report_of(analysis, observe({}, update=50 * window, losses=losses), memory)["loss"]
    assert loss["windows"] == ", ".join(f"{50 * window}: {float(window)} ± 0.0" for window in range(5, 11))
    assert loss["slope"] == 0.0
    assert len(memory["losses"]) == 50
    assert len(memory["windows"]) == 6
    assert json.loads(json.dumps(memory, allow_nan=False)) == memory


def test_missing_and_non_finite_losses_are_counted_and_leave_no_gap_in_the_line(analysis: ModuleType) -> None:
    losses = [2.0 - 0.5 * place for place in range(50)]
    losses[3] = losses[40] = math.nan
    losses[7] = math.inf
    memory: dict[str, Any] = {}
    loss = report_of(analysis, observe({}, losses=losses), memory)["loss"]
    assert loss["missing"] == 3
    assert loss["slope"] == pytest.approx(-0.5)
    assert loss["spread"] == pytest.approx(0.0, abs=1e-6)
    json.dumps(memory, allow_nan=False)
    assert report_of(analysis, observe({}, losses=[math.nan] * 50))["loss"] == {}
    assert report_of(analysis, observe({}, losses=[1.0, 3.0]))["loss"] == {"mean": 2.0, "windows": "50: 2.0"}


def test_short_intervals_are_joined_to_windows_of_at_least_twenty_updates(tmp_path: Any) -> None:
    source = Path(SOURCE).read_text(encoding="utf-8")
    assert source.count("EVERY = 50\n") == 1
    analysis = ModuleType("often")
    exec(compile(source.replace("EVERY = 50\n", "EVERY = 8\n"), "analysis.py", "exec"), analysis.__dict__)
    assert (analysis.EVERY, analysis.WINDOW, analysis.NEEDS_LAST_STEP) == (8, 24, True)
    memory: dict[str, Any] = {}
    for check in range(1, 31):
        losses = [float(update) for update in range(8 * check - 7, 8 * check + 1)]
        loss = report_of(analysis, observe({}, update=8 * check, losses=losses), memory)["loss"]
    means = [window.split(" ±")[0] for window in loss["windows"].split(", ")]
    assert means == [f"{end}: {end - 11.5}" for end in range(120, 241, 24)]
    assert loss["mean"] == 240 - 11.5


def test_the_same_window_one_epoch_earlier_is_compared_pair_by_pair(analysis: ModuleType) -> None:
    torch.manual_seed(0)
    batches = torch.randn(120, dtype=torch.float64)  # an epoch of 120 batches in one order, the loss falling slowly
    losses = [float(3 - 0.002 * update + batches[update % 120] + 1e-3 * torch.randn(())) for update in range(200)]
    memory: dict[str, Any] = {}
    for check in range(1, 5):
        observation = observe(
            {}, update=50 * check, losses=losses[50 * check - 50 : 50 * check], updates_per_epoch=120.0
        )
        loss = report_of(analysis, observation, memory)["loss"]
        assert ("epoch_earlier" in loss) is (check == 4)
    now, before = torch.tensor(losses[150:]).double(), torch.tensor(losses[30:80]).double()
    difference = now - before
    expected = {
        "mean": float(before.mean()),
        "change": float(difference.mean()),
        "standard_error": float(difference.std() / math.sqrt(50)),
        "correlation": float(torch.corrcoef(torch.stack([now, before]))[0, 1]),
    }
    assert loss["epoch_earlier"] == pytest.approx(expected, rel=1e-3)
    assert loss["epoch_earlier"]["correlation"] > 0.99
    assert len(memory["losses"]) == 170


def test_the_source_stands_alone_and_is_short() -> None:
    source = Path(SOURCE).read_text(encoding="utf-8")
    imported = {line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert imported - set(sys.stdlib_module_names) == {"torch"}
    assert len(source.splitlines()) < 340
    assert len(source.encode()) < 18_000
