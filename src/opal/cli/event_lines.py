"""One line for each kind of event, as `opal watch` prints it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from opal.cli.terminal import dollars, duration, one_line
from opal.records import events as e


def event_line(event: e.AnyEvent) -> str:
    """Time of day, update, and what happened; without control characters."""
    clock = time.strftime("%H:%M:%S", time.localtime(event.time))
    return f"{clock}  {event.update:>7}  {one_line(_SENTENCES[type(event)](event))}"


def event_colour(event: e.AnyEvent) -> str:
    """Red for what failed, yellow for what needs attention, green for what took over, none for the rest."""
    if isinstance(event, e.ProgramFailed | e.ProgramRefused | e.AnalysisFailed | e.NonfiniteLoss):
        return "red"
    if isinstance(event, e.ProgramReverted | e.DecisionUnanswered | e.DecisionMissed | e.RecordsLost | e.Warned):
        return "yellow"
    return "green" if isinstance(event, e.ProgramApplied | e.RunEnded) else ""


def _started(event: e.RunStarted) -> str:
    dropped = f", {event.dropped} dropped near the end" if event.dropped else ""
    count = len(event.decision_updates)
    return f"run started: {event.total_steps} updates, {count} decisions by {event.backend}{dropped}"


def _asked(event: e.DecisionAsked) -> str:
    waits = "training waits" if event.waits else "training goes on"
    return f"decision {event.decision} asked ({', '.join(event.reasons)}), {waits}"


def _answered(event: e.DecisionAnswered) -> str:
    cost = "" if event.cost_usd is None else f", {dollars(event.cost_usd)}"
    what = "edited" if event.edited else "kept"
    return f"decision {event.decision} answered after {duration(event.seconds)}{cost}, {what}: {event.text}"


def _unanswered(event: e.DecisionUnanswered) -> str:
    return f"decision {event.decision} unanswered after {duration(event.seconds)}: {event.why}"


def _applied(event: e.ProgramApplied) -> str:
    sides = " and ".join(event.sides)
    return f"{event.version} ({sides}) applied from update {event.effective_from}, asked at {event.asked_at}"


def _failed(event: e.ProgramFailed) -> str:
    where = f" at {event.file}:{event.line}" if event.file else ""
    what = f"{event.version} failed ({event.stage}){where}: {event.error}: {event.message}"
    return f"{what}; undone: {event.undone}; {event.goes_on_with} goes on"


def _analysis_failed(event: e.AnalysisFailed) -> str:
    where = f" at {event.file}:{event.line}" if event.file else ""
    return f"the analysis of {event.version} failed{where}: {event.error}: {event.message}"


def _audited(event: e.ProgramAudited) -> str:
    return f"{event.version} measured: {event.operator_calls} operator calls, {event.host_reads} host reads an update"


def _ended(event: e.RunEnded) -> str:
    cost = "" if event.cost_usd is None else f", {dollars(event.cost_usd)}"
    return f"run {event.outcome} with {event.version}: waited {duration(event.agent_wait_seconds)} for the agent{cost}"


_SENTENCES: dict[type[e.Event], Callable[[Any], str]] = {
    e.RunStarted: _started,
    e.RunEnded: _ended,
    e.DecisionAsked: _asked,
    e.DecisionAnswered: _answered,
    e.DecisionUnanswered: _unanswered,
    e.DecisionMissed: lambda event: f"a decision was due and not asked: {event.why}",
    e.ProgramApplied: _applied,
    e.ProgramRefused: lambda event: f"{event.version} refused ({event.stage}): {event.sentence}",
    e.ProgramFailed: _failed,
    e.ProgramReverted: lambda event: f"{event.version} reverted, {event.goes_on_with} goes on: {event.why}",
    e.TrialPassed: lambda event: f"{event.version} passed its trial",
    e.AnalysisFailed: _analysis_failed,
    e.AnalysisWoke: lambda event: f"the analysis asks for a decision: {event.why}",
    e.NonfiniteLoss: lambda event: f"the loss is not finite since update {event.first_update}",
    e.ProgramAudited: _audited,
    e.WaitingChosen: lambda event: f"training {'waits' if event.waits else 'goes on'}: {event.why}",
    e.NoteReceived: lambda event: f"note for the agent: {event.text}",
    e.SchedulerAdopted: lambda event: f"scheduler {event.name} taken over",
    e.InstallationChanged: lambda event: f"the installation differs from its record: {', '.join(event.files)}",
    e.Warned: lambda event: f"warning: {event.text}",
    e.RecordsLost: lambda event: f"records lost: {event.count} ({event.why})",
}
