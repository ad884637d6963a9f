"""Diffs, changed constants and the line that says what an edit changed."""

from __future__ import annotations

import pytest

from opal.report.changes import changed_constants, one_line_change
from opal.report.diff import program_diff

OLD = """\
from opal.kit import rules

LR = 0.001


class Updater:
    beta = 0.9

    def __init__(self, params, warmup=10):
        self.lr = 1e-3
        self.rule = rules.AdamW(params, lr=LR, betas=(0.9, 0.95))

    def step(self, grads, update):
        self.rule.step(grads)


def build(named_params, previous=None, spec=None):
    return Updater([p for _, p in named_params])
"""


def change(new: str, old: str = OLD, path: str = "updater.py") -> str:
    before, after = {path: old}, {path: new}
    return one_line_change(before, after, program_diff(before, after))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("self.lr = 1e-3", "self.lr = 4e-3", "Updater.lr 0.001 → 0.004"),
        ("LR = 0.001", "LR = 4e-3", "LR 0.001 → 0.004"),
        ("beta = 0.9\n", "beta = 0.95\n", "Updater.beta 0.9 → 0.95"),
        ("warmup=10", "warmup=20", "Updater.__init__(warmup) 10 → 20"),
        ("(0.9, 0.95)", "(0.9, 0.98)", "rules.AdamW(betas) (0.9, 0.95) → (0.9, 0.98)"),
        ("rules.AdamW(params, lr=LR, betas=(0.9, 0.95))", "rules.Muon(params)", "+ rules.Muon, − rules.AdamW"),
        ("def build", "def helper():\n    pass\n\n\ndef build", "+ def helper"),
        ("self.rule.step(grads)", "self.rule.step(grads * 2)", "updater.py +1 −1 lines"),
        ("self.rule.step(grads)", "self.rule.step((", "updater.py +1 −1 lines"),  # no Python
    ],
)
def test_the_line_says_what_changed(old: str, new: str, line: str) -> None:
    assert OLD.count(old) == 1
    assert change(OLD.replace(old, new)) == line


def test_a_value_written_otherwise_is_no_change_of_a_constant() -> None:
    assert change(OLD.replace("LR = 0.001", "LR = 1e-3")) == "updater.py +1 −1 lines"


def test_other_files_are_named_and_long_lines_are_cut() -> None:
    assert change("EVERY = 25\n", "EVERY = 50\n", "analysis.py") == "analysis.py: EVERY 50 → 25"
    old = "".join(f"A{place} = 1\n" for place in range(6))
    assert change(old.replace("1", "2")).endswith(" and 3 more")
    assert one_line_change({"updater.py": "x"}, {"updater.py": "x", "m.py": ""}, ()) == "+ m.py"


def test_constants_of_equal_statements_are_not_compared_and_repeated_names_are_numbered() -> None:
    old = {"updater.py": "def f():\n    g(1)\n    g(2)\n"}
    changes = changed_constants(old, {"updater.py": "def f():\n    g(1)\n    g(3)\n"})
    assert [str(item) for item in changes] == ["g(argument 1) (2) 2 → 3"]


def test_a_statement_that_moved_is_no_change_of_its_constants() -> None:
    old, new = "g(1)\n\n\ndef f():\n    g(2)\n", "def f():\n    g(2)\n\n\ng(1)\n"
    assert changed_constants({"updater.py": old}, {"updater.py": new}) == ()


def test_a_diff_shows_places_with_three_lines_around_them() -> None:
    old = "".join(f"line {place}\n" for place in range(1, 31))
    new = old.replace("line 15\n", "changed\nand more\n")
    (file,) = program_diff({"updater.py": old}, {"updater.py": new})
    assert file.lines == (
        "@@ lines 12-18 → 12-19 @@",
        " line 12",
        " line 13",
        " line 14",
        "-line 15",
        "+changed",
        "+and more",
        " line 16",
        " line 17",
        " line 18",
    )
    assert (file.added, file.removed) == (2, 1)


def test_a_diff_has_two_places_where_the_changes_are_apart() -> None:
    old = "".join(f"line {place}\n" for place in range(1, 31))
    (file,) = program_diff({"a.py": old}, {"a.py": old.replace("line 3\n", "x\n").replace("line 25\n", "")})
    assert [line for line in file.lines if line.startswith("@@")] == [
        "@@ lines 1-6 → 1-6 @@",
        "@@ lines 22-28 → 22-27 @@",
    ]


def test_new_and_removed_files_are_whole_and_the_updater_comes_first() -> None:
    files = program_diff({"a.py": "x\n", "same.py": "s"}, {"updater.py": "y\n", "same.py": "s"})
    assert [(file.path, file.lines[1:]) for file in files] == [("updater.py", ("+y",)), ("a.py", ("-x",))]


def test_thousands_of_different_lines_are_not_compared_one_with_another() -> None:
    old, new = "a\nb\n" * 5_000, "b\na\nc\n" * 5_000
    (file,) = program_diff({"updater.py": old}, {"updater.py": new})
    assert (file.removed, file.added) == (10_000, 15_000)
