from __future__ import annotations

import math
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console

from opal.demo import comparison as module
from opal.demo.comparison import Comparison, Row, compare, standard_error_of_difference
from opal.demo.data import Text
from opal.demo.progress import show_progress
from opal.demo.table import judgement, result_data, result_table
from opal.demo.training import AgentSetup, Progress, Task, Trained

TEXT = Text(
    train=torch.zeros(9, dtype=torch.uint8),
    held_out=torch.zeros(9, dtype=torch.uint8),
    train_files=(),
    held_out_files=(),
    source="",
)


def trained(updates: int, seconds: float, losses: list[float], *, agent: bool = False) -> Trained:
    return Trained(
        updates=updates,
        seconds=seconds,
        wait_seconds=1.5 if agent else 0.0,
        window_losses=torch.tensor(losses, dtype=torch.float64),
        run_dir=Path("run") if agent else None,
    )


def ignore(update: int, loss: float) -> None:
    """Progress that nobody looks at."""


def three_runs(opal_losses: list[float]) -> Comparison:
    return Comparison(
        plain=Row(name="plain AdamW", trained=trained(400, 40.0, [2.0, 3.0, 4.0])),
        opal=Row(name="OPAL, playbook", trained=trained(400, 60.0, opal_losses, agent=True)),
        longer=Row(name="plain AdamW, OPAL's seconds", trained=trained(600, 59.0, [1.9, 2.8, 3.7])),
    )


@pytest.mark.parametrize(("opal_seconds", "longer_updates"), [(60.0, 600), (40.9, 409), (40.5, None), (30.0, None)])
def test_the_longer_plain_run_gets_as_many_updates_as_fit_into_opals_seconds(
    monkeypatch: pytest.MonkeyPatch, opal_seconds: float, longer_updates: int | None
) -> None:
    def plain(text: Text, task: Task, updates: int, progress: Progress) -> Trained:
        return trained(updates, 0.1 * updates, [2.0])

    def with_agent(text: Text, task: Task, updates: int, progress: Progress, agent: AgentSetup) -> Trained:
        return trained(updates, opal_seconds, [1.0], agent=True)

    monkeypatch.setattr(module, "train_plain", plain)
    monkeypatch.setattr(module, "train_with_agent", with_agent)
    setup = AgentSetup(backend="playbook", decisions=8, every=10)
    result = compare(TEXT, Task(), 400, setup, lambda *_: ignore)
    assert (result.longer.trained.updates if result.longer else None) == longer_updates
    assert result.rows[0] is result.plain
    assert result.rows[-1] is result.opal


def test_the_error_of_a_difference_pairs_the_windows() -> None:
    runs = three_runs([1.9, 2.9, 3.9])
    assert standard_error_of_difference(runs.opal.trained, runs.plain.trained) == pytest.approx(0.0, abs=1e-12)
    assert runs.longer is not None
    differences = torch.tensor([-0.1, -0.2, -0.3])
    expected = float(differences.std()) / math.sqrt(3)
    assert standard_error_of_difference(runs.longer.trained, runs.plain.trained) == pytest.approx(expected)


def test_a_clear_win_a_loss_and_no_difference_are_called_what_they_are() -> None:
    win = judgement(three_runs([1.5, 2.4, 3.3]))
    assert win[0] == "At equal updates (400): OPAL is better by 0.600 ± 0.058 nats per byte."
    assert "plain had 600 updates in 59.0 s, OPAL 400 in 60.0 s, waiting included" in win[1]
    assert win[1].endswith("OPAL is better by 0.400 ± 0.000 nats per byte.")
    assert "OPAL is worse by" in judgement(three_runs([2.5, 3.4, 4.3]))[1]
    assert "no clear difference" in judgement(three_runs([1.0, 3.0, 5.0]))[0]
    assert "no clear difference (+0.000 ± 0.000)" in judgement(three_runs([2.0, 3.0, 4.0]))[0]


def test_seconds_that_are_not_equal_are_not_passed_off_as_equal() -> None:
    runs = three_runs([1.5, 2.4, 3.3])
    assert runs.longer is not None
    faster = Row(name="longer", trained=trained(600, 50.0, [1.9, 2.8, 3.7]))
    assert not any("not equal" in line for line in judgement(runs))
    assert "not equal" in judgement(Comparison(plain=runs.plain, opal=runs.opal, longer=faster))[-1]


def test_equal_seconds_are_not_claimed_when_there_was_no_longer_run() -> None:
    runs = three_runs([1.5, 2.4, 3.3])
    assert (
        "the same, since OPAL took no longer" in judgement(Comparison(plain=runs.plain, opal=runs.opal, longer=None))[1]
    )


def test_the_table_shows_updates_seconds_waiting_loss_and_difference() -> None:
    console = Console(file=StringIO(), width=100)
    console.print(result_table(three_runs([1.5, 2.4, 3.3])))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    rows = {
        name: next(line for line in lines if line.strip().startswith(name)).split()
        for name in ("plain AdamW  ", "OPAL")
    }
    assert rows["plain AdamW  "][-5:] == ["400", "40.0", "-", "3.000", "-"]
    assert rows["OPAL"][-7:] == ["400", "60.0", "1.5", "2.400", "-0.600", "±", "0.058"]


def test_the_data_hold_the_tables_numbers() -> None:
    plain, longer, opal = result_data(three_runs([1.5, 2.4, 3.3]))
    assert plain["difference_to_plain"] == 0.0
    assert longer["updates"] == 600
    assert opal["wait_seconds"] == 1.5
    assert opal["difference_to_plain"] == pytest.approx(-0.6)


def test_without_a_terminal_progress_is_eight_lines_a_run() -> None:
    console = Console(file=StringIO(), width=40)
    with show_progress(console) as start:
        tell = start("plain AdamW", 400)
        for update in range(1, 401):
            tell(update, math.nan if update < 10 else 3.25)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 8
    assert lines[0] == "plain AdamW: update 50 of 400, training loss 3.250"
    assert lines[-1].startswith("plain AdamW: update 400 of 400")


def test_on_a_terminal_progress_is_a_bar() -> None:
    console = Console(file=StringIO(), width=100, force_terminal=True)
    with show_progress(console) as start:
        tell = start("plain AdamW", 4)
        tell(4, 2.5)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "4/4" in shown
    assert "loss 2.50" in shown
