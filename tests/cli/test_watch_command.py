"""`opal watch` prints events as they come and ends with the run."""

from __future__ import annotations

import os
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import opal as package
from opal.cli.event_lines import event_line
from opal.records import events as e
from opal.records.run_folder import RunFolder
from opal.records.strict_json import encode

Opal = Callable[..., Any]
MakeRun = Callable[..., RunFolder]
ENVIRONMENT = dict(os.environ, PYTHONPATH=str(Path(package.__file__).parents[1]))
ENDED = e.RunEnded(time=9.0, update=400, outcome="finished", version="v001", agent_wait_seconds=1.0, cost_usd=None)


def test_a_finished_run_is_printed_once(opal: Opal, make_run: MakeRun, story: Any) -> None:
    printed = opal("watch", make_run(*story).root)
    assert printed.code == 0
    lines = printed.out.splitlines()
    assert len(lines) == len(story)
    assert "run started: 400 updates, 2 decisions by playbook, 1 dropped near the end" in lines[0]
    assert lines[-1].endswith("    400  run finished with v001: waited 2 min for the agent, $2.00")
    assert "\x1b" not in printed.out
    assert max(map(len, lines)) <= 400


def test_timeout_0_gives_what_is_there(opal: Opal, make_run: MakeRun, waiting_story: Any) -> None:
    printed = opal("watch", make_run(*waiting_story).root, "--timeout", "0")
    assert printed.code == 0
    assert printed.out.splitlines()[1].endswith("     10  decision 1 asked (scheduled), training waits")
    assert opal("watch", make_run(name="new").root, "--timeout", "0") == (0, "", "")


def test_silence_longer_than_the_timeout_is_exit_1(opal: Opal, make_run: MakeRun, waiting_story: Any) -> None:
    printed = opal("watch", make_run(*waiting_story).root, "--timeout", "0.1", "--interval", "0.05")
    assert printed.code == 1
    assert len(printed.out.splitlines()) == 2
    assert printed.err == "opal: no event for 0.1 s\n"


def test_a_killed_run_is_noticed_on_its_own_machine(
    opal: Opal, make_run: MakeRun, waiting_story: Any, dead_pid: int
) -> None:
    printed = opal("watch", make_run(*waiting_story, pid=dead_pid).root, "--interval", "0.05")
    assert printed.code == 1
    assert "process is gone without an end" in printed.err


def test_events_are_printed_as_they_come(make_run: MakeRun, waiting_story: Any) -> None:
    folder = make_run(*waiting_story)
    command = [
        sys.executable,
        "-m",
        "opal.cli.main",
        "watch",
        str(folder.root),
        "--interval",
        "0.05",
        "--timeout",
        "60",
    ]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "run started" in process.stdout.readline()
        assert "decision 1 asked" in process.stdout.readline()
        line = encode(ENDED)
        with folder.events.open("ab", buffering=0) as file:
            file.write(line[:10])
            file.write(line[10:] + b"\n")
        assert "run finished" in process.stdout.readline()
        assert process.wait() == 0


def test_a_run_that_was_resumed_ends_with_its_last_end(make_run: MakeRun, waiting_story: Any, opal: Opal) -> None:
    stop = msgspec.structs.replace(ENDED, outcome="interrupted", update=20)
    folder = make_run(*waiting_story, stop, *waiting_story)
    printed = opal("watch", folder.root, "--timeout", "0")
    assert (printed.code, len(printed.out.splitlines())) == (0, 5)
    assert opal("watch", folder.root, "--interval", "0.05", "--timeout", "0.1").code == 1
    with folder.events.open("ab") as file:
        file.write(encode(ENDED) + b"\n")
    printed = opal("watch", folder.root)
    assert printed.code == 0
    assert "run finished" in printed.out.splitlines()[-1]


SAMPLES: dict[Any, Any] = {
    str: "text",
    int: 3,
    float: 1.5,
    bool: True,
    tuple[int, ...]: (3,),
    tuple[str, ...]: ("text",),
    float | None: None,
    str | None: "file.py",
    int | None: 7,
}


@pytest.mark.parametrize("kind", typing.get_args(e.AnyEvent), ids=lambda kind: kind.__name__)
def test_every_kind_of_event_has_a_line(kind: Any) -> None:
    hints = typing.get_type_hints(kind)
    event = kind(**{name: SAMPLES[hints[name]] for name in kind.__struct_fields__})
    line = event_line(event)
    assert len(line.split(maxsplit=2)[2]) > 5
    assert "None" not in line
