"""Runs to tell an agent of: configurations, facts and requests, small and very large."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from opal.config import RunConfig, parse
from opal.types import (
    DecisionRequest,
    Failure,
    GroupFacts,
    GroupRate,
    LossHistory,
    Metric,
    ModelFacts,
    OptimizerFacts,
    Outcome,
    ParameterFacts,
    ProgramAudit,
    Reason,
    Report,
    RunFacts,
    SchedulerFacts,
    SmoothedLoss,
    Timing,
)

ARGUMENTS: dict[str, Any] = {
    "total_steps": 400, "goal": "Train a byte-level GPT; it is judged by its loss on held-out text.",
    "task_facts": None,
    "epochs": None, "train_size": None, "batch_size": None, "same_order_each_epoch": None, "validation": None,
    "validation_size": None, "decisions": 8, "schedule": "front", "max_decisions": None, "max_cost_usd": None,
    "max_wait_hours": None, "every": 10, "blocking": True, "max_lag_updates": 50, "show_next_decision": True,
    "pause_on_nonfinite": True, "backend": "keep", "backend_options": None, "prompt": "neutral", "share_code": True,
    "summarize": True, "approve": None, "clip_grad_norm": None, "bounds": None, "activations": None, "program": None,
    "trial_steps": 20, "snapshot_limit_gb": 2.0, "gate": "warn", "preflight": True, "step_timeout": 60,
    "boundary": "flag", "eval_integrity": None, "eval_integrity_threshold": 5, "run_dir": None, "trackers": (),
    "notify": None, "sync_every": 20, "rank_check_every": 100,
}  # fmt: skip

ADAMW = {"lr": 0.001, "betas": (0.9, 0.95), "eps": 1e-08, "weight_decay": 0.1, "amsgrad": False, "maximize": False,
         "foreach": None, "capturable": False, "differentiable": False, "fused": None,
         "decoupled_weight_decay": True}  # fmt: skip
COSINE = {"T_max": 400, "eta_min": 0.0, "base_lrs": [0.001], "last_epoch": 0, "_step_count": 1}

GPT_SUMMARY = """GPT(
  (token_embedding): Embedding(256, 128)
  (position_embedding): Embedding(128, 128)
  (blocks): ModuleList(
    (0-3): 4 x Block(
      (norm1): LayerNorm((128,), eps=1e-05, elementwise_affine=True)
      (attention): Attention(
        (qkv): Linear(in_features=128, out_features=384, bias=True)
        (out): Linear(in_features=128, out_features=128, bias=True)
      )
      (norm2): LayerNorm((128,), eps=1e-05, elementwise_affine=True)
      (mlp): Sequential(
        (0): Linear(in_features=128, out_features=512, bias=True)
        (1): GELU(approximate='none')
        (2): Linear(in_features=512, out_features=128, bias=True)
      )
    )
  )
  (norm): LayerNorm((128,), eps=1e-05, elementwise_affine=True)
  (head): Linear(in_features=128, out_features=256, bias=False)
)"""


@pytest.fixture
def make_config() -> Callable[..., RunConfig]:
    """Make a configuration as `wrap` would, with `inactive` features set past the check for what is not built."""

    def make(**changes: Any) -> RunConfig:
        return parse({**ARGUMENTS, **changes})

    return make


def role_of(name: str) -> str:
    return re.sub(r"(?<![^.])\d+(?![^.])", "N", name)


@pytest.fixture
def make_facts() -> Callable[..., RunFacts]:
    """Make a run's facts from (name, shape) pairs."""

    def make(shapes: list[tuple[str, tuple[int, ...]]], **changes: Any) -> RunFacts:
        parameters = []
        for name, shape in shapes:
            count = 1
            for length in shape:
                count *= length
            parameters.append(
                ParameterFacts(name=name, role=role_of(name), shape=shape, dtype="float32", device="cpu", count=count,
                               requires_grad=True, group=0)
            )  # fmt: skip
        names = tuple(name for name, _ in shapes)
        values: dict[str, Any] = {
            "parameters": tuple(parameters),
            "groups": (GroupFacts(index=0, optimizer="AdamW", options=ADAMW, names=names),),
            "optimizers": (OptimizerFacts(name="AdamW"),),
            "schedulers": (SchedulerFacts(name="CosineAnnealingLR", settings=COSINE),),
            "model": ModelFacts(name="GPT", summary=GPT_SUMMARY, sources={"model.py": "class GPT: ...\n"}),
            "script": "/somewhere/train.py",
            "world_size": 1,
            "torch_version": "2.13.0",
            "python_version": "3.11.2",
            "hardware": "CPU, 2 cores",
        }
        return RunFacts(**{**values, **changes})

    return make


