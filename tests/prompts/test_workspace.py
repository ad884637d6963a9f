"""The workspace before the first decision: the program, and read-only reference files as far as they may be shared."""

from __future__ import annotations

import dataclasses
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from opal.config import RunConfig
from opal.prompts.workspace import prepare_workspace
from opal.records.run_folder import RunFolder
from opal.types import ModelFacts, OptimizerFacts, RunFacts, SchedulerFacts

MakeConfig = Callable[..., RunConfig]
PROGRAM = {"updater.py": "x = 1\n", "analysis.py": "y = 2\n"}


@pytest.fixture
def facts(gpt_facts: RunFacts, tmp_path: Path) -> RunFacts:
    script = tmp_path / "script" / "train.py"
    script.parent.mkdir()
    script.write_text("import torch  # the script\n", encoding="utf-8")
    return dataclasses.replace(
        gpt_facts,
        script=str(script),
        model=ModelFacts(name="GPT", summary="GPT()", sources={"model.py": "class GPT: ...\n", "../../up.py": "up\n"}),
        optimizers=(OptimizerFacts(name="Mine", source="class Mine: ...\n"),),
        schedulers=(SchedulerFacts(name="Wave", settings={"period": 7}, source="class Wave:\n    pass\n"),),
    )


def prepared(tmp_path: Path, config: RunConfig, facts: RunFacts) -> dict[str, str]:
    folder = RunFolder(tmp_path / "run")
    names = prepare_workspace(folder, PROGRAM, config, facts)
    return {name: (folder.workspace / name).read_text(encoding="utf-8") for name in names}


def test_everything_lies_where_it_belongs(tmp_path: Path, make_config: MakeConfig, facts: RunFacts) -> None:
    files = prepared(tmp_path, make_config(), facts)
    kit = [name for name in files if name.startswith("reference/kit/")]
    assert {"reference/kit/__init__.py", "reference/kit/rules/adamw.py"} <= set(kit)
    assert sorted(set(files) - set(kit)) == [
        "NOTES.md", "analysis.py", "reference/Mine.py", "reference/Wave.py", "reference/example_updater.py",
        "reference/model.py", "reference/model.txt", "reference/starting_optimizer.txt", "reference/task.txt",
        "reference/train.py", "reference/up.py", "updater.py",
    ]  # fmt: skip
    assert files["updater.py"] == "x = 1\n"
    assert files["reference/train.py"] == "import torch  # the script\n"
    assert (tmp_path / "run/workspace/scratch").is_dir()
    assert (tmp_path / "run/workspace/inbox").is_dir()


def test_reference_files_are_read_only_and_the_program_is_not(
    tmp_path: Path, make_config: MakeConfig, facts: RunFacts
) -> None:
    prepared(tmp_path, make_config(), facts)
    workspace = tmp_path / "run/workspace"
    for path in (path for path in (workspace / "reference").rglob("*") if path.is_file()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o444, path
    assert (workspace / "updater.py").stat().st_mode & stat.S_IWUSR


def test_nothing_of_the_code_is_shared_where_that_is_refused(
    tmp_path: Path, make_config: MakeConfig, facts: RunFacts
) -> None:
    files = prepared(tmp_path, make_config(share_code=False), facts)
    references = sorted(name for name in files if name.startswith("reference/") and "/kit/" not in name)
    assert references == ["reference/example_updater.py", "reference/model.txt", "reference/starting_optimizer.txt",
                          "reference/task.txt"]  # fmt: skip
    assert "class Wave" not in files["reference/starting_optimizer.txt"]


def test_patterns_leave_single_files_out(tmp_path: Path, make_config: MakeConfig, facts: RunFacts) -> None:
    files = prepared(tmp_path, make_config(share_code=["tr*.py", "Wave.py"]), facts)
    assert "reference/train.py" not in files
    assert "reference/Wave.py" not in files
    assert "class Wave" not in files["reference/starting_optimizer.txt"]
    assert "reference/model.py" in files


def test_the_starting_optimizer_is_described_whole(tmp_path: Path, make_config: MakeConfig, facts: RunFacts) -> None:
    text = prepared(tmp_path, make_config(clip_grad_norm=0.5), facts)["reference/starting_optimizer.txt"]
    assert "  betas = (0.9, 0.95)\n" in text
    assert "  amsgrad = False\n" in text
    assert "clips the global gradient norm at 0.5" in text
    assert "Wave(period=7)\n  period = 7\n  source:\n    class Wave:\n        pass\n" in text
    for parameter in facts.parameters:
        assert f"\n{parameter.name} | " in text
    assert "blocks.3.mlp.2.weight | 128x512 | 65,536 | float32 | cpu | 0\n" in text


def test_two_sources_of_one_name_are_both_kept(tmp_path: Path, make_config: MakeConfig, facts: RunFacts) -> None:
    sources = {"train.py": "another train\n", "deep/model.py": "one\n", "other/model.py": "two\n"}
    facts = dataclasses.replace(facts, model=dataclasses.replace(facts.model, sources=sources))
    files = prepared(tmp_path, make_config(), facts)
    assert files["reference/train.py"] == "import torch  # the script\n"
    assert files["reference/train_2.py"] == "another train\n"
    assert (files["reference/model.py"], files["reference/model_2.py"]) == ("one\n", "two\n")


def test_a_script_that_is_gone_is_left_out(tmp_path: Path, make_config: MakeConfig, facts: RunFacts) -> None:
    files = prepared(tmp_path, make_config(), dataclasses.replace(facts, script=str(tmp_path / "gone.py")))
    assert "reference/gone.py" not in files


def test_preparing_again_keeps_the_agent_s_notes(tmp_path: Path, make_config: MakeConfig, facts: RunFacts) -> None:
    prepared(tmp_path, make_config(), facts)
    notes = tmp_path / "run/workspace/NOTES.md"
    notes.write_text("mine\n", encoding="utf-8")
    assert prepared(tmp_path, make_config(), facts)["NOTES.md"] == "mine\n"
