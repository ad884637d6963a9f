"""The parts of a decision's message. Each is made to a budget in bytes, and is empty where there is nothing to say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from opal.prompts.budget import cut, cut_middle, fit_lines, size
from opal.prompts.numbers import counted, short
from opal.prompts.report_text import mean_report, newest, over_time
from opal.types import DecisionRequest, Failure, GroupRate, Metric, SmoothedLoss

Part: TypeAlias = Callable[[DecisionRequest, int], str]

_MEANS_A_LINE = 10
_ENOUGH_FOR_MEANS = 3  # one report shows one batch; a few show what is there
_IN_INBOX = "- … {count} more in the inbox"
_UNDONE = {
    "exactly": "undone exactly",
    "not": "what it did to the parameters before is not undone",
    "nothing to undo": "it had changed nothing",
}


def previous(request: DecisionRequest, limit: int) -> str:
    """What became of the answers since the last message, the newest where not all fit."""
    explained = {failure.version for failure in request.failures}
    lines = []
    for outcome in request.previous:
        below = outcome.kind == "refused" and outcome.version in explained
        sentence = f"program {outcome.version} was refused, see the failures below" if below else outcome.sentence
        lines.append(cut(f"- Decision {outcome.decision}: {sentence.rstrip('.')}.", min(limit, 600)))
    newest_first = fit_lines(lines[::-1], limit, "- … {count} earlier ones in the inbox")
    return "\n".join(newest_first[::-1])


def losses(request: DecisionRequest, limit: int) -> str:
    """Means of the losses since the previous decision, and a smoothed loss now and then."""
    lines = []
    history = request.losses
    if history.now is not None:
        before = "" if history.before is None else f"; at the previous decision {_smoothed(history.before)}"
        lines.append(f"Smoothed, now: {_smoothed(history.now)}{before}.")
    means = history.means
    if means:
        while True:
            rows = _mean_rows(means)
            if size("\n".join(lines + rows)) <= limit or len(means) <= _MEANS_A_LINE:
                break
            means = _every_other(means)
        lines += rows
    return "\n".join(fit_lines(lines, limit))


def development(request: DecisionRequest, limit: int) -> str:
    """The development set's history, the newest values where not all fit."""
    return _series(request.development, limit)


