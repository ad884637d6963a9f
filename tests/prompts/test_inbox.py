"""The inbox: complete data in strict JSON, and a table of all reports."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path

from opal.prompts.inbox import write_inbox
from opal.prompts.reports_csv import reports_csv
from opal.records.run_folder import RunFolder
from opal.types import DecisionRequest, Report

MakeRequest = Callable[..., DecisionRequest]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not strict JSON")


def test_the_decision_s_file_holds_everything_in_strict_json(tmp_path: Path, make_request: MakeRequest) -> None:
    folder = RunFolder(tmp_path)
    write_inbox(folder, make_request(), [(61, 3.25), (62, math.nan), (63, math.inf)], [])
    text = (folder.inbox / "decision_003.json").read_text(encoding="utf-8")
    data = json.loads(text, parse_constant=refuse)
    assert data["update"] == 120
    assert data["reasons"] == [{"kind": "scheduled", "detail": ""}]
    assert data["losses"]["all"] == [[61, 3.25], [62, "NaN"], [63, "Infinity"]]
    assert data["reports"][-1]["values"]["roles"]["blocks.N.part3.weight"]["weight_norm"] == 22.6
    assert data["audits"][1]["host_read_places"] == ["updater.py:31"]


def test_the_decision_s_file_has_the_reports_since_the_previous_decision(
    tmp_path: Path, make_request: MakeRequest
) -> None:
    folder = RunFolder(tmp_path)
    old_and_new = tuple(Report(update=update, values={"x": update}) for update in (40, 60, 70, 120))
    write_inbox(folder, make_request(reports=old_and_new), [], old_and_new)
    data = json.loads((folder.inbox / "decision_003.json").read_text(encoding="utf-8"))
    assert [report["update"] for report in data["reports"]] == [70, 120]
    assert (folder.inbox / "reports.csv").read_text(encoding="utf-8").startswith("update,x\n40,40\n60,60\n")


def test_the_closing_request_has_a_file_of_its_own(tmp_path: Path, make_request: MakeRequest) -> None:
    folder = RunFolder(tmp_path)
    write_inbox(folder, make_request(number=0), [], [])
    assert sorted(path.name for path in folder.inbox.iterdir()) == ["closing.json", "reports.csv"]


def test_reports_become_one_table_with_dotted_columns() -> None:
    reports = [
        Report(update=10, values={"loss": 2.5, "roles": {"a": {"x": 1}}, "list": [4, 5], "word": "calm", "flag": True}),
        Report(update=20, values={"loss": math.nan, "new": 7}),
    ]
    rows = list(csv.DictReader(reports_csv(reports).splitlines()))
    assert list(rows[0]) == ["update", "loss", "roles.a.x", "list.0", "list.1", "new"]
    assert rows[0] == {"update": "10", "loss": "2.5", "roles.a.x": "1", "list.0": "4", "list.1": "5", "new": ""}
    assert (rows[1]["loss"], rows[1]["new"], rows[1]["roles.a.x"]) == ("nan", "7", "")


def test_only_the_newest_400_reports_are_in_the_table() -> None:
    lines = reports_csv([Report(update=update, values={"x": update}) for update in range(1, 1001)]).splitlines()
    assert lines[0] == "update,x"
    assert (lines[1], lines[-1], len(lines)) == ("601,601", "1000,1000", 401)


def test_a_report_s_own_update_key_does_not_hide_the_update() -> None:
    assert reports_csv([Report(update=10, values={"update": 3.5})]) == "update,report.update\n10,3.5\n"


def test_a_new_column_gets_into_the_rows_from_before() -> None:
    reports = [Report(update=10, values={"x": 1}), Report(update=20, values={"x": 2})]
    assert reports_csv(reports) == "update,x\n10,1\n20,2\n"
    reports.append(Report(update=30, values={"y, z": 3.5}))
    assert reports_csv(reports) == 'update,x,"y, z"\n10,1,\n20,2,\n30,,3.5\n'


def test_files_are_replaced_and_nothing_else_is_left(tmp_path: Path, make_request: MakeRequest) -> None:
    folder = RunFolder(tmp_path)
    for number in (1, 2, 2):
        write_inbox(folder, make_request(number=number), [], [Report(update=number, values={"x": 1})])
    names = sorted(path.name for path in folder.inbox.iterdir())
    assert names == ["decision_001.json", "decision_002.json", "reports.csv"]
