"""What an example leaves: one line on the terminal, the final weights, and `result.json`, the same in all examples."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import opal


def finish(
    options: argparse.Namespace,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    metric: str,
    value: float,
    standard_error: float,
    direction: str,
    seconds: float,
) -> None:
    """Close the run and leave the result. `direction` is "lower" or "higher": which values of the metric are better.

    `seconds` is the wall time of the training loop, waiting for the agent included.
    """
    agent = (
        _agent_fields(optimizer)
        if options.opal
        else dict.fromkeys(("wait_seconds", "cost_usd", "decisions", "run_dir"))
    )
    checksum = parameter_checksum(model)
    result = {
        "example": Path(sys.argv[0]).stem,
        "metric": {
            "name": metric,
            "value": _strict(value),
            "standard_error": _strict(standard_error),
            "direction": direction,
        },
        "updates": options.updates,
        "seed": options.seed,
        "train_seconds": round(seconds - (agent["wait_seconds"] or 0.0), 3),
        **agent,
        "backend": options.backend if options.opal else None,
        "parameter_sha256": checksum,
        "hardware": hardware(),
        "versions": {"opal": opal.__version__, "python": platform.python_version(), "torch": torch.__version__},
        "commit": commit(),
        "command": shlex.join([Path(sys.executable).name, *sys.orig_argv[1:]]),
    }
    print(f"{metric} {value:.4f} ± {standard_error:.4f} after {options.updates} updates in {seconds:.1f} s")
    print(f"parameters sha256 {checksum}")
    if agent["run_dir"]:
        print(f"run folder {agent['run_dir']}")
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), options.save / "weights.pt")
    if options.out:
        result["run_dir"] = _beside(options.out, agent["run_dir"])
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")


def parameter_checksum(model: torch.nn.Module) -> str:
    """SHA-256 over the bytes of all parameters, in the model's order."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def hardware() -> dict[str, Any]:
    """Processor, cores, threads in use, and the GPU where there is one."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def commit() -> str | None:
    """The commit of the examples, marked where files differ from it; `None` outside a git checkout."""
    folder = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()


def _strict(number: float) -> float | str:
    """A number as strict JSON has it: what is not finite, as after a divergence, becomes text."""
    return number if math.isfinite(number) else str(number)


def _agent_fields(optimizer: Any) -> dict[str, Any]:
    optimizer.close()
    kinds: Counter[str] = Counter()
    with open(Path(optimizer.run_dir) / "events.jsonl", encoding="utf-8") as events:
        kinds.update(json.loads(line)["kind"] for line in events)
    return {
        "wait_seconds": round(optimizer.agent_wait_seconds, 3),
        "cost_usd": optimizer.cost_usd,
        "decisions": {
            "asked": kinds["decision_asked"],
            "applied": kinds["program_applied"],
            "failed": kinds["decision_unanswered"] + kinds["program_refused"] + kinds["program_failed"],
        },
        "run_dir": str(optimizer.run_dir),
    }


def _beside(result: Path, run_dir: str | None) -> str | None:
    """The run folder relative to the result's folder where it lies below it, so that both can be moved together."""
    if run_dir is None:
        return None
    run, folder = Path(run_dir).absolute(), result.parent.absolute()
    return run.relative_to(folder).as_posix() if run.is_relative_to(folder) else str(run)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
