"""`opal report` and `opal estimate` hand over to the page and to the figures."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opal.decisions.estimate import as_dict, describe, estimate_run
from opal.records.run_folder import RunFolder

Opal = Callable[..., Any]
MakeRun = Callable[..., RunFolder]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the page, which has tests of its own."""

    def write_report(run: Path) -> Path:
        (run / "report.html").write_text("<p>")
        return run / "report.html"

    module = types.ModuleType("opal.report.page")
    module.write_report = write_report  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opal.report", types.ModuleType("opal.report"))
    monkeypatch.setitem(sys.modules, "opal.report.page", module)


@pytest.mark.usefixtures("page")
def test_report_prints_where_the_page_is(opal: Opal, make_run: MakeRun, story: Any) -> None:
    folder = make_run(*story)
    printed = opal("report", folder.root)
    assert (printed.code, printed.out) == (0, f"{folder.page}\n")
    assert folder.page.exists()


@pytest.mark.usefixtures("page")
def test_report_opens_the_page_when_asked(
    opal: Opal, make_run: MakeRun, story: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    folder = make_run(*story)
    printed = opal("report", "--open", folder.root)
    assert opened == [folder.page.as_uri()]
    assert "no browser was found" in printed.out


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        (("--decisions", "8", "--every", "10", "--no-blocking"), {"decisions": 8, "every": 10, "blocking": False}),
        (("--model", "m", "--effort", "low", "--mailbox"), {"model": "m", "effort": "low", "mailbox": True}),
    ],
)
def test_estimate_prints_the_figures_for_what_was_given(
    opal: Opal, arguments: tuple[str, ...], options: dict[str, Any]
) -> None:
    call = ("estimate", "--total-steps", "2000", "--sec-per-step", "0.5", *arguments)
    expected = estimate_run(total_steps=2000, sec_per_step=0.5, **options)
    assert opal(*call) == (0, describe(expected) + "\n", "")
    assert json.loads(opal(*call, "--json").out) == json.loads(json.dumps(as_dict(expected)))


def test_estimate_of_nothing_is_wrong_use(opal: Opal) -> None:
    printed = opal("estimate", "--total-steps", "0", "--sec-per-step", "0.5")
    assert (printed.code, printed.out) == (2, "")
    assert "total_steps=0" in printed.err
