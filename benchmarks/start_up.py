"""What starting costs: `import opal` where torch is loaded already, and `opal show` on a small run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPEATS = 7

TIMED = """
import time, torch
{before}
begin = time.perf_counter()
{timed}
print(1000 * (time.perf_counter() - begin))
"""

SMALL_RUN = """
import sys, torch, opal
model = torch.nn.Linear(4, 1)
optimizer = opal.wrap(torch.optim.AdamW(model.parameters()), model, total_steps=200, goal="a measurement",
                      backend="keep", decisions=10, every=10, run_dir=sys.argv[1])
for _ in range(200):
    loss = model(torch.ones(1, 4)).square().sum()
    loss.backward()
    optimizer.step(loss=loss)
    optimizer.zero_grad()
optimizer.close()
"""


def import_ms(python: str, environment: dict[str, str]) -> float | None:
    """Milliseconds of `import opal`, the median over fresh processes."""
    return _median_ms([python, "-c", TIMED.format(before="", timed="import opal")], environment)


def load_wrap_ms(python: str, environment: dict[str, str]) -> float | None:
    """Milliseconds that the first use of the name `opal.wrap` takes after `import opal`, the median."""
    return _median_ms([python, "-c", TIMED.format(before="import opal", timed="opal.wrap")], environment)


def show_seconds(python: str, environment: dict[str, str]) -> float | None:
    """Seconds of wall time of `opal show RUN` in a fresh process, the median; the run has ten kept decisions."""
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        if _run([python, "-c", SMALL_RUN, run], environment) is None:
            return None
        script = Path(python).parent / "opal"
        start = [str(script)] if script.exists() else [python, "-c", "from opal.cli.main import run; run()"]
        times = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            if _run([*start, "show", run], environment) is None:
                return None
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def _median_ms(command: list[str], environment: dict[str, str]) -> float | None:
    outputs = [_run(command, environment) for _ in range(REPEATS)]
    return None if None in outputs else statistics.median(float(output) for output in outputs if output)


def _run(command: list[str], environment: dict[str, str]) -> str | None:
    """What a command prints; `None`, with its last words on stderr, if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        print(f"{command[0]} … failed: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return done.stdout
