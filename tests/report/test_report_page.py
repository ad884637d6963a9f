"""The page as a whole: what it says, that nothing of a run can break it, that it stands alone."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from opal.errors import RunFolderError
from opal.records import events as e
from opal.report.page import script_json, write_report

RunBuilder: TypeAlias = Any  # of conftest.py
START = 1_800_000_000.0
OLD = "LR = 0.001\n\n\ndef build(named_params):\n    return LR\n"
VOID = {"meta", "link", "br", "input", "img", "hr"}


class Reader(HTMLParser):
    """Reads a page strictly: elements must nest; keeps texts, attributes and script elements."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    assert reader.open == []
    return reader


def figures(reader: Reader) -> dict[str, Any]:
    found = {}
    for attributes, text in reader.scripts:
        if attributes.get("type") == "application/json":
            found[str(attributes["id"]).removeprefix("figure-")] = json.loads(text)
    return found


def asked(number: int, update: int, **fields: Any) -> e.DecisionAsked:
    known = {"reasons": ("scheduled",), "waits": True}
    return e.DecisionAsked(time=START + update, update=update, decision=number, **{**known, **fields})


def answered(number: int, update: int, text: str, **fields: Any) -> e.DecisionAnswered:
    known = {"asked_at": update, "seconds": 9.0, "edited": True, "cost_usd": 0.25}
    return e.DecisionAnswered(time=START + update + 9, update=update, decision=number, text=text, **{**known, **fields})


def applied(number: int, asked_at: int, at: int, version: str, previous: str) -> e.ProgramApplied:
    return e.ProgramApplied(
        time=START + at, update=at, decision=number, version=version, previous=previous, asked_at=asked_at,
        effective_from=at, sides=("updater",), seconds=0.1,
    )  # fmt: skip


def full_run(run: RunBuilder) -> None:
    """Five decisions: applied and kept, refused, unanswered, reverted; losses, one of them not finite."""
    run.program("v000", {"updater.py": OLD})
    run.program("v001", {"updater.py": OLD.replace("0.001", "0.004")})
    run.program("v003", {"updater.py": OLD.replace("0.001", "0.5")})
    run.rejected(3, {"updater.py": OLD.replace("0.001", "0.009")})
    run.message(1, "What the agent was told.")
    run.losses(1, [4.0, 3.0, math.nan, 2.0], learning_rates=(0.1,), program_ms=3.0, wall_ms=9.0)
    run.metric(50, "validation", 2.5, development=True)
    for update in (50, 100, 150):
        run.report(update, {"loss": {"mean": 1.0 / update}})
    reverted = {"version": "v003", "goes_on_with": "v001"}
    run.events(
        e.RunStarted(time=START, update=0, total_steps=400, decision_updates=(50, 100), dropped=1, backend="b"),
        asked(1, 50), answered(1, 50, "It is slow."), applied(1, 50, 60, "v001", "v000"),
        asked(2, 100), answered(2, 100, "All is well.", edited=False, cost_usd=None),
        asked(3, 150), answered(3, 150, "Faster."),
        e.ProgramRefused(time=START + 160, update=150, decision=3, version="v002", stage="build",
                         sentence="build() failed at updater.py:4", undone="exactly"),
        asked(4, 200),
        e.DecisionUnanswered(time=START + 230, update=200, decision=4, asked_at=200, seconds=30, why="a time-out"),
        asked(5, 250), answered(5, 250, "Much faster."), applied(5, 250, 250, "v003", "v001"),
        e.ProgramFailed(time=START + 251, update=251, stage="trial", error="ValueError", message="too large",
                        file="updater.py", line=3, undone="exactly", **reverted),
        e.ProgramReverted(time=START + 251, update=251, why="ValueError at updater.py:3", **reverted),
        e.RunEnded(time=START + 500, update=400, outcome="finished", version="v001", agent_wait_seconds=66,
                   cost_usd=0.75),
    )  # fmt: skip


