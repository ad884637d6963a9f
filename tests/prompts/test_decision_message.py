"""The decision message: short, complete, and never over its limit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from opal.prompts import decision_message
from opal.prompts.budget import size, tokens
from opal.prompts.decision_message import MAX_TOKENS, render_closing_message, render_decision_message
from opal.types import DecisionRequest, Failure, GroupRate, LossHistory, Metric, Outcome, Reason, Report, SmoothedLoss

MakeRequest = Callable[..., DecisionRequest]

FAILURE = Failure(
    version="v002", stage="first update", update=60, error="RuntimeError", message="shapes do not match",
    file="rules/mine.py", line=12, traceback="Traceback\n  File rules/mine.py, line 12, in step\nRuntimeError",
    undone="exactly", goes_on_with="v001",
)  # fmt: skip


def test_head_says_number_update_share_epoch_waiting_reason_and_next(make_request: MakeRequest) -> None:
    text = render_decision_message(make_request(epoch=1.25))
    assert text.startswith("# Decision 3, update 120 of 400 (30.0%, epoch 1.25)\n")
    assert "Training waits. An edit counts from update 120" in text
    assert "Why now: scheduled. Running: v001." in text
    assert "Next scheduled decision: update 170." in text
    assert "2 done, 5 left after this one" in text


def test_parts_come_in_the_documented_order(huge_request: DecisionRequest) -> None:
    text = render_decision_message(huge_request)
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "What became of your answer", "Loss", "Development set", "Reports of your analysis", "Logged by the script",
        "Skipped updates", "Failures", "Warnings", "Learning rates in force", "Time per update",
        "Notes from the person",
        "Where things are, and how to end",
    ]  # fmt: skip


def test_a_part_with_nothing_to_say_has_no_heading(make_request: MakeRequest) -> None:
    text = render_decision_message(
        make_request(previous=(), losses=LossHistory(), reports=(), timing=None, audits=(), metrics=())
    )
    assert "## " not in text
    assert "\n\n\n" not in text


def test_no_request_makes_a_message_longer_than_its_limit(huge_request: DecisionRequest) -> None:
    assert tokens(render_decision_message(huge_request)) <= MAX_TOKENS
    assert tokens(render_closing_message(huge_request)) <= MAX_TOKENS
    for field in dataclasses.fields(huge_request):
        value = getattr(huge_request, field.name)
        if isinstance(value, tuple):
            alone = {f.name: () for f in dataclasses.fields(huge_request) if f.name != field.name
                     and isinstance(getattr(huge_request, f.name), tuple)}  # fmt: skip
            assert tokens(render_decision_message(dataclasses.replace(huge_request, **alone))) <= MAX_TOKENS


def test_what_is_never_cut_leaves_room_for_the_least_of_every_part(huge_request: DecisionRequest) -> None:
    empty = {f.name: () for f in dataclasses.fields(huge_request)
             if isinstance(getattr(huge_request, f.name), tuple) and f.name != "reasons"}  # fmt: skip
    files = [f"reference/file{index:04d}.py" for index in range(500)]
    bare = dataclasses.replace(huge_request, **empty, losses=LossHistory(), timing=None, number=10**6, update=10**9,
                               total_updates=10**9)  # fmt: skip
    headings = len(decision_message._PARTS) * len("\n\n## What became of your answer\n")
    least = sum(least for _, least in decision_message._BUDGETS.values())
    rest = size(render_decision_message(bare, workspace_files=files)) + headings
    assert rest < 3_000
    assert least + 3_000 <= MAX_TOKENS * 4


def test_a_large_request_keeps_error_note_and_how_to_end_whole(huge_request: DecisionRequest) -> None:
    request = dataclasses.replace(
        huge_request,
        failures=(*huge_request.failures, FAILURE),
        notes=(*huge_request.notes[:3], "Mind the embeddings."),
    )
    text = render_decision_message(request)
    assert "in rules/mine.py:12: RuntimeError: shapes do not match" in text
    assert "- Mind the embeddings." in text
    assert "the files as they are then are your answer." in text


def test_a_failure_names_file_line_traceback_and_what_was_undone(make_request: MakeRequest) -> None:
    text = render_decision_message(make_request(failures=(FAILURE,)))
    assert "v002 failed at update 60 (first update) in rules/mine.py:12: RuntimeError: shapes do not match" in text
    assert "undone exactly; the run went on with v001" in text
    assert "File rules/mine.py, line 12, in step" in text


def test_each_way_of_undoing_is_said_differently(make_request: MakeRequest) -> None:
    texts = {
        undone: render_decision_message(make_request(failures=(dataclasses.replace(FAILURE, undone=undone),)))
        for undone in ("exactly", "not", "nothing to undo")
    }
    assert "what it did to the parameters before is not undone" in texts["not"]
    assert "it had changed nothing" in texts["nothing to undo"]
    assert len(set(texts.values())) == 3


def test_a_failed_analysis_is_said_to_rest_until_it_is_edited(make_request: MakeRequest) -> None:
    failure = dataclasses.replace(
        FAILURE, version="v001", stage="analysis", file="analysis.py", undone="nothing to undo", goes_on_with="v001"
    )
    text = render_decision_message(make_request(failures=(failure,)))
    assert "not called again until it is edited" in text
    assert "went on with" not in text
    never_loaded = dataclasses.replace(failure, version="v002")
    text = render_decision_message(make_request(failures=(never_loaded,)))
    assert "it had changed nothing; the run went on with v001" in text
    assert "until it is edited" not in text


def test_not_waiting_counts_the_edit_from_after_the_answer(make_request: MakeRequest) -> None:
    text = render_decision_message(make_request(waits=False))
    assert "An edit counts from the first update after your answer" in text
    assert "Training waits" not in text


def test_the_last_decision_is_announced(make_request: MakeRequest) -> None:
    text = render_decision_message(make_request(last=True, next_update=None, decisions_left=0))
    assert "This is the last decision" in text
    assert "Next scheduled" not in text


def test_only_the_first_message_says_where_things_are(make_request: MakeRequest) -> None:
    files = ["updater.py", "reference/model.py", "reference/kit/roles.py", "reference/kit/rules/sgd.py", "analysis.py"]
    first = render_decision_message(make_request(first=True), workspace_files=files)
    assert "In the workspace: analysis.py, updater.py; reference/ with kit/, model.py." in first
    assert "Where things are" not in render_decision_message(make_request(), workspace_files=["updater.py"])


def test_reasons_are_merged_with_their_details(make_request: MakeRequest) -> None:
    reasons = (Reason(kind="scheduled"), Reason(kind="wake", detail="loss rose by 0.4"), Reason(kind="nonfinite"))
    text = render_decision_message(make_request(reasons=reasons))
    assert "Why now: scheduled; your analysis woke you: loss rose by 0.4; a loss is not finite." in text


def test_a_refused_candidate_is_explained_once(make_request: MakeRequest) -> None:
    failure = dataclasses.replace(FAILURE, stage="build")
    outcome = Outcome(
        decision=2, kind="refused", version="v002", sentence="program v002 was refused, build() failed at …"
    )
    text = render_decision_message(make_request(previous=(outcome,), failures=(failure,)))
    assert "- Decision 2: program v002 was refused, see the failures below.\n" in text
    assert text.count("build") == 1
    alone = render_decision_message(make_request(previous=(outcome,)))
    assert "- Decision 2: program v002 was refused, build() failed at ….\n" in alone


def test_losses_come_as_rows_of_means_with_their_window(make_request: MakeRequest) -> None:
    means = tuple((60 + 5 * index, 3 - index / 8) for index in range(1, 13))
    text = render_decision_message(make_request(losses=LossHistory(means=means)))
    assert "Means over 5 updates" in text
    assert "\n65: 2.875 2.75 2.625 2.5 2.375 2.25 2.125 2 1.875 1.75\n115: 1.625 1.5\n" in text


def test_means_are_merged_in_pairs_where_a_message_is_full(huge_request: DecisionRequest) -> None:
    means = tuple((update, 200_000.0 * update) for update in range(1, 101))
    text = render_decision_message(dataclasses.replace(huge_request, losses=LossHistory(means=means)))
    assert "Means over 2 updates" in text
    assert "\n2: 300000 700000 1.1e6" in text


def test_reports_become_tables(make_request: MakeRequest) -> None:
    reports = tuple(
        Report(update=update, values={"slope": -0.5 / update, "text": "calm",
                                      "roles": {"a": {"x": 1.5, "y": float("nan")}, "b": {"x": 2.5}}})
        for update in (10, 20, 30)
    )  # fmt: skip
    text = render_decision_message(make_request(reports=reports))
    assert "update | 10 | 20 | 30\nslope | -0.05 | -0.025 | -0.01667\n" in text
    assert "Newest, of update 30, what is not in the table:\ntext calm\n" in text
    assert text.count("slope") == 1
    assert "roles | x | y\na | 1.5 | nan\nb | 2.5 | -\n" in text


def test_a_single_report_is_shown_whole(make_request: MakeRequest) -> None:
    report = Report(update=10, values={"loss": {"mean": 2.5, "slope": -0.125}, "note": None})
    text = render_decision_message(make_request(reports=(report,)))
    assert "Newest, of update 10:\nnote None\nloss: mean 2.5, slope -0.125\n" in text
    assert "Over time" not in text


def test_a_dict_that_does_not_fit_into_the_table_is_shown_below_it_whole(make_request: MakeRequest) -> None:
    reports = tuple(Report(update=update, values={"a": {"x.0": 1}, "many": {f"m{n}": n for n in range(30)}})
                    for update in (10, 20))  # fmt: skip
    text = render_decision_message(make_request(reports=reports))
    assert "update | 10 | 20\na.x.0 | 1 | 1\nNewest" in text
    assert "many: m0 0, m1 1," in text
    assert "m29 29\n" in text


def test_outcomes_come_in_order_and_the_newest_are_kept(make_request: MakeRequest) -> None:
    outcomes = tuple(Outcome(decision=number, kind="kept", sentence="the programs were kept " + "z" * 300)
                     for number in range(1, 20))  # fmt: skip
    text = render_decision_message(make_request(previous=outcomes))
    numbers = [int(line.split()[2].rstrip(":")) for line in text.splitlines() if line.startswith("- Decision ")]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 19
    assert "earlier ones in the inbox\n- Decision " in text


def test_metrics_that_are_not_meant_for_the_agent_are_not_shown(make_request: MakeRequest) -> None:
    metrics = (Metric(update=90, name="throughput", value=12.5, shown=True),
               Metric(update=90, name="test_accuracy", value=0.9, shown=False))  # fmt: skip
    text = render_decision_message(make_request(metrics=metrics))
    assert "- throughput, at update: 90: 12.5" in text
    assert "test_accuracy" not in text


def test_skipped_updates_are_given_as_ranges(make_request: MakeRequest) -> None:
    assert "4 updates: 7, 9-11" in render_decision_message(make_request(skipped=(7, 9, 10, 11)))


def test_times_stand_beside_those_of_the_starting_program(make_request: MakeRequest) -> None:
    text = render_decision_message(make_request())
    assert "102 ms an update, 6.2 ms of it the updater's (starting program: 99 ms, 4.1 ms)" in text
    assert "v001, one update: 402 operator calls, 1 host read at updater.py:31" in text


def test_the_closing_message_asks_nothing(make_request: MakeRequest) -> None:
    text = render_closing_message(make_request(number=0, update=400))
    assert text.startswith("# After the last decision, update 400 of 400 (100.0%)\nNothing is asked.")
    assert "Decision 2: applied as v001" in text
    assert "Why now" not in text


@pytest.mark.parametrize("word", ["$", "cost", "money", "USD"])
def test_messages_do_not_speak_of_money(make_request: MakeRequest, word: str) -> None:
    assert word not in render_decision_message(make_request(first=True))


def test_rates_in_force_are_shown_by_rate_with_the_groups_that_have_it(
    make_request: Callable[..., DecisionRequest],
) -> None:
    rates = (
        GroupRate(tensors=4, first_role="blocks.N.weight", rate=0.02),
        GroupRate(tensors=1, first_role="head.weight", rate=0.001),
        GroupRate(tensors=2, first_role="norm.weight", rate=0.001),
    )
    text = render_decision_message(make_request(rates=rates))
    assert "## Learning rates in force" in text
    assert "- 0.02: 4 tensors (blocks.N.weight, …)" in text
    assert "- 0.001: 3 tensors (head.weight, norm.weight, …)" in text


def test_several_reports_since_the_last_decision_are_averaged_in_what_is_not_in_the_table(
    make_request: Callable[..., DecisionRequest],
) -> None:
    reports = tuple(
        Report(update=update, values={"loss": 2.0, "roles": {"a": {"cosine": cosine}, "b": {"cosine": 0.5}}})
        for update, cosine in ((10, 9.0), (20, -0.3), (30, -0.1), (40, -0.2))
    )
    before = SmoothedLoss(update=10, mean=2.0, standard_error=0.1)
    text = render_decision_message(make_request(reports=reports, losses=LossHistory(before=before, now=before)))
    assert "Means of the 3 reports from update 20 to 40" in text
    assert "a | -0.2" in text
    two = render_decision_message(make_request(reports=reports[:3], losses=LossHistory(before=before, now=before)))
    assert "Newest, of update 30" in two
    assert "a | -0.1" in two
