"""Commands of a person reach the run, whatever else lies in the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import opal
from opal.errors import RunFolderError
from opal.records.commands import CommandReader, append_command
from opal.records.run_folder import RunFolder

DEEP = b'{"time":1.0,"name":"note","arguments":{"text":' + b"[" * 5000 + b"]" * 5000 + b"}}\n"


def names(reader: CommandReader) -> list[str]:
    return [str(command.arguments.get("text", command.name)) for command in reader.read()]


def test_each_command_is_read_once(folder: RunFolder) -> None:
    reader = CommandReader(folder.commands)
    assert reader.read() == []
    append_command(folder, "note", text="one")
    append_command(folder, "answer", keep=True)
    first, second = reader.read()
    assert (first.name, first.arguments) == ("note", {"text": "one"})
    assert (second.name, second.arguments) == ("answer", {"keep": True})
    assert reader.read() == []
    append_command(folder, "note", text="two")
    assert names(reader) == ["two"]


def test_a_reader_from_the_end_leaves_out_what_is_there(folder: RunFolder) -> None:
    append_command(folder, "note", text="old")
    reader = CommandReader(folder.commands, from_end=True)
    append_command(folder, "note", text="new")
    assert names(reader) == ["new"]


def test_half_a_line_is_left_until_it_is_whole(folder: RunFolder) -> None:
    reader = CommandReader(folder.commands)
    line = json.dumps({"time": 1.0, "name": "note", "arguments": {"text": "slow"}}).encode() + b"\n"
    with folder.commands.open("ab", buffering=0) as file:
        file.write(line[:20])
        assert reader.read() == []
        file.write(line[20:])
        assert names(reader) == ["slow"]


def test_a_torn_line_costs_neither_the_one_before_nor_the_one_after(folder: RunFolder) -> None:
    reader = CommandReader(folder.commands)
    append_command(folder, "note", text="before")
    with folder.commands.open("ab") as file:
        file.write(b'{"time":1.0,"name":"no')
    append_command(folder, "note", text="after")
    assert names(reader) == ["before", "after"]


@pytest.mark.parametrize(
    "junk",
    [
        b"\xff\xfe\n",
        b"5\n",
        b"{}\n",
        b'{"time":"x","name":"note"}\n',
        b"\n\n",
        b"\0\0\0\n",
        b"[" * 10_000 + b"\n",
        DEEP,
    ],
)
def test_what_is_no_command_is_skipped(folder: RunFolder, junk: bytes) -> None:
    folder.commands.write_bytes(junk)
    append_command(folder, "note", text="fine")
    assert names(CommandReader(folder.commands)) == ["fine"]


def test_a_file_that_was_made_anew_is_read_from_its_beginning(folder: RunFolder) -> None:
    reader = CommandReader(folder.commands)
    append_command(folder, "note", text="a long text that makes the first file longer than the second")
    reader.read()
    folder.commands.unlink()
    append_command(folder, "note", text="short")
    assert names(reader) == ["short"]


def test_commands_of_several_processes_do_not_mix(folder: RunFolder) -> None:
    code = (
        "import sys; from pathlib import Path; from opal.records.commands import append_command;"
        "from opal.records.run_folder import RunFolder;"
        "[append_command(RunFolder(Path(sys.argv[1])), 'note', text=sys.argv[2] * 3000) for _ in range(20)]"
    )
    environment = dict(os.environ, PYTHONPATH=str(Path(opal.__file__).parents[1]))
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(folder.root), letter], env=environment) for letter in "ab"
    ]
    assert [process.wait() for process in processes] == [0, 0]
    assert sorted(names(CommandReader(folder.commands))) == ["a" * 3000] * 20 + ["b" * 3000] * 20


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"commands\.jsonl cannot be written"):
        append_command(RunFolder(tmp_path / "gone"), "note", text="x")
