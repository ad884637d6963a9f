"""The comparison of a plain and a wrapped run can fail: small changes of the wrapped one are found."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from cases.fingerprint import differences, sha256
from cases.loops import Script, keep, kept_like_plain, train, unlike
from cases.schedulers import SCHEDULERS
from opal.engine import assemble
from opal.programs.contract import ProgramFiles

SCRIPT = Script(schedulers=(SCHEDULERS["CosineAnnealingLR"],))


def start_with(monkeypatch: pytest.MonkeyPatch, old: str, new: str, file: str = "updater.py") -> None:
    """Let runs begin with a starting program in which a text is another one."""
    original: Callable[[int], ProgramFiles] = assemble.starting_program

    def changed(every: int) -> ProgramFiles:
        files = original(every)
        assert old in files.texts[file]
        return dataclasses.replace(files, texts={**files.texts, file: files.texts[file].replace(old, new)})

    monkeypatch.setattr(assemble, "starting_program", changed)


def difference(folder: Path, script: Script = SCRIPT, **changed: Any) -> set[str]:
    """The kinds of differences between plain and wrapped."""
    found = unlike(train(script), train(script, keep(folder, script, **changed)))
    return {line.partition("[")[0].partition(":")[0] for line in found}


def test_a_rate_that_is_off_by_one_in_ten_millions_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_with(
        monkeypatch,
        "        for optimizer in self.optimizers:\n",
        "        for group in self.param_groups:\n            group['lr'] *= 1 + 1e-7\n"
        "        for optimizer in self.optimizers:\n",
    )
    assert "the parameters have another SHA-256" in difference(tmp_path)
    with pytest.raises(AssertionError, match="another SHA-256"):
        kept_like_plain(SCRIPT, tmp_path / "again")


def test_an_update_that_is_made_twice_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_with(
        monkeypatch,
        "        return result",
        "        if update == 60:\n            optimizer.step()\n        return result",
    )
    found = difference(tmp_path)
    assert {"the parameters have another SHA-256", "optimizers"} <= found


@pytest.mark.parametrize("draw", ["import random; random.random()", "torch.rand(1)",
                                  "import numpy; numpy.random.rand()"])  # fmt: skip
def test_a_random_number_that_an_update_draws_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: str
) -> None:
    start_with(
        monkeypatch,
        "        for optimizer in self.optimizers:\n",
        f"        {draw}\n        for optimizer in self.optimizers:\n",
    )
    assert difference(tmp_path) == {"random"}


def test_a_rate_that_the_program_writes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_with(
        monkeypatch, "        return result", "        self.param_groups[0]['eps'] = 1e-7\n        return result"
    )
    assert "optimizers" in difference(tmp_path)


def test_an_edit_is_found(tmp_path: Path) -> None:
    def edit(workspace: str, message: str, system: str) -> str:
        with (Path(workspace) / "updater.py").open("a") as file:
            file.write("# nothing else\n")
        return "a comment"

    with pytest.raises(AssertionError, match=r"0 decisions were kept\nprograms \['v000', 'v001', .* v004 at the end"):
        kept_like_plain(SCRIPT, tmp_path, backend=edit)


def test_a_decision_without_an_answer_is_found(tmp_path: Path) -> None:
    def fail(workspace: str, message: str, system: str) -> str:
        raise ConnectionError("nobody is there")

    with pytest.raises(AssertionError, match=r"^0 decisions were kept\nWarned"):
        kept_like_plain(SCRIPT, tmp_path, backend=fail)


def test_an_analysis_that_fails_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_with(monkeypatch, "\ndef analyze(", "\ndef analyze(one_more, ", file="analysis.py")
    with pytest.raises(AssertionError, match=r"^AnalysisFailed"):
        kept_like_plain(SCRIPT, tmp_path)


def test_clipping_that_is_not_handed_over_is_found(tmp_path: Path) -> None:
    script = Script(clip=0.3, clip_handed_over=True)
    assert "the parameters have another SHA-256" in difference(tmp_path, script)
    assert difference(tmp_path / "handed over", script, clip_grad_norm=0.3) == set()


def test_states_that_differ_are_told_apart() -> None:
    state = {"step": torch.tensor(1.0), "betas": (0.9, 0.99), "name": "a", "empty": []}
    assert differences(state, {**state, "step": torch.tensor(1.0)}) == []
    assert differences({"x": float("nan")}, {"x": float("nan")}) == []
    for other in (
        {**state, "step": torch.tensor(1.0 + 2**-23)},
        {**state, "step": torch.tensor(1.0, dtype=torch.float64)},
        {**state, "step": torch.tensor([1.0])},
        {**state, "step": 1.0},
        {**state, "betas": (0.9, 0.999)},
        {**state, "betas": [0.9, 0.99]},
        {**state, "more": 1},
        {**state, "empty": [1]},
    ):
        assert len(differences(state, other)) == 1


def test_a_zero_of_another_sign_is_another_value() -> None:
    zero = torch.zeros(2)
    assert sha256([("w", zero)]) == sha256([("w", torch.zeros(2))])
    assert (
        len({sha256([("w", zero)]), sha256([("w", -zero)]), sha256([("v", zero)]), sha256([("w", zero.double())])}) == 4
    )


def test_generators_that_moved_are_told_apart() -> None:
    still = train(Script(updates=1)).random
    assert still == train(Script(updates=1)).random
    for draw, name in ((random.random, "python"), (numpy.random.rand, "numpy"), (lambda: torch.rand(1), "torch")):
        moved = train(Script(updates=1, prepare=lambda _, draw=draw: draw())).random
        assert [key for key in still if still[key] != moved[key]] == [name]
