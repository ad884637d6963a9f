from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

MODELS = {"tiny", "mlp", "gpt", "resnet"}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import rows
    import targets
    import workloads

    return SimpleNamespace(rows=rows, targets=targets, workloads=workloads)


def test_every_model_has_a_limit_in_every_judged_row(bench: SimpleNamespace) -> None:
    table = bench.targets.load_targets()
    for row in {*bench.rows.JUDGED.values(), "check"}:
        assert set(table[row]["limit"]) == MODELS == set(bench.workloads.WORKLOADS)


@pytest.mark.parametrize(
    ("ratio", "added_us", "passed"), [(1.05, 50.0, True), (1.051, 10.0, True), (1.051, 10.1, False), (0.9, -5.0, True)]
)
def test_a_ratio_passes_by_its_limit_or_by_ten_microseconds(
    bench: SimpleNamespace, ratio: float, added_us: float, passed: bool
) -> None:
    target = bench.targets.load_targets()["ordinary_keep"]
    assert bench.targets.judge_ratio(target, "tiny", ratio, added_us).passed is passed


@pytest.mark.parametrize(
    ("plain_us", "added_us", "passed"),
    [(100.0, 250.0, True), (100.0, 251.0, False), (900.0, 899.0, True), (900.0, 901.0, False)],
)
def test_a_check_may_cost_a_plain_step_or_250_microseconds(
    bench: SimpleNamespace, plain_us: float, added_us: float, passed: bool
) -> None:
    target = bench.targets.load_targets()["check"]
    assert bench.targets.judge_check(target, "mlp", plain_us, added_us).passed is passed


def measured(ordinary: float, check: float, before: float) -> list[dict[str, list[float]]]:
    """Three rounds, the second on a machine that was three times as slow for a while; a few updates were disturbed."""
    return [
        {"ordinary": [slow * ordinary] * 40 + [9999.0] * 8, "check": [slow * check], "before_check": [slow * before]}
        for slow in (1, 3, 1)
    ]


def test_rows_compare_p10_with_plain_and_count_what_a_check_prepares(bench: SimpleNamespace) -> None:
    times = {
        "plain": measured(100, 100, 100),
        "plain_again": measured(101, 101, 101),
        "keep": measured(104, 300, 150),
    }
    result = {"model": "tiny", "what": "keep", "blocks_us": times}
    again, keep, check = bench.rows.rows_of("this", result, bench.targets.load_targets())
    assert again.passed is None
    assert again.ratio == pytest.approx(1.01)
    assert keep.ratio == pytest.approx(1.04)
    assert keep.passed is True
    assert check.added == pytest.approx(300 - 104 + 150 - 104)
    assert check.passed is True


def test_a_missed_target_is_shown_as_missed(bench: SimpleNamespace) -> None:
    times = {"plain": measured(100, 100, 100), "keep": measured(120, 500, 120)}
    rows = bench.rows.rows_of(
        "this", {"model": "tiny", "what": "keep", "blocks_us": times}, bench.targets.load_targets()
    )
    assert [row.passed for row in rows] == [False, False]
    assert all(bench.rows.shown(row).endswith("MISSED") for row in rows)


def test_models_have_the_sizes_that_the_targets_name(bench: SimpleNamespace) -> None:
    tensors = {name: len(list(load.model().parameters())) for name, load in bench.workloads.WORKLOADS.items()}
    assert tensors == {"tiny": 4, "mlp": 6, "gpt": 77, "resnet": 61}
    for load in bench.workloads.WORKLOADS.values():
        inputs, targets = load.batch()
        assert load.model()(inputs).shape[0] == len(targets)
