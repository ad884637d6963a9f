"""`opal show` says what became of a run, for a person and as data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opal.cli.terminal import duration, fit, one_line
from opal.records.events import CheckRecord, RecordsLost
from opal.records.run_folder import RunFolder
from opal.records.strict_json import encode

Opal = Callable[..., Any]
MakeRun = Callable[..., RunFolder]
ENDED = {"ended": "2026-12-01T10:40:00+00:00", "outcome": "finished"}


def test_one_line_a_decision_and_where_the_final_program_is(opal: Opal, make_run: MakeRun, story: Any) -> None:
    folder = make_run(*story, **ENDED)
    folder.programs.mkdir()
    folder.final.write_text("v001\n")
    folder.losses.write_bytes(encode(CheckRecord(update=400, first=399, values=(2.25, None))) + b"\n")
    printed = opal("show", folder.root)
    assert (printed.code, printed.err) == (0, "")
    lines = printed.out.splitlines()
    assert lines[0] == "sample · 400 of 400 updates · loss 2.25 · playbook · finished · 40 min"
    assert lines[1] == "a low loss"
    table = [line.split(maxsplit=2) for line in lines[4:8]]
    assert [(row[0], row[1]) for row in table] == [("1", "10"), ("2", "20"), ("3", "30"), ("4", "40")]
    assert table[0][2].startswith("applied v001                12 s  $0.50  rationale 1 red and more")
    assert table[1][2].startswith("kept ")
    assert "[build: no name] rationale 3" in table[2][2]
    assert table[3][2].startswith("applied v004, reverted @55  48 s  $0.50  [its trial failed] rationale 4")
    assert lines[-2:] == [
        "training waited 2 min for the agent, cost $2.00",
        f"final program: {folder.program('v001')}",
    ]
    assert "\x1b" not in printed.out
    assert max(map(len, lines)) <= 120


def test_json_is_strict_and_complete(opal: Opal, make_run: MakeRun, story: Any) -> None:
    folder = make_run(*story, **ENDED)
    folder.losses.write_bytes(b'{"update":400,"first":400,"values":["NaN"]}\n')
    printed = opal("show", folder.root, "--json")

    def refuse(text: str) -> None:
        raise AssertionError(text)

    data = json.loads(printed.out, parse_constant=refuse)
    assert printed.code == 0
    assert data["last_loss"] == "NaN"
    assert (data["state"], data["update"], data["total_steps"], data["cost_usd"]) == ("finished", 400, 400, 2.0)
    assert [row["outcome"] for row in data["decisions"]] == ["applied", "kept", "refused", "applied"]
    assert data["decisions"][3]["reverted_at"] == 55
    assert data["decisions"][0]["rationale"].startswith("rationale 1\n\x1b[31mred")
    assert data["reverts"] == [{"update": 55, "version": "v004", "goes_on_with": "v001", "why": "its trial failed"}]
    assert opal("show", "--json", folder.root).out == printed.out


def test_an_unfinished_run_is_said_to_be_so(opal: Opal, make_run: MakeRun, waiting_story: Any, dead_pid: int) -> None:
    running = opal("show", make_run(*waiting_story, name="a").root)
    killed = opal("show", make_run(*waiting_story, name="b", pid=dead_pid).root)
    elsewhere = opal("show", make_run(*waiting_story, name="c", host="elsewhere.invalid").root)
    assert [printed.code for printed in (running, killed, elsewhere)] == [0, 0, 0]
    assert running.out.splitlines()[0].endswith("manual · running")
    assert "unfinished: its process is gone, it was killed or crashed" in killed.out
    assert "unfinished: it runs elsewhere, or was killed" in elsewhere.out
    assert " open " in running.out


def test_gaps_and_damage_in_the_records_are_said(opal: Opal, make_run: MakeRun, story: Any) -> None:
    folder = make_run(*story[:-1], RecordsLost(time=5.0, update=60, count=7, why="the disk is full"))
    with folder.events.open("ab") as file:
        file.write(b'{"kind":"newer","time":1,"update":1}\n{"kind":"run_e')
    printed = opal("show", folder.root)
    assert "gap in the records: 7 lost (the disk is full)" in printed.out
    assert "skipped in events.jsonl: 1 torn lines, 1 of unknown kinds" in printed.out


def test_without_a_name_the_latest_run_is_shown(
    opal: Opal, make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(name="older", started="2026-11-30T10:00:00+00:00")
    make_run(name="newer")
    monkeypatch.chdir(tmp_path)
    printed = opal("show")
    assert printed.out.startswith("newer · 0 of 400 updates")
    assert "no decision was asked yet" in printed.out
    monkeypatch.chdir(tmp_path / "opal_runs")
    printed = opal("show")
    assert (printed.code, printed.out) == (2, "")
    assert printed.err == "opal: there is no run in ./opal_runs: name a run folder\n"


@pytest.mark.parametrize("kind", ["empty", "foreign", "damaged", "missing"])
@pytest.mark.parametrize("command", [("show",), ("show", "--json"), ("watch", "--timeout=0"), ("report",)])
def test_what_is_no_run_is_one_sentence_and_exit_2(
    opal: Opal, bad_folders: dict[str, Path], kind: str, command: tuple[str, ...]
) -> None:
    printed = opal(*command, bad_folders[kind])
    assert (printed.code, printed.out) == (2, "")
    assert printed.err.startswith("opal: ")
    assert printed.err.count("\n") == 1
    assert str(bad_folders[kind]) in printed.err


@pytest.mark.parametrize(("columns", "no_colour"), [(80, False), (120, False), (80, True)])
def test_on_a_terminal_lines_fit_and_colours_follow_no_color(
    opal: Opal, make_run: MakeRun, story: Any, monkeypatch: pytest.MonkeyPatch, columns: int, no_colour: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda _: os.terminal_size((columns, 24)))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1" if no_colour else "")
    printed = opal("show", make_run(*story, **ENDED).root)
    assert ("\x1b[32mapplied" in printed.out) is not no_colour
    assert ("\x1b" in printed.out) is not no_colour
    table = [one_line(line) for line in printed.out.splitlines() if "rationale" in line]
    assert len(table) == 5
    plain = [line for line in printed.out.splitlines() if "\x1b" not in line]
    assert max(map(len, plain)) <= columns


def test_texts_of_others_cannot_steer_the_terminal() -> None:
    assert one_line("a\x1b[2J\x1b]0;title\x07b\r\n\tc\x00d\u202ee") == "ab cde"
    assert fit("梯度梯度", 5) == "梯度…"
    assert fit("short", 5) == "short"
    assert fit("longer", 0) == ""


def test_times_read_as_a_person_says_them() -> None:
    shown = [duration(seconds) for seconds in (None, float("nan"), 3.04, 59.6, 150, 7300)]
    assert shown == ["-", "-", "3.0 s", "60 s", "2 min", "2.0 h"]
