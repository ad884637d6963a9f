"""Arguments of `wrap`: each wrong one is refused in a sentence, and nothing half-made is left behind."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import opal
from opal import config
from opal.errors import ArgumentTypeError, ArgumentValueError, NotBuiltError, OpalError, RunFolderError

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"total_steps": 0}, ValueError, "total_steps=0: a whole number of at least 1"),
    ({"total_steps": 10.0}, TypeError, "total_steps=10.0"),
    ({"total_steps": True}, TypeError, "total_steps=True"),
    ({"goal": "  "}, ValueError, "goal='  '"),
    ({"goal": 3}, TypeError, "goal=3"),
    ({"backend": "nobody"}, ValueError, "known are keep, manual, playbook"),
    ({"backend": 3}, TypeError, "backend=3"),
    ({"backend_options": {"speed": 1}}, ValueError, "'keep' has no such option"),
    ({"backend_options": [1]}, TypeError, "backend_options=[1]"),
    ({"decisions": -1}, ValueError, "decisions=-1"),
    ({"decisions": 3, "schedule": [1, 2]}, ValueError, "the schedule that was given has 2 decisions"),
    ({"schedule": "back"}, ValueError, "'front', 'uniform'"),
    ({"schedule": [0]}, ValueError, "within 1 … total_steps (40)"),
    ({"schedule": [41]}, ValueError, "within 1 … total_steps (40)"),
    ({"schedule": [(0.5, 1), (0.2, 1)]}, ValueError, "ends of the segments rise"),
    ({"schedule": [(1.5, 1)]}, ValueError, "(0, 1]"),
    ({"schedule": 7}, TypeError, "schedule=7"),
    ({"max_decisions": 1.5}, TypeError, "max_decisions=1.5"),
    ({"every": 0}, ValueError, "every=0"),
    ({"blocking": "no"}, ValueError, "True, False and 'auto'"),
    ({"blocking": 1}, TypeError, "blocking=1"),
    ({"clip_grad_norm": 0}, ValueError, "above 0"),
    ({"clip_grad_norm": float("inf")}, ValueError, "finite"),
    ({"prompt": "no such file"}, ValueError, "path of a template"),
    ({"epochs": [1]}, TypeError, "epochs=[1]"),
    ({"share_code": "model.py"}, TypeError, "list of file name patterns"),
    ({"activations": "0"}, TypeError, "list of module names"),
    ({"activations": ["nothing"]}, ValueError, "the model has no module of this name"),
    ({"trial_steps": 0}, ValueError, "trial_steps=0"),
    ({"snapshot_limit_gb": -1}, ValueError, "snapshot_limit_gb=-1"),
    ({"gate": "maybe"}, ValueError, "'warn', 'revert', 'off'"),
    ({"show_next_decision": 1}, TypeError, "show_next_decision=1"),
    ({"evry": 10}, TypeError, "did you mean 'every'?"),
    ({"scheduler": "cosine"}, TypeError, "a scheduler of torch.optim.lr_scheduler"),
]


def _wrap(tmp_path: Path, **changed: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    arguments: dict[str, Any] = {"total_steps": 40, "goal": "a line", "backend": "keep", "run_dir": tmp_path / "run"}
    return opal.wrap(optimizer, model, **{**arguments, **changed})


@pytest.mark.parametrize(("changed", "kind", "text"), WRONG, ids=[str(item[0]) for item in WRONG])
def test_a_wrong_argument_is_refused_by_name_and_leaves_nothing(
    tmp_path: Path, changed: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        _wrap(tmp_path, **changed)
    assert text in str(caught.value)
    assert isinstance(caught.value, OpalError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted(config.NOT_BUILT))
def test_the_default_of_an_argument_without_its_feature_is_the_signatures(name: str) -> None:
    assert inspect.signature(opal.wrap).parameters[name].default == config.NOT_BUILT[name]


@pytest.mark.parametrize(
    "changed",
    [
        {"gate": "revert"}, {"preflight": False}, {"max_cost_usd": 5.0}, {"bounds": {"lr": (0, 1)}}, {"validation": 100},
        {"approve": "ask"}, {"trackers": ("wandb",)}, {"notify": "true"}, {"program": "v001"}, {"boundary": "block"},
    ],
    ids=str,
)  # fmt: skip
def test_a_value_that_needs_a_feature_which_is_not_built_raises(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError, match="not built yet"):
        _wrap(tmp_path, **changed)
    assert list(tmp_path.iterdir()) == []


def test_the_default_backend_raises_until_it_is_built(tmp_path: Path) -> None:
    with pytest.raises(NotBuiltError, match="'keep', 'manual', 'playbook'"):
        _wrap(tmp_path, backend="claude")


def test_run_json_lists_the_inactive_arguments_and_the_options(tmp_path: Path) -> None:
    _wrap(tmp_path, every=20, decisions=1).close()
    content = json.loads((tmp_path / "run" / "run.json").read_text())
    assert content["inactive"] == list(config.NOT_BUILT)
    assert content["options"]["every"] == 20
    assert content["options"]["backend"] == "keep"
    assert content["outcome"] == "closed early"


def test_a_folder_that_holds_a_run_is_not_used_again(tmp_path: Path) -> None:
    _wrap(tmp_path).close()
    before = (tmp_path / "run" / "run.json").read_text()
    with pytest.raises(RunFolderError, match="holds a run already"):
        _wrap(tmp_path)
    assert (tmp_path / "run" / "run.json").read_text() == before


def test_a_refused_wrap_leaves_a_foreign_file_in_the_run_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(ArgumentValueError):
        _wrap(tmp_path, backend_options={"speed": 1})
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]


def test_optimizers_that_cannot_be_wrapped_are_refused(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    other = torch.nn.Linear(3, 2)
    options: dict[str, Any] = {"total_steps": 5, "goal": "g", "backend": "keep", "run_dir": tmp_path / "run"}
    with pytest.raises(ValueError, match="works only with a closure"):
        opal.wrap(torch.optim.LBFGS(model.parameters()), model, **options)
    with pytest.raises(ValueError, match="none of the optimizer's parameters"):
        opal.wrap(torch.optim.SGD(model.parameters(), lr=0.1), other, **options)
    with pytest.raises(TypeError, match=r"a torch\.optim\.Optimizer"):
        opal.wrap(model, model, **options)
    with pytest.raises(ValueError, match="at least one"):
        opal.wrap([], model, **options)
    with pytest.raises(ArgumentTypeError, match=r"torch\.nn\.Module"):
        opal.wrap(torch.optim.SGD(model.parameters(), lr=0.1), model.parameters(), **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("prelude", "text"),
    [
        ("sys.modules['torch'] = None", "PyTorch is not installed here: install the build for your machine"),
        ("import types; sys.modules['torch'] = t = types.ModuleType('torch'); t.__version__ = '2.4.1+cpu'",
         "PyTorch 2.4.1+cpu is too old: OPAL needs 2.5 or newer"),
    ],
    ids=["missing", "too old"],
)  # fmt: skip
def test_a_missing_or_old_torch_is_said_at_wrap_and_not_at_import(prelude: str, text: str) -> None:
    script = f"import sys; {prelude}; import opal\ntry: opal.wrap\nexcept ImportError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert text in done.stdout


def test_a_folder_with_somebodys_files_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "run" / "workspace").mkdir(parents=True)
    (tmp_path / "run" / "workspace" / "thesis.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="'workspace', which is not a run's"):
        _wrap(tmp_path)
    with pytest.raises(OpalError):
        _wrap(tmp_path, backend_options={"speed": 1})
    assert (tmp_path / "run" / "workspace" / "thesis.txt").read_text() == "mine"


def test_an_optimizer_whose_step_needs_a_closure_is_refused(tmp_path: Path) -> None:
    class Closed(torch.optim.SGD):
        def step(self, closure: Any) -> Any:  # type: ignore[override]
            return super().step(closure)

    model = torch.nn.Linear(3, 2)
    with pytest.raises(ValueError, match="works only with a closure"):
        opal.wrap(Closed(model.parameters(), lr=0.1), model, total_steps=5, goal="g", backend="keep",
                  run_dir=tmp_path / "run")  # fmt: skip
    scheduled = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.optim.lr_scheduler.StepLR(scheduled, 3)  # replaces `step` on the instance
    opal.wrap(scheduled, model, total_steps=5, goal="g", backend="keep", run_dir=tmp_path / "run").close()
