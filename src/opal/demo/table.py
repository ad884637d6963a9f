"""The demo's result: a table for a terminal, a sentence that judges it, and the same as plain data."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

from opal.demo.comparison import Comparison, Row, standard_error_of_difference

# Seconds that differ by more than this share are not called equal without a word.
PACE_TOLERANCE = 0.1

# Differences within this many standard errors are called no difference.
CLEAR = 2.0


def result_table(comparison: Comparison) -> Table:
    """One row a run: updates, seconds, final validation loss, and its difference to plain."""
    table = Table(
        box=box.SIMPLE_HEAD, title="Final validation loss, nats per byte (lower is better)", title_justify="left"
    )
    table.add_column("run", no_wrap=True)
    for heading in ("updates", "seconds", "waiting", "loss", "against plain"):
        table.add_column(heading, justify="right")
    for row in comparison.rows:
        trained = row.trained
        table.add_row(
            row.name,
            str(trained.updates),
            f"{trained.seconds:.1f}",
            f"{trained.wait_seconds:.1f}" if trained.run_dir else "-",
            f"{trained.validation_loss:.3f}",
            "-" if row is comparison.plain else _difference(row, comparison.plain),
        )
    return table


def judgement(comparison: Comparison) -> list[str]:
    """A sentence each for equal updates and for equal seconds; what is not clear is not called a win."""
    opal, plain, longer = comparison.opal, comparison.plain, comparison.longer
    lines = [f"At equal updates ({opal.trained.updates}): {_verdict(opal, plain)}"]
    if longer is None:
        lines.append("At equal seconds: the same, since OPAL took no longer than plain.")
    else:
        lines.append(
            f"At equal seconds (plain had {longer.trained.updates} updates in {longer.trained.seconds:.1f} s, "
            f"OPAL {opal.trained.updates} in {opal.trained.seconds:.1f} s, waiting included): {_verdict(opal, longer)}"
        )
        if abs(longer.trained.seconds / opal.trained.seconds - 1) > PACE_TOLERANCE:
            lines.append(
                "These seconds are not equal: the machine changed its pace between the runs, so that plain had more or "
                "fewer updates than it should have had. Repeat the demo on a machine that does nothing else."
            )
    return lines


def result_data(comparison: Comparison) -> list[dict[str, Any]]:
    """The table's rows as plain data; losses in nats per byte, times in seconds."""
    return [
        {
            "name": row.name,
            "updates": row.trained.updates,
            "seconds": round(row.trained.seconds, 3),
            "wait_seconds": round(row.trained.wait_seconds, 3),
            "validation_loss": row.trained.validation_loss,
            "difference_to_plain": row.trained.validation_loss - comparison.plain.trained.validation_loss,
            "standard_error_of_difference": standard_error_of_difference(row.trained, comparison.plain.trained),
            "cost_usd": row.trained.cost_usd,
        }
        for row in comparison.rows
    ]


def _difference(row: Row, plain: Row) -> str:
    difference = row.trained.validation_loss - plain.trained.validation_loss
    return f"{difference:+.3f} ± {standard_error_of_difference(row.trained, plain.trained):.3f}"


def _verdict(opal: Row, other: Row) -> str:
    difference = opal.trained.validation_loss - other.trained.validation_loss
    error = standard_error_of_difference(opal.trained, other.trained)
    if abs(difference) <= CLEAR * error or difference == 0:
        return f"no clear difference ({difference:+.3f} ± {error:.3f})."
    word = "better" if difference < 0 else "worse"
    return f"OPAL is {word} by {abs(difference):.3f} ± {error:.3f} nats per byte."
