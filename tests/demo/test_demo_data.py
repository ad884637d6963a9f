from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opal.demo.data import load_text, training_batches, validation_windows
from opal.errors import InstallationError


def tree(root: Path, count: int = 40) -> Path:
    for number in range(count):
        (root / f"m{number:02d}.py").write_bytes(bytes([number]) * 10)
    for left_out in ("test/a.py", "pkg/tests/b.py", "site-packages/c.py", "__pycache__/d.py", "idlelib/idle_test/e.py"):
        path = root / left_out
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff" * 1000)
    (root / "notes.txt").write_bytes(b"\xff" * 1000)
    return root


def test_the_last_five_percent_of_the_files_in_path_order_are_held_out(tmp_path: Path) -> None:
    text = load_text(tree(tmp_path))
    assert text.train_files == tuple(f"m{number:02d}.py" for number in range(38))
    assert text.held_out_files == ("m38.py", "m39.py")
    assert text.train.tolist() == [number for number in range(38) for _ in range(10)]
    assert text.held_out.tolist() == [38] * 10 + [39] * 10


def test_a_folder_without_sources_is_refused_and_named(tmp_path: Path) -> None:
    with pytest.raises(InstallationError, match=r"holds 0 source files.*use a Python"):
        load_text(tmp_path)


def test_the_standard_library_is_split_without_overlap_and_has_no_tests_in_it() -> None:
    text = load_text()
    assert not set(text.train_files) & set(text.held_out_files)
    assert "argparse.py" in text.train_files
    assert not [name for name in text.train_files if {"test", "tests", "site-packages"} & set(name.split("/"))]
    assert len(text.train) > 5_000_000
    assert 0.02 < len(text.held_out_files) / len(text.train_files) < 0.08
    assert 100_000 < len(text.held_out) < len(text.train) / 5


def test_batches_depend_on_the_seed_only_and_targets_are_the_next_bytes() -> None:
    text = torch.arange(200, dtype=torch.uint8)
    first, again, other = (training_batches(text, context=8, batch_size=4, seed=seed) for seed in (1, 1, 2))
    batches = [next(first) for _ in range(3)]
    for inputs, targets in batches:
        repeated_inputs, repeated_targets = next(again)
        assert torch.equal(inputs, repeated_inputs)
        assert torch.equal(targets, repeated_targets)
        assert inputs.shape == targets.shape == (4, 8)
        assert torch.equal(targets, inputs + 1)
    assert not torch.equal(batches[0][0], next(other)[0])
    assert not torch.equal(batches[0][0], batches[1][0])


def test_training_windows_reach_both_ends_of_the_text() -> None:
    text = torch.arange(12, dtype=torch.uint8)
    inputs, targets = next(training_batches(text, context=8, batch_size=200, seed=0))
    assert int(inputs.min()) == 0
    assert int(targets.max()) == 11


def test_validation_windows_are_spread_over_the_whole_text() -> None:
    windows = validation_windows(torch.arange(100, dtype=torch.uint8), context=9, count=4)
    assert windows[:, 0].tolist() == [0, 30, 60, 90]
    assert windows[-1].tolist() == list(range(90, 100))
