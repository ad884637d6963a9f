from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def options_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    import example_options

    return example_options


def test_flags_become_arguments_of_wrap(options_module: ModuleType) -> None:
    parser = options_module.example_parser("", updates=400, every=10, decisions=8)
    flags = "--opal --backend claude --model m --effort low --decisions 5 --every 20 --blocking auto --max-cost-usd 2.5"
    options = parser.parse_args([*flags.split(), "--no-summarize", "--decision-schedule", "uniform", "--run-dir", "r"])
    assert options_module.wrap_arguments(options) == {
        "total_steps": 400,
        "backend": "claude",
        "backend_options": {"model": "m", "effort": "low"},
        "decisions": 5,
        "schedule": "uniform",
        "every": 20,
        "blocking": "auto",
        "max_cost_usd": 2.5,
        "summarize": False,
        "run_dir": "r",
    }


def test_what_was_not_asked_for_is_not_passed_on(options_module: ModuleType) -> None:
    parser = options_module.example_parser("", updates=400, every=10, decisions=8)
    arguments = options_module.wrap_arguments(parser.parse_args(["--opal"]))
    assert arguments["blocking"] is True
    assert arguments["schedule"] == "front"
    assert not {"backend_options", "max_cost_usd", "summarize"} & set(arguments)


def test_a_schedule_of_updates_fixes_the_count_of_decisions(options_module: ModuleType) -> None:
    parser = options_module.example_parser("", updates=400, every=10, decisions=8)
    arguments = options_module.wrap_arguments(parser.parse_args(["--decision-schedule", "50,200,300"]))
    assert arguments["schedule"] == [50, 200, 300]
    assert arguments["decisions"] is None