def reports(request: DecisionRequest, limit: int) -> str:
    """The reports as a table over time, with at most half of the room, and what else is in the newest one."""
    if not request.reports:
        return ""
    table, shown = over_time(request.reports, limit // 2)
    before = request.losses.before
    since = [report for report in request.reports if before is None or report.update > before.update]
    title = f"Newest, of update {request.reports[-1].update}"
    report = request.reports[-1]
    if len(since) >= _ENOUGH_FOR_MEANS:
        title = f"Means of the {len(since)} reports from update {since[0].update} to {since[-1].update}"
        report = mean_report(since)
    title += ", what is not in the table:" if table else ":"
    room = limit - size("\n".join([*table, title])) - 20
    last = newest(report, room, shown)
    return "\n".join((["Over time:", *table] if table else []) + ([title, *last] if last else []))


def rates(request: DecisionRequest, limit: int) -> str:
    """The learning rates in force, groups with the same rate in one line."""
    by_rate: dict[float, list[GroupRate]] = {}
    for group in request.rates:
        by_rate.setdefault(group.rate, []).append(group)
    lines = []
    for rate, groups in by_rate.items():
        tensors, roles = sum(group.tensors for group in groups), dict.fromkeys(group.first_role for group in groups)
        lines.append(
            f"- {short(rate)}: {counted(tensors, 'tensor')} ({cut(', '.join(roles), 120)}{_others(tensors, roles)})"
        )
    return "\n".join(fit_lines(lines, limit))


def _others(tensors: int, roles: Mapping[str, None]) -> str:
    return ", …" if tensors > len(roles) else ""


def metrics(request: DecisionRequest, limit: int) -> str:
    """Values that the script logged for the agent, by name, the newest where not all fit."""
    return _series(tuple(metric for metric in request.metrics if metric.shown), limit)


def skipped(request: DecisionRequest, limit: int) -> str:
    """Skipped updates by number."""
    if not request.skipped:
        return ""
    numbers = ", ".join(_ranges(request.skipped))
    return cut(f"{counted(len(request.skipped), 'update')}: {numbers}", limit)


def failures(request: DecisionRequest, limit: int) -> str:
    """What failed: file, line, error, traceback, and what became of it. The newest has most of the room."""
    if not request.failures:
        return ""
    latest, earlier = request.failures[-1], request.failures[:-1]
    lines = [cut(_failure_line(failure), 500) for failure in reversed(earlier)]
    others = fit_lines(lines, limit // 4, _IN_INBOX) if lines else []
    room = limit - size("\n".join(others)) - 1
    first = cut(_failure_line(latest), room)
    room -= size(first) + 10
    text = [first]
    if latest.traceback.strip() and room > 80:
        text.append("```\n" + cut_middle(latest.traceback.strip("\n"), room) + "\n```")
    return "\n".join(text + others)


def warnings(request: DecisionRequest, limit: int) -> str:
    """What OPAL has to say about the program that runs, such as a report that was cut."""
    return "\n".join(fit_lines([cut(f"- {text}", min(limit, 400)) for text in request.warnings], limit, _IN_INBOX))


def timing(request: DecisionRequest, limit: int) -> str:
    """Milliseconds per update beside the starting program's, and what one audited update of each program did."""
    lines = []
    times = request.timing
    if times is not None and not math.isnan(times.wall_ms):
        lines.append(
            f"- {_ms(times.wall_ms)} an update, {_ms(times.program_ms)} of it the updater's"
            + (
                ""
                if math.isnan(times.starting_wall_ms)
                else f" (starting program: {_ms(times.starting_wall_ms)}, {_ms(times.starting_program_ms)})"
            )
        )
    for audit in request.audits:
        line = f"- {audit.version}, one update: {counted(audit.operator_calls, 'operator call')}, "
        line += counted(audit.host_reads, "host read")
        if audit.host_read_places:
            line += " at " + ", ".join(audit.host_read_places)
        lines.append(cut(line, min(limit, 300)))
    return "\n".join(fit_lines(lines, limit, _IN_INBOX))


def notes(request: DecisionRequest, limit: int) -> str:
    """What a person wrote since the last message."""
    lines = [cut(f"- {note.strip()}", min(limit, 1200)) for note in reversed(request.notes) if note.strip()]
    return "\n".join(fit_lines(lines, limit, _IN_INBOX))


def _ranges(updates: Sequence[int]) -> list[str]:
    """`3`, `5-9`: neighbours together."""
    runs: list[list[int]] = []
    for update in updates:
        if runs and update == runs[-1][1] + 1:
            runs[-1][1] = update
        else:
            runs.append([update, update])
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]


def _mean_rows(means: Sequence[tuple[int, float]]) -> list[str]:
    """Rows of ten means. `means` has pairs (last update of the window, mean)."""
    updates = [update for update, _ in means]
    widths = {later - earlier for earlier, later in itertools.pairwise(updates)}
    if widths == {1}:
        lines = ["Each update's, a row beginning with its first update:"]
    else:
        width = f" over {counted(min(widths), 'update')}" if len(widths) == 1 else ""
        lines = [f"Means{width}, a row beginning with the update that ends its first:"]
    for start in range(0, len(means), _MEANS_A_LINE):
        row = means[start : start + _MEANS_A_LINE]
        lines.append(f"{row[0][0]}: " + " ".join(short(mean) for _, mean in row))
    return lines


def _every_other(means: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Half as many means: of each pair the mean of both, under the later update."""
    pairs = [means[index : index + 2] for index in range(0, len(means), 2)]
    return tuple((pair[-1][0], sum(mean for _, mean in pair) / len(pair)) for pair in pairs)


def _series(values: Sequence[Metric], limit: int) -> str:
    """One line a name: `update value` pairs, oldest first; the newest where not all fit."""
    names = list(dict.fromkeys(metric.name for metric in values))
    if not names:
        return ""
    room = max(limit // len(names) - 1, 0)
    lines = []
    for name in names:
        pairs = [f"{metric.update}: {short(metric.value)}" for metric in values if metric.name == name]
        left_out = 0
        while len(pairs) > 1 and size(_series_line(name, pairs, left_out)) > room:
            drop = max(len(pairs) // 8, 1)
            pairs, left_out = pairs[drop:], left_out + drop
        lines.append(_series_line(name, pairs, left_out))
    return "\n".join(fit_lines(lines, limit, _IN_INBOX))


def _series_line(name: str, pairs: Sequence[str], left_out: int) -> str:
    return f"- {name}, at update: " + ("" if not left_out else f"({left_out} earlier) ") + ", ".join(pairs)


def _failure_line(failure: Failure) -> str:
    place = "" if failure.file is None else f" in {failure.file}" + ("" if failure.line is None else f":{failure.line}")
    what = f"- {failure.version} failed at update {failure.update} ({failure.stage}){place}: {failure.error}"
    what += f": {failure.message}" if failure.message else ""
    if failure.stage == "analysis" and failure.version == failure.goes_on_with:
        return what + ". The analysis is not called again until it is edited."
    return what + f" — {_UNDONE[failure.undone]}; the run went on with {failure.goes_on_with}."


def _smoothed(loss: SmoothedLoss) -> str:
    error = "" if math.isnan(loss.standard_error) else f" ± {loss.standard_error:.4f}"
    return f"{loss.mean:.4f}{error} (update {loss.update})"


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if not math.isnan(value) else "? ms"