@pytest.fixture
def gpt_facts(make_facts: Callable[..., RunFacts]) -> RunFacts:
    """The facts of a GPT with 4 layers of width 128, AdamW in one group, cosine."""
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("token_embedding.weight", (256, 128)),
        ("position_embedding.weight", (128, 128)),
    ]
    for layer in range(4):
        block = f"blocks.{layer}."
        shapes += [
            (block + "norm1.weight", (128,)), (block + "norm1.bias", (128,)),
            (block + "attention.qkv.weight", (384, 128)), (block + "attention.qkv.bias", (384,)),
            (block + "attention.out.weight", (128, 128)), (block + "attention.out.bias", (128,)),
            (block + "norm2.weight", (128,)), (block + "norm2.bias", (128,)),
            (block + "mlp.0.weight", (512, 128)), (block + "mlp.0.bias", (512,)),
            (block + "mlp.2.weight", (128, 512)), (block + "mlp.2.bias", (128,)),
        ]  # fmt: skip
    shapes += [("norm.weight", (128,)), ("norm.bias", (128,)), ("head.weight", (256, 128))]
    return make_facts(shapes)


def sample_report(update: int, roles: int = 12) -> Report:
    """A report of the starting analysis's kind."""
    scale = 1.0 + 1.0 / update
    per_role = {
        f"blocks.N.part{index}.weight": {"update_to_weight": 0.0012 * scale, "grad_norm": 0.31 * scale,
                                         "weight_norm": 22.6, "cos_momentum": 0.61, "cos_last_step": -0.12}
        for index in range(roles)
    }  # fmt: skip
    return Report(
        update=update,
        values={"loss": {"mean": 3.2 * scale, "standard_error": 0.02, "slope": -0.01}, "noise_scale": 412.5 * scale,
                "roles": per_role, "blocks": {f"blocks.{index}": 0.2 + index / 10 for index in range(4)}},
    )  # fmt: skip


@pytest.fixture
def make_request() -> Callable[..., DecisionRequest]:
    """Make the request of an ordinary decision, the third of eight; fields can be changed."""

    def make(**changes: Any) -> DecisionRequest:
        values: dict[str, Any] = {
            "number": 3, "update": 120, "total_updates": 400, "epoch": None, "waits": True,
            "reasons": (Reason(kind="scheduled"),), "first": False, "last": False, "next_update": 170,
            "decisions_left": 5, "running_version": "v001",
            "previous": (Outcome(decision=2, kind="applied", sentence="applied as v001 at update 60", version="v001",
                                 asked_at=60, effective_from=60),),
            "losses": LossHistory(means=tuple((60 + index, 3.3 - index / 100) for index in range(1, 61)),
                                  now=SmoothedLoss(update=120, mean=2.71, standard_error=0.021),
                                  before=SmoothedLoss(update=60, mean=3.31, standard_error=0.03)),
            "reports": tuple(sample_report(update) for update in range(70, 130, 10)),
            "timing": Timing(wall_ms=101.5, program_ms=6.2, starting_wall_ms=99.0, starting_program_ms=4.1),
            "audits": (ProgramAudit(version="v000", update=2, operator_calls=310, host_reads=0),
                       ProgramAudit(version="v001", update=61, operator_calls=402, host_reads=1,
                                    host_read_places=("updater.py:31",))),
        }  # fmt: skip
        return DecisionRequest(**{**values, **changes})

    return make


@pytest.fixture
def huge_request(make_request: Callable[..., DecisionRequest]) -> DecisionRequest:
    """A request whose every part is far larger than a message."""
    failure = Failure(
        version="v007", stage="trial", update=31, error="RuntimeError", message="shape mismatch " * 40,
        file="updater.py", line=31,
        traceback="\n".join(f"  File updater.py, line {line}, in step" for line in range(900)), undone="not",
        goes_on_with="v003",
    )  # fmt: skip
    return make_request(
        epoch=1.25,
        reasons=tuple(Reason(kind="wake", detail="ünïcode reason " * 100) for _ in range(30)),
        first=True,
        previous=tuple(Outcome(decision=index, kind="refused", sentence="no: " + "x" * 900) for index in range(30)),
        losses=LossHistory(means=tuple((index, 123456.789 / index) for index in range(1, 101)),
                           now=SmoothedLoss(update=120, mean=2.71, standard_error=0.021)),
        development=tuple(Metric(update=index, name="dev_loss", value=1 / index, shown=True, development=True)
                          for index in range(1, 900)),
        reports=tuple(sample_report(update, roles=300) for update in range(10, 1000, 10)),
        metrics=tuple(Metric(update=index, name=f"métrique{index % 70}", value=index / 7, shown=True)
                      for index in range(3000)),
        skipped=tuple(range(1000, 4000)),
        rates=tuple(GroupRate(tensors=7, first_role=f"röle.{index}.weight" * 4, rate=1 / index)
                    for index in range(1, 300)),
        failures=(failure,) * 12,
        audits=tuple(ProgramAudit(version=f"v{index:03d}", update=index, operator_calls=10**6, host_reads=99,
                                  host_read_places=tuple(f"updater.py:{line}" for line in range(99)))
                     for index in range(60)),
        notes=tuple("Please keep in mind: " + "日本語 " * 500 for _ in range(20)),
        warnings=tuple("the report was cut " * 50 for _ in range(20)),
    )  # fmt: skip