def test_the_page_tells_the_run(run: RunBuilder) -> None:
    full_run(run)
    path = write_report(run.root)
    assert path == run.root / "report.html"
    text = read(path).text
    for part in (
        "Decisions scheduled 2 1 too near the end dropped",
        "Asked 5 Answered 4 Applied 2",
        "Median lag, question to effect 5 updates",
        "Cost $0.75 Waited for the agent 66 s Time 8 min",
        "Attention: 1 program was reverted. v003 at update 251, v001 goes on: ValueError at updater.py:3",
        "Attention: 1 candidate program was refused. decision 3 (build): build() failed at updater.py:4",
        "Note: 1 decision got no answer; the programs stayed. decision 4: a time-out",
        "Decision 1 50 → 60 LR 0.001 → 0.004 It is slow. applied as v001 9.0 s, $0.25",
        "Decision 2 100 none All is well. kept 9.0 s",
        "Decision 3 150 LR 0.004 → 0.009 Faster. refused",
        "Decision 4 200 none none no answer 30 s",
        "applied as v003, reverted at update 251",
        "Failed at update 251 (trial) at updater.py:3: ValueError: too large. Undone: exactly. v001 goes on.",
        "1 loss not finite, marked by crosses: at update 3.",
        "What the agent was told.",
        "Hardware not recorded",
    ):
        assert part in text, part
    page = path.read_text(encoding="utf-8")
    assert "<del>-LR = 0.001\n</del><ins>+LR = 0.004\n</ins>" in page


def test_charts_are_figures_that_plotly_accepts(run: RunBuilder) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    full_run(run)
    found = figures(read(write_report(run.root)))
    assert set(found) == {"loss", "rates", "times", "metric-0", "report-0"}
    for part in found.values():
        figure = json.loads(re.sub(r"var\(--[\w-]+\)", "#123456", json.dumps(part["figure"])))
        graph_objects.Figure(figure)  # raises on what plotly does not have
    loss = found["loss"]
    assert loss["curve"]["numbers"] == [[60, 1], [250, 5]]
    assert loss["curve"]["bad"] == [3]
    lines = [(shape["x0"], "dash" in shape["line"]) for shape in loss["figure"]["layout"]["shapes"]]
    assert lines == [(60, False), (100, True), (150, True), (200, True), (250, False)]
    assert found["report-0"]["figure"]["data"][0]["y"] == [0.02, 0.01, 0.00666667]


