"""A run is read as it was written; damage is skipped and counted, or said in one sentence."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import opal
from opal.errors import RunFolderError
from opal.records.events import CheckRecord, DecisionAsked, RunEnded, TrialPassed
from opal.records.reader import read_run
from opal.records.run_folder import RunFolder
from opal.records.run_info import find_run, latest_run
from opal.records.strict_json import encode
from opal.types import Metric, Report

ENDED = RunEnded(time=2.0, update=9, outcome="finished", version="v000", agent_wait_seconds=math.nan, cost_usd=None)


def write_run(root: Path, **info: Any) -> RunFolder:
    """A run folder with nothing but a `run.json`."""
    root.mkdir(parents=True, exist_ok=True)
    known = {"format": 1, "run_id": root.name, "started": "2026-12-01T10:00:00+00:00", "total_steps": 9}
    (root / "run.json").write_text(json.dumps({**known, **info}))
    return RunFolder(root)


def test_events_come_back_typed_and_with_nan(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    asked = DecisionAsked(time=1.0, update=3, decision=1, reasons=("scheduled", "null"), waits=False)
    folder.events.write_bytes(encode(asked) + b"\n" + encode(ENDED) + b"\n")
    run = read_run(folder.root)
    assert run.events[0] == asked
    assert isinstance(run.events[1], RunEnded)
    assert math.isnan(run.events[1].agent_wait_seconds)
    assert (run.torn_lines, run.unknown_events) == (0, 0)
    assert run.is_finished
    assert run.state == "finished"


def test_unknown_kinds_and_torn_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    good = encode(TrialPassed(time=1.0, update=3, version="v001")) + b"\n"
    newer = b'{"kind":"from_the_future","time":1.0,"update":4}\n'
    fewer = b'{"kind":"trial_passed","time":1.0}\n'
    more = b'{"kind":"trial_passed","time":1.0,"update":8,"version":"v002","more":[1]}\n'
    folder.events.write_bytes(good + newer + b"\xff\xff\n" + b"\0\0\0\n" + fewer + b"\n" + more + good[:-9])
    run = read_run(folder.root)
    assert [event.update for event in run.events] == [3, 8]
    assert (run.unknown_events, run.torn_lines) == (2, 3)


def test_losses_reports_and_metrics_keep_what_is_not_finite(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    checks = [
        CheckRecord(update=2, first=1, values=(1.5, None)),
        CheckRecord(update=4, first=3, values=(math.inf, -math.inf)),
    ]
    folder.losses.write_bytes(b"".join(encode(check) + b"\n" for check in checks) + b'{"upd')
    folder.reports.write_bytes(encode(Report(update=4, values={"a": {"b": math.inf}, "c": "Infinity war"})) + b"\n[]\n")
    folder.metrics.write_bytes(encode(Metric(update=4, name="dev", value=-math.inf, shown=False)) + b"\n{}\n")
    run = read_run(folder.root)
    assert run.losses == tuple(checks)
    assert run.last_check == checks[1]
    assert run.reports == (Report(update=4, values={"a": {"b": math.inf}, "c": "Infinity war"}),)
    assert run.metrics == (Metric(update=4, name="dev", value=-math.inf, shown=False),)


def test_programs_and_decisions_are_found_in_order(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    for version in ("v1000", "v002", "v000", ".v003.123"):
        (folder.programs / version / "parts").mkdir(parents=True)
        (folder.programs / version / "parts" / "rules.py").write_text(version)
        (folder.programs / version / "updater.py").symlink_to(folder.run_json)
    folder.final.write_text("v002\n")
    for number in (12, 2):
        (folder.decision(number) / "rejected").mkdir(parents=True)
        (folder.decision(number) / "message.txt").write_text(f"message {number}")
    folder.decision(2).joinpath("response.json").write_text('{"text":"why","cost_usd":null,"seconds":3,"edited":true}')
    folder.decision(2).joinpath("rejected", "updater.py").write_text("bad")
    folder.decision(12).joinpath("response.json").write_text('{"text":"wh')
    run = read_run(folder.root)
    assert list(run.programs) == ["v000", "v002", "v1000"]
    assert run.programs["v002"] == {"parts/rules.py": "v002"}
    assert run.final_version == "v002"
    assert list(run.decisions) == [2, 12]
    assert run.decisions[12].message == "message 12"
    assert run.decisions[12].response is None
    response = run.decisions[2].response
    assert response is not None
    assert (response.text, response.cost_usd, response.seconds, response.edited) == ("why", None, 3.0, True)
    assert run.decisions[2].rejected == {"updater.py": "bad"}


def test_a_run_that_has_only_begun_is_readable(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run").root)
    assert (run.events, run.losses, run.reports, run.metrics) == ((), (), (), ())
    assert (run.programs, run.decisions, run.final_version, run.last_check) == ({}, {}, None, None)
    assert run.state == "unknown"


def test_a_run_is_running_or_killed_by_its_process(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    here = socket.gethostname()
    assert read_run(write_run(tmp_path / "a", pid=os.getpid(), host=here).root).state == "running"
    assert read_run(write_run(tmp_path / "b", pid=process.pid, host=here).root).state == "killed"
    assert read_run(write_run(tmp_path / "c", pid=process.pid, host=here + "-other").root).state == "unknown"
    assert read_run(write_run(tmp_path / "d", pid=process.pid, host=here, ended="2026-12-01").root).state == "finished"


def test_a_file_in_a_run_names_the_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder.decision(1)).mkdir(parents=True)
    message = folder.decision(1) / "message.txt"
    message.write_text("x")
    assert find_run(message).root == folder.root
    assert find_run(folder.run_json).root == folder.root
    assert read_run(message).info.run_id == "run"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is damaged"),
        ("{", "is damaged"),
        ("[1]", "no run.json of OPAL"),
        ('{"name": "another program"}', "no run.json of OPAL"),
        ('{"format":1,"run_id":"a","started":"x","total_steps":"many"}', "no run.json of OPAL"),
        ('{"format":2,"run_id":"a","started":"x","total_steps":1}', "has format 2"),
    ],
)
def test_a_damaged_run_json_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunFolderError, match=said) as caught:
        read_run(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no such folder"):
        read_run(tmp_path / "missing")
    with pytest.raises(RunFolderError, match=r"it has no run\.json"):
        read_run(tmp_path)
    (tmp_path / "lonely.txt").write_text("x")
    with pytest.raises(RunFolderError, match="lies in no run folder"):
        read_run(tmp_path / "lonely.txt")
    write_run(tmp_path / "inside")
    with pytest.raises(RunFolderError, match=f"such as {tmp_path / 'inside'}"):
        read_run(tmp_path)
    (tmp_path / "inside" / "events.jsonl").mkdir()
    with pytest.raises(RunFolderError, match=r"events\.jsonl cannot be read"):
        read_run(tmp_path / "inside")


@pytest.mark.skipif(sys.platform == "win32" or os.getuid() != 0, reason="only root can become nobody")
def test_another_users_folder_is_one_sentence(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    folder.root.chmod(0o700)
    code = (
        "import os, sys; from opal.errors import RunFolderError; from opal.records.reader import read_run\n"
        "os.chdir(sys.argv[1]); os.setuid(65534)\n"
        "try: read_run('run')\n"
        "except RunFolderError as error: print(error)"
    )
    environment = dict(os.environ, PYTHONPATH=str(Path(opal.__file__).parents[1]))
    command = [sys.executable, "-c", code, str(tmp_path)]
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "run cannot be read: permission is missing\n", done.stderr


def test_the_latest_run_is_the_one_that_began_last(tmp_path: Path) -> None:
    write_run(tmp_path / "zz", started="2026-12-01T10:00:00+02:00")
    write_run(tmp_path / "aa", started="2026-12-01T10:00:00+00:00")
    write_run(tmp_path / "mm", started="not a time")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text("{")
    assert latest_run(tmp_path).root.name == "aa"
    with pytest.raises(RunFolderError, match="there is no run in"):
        latest_run(tmp_path / "aa")
