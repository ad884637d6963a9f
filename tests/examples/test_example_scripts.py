"""The example scripts, each in a process of its own with a few updates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
EXAMPLES = ("byte_gpt", "digits_mlp")
FIELDS = {
    "example", "metric", "updates", "seed", "train_seconds", "wait_seconds", "cost_usd", "decisions", "run_dir",
    "backend", "parameter_sha256", "hardware", "versions", "commit", "command",
}  # fmt: skip


def run_example(name: str, folder: Path, *flags: str) -> tuple[dict[str, Any], str]:
    """Run an example for 24 updates; its result.json and what it printed."""
    source = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    out = folder / "result.json"
    script = ROOT / "examples" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), "--updates", "24", "--out", str(out), *flags],
        cwd=folder, env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], str, Path]]:
    """Each example run plain, with its final weights saved."""
    results = {}
    for name in EXAMPLES:
        folder = tmp_path_factory.mktemp(name)
        results[name] = (*run_example(name, folder, "--save", str(folder / "weights")), folder)
    return results


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_plain_run_leaves_the_agents_fields_empty(name: str, plain: dict[str, Any]) -> None:
    result, printed, _ = plain[name]
    assert set(result) == FIELDS
    assert [result[field] for field in ("wait_seconds", "cost_usd", "decisions", "run_dir", "backend")] == [None] * 5
    assert result["example"] == name
    assert result["updates"] == 24
    assert result["train_seconds"] > 0
    assert f"{name}.py --updates 24" in result["command"]
    assert result["versions"]["torch"] == torch.__version__
    assert result["hardware"]["threads"] == 1
    assert f"parameters sha256 {result['parameter_sha256']}" in printed


@pytest.mark.parametrize(
    ("name", "direction", "low", "high"), [("byte_gpt", "lower", 2.5, 5.0), ("digits_mlp", "higher", 0.5, 0.95)]
)
def test_the_metric_has_a_direction_and_a_value_that_shows_learning(
    name: str, direction: str, low: float, high: float, plain: dict[str, Any]
) -> None:
    metric = plain[name][0]["metric"]
    assert metric["direction"] == direction
    assert low < metric["value"] < high
    assert 0 < metric["standard_error"] < 0.1


@pytest.mark.parametrize("name", EXAMPLES)
def test_saved_weights_are_those_of_the_checksum(
    name: str, plain: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    from example_result import parameter_checksum

    result, _, folder = plain[name]
    weights = torch.load(folder / "weights" / "weights.pt", weights_only=True)
    loaded = torch.nn.ParameterList(weights.values())
    assert parameter_checksum(loaded) == result["parameter_sha256"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_keep_ends_with_the_parameters_of_plain(name: str, plain: dict[str, Any], tmp_path: Path) -> None:
    flags = (
        "--opal",
        "--backend",
        "keep",
        "--every",
        "4",
        "--decisions",
        "3",
        "--decision-schedule",
        "uniform",
        "--run-dir",
        "run",
    )
    result, _ = run_example(name, tmp_path, *flags)
    assert result["parameter_sha256"] == plain[name][0]["parameter_sha256"]
    assert result["metric"] == plain[name][0]["metric"]
    assert result["decisions"] == {"asked": 2, "applied": 0, "failed": 0}
    assert result["backend"] == "keep"
    assert result["wait_seconds"] >= 0
    assert result["run_dir"] == "run"  # relative to the result, below which it lies
    assert (tmp_path / "run" / "run.json").exists()


def test_another_seed_gives_other_parameters(plain: dict[str, Any], tmp_path: Path) -> None:
    result, _ = run_example("digits_mlp", tmp_path, "--seed", "1")
    assert result["parameter_sha256"] != plain["digits_mlp"][0]["parameter_sha256"]
