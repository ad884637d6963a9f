"""What wrapping costs: CPU time inside `step()`, plain against wrapped, in interleaved blocks; and what starting costs.

python benchmarks/overhead.py                     everything, some minutes
python benchmarks/overhead.py --only tiny keep    some models, some measurements
OPAL_REFERENCE_PYTHON=/path/to/bin/python python benchmarks/overhead.py    an installed release beside this checkout

Exit status 1 if this checkout misses a target.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rows import HEADINGS, Row, rows_of, shown
from start_up import import_ms, load_wrap_ms, show_seconds
from targets import Verdict, judge_amount, load_targets

UPDATES = {"tiny": 3000, "mlp": 1200, "gpt": 1200, "resnet": 1200}
STEPS = ("keep", "program")
STARTS = {
    "import": ("import opal, torch there", import_ms, "ms"),
    "wrap": ("load opal.wrap, torch there", load_wrap_ms, "ms"),
    "show": ("opal show, cold", show_seconds, "s"),
}


def measure(python: str, environment: dict[str, str], model: str, what: str, updates: int) -> dict[str, Any]:
    """Run `measure.py` in a process of its own, and read what it prints."""
    script = Path(__file__).parent / "measure.py"
    command = [python, str(script), "--model", model, "--what", what, "--updates", str(updates)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def pythons() -> dict[str, tuple[str, dict[str, str]]]:
    """Which Pythons to measure with, and their environments: this one, and the one that a variable names."""
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    found = {"this": (sys.executable, one_thread)}
    if reference := os.environ.get("OPAL_REFERENCE_PYTHON"):
        found["reference"] = (reference, {key: value for key, value in one_thread.items() if key != "PYTHONPATH"})
    return found


def all_rows(only: set[str], updates: int | None) -> Iterator[Row]:
    """Measure what is wanted, row by row; this checkout and the reference take turns."""
    targets = load_targets()
    models = [model for model in UPDATES if model in only] or list(UPDATES)
    anything = not only & {*STEPS, *STARTS}
    for model in models:
        for what in STEPS:
            if what in only or anything:
                for source, (python, environment) in pythons().items():
                    result = measure(python, environment, model, what, updates or UPDATES[model])
                    yield from rows_of(source, result, targets)
    for name, (what, seen, unit) in STARTS.items():
        if name in only or not only:
            for source, (python, environment) in pythons().items():
                amount = seen(python, environment)
                if amount is not None:
                    verdict = judge_amount(targets[name], amount) if name in targets else Verdict("", None)
                    yield Row(
                        source=source, what=what, p50=amount, unit=unit, limit=verdict.limit, passed=verdict.passed
                    )


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", default=[], choices=(*UPDATES, *STEPS, *STARTS), help="models, measurements"
    )
    parser.add_argument("--updates", type=int, help="updates per variant, at least 400")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    if options.updates is not None and options.updates < 400:
        parser.error(f"--updates {options.updates}: at least 400, since the first 200 do not count")
    rows = []
    if not options.json:
        print(HEADINGS)
    for row in all_rows(set(options.only), options.updates):
        rows.append(row)
        if not options.json:
            print(shown(row), flush=True)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    return 1 if any(row.passed is False and row.source == "this" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