def test_the_page_stands_alone(run: RunBuilder) -> None:
    full_run(run)
    reader = read(write_report(run.root))
    for tag, attributes in reader.elements:
        assert tag not in {"link", "img", "iframe", "object"}
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(a["content"] for t, a in reader.elements if t == "meta" and a.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    nonces = {attributes.get("nonce") for attributes, _ in reader.scripts if "type" not in attributes}
    assert nonces == {re.findall(r"'nonce-([^']+)'", policy)[0]}


def test_ids_are_unique_and_links_lead_to_them(run: RunBuilder) -> None:
    full_run(run)
    reader = read(write_report(run.root))
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in reader.elements:
        for name in ("href", "aria-labelledby", "data-figure"):
            if name in attributes:
                assert str(attributes[name]).removeprefix("#") in ids


def test_headings_and_tables_are_in_order(run: RunBuilder) -> None:
    full_run(run)
    elements = read(write_report(run.root)).elements
    levels = [int(tag[1]) for tag, _ in elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all("scope" in attributes for tag, attributes in elements if tag == "th")
    plots = [attributes for _, attributes in elements if "data-figure" in attributes]
    assert plots
    assert all(plot["role"] in ("img", "group") and plot["aria-label"] for plot in plots)


HOSTILE = "</script></pre><script>alert(1)</script><img src=x onerror=alert(2)> \"' & \x00\x1b[31m"


def test_nothing_of_a_run_becomes_markup(run: RunBuilder) -> None:
    run.info(goal=HOSTILE, run_id=HOSTILE, command=[HOSTILE], options={HOSTILE: HOSTILE}, hardware=HOSTILE)
    run.losses(1, [1.0, 2.0])
    run.metric(1, HOSTILE, 1.0)
    for update in (1, 2, 3):
        run.report(update, {HOSTILE: {HOSTILE: 1.0}})
    code = f"x = '''{HOSTILE}'''\n"
    run.program("v000", {"updater.py": "x = 1\n"})
    run.program("v001", {"updater.py": code.replace("\x00", "")})
    run.message(1, HOSTILE)
    run.events(asked(1, 1, reasons=(HOSTILE,)), answered(1, 1, HOSTILE), applied(1, 1, 1, "v001", "v000"))
    run.events(e.Warned(time=START, update=1, text=HOSTILE))
    path = write_report(run.root)
    reader = read(path)
    assert not [tag for tag, attributes in reader.elements if tag == "img" or "onerror" in attributes]
    assert not [text for attributes, text in reader.scripts if text.strip() == "alert(1)"]
    page = path.read_bytes()
    assert b"\x00" not in page
    assert b"\x1b" not in page
    assert reader.text.count("</script></pre><script>alert(1)</script>") >= 10
    metric = figures(reader)["metric-0"]["figure"]["data"][0]["name"]
    assert "<" not in metric  # plotly would read it as HTML


def test_data_cannot_end_the_script_in_which_it_stands() -> None:
    text = str(script_json({"a": "</script><!-- & \u2028"}))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028"}


def test_long_texts_are_cut_with_a_note(run: RunBuilder) -> None:
    run.message(1, "m" * 200_000)
    run.events(asked(1, 1), answered(1, 1, "r" * 200_000, edited=False))
    path = write_report(run.root)
    assert "24,000 of 200,000 characters. The whole is in the run folder, decisions/001/message.txt" in read(path).text
    assert "m" * 24_001 not in path.read_text()


def test_a_long_diff_is_cut_with_a_note(run: RunBuilder) -> None:
    run.program("v000", {"updater.py": "x = 1\n"})
    run.program("v001", {"updater.py": "y = 2222222222222222\n" * 2_500})
    run.events(asked(1, 1), answered(1, 1, ""), applied(1, 1, 1, "v001", "v000"))
    text = read(write_report(run.root)).text
    assert "Cut here: the diff is too long for the page. The files are in the run folder, programs/v001" in text
    assert "+2500 −1 lines" in text
    assert text.count("+y = 2222222222222222") < 2_000


def test_without_plotly_the_page_has_everything_but_the_charts(
    run: RunBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_run(run)
    monkeypatch.setitem(sys.modules, "plotly", None)
    path = write_report(run.root)
    reader = read(path)
    assert path.stat().st_size < 100_000
    assert 'pip install "opal-optimizer[report]"' in reader.text
    assert "Mean 4 over updates 1 to 1" in reader.text
    assert "LR 0.001 → 0.004" in reader.text
    assert figures(reader) == {}


def test_a_run_with_nothing_in_it_has_a_page(run: RunBuilder) -> None:
    text = read(write_report(run.root)).text
    assert "No decision was asked." in text
    assert "Training loss: not recorded" in text
    assert "Cost not recorded" in text


def test_a_run_without_its_end_says_so(run: RunBuilder) -> None:
    run.info(ended=None, outcome=None, pid=None)
    run.losses(1, [1.0] * 120)
    text = read(write_report(run.root)).text
    assert "The run has not written its end" in text
    assert "Updates 120 of 400" in text
    assert "Waited for the agent not recorded" in text


def test_gaps_and_torn_lines_are_told(run: RunBuilder) -> None:
    run.events(e.RecordsLost(time=START, update=7, count=12, why="no space left"))
    with run.folder.events.open("ab") as file:
        file.write(b'{"kind":"of the future","time":1,"update":1}\n{"torn')
    text = read(write_report(run.root)).text
    assert "12 records lost: the page has gaps. after update 7: 12 (no space left)" in text
    assert "Left out of the events: 1 torn line and 1 event that this version of OPAL does not know." in text


def test_the_page_is_replaced_whole_and_leaves_nothing_beside_it(run: RunBuilder) -> None:
    run.folder.page.write_text("old")
    write_report(run.root)
    assert "<!DOCTYPE html>" in run.folder.page.read_text()
    assert not [path for path in run.root.iterdir() if path.name.startswith(".report")]


def test_a_page_that_cannot_be_written_is_said_in_a_sentence(run: RunBuilder) -> None:
    run.folder.page.mkdir()
    with pytest.raises(RunFolderError, match=r"report\.html cannot be written"):
        write_report(run.root)
    assert not [name for name in os.listdir(run.root) if name.startswith(".report")]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is no run folder"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []
