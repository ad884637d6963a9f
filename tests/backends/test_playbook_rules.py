"""The playbook: what it decides from what was measured, and that its program trains."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import opal
from opal.backends.playbook import PlaybookBackend
from opal.backends.playbook.program import program_text
from opal.backends.playbook.rules import Decision, Settings, decide
from opal.backends.playbook.situation import Measured, Situation
from opal.testing.conformance import check_backend


def _report(update: int, **cosines: float) -> Measured:
    return Measured(update=update, gradient_norm=2.0, cosines=cosines, update_to_weight={})


def _situation(**changed: Any) -> Situation:
    facts: dict[str, Any] = {
        "update": 100, "total_updates": 1000, "optimizers": ("AdamW",), "unusual": (), "reports": (), "losses": (),
        "failed": (),
    }  # fmt: skip
    return Situation(**{**facts, **changed})


def _running(**settings: Any) -> Decision:
    return Decision(settings=Settings(**settings), since=10, ended=False, rationale="")


def test_the_first_decision_moves_hidden_matrices_to_muon_and_nothing_else() -> None:
    decided = decide(_situation(reports=(_report(50, head=-0.9),)), Decision.nothing())
    assert decided.settings == Settings(muon_rate=0.02, cooldown=0.2, factors={}, max_norm=None)
    assert decided.since == 100
    assert "no model" in decided.rationale


@pytest.mark.parametrize(
    ("cosines", "factor"),
    [
        ([-0.2, -0.25, -0.15, -0.2], 2.0),  # clearly too short
        ([0.2, 0.25, 0.15, 0.2], 0.7),  # clearly too long
        ([-0.4, 0.4, -0.3, 0.3], None),  # noise
        ([-0.02, -0.02, -0.02, -0.02], None),  # clear, but next to nothing
        ([-0.5], 2.0),  # a single large one
        ([-0.2], None),  # a single small one
        ([-0.4, 0.4], None),  # two that disagree
    ],
)
def test_the_sign_of_gradient_against_last_step_moves_a_roles_rate(cosines: list[float], factor: float | None) -> None:
    reports = tuple(_report(20 + 10 * index, head=cosine) for index, cosine in enumerate(cosines))
    decided = decide(_situation(reports=reports), _running())
    assert decided.settings is not None
    assert decided.settings.factors == ({} if factor is None else {"head": factor})
    assert decided.since == (10 if factor is None else 100)


def test_reports_from_before_the_last_change_do_not_count() -> None:
    reports = tuple(_report(update, head=-0.5) for update in (1, 5, 10, 11))
    decided = decide(_situation(reports=reports), _running())
    assert decided.settings == Settings()


def test_late_in_the_run_short_steps_are_meant_to_be_short() -> None:
    reports = tuple(_report(update, head=-0.5) for update in (500, 550, 600))
    assert decide(_situation(update=601, reports=reports), _running()).settings == Settings()
    assert decide(_situation(update=600, reports=reports), _running()).settings != Settings()


def test_a_factor_stays_within_a_quarter_and_eight_times() -> None:
    reports = tuple(_report(update, up=-0.5, down=0.5) for update in (20, 30, 40))
    decided = decide(_situation(reports=reports), _running(factors={"up": 8.0, "down": 0.25}))
    assert decided.settings == Settings(factors={"up": 8.0, "down": 0.25})
    assert "Kept" in decided.rationale


def test_a_role_that_moves_by_more_than_a_tenth_halves_its_rate_but_not_a_bias() -> None:
    ratios = {"hidden": 0.2, "hidden.bias": 0.5, "calm": 0.05}
    reports = tuple(replace(_report(update), update_to_weight=ratios) for update in (20, 30))
    decided = decide(_situation(reports=reports), _running())
    assert decided.settings is not None
    assert decided.settings.factors == {"hidden": 0.5}


@pytest.mark.parametrize("extra", [20.0, float("nan")], ids=["spike", "not finite"])
def test_a_spike_or_a_lost_loss_turns_clipping_on_at_twice_the_median_norm(extra: float) -> None:
    losses = (2.0, 2.1, 1.9, 2.0, 2.1, 1.9, 2.0, 2.1, 1.9, 2.0, 2.05, extra)
    decided = decide(_situation(losses=losses, reports=(_report(20), _report(30))), _running())
    assert decided.settings is not None
    assert decided.settings.max_norm == 4.0
    calm = decide(_situation(losses=losses[:-1], reports=(_report(20), _report(30))), _running())
    assert calm.settings is not None
    assert calm.settings.max_norm is None


def test_after_a_failure_of_its_own_it_changes_nothing_more() -> None:
    reports = tuple(_report(update, head=-0.5) for update in (20, 30, 40))
    first = decide(_situation(failed=("v001 failed at update 12",), reports=reports), _running())
    assert first.ended
    assert first.settings == Settings()
    assert "v001 failed at update 12" in first.rationale
    assert decide(_situation(reports=reports), first).settings == Settings()


@pytest.mark.parametrize("changed", [{"optimizers": ("RMSprop",)}, {"unusual": ("amsgrad",)}], ids=str)
def test_what_it_does_not_know_it_leaves_alone_and_says_so(changed: dict[str, Any]) -> None:
    decided = decide(_situation(**changed), Decision.nothing())
    assert decided.settings is None
    assert next(iter(changed.values()))[0] in decided.rationale


def test_what_was_decided_survives_a_checkpoint() -> None:
    decided = decide(_situation(), _running(factors={"head": 2.0}))
    assert Decision.from_dict(decided.as_dict()) == decided
    assert Decision.from_dict(Decision.nothing().as_dict()) == Decision.nothing()


def _cosine(update: int, total: int = 60) -> float:
    return (1 + math.cos(math.pi * (update - 1) / total)) / 2


class _Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(16, 8)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
        self.head = torch.nn.Linear(8, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(x).tanh()
        out: torch.Tensor = self.head(x)
        return out


def _train(backend: Any, optimizer_of: Any, tmp_path: Path, updates: int = 60) -> tuple[float, Any]:
    torch.manual_seed(0)
    model = _Small()
    inner = optimizer_of(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(inner, T_max=updates)
    optimizer = opal.wrap(
        inner, model, scheduler=scheduler, total_steps=updates, goal="copy the next token", backend=backend, every=5,
        decisions=6, run_dir=tmp_path,
    )  # fmt: skip
    tokens = torch.randint(0, 16, (64, 9))
    for _ in range(updates):
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step(loss=loss)
        optimizer.zero_grad()
        scheduler.step()
    optimizer.close()
    return loss.item(), optimizer


@pytest.mark.parametrize(
    "optimizer_of",
    [
        lambda params: torch.optim.AdamW(params, lr=1e-3),
        lambda params: torch.optim.Adam(params, lr=1e-3, weight_decay=1e-4),
        lambda params: torch.optim.SGD(params, lr=1e-2, momentum=0.9, nesterov=True),
    ],
    ids=["AdamW", "Adam", "SGD"],
)
def test_its_program_takes_over_and_beats_the_scripts_rule(optimizer_of: Any, tmp_path: Path) -> None:
    plain, _ = _train("keep", optimizer_of, tmp_path / "keep")
    played, optimizer = _train("playbook", optimizer_of, tmp_path / "playbook")
    events = (tmp_path / "playbook" / "events.jsonl").read_text()
    assert '"program_applied"' in events
    assert '"program_failed"' not in events
    assert '"program_refused"' not in events
    assert played < plain - 0.01
    last = optimizer.param_groups[0]
    assert last["lr"] == pytest.approx(last["peak"] * _cosine(60))  # the script's shape is kept to the last update


def test_a_program_written_by_it_compiles_and_holds_its_constants() -> None:
    text = program_text(Settings(factors={"head.weight": 2.0}, max_norm=1.5))
    space: dict[str, Any] = {}
    exec(compile(text, "updater.py", "exec"), space)
    assert space["FACTORS"] == {"head.weight": 2.0}
    assert space["MAX_NORM"] == 1.5
    assert space["MUON_RATE"] == 0.02


def test_the_playbook_keeps_the_contract_of_backends(tmp_path: Path) -> None:
    class Prepared(PlaybookBackend):
        def decide(self, turn: Any) -> Any:
            (self._workspace / "reference" / "starting_optimizer.txt").write_text("group 0: AdamW, 2 tensors\n")
            (self._workspace / "inbox" / f"decision_{turn.decision:03d}.json").write_text(
                '{"update": 50, "total_updates": 100, "reports": [], "losses": {"all": []}, "previous": []}'
            )
            return super().decide(turn)

    check_backend(Prepared, tmp_path)
