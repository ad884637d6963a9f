"""Writes the page of a run."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from opal._version import __version__
from opal.errors import RunFolderError
from opal.records.reader import RunRecord, read_run
from opal.report.charts import HOW_TO_GET_THEM, loss_chart, plotly_script, rate_chart, small_charts, time_chart
from opal.report.data import PageData, page_data
from opal.report.wording import clean, count, number

_TEMPLATES = Path(__file__).parent / "templates"


def write_report(run: Path | str) -> Path:
    """Build `report.html` in the folder of a run, replaced whole, and return its path.

    Raises:
        RunFolderError: it is no run, is damaged, or the page cannot be written.
    """
    record = read_run(run)
    page = render_page(record)
    target = record.folder.page
    try:
        _replace(target, page.encode("utf-8", "replace"))
    except OSError as error:
        raise RunFolderError(f"{target} cannot be written ({error.strerror}): free it, or make space") from error
    return target


def render_page(record: RunRecord) -> str:
    """The page of a run as HTML. With plotly installed it holds charts, otherwise a line that says how to get them."""
    data = page_data(record)
    script = plotly_script()
    return str(
        _environment()
        .get_template("page.html.jinja")
        .render(
            data=data,
            version=__version__,
            loss=loss_chart(data),
            lines=[chart for chart in (rate_chart(data), time_chart(data)) if chart],
            metrics=small_charts(data, "metric", data.metrics),
            reports=small_charts(data, "report", data.reports),
            plotly=None if script is None else Markup(script.replace("</script", "<\\/script")),
            how_to_get_charts=HOW_TO_GET_THEM,
            missing=_missing(data),
            nonce=secrets.token_urlsafe(16),
        )
    )


def _missing(data: PageData) -> list[str]:
    """The curves that were not recorded."""
    curves = {
        "training loss": bool(data.losses.count or data.losses.bad_count),
        "learning rates": bool(data.rates.drawn),
        "time of an update": bool(data.times.drawn),
        "development and logged values": bool(data.metrics.drawn),
    }
    return [name for name, there in curves.items() if not there]


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    filters: dict[str, Callable[..., Any]] = {"count": count, "number": number, "script_json": script_json}
    environment.filters.update(filters)
    environment.globals["raw"] = _raw
    return environment


def _finalize(value: Any) -> Any:
    """Every text that goes into the page, without control characters."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _raw(name: str) -> Markup:
    """A file of the templates as it is."""
    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))


def script_json(value: Any) -> Markup:
    """JSON that cannot end the script element in which it stands."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _replace(target: Path, content: bytes) -> None:
    """Write a file beside `target` and let it take its place: whoever reads sees the old page or the new one."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".report-", suffix=".html")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
