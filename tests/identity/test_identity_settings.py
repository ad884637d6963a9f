"""A run that keeps its programs is the plain run, byte for byte, also under settings of the whole process."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from cases.loops import Script, kept_like_plain
from cases.models import Mlp
from cases.settings import SETTINGS


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "anomaly detection"])
def test_keep_is_plain_under(tmp_path: Path, name: str) -> None:
    with SETTINGS[name]():
        kept_like_plain(Script(model=functools.partial(Mlp, dropout=0.4)), tmp_path)


FIRST_USE = """
import random, sys
import numpy, torch
for generator in (random, numpy.random):
    generator.seed(0)
torch.manual_seed(0)
before = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
import opal
model = torch.nn.Linear(2, 2)
torch.manual_seed(0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = opal.wrap(optimizer, model, total_steps=40, goal="x", backend="keep", every=10, schedule=[10, 20],
                      run_dir=sys.argv[1], share_code=False)
for _ in range(40):
    model.weight.grad = torch.ones(2, 2)
    optimizer.step(loss=1.0)
optimizer.close()
after = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
print([old == new for old, new in zip(before, after)])
"""


@pytest.mark.long
def test_not_even_the_first_use_of_opal_in_a_process_draws_a_random_number(tmp_path: Path) -> None:
    """Libraries that draw one when they are imported are why: a script seeds first, and wraps then."""
    command = [sys.executable, "-W", "error", "-c", FIRST_USE, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[True, True, True]"
