"""Measures the CPU time inside `step()`, plain against wrapped, with the `opal` of the Python that runs it.

`overhead.py` runs it, once with this checkout and once with an older release, and reads the JSON that it prints.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import logging
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from workloads import WORKLOADS, Workload

import opal

BLOCK = 50
EVERY = 50
# The first decision, the trial of a program and the first audit lie in these updates, which do not count.
WARM_UP = 200
PROGRAMS = Path(__file__).parent / "programs"


@dataclass
class Variant:
    """One way to train the same model. `times` holds, for each block, seconds of the thread's CPU by kind of update."""

    name: str
    model: nn.Module
    step: Callable[[Tensor], object]
    after_step: Callable[[], None]
    close: Callable[[], None]
    done: int = 0
    times: list[dict[str, list[float]]] = field(default_factory=list)

    def run_block(self, batch: tuple[Tensor, Tensor]) -> None:
        """Train for one block of updates and note what each `step()` took."""
        inputs, targets = batch
        times: dict[str, list[float]] = {"ordinary": [], "before_check": [], "check": []}
        for _ in range(BLOCK):
            loss = functional.cross_entropy(self.model(inputs), targets)
            loss.backward()
            begin = time.thread_time()
            self.step(loss)
            seconds = time.thread_time() - begin
            self.after_step()
            self.done += 1
            times[kind_of(self.done)].append(seconds)
        if self.done > WARM_UP:
            self.times.append(times)


def kind_of(update: int) -> str:
    """Checks apart, and with them the update before each: what it prepares for the check is the check's cost."""
    if update % EVERY == 0:
        return "check"
    return "before_check" if (update + 1) % EVERY == 0 else "ordinary"


def plain(name: str, workload: Workload, model: nn.Module, updates: int, optimizer: torch.optim.Optimizer) -> Variant:
    """The script's own optimizer."""
    scheduler = workload.scheduler(optimizer, updates)
    return Variant(name, model, lambda _: optimizer.step(), _after(optimizer, scheduler), lambda: None)


def wrapped(
    name: str,
    workload: Workload,
    model: nn.Module,
    updates: int,
    optimizer: torch.optim.Optimizer,
    folder: Path,
    backend: Any,
    with_loss: bool,
) -> Variant:
    """The same, wrapped; the one decision is asked at the first check."""
    scheduler = workload.scheduler(optimizer, updates)
    agent = opal.wrap(
        optimizer,
        model,
        scheduler=scheduler,
        total_steps=updates,
        goal="a measurement",
        backend=backend,
        schedule=[EVERY],
        every=EVERY,
        run_dir=str(folder / name),
    )
    step = (lambda loss: agent.step(loss=loss)) if with_loss else (lambda _: agent.step())
    return Variant(name, model, step, _after(agent, scheduler), agent.close)


def _after(optimizer: Any, scheduler: Any) -> Callable[[], None]:
    def after() -> None:
        optimizer.zero_grad()
        if scheduler is not None:
            scheduler.step()

    return after


def keep_variants(workload: Workload, model: nn.Module, updates: int, folder: Path) -> list[Variant]:
    """Plain twice (their difference is the noise), wrapped with the loss and without."""
    variants = []
    for name in ("plain", "plain_again", "keep", "keep_without_loss"):
        own = copy.deepcopy(model)
        optimizer = workload.optimizer(own.parameters())
        if name.startswith("plain"):
            variants.append(plain(name, workload, own, updates, optimizer))
        else:
            variants.append(wrapped(name, workload, own, updates, optimizer, folder, "keep", name == "keep"))
    return variants


def program_variants(workload: Workload, model: nn.Module, updates: int, folder: Path) -> list[Variant]:
    """torch's AdamW(foreach=True) twice, and programs that run AdamW in their own ways."""
    variants = []
    for name in ("plain", "plain_again", *available_programs()):
        own = copy.deepcopy(model)
        optimizer = torch.optim.AdamW(own.parameters(), lr=1e-3, foreach=True)
        steady = Workload(workload.model, workload.batch, workload.optimizer, lambda _, __: None)
        if name.startswith("plain"):
            variants.append(plain(name, steady, own, updates, optimizer))
        else:
            variants.append(wrapped(name, steady, own, updates, optimizer, folder, install(name), True))
    return variants


def available_programs() -> list[str]:
    """The programs that this `opal` can run: the one that uses the kit needs one."""
    names = sorted(path.stem for path in PROGRAMS.glob("*.py"))
    has_kit = importlib.util.find_spec("opal.kit") is not None
    return [name for name in names if has_kit or name != "adamw_kit"]


def install(name: str) -> Callable[[str, str, str], str]:
    """A backend that answers every question with one program."""
    source = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")

    def answer(workspace: str, message: str, system: str) -> str:
        (Path(workspace) / "updater.py").write_text(source, encoding="utf-8")
        return f"runs {name}"

    return answer


def final_version(folder: Path, name: str) -> str | None:
    """Which program was in force at the end, so that a program that failed is not taken for a fast one."""
    final = folder / name / "programs" / "FINAL"
    return final.read_text(encoding="utf-8").strip() if final.exists() else None


def run(model_name: str, what: str, updates: int) -> dict[str, Any]:
    """Measure one model; the order of the variants changes from block to block."""
    workload = WORKLOADS[model_name]
    torch.manual_seed(0)
    model, batch, order = workload.model(), workload.batch(), random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        make = keep_variants if what == "keep" else program_variants
        variants = make(workload, model, updates, Path(folder))
        for _ in range(updates // BLOCK):
            for variant in order.sample(variants, len(variants)):
                variant.run_block(batch)
        for variant in variants:
            variant.close()
        finals = {variant.name: final_version(Path(folder), variant.name) for variant in variants}
    return {
        "model": model_name,
        "what": what,
        "opal": getattr(opal, "__version__", "unknown"),
        "torch": torch.__version__,
        "tensors": len(list(model.parameters())),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "final": finals,
        "blocks_us": {variant.name: [_microseconds(block) for block in variant.times] for variant in variants},
    }


def _microseconds(block: dict[str, list[float]]) -> dict[str, list[float]]:
    return {kind: [round(1e6 * seconds, 2) for seconds in times] for kind, times in block.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=tuple(WORKLOADS), required=True)
    parser.add_argument("--what", choices=("keep", "program"), required=True)
    parser.add_argument("--updates", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    output, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not end up in the JSON
    result = run(options.model, options.what, options.updates)
    json.dump(result, output)


if __name__ == "__main__":
    main()
