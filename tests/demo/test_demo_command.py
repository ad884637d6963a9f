from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import opal
from opal.cli.demo import demo
from opal.demo.changes import describe_changes
from opal.errors import ArgumentValueError


@pytest.fixture
def one_thread() -> None:
    """What the command sets anyway, put back afterwards."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_the_quick_demo_with_keep_ends_where_plain_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    demo(updates=40, quick=True, backend="keep", decisions=2, out=run)
    printed = capsys.readouterr().out
    rows = json.loads((run / "demo.json").read_text(encoding="utf-8"))
    by_name = {row["name"]: row for row in rows}
    assert by_name["OPAL, keep"]["validation_loss"] == by_name["plain AdamW"]["validation_loss"]
    assert by_name["OPAL, keep"]["updates"] == by_name["plain AdamW"]["updates"] == 40
    assert "At equal updates (40): no clear difference (+0.000 ± 0.000)." in printed
    assert "What the agent did in 2 decisions (0 applied)" in printed
    assert "standard library of Python" in printed
    assert (run / "report.html").exists()
    assert str(run / "report.html") in printed


@pytest.mark.parametrize(("argument", "value"), [("updates", 39), ("decisions", 0), ("threads", 0)])
def test_a_number_that_is_too_small_is_refused_before_anything_is_trained(
    tmp_path: Path, argument: str, value: int
) -> None:
    with pytest.raises(ArgumentValueError, match=f"--{argument}={value}: an integer from"):
        demo(out=tmp_path / "run", **{argument: value})
    assert not (tmp_path / "run").exists()


UPDATER = """
import torch
class Updater:
    def __init__(self, named_params):
        self.params = dict(named_params)
        self.param_groups = [{"params": list(self.params.values()), "lr": 0.01}]
    @torch.no_grad()
    def step(self, grads, update):
        for name, parameter in self.params.items():
            parameter.sub_(grads[name], alpha=0.01)
    def state_dict(self):
        return {}
    def load_state_dict(self, state):
        pass
def build(named_params, previous=None, spec=None):
    return Updater(named_params)
"""


def test_what_the_agent_did_is_told_decision_by_decision(tmp_path: Path) -> None:
    answers = iter([(UPDATER, "plain SGD \x1b[31mnow " + "because " * 400), (None, "it goes well")])

    def agent(workspace: str, message: str, system: str) -> str:
        source, text = next(answers)
        if source:
            (Path(workspace) / "updater.py").write_text(source, encoding="utf-8")
        return text

    model = torch.nn.Linear(2, 1)
    optimizer = opal.wrap(
        torch.optim.SGD(model.parameters(), lr=0.1), model, total_steps=40, goal="a test", backend=agent,
        schedule=[10, 20], every=10, run_dir=tmp_path / "run",
    )  # fmt: skip
    for _ in range(40):
        loss = model(torch.ones(1, 2)).square().sum()
        loss.backward()
        optimizer.step(loss=loss)
        optimizer.zero_grad()
    optimizer.close()
    lines = describe_changes(tmp_path / "run", width=60)
    assert lines[0] == "What the agent did in 2 decisions (1 applied), in its own words:"
    assert lines[2] == "Decision 1, at update 10: v001 in force from update 10"
    assert lines[3].startswith("  plain SGD [31mnow because because")
    assert lines[-2:] == ["Decision 2, at update 20: nothing changed", "  it goes well"]
    assert max(map(len, lines[3:])) <= 60
    assert "…" in "".join(lines)
