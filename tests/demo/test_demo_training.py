from __future__ import annotations

import math

import pytest
import torch

from opal.demo.data import Text
from opal.demo.model import ByteGPT, next_byte_loss
from opal.demo.training import Task, new_model, train_plain, validate

TINY = Task(layers=1, width=16, context=16, batch_size=2, validation_windows=8, read_loss_every=2)


def ignore(update: int, loss: float) -> None:
    """Progress that nobody looks at."""


def some_text() -> Text:
    pattern = torch.arange(4000, dtype=torch.int64).remainder(7).add(65).to(torch.uint8)
    return Text(
        train=pattern[:3000],
        held_out=pattern[3000:],
        train_files=("a.py",),
        held_out_files=("b.py",),
        source="a pattern",
    )


def test_the_model_has_0_87_million_parameters() -> None:
    parameters = dict(ByteGPT().named_parameters())
    blocks = 4 * (12 * 128 * 128 + 4 * 128)
    assert sum(p.numel() for p in parameters.values()) == blocks + 2 * 256 * 128 + 128 * 128 + 2 * 128 == 870_656


def test_no_position_sees_a_later_byte() -> None:
    model = ByteGPT(layers=2, width=16, heads=2, context=8)
    inputs = torch.randint(256, (1, 8))
    changed = inputs.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 256
    with torch.no_grad():
        before, after = model(inputs), model(changed)
    assert torch.equal(before[0, :5], after[0, :5])
    assert not torch.allclose(before[0, 5:], after[0, 5:])


def test_the_loss_of_equal_logits_is_that_of_guessing() -> None:
    model = ByteGPT(layers=1, width=16, context=8)
    torch.nn.init.zeros_(model.head.weight)
    loss = next_byte_loss(model, torch.zeros(2, 8).long(), torch.ones(2, 8).long())
    assert loss.item() == pytest.approx(math.log(256))


def test_initial_weights_depend_on_the_seed_and_leave_the_global_random_state_alone() -> None:
    before = torch.random.get_rng_state()
    one, same, other = new_model(TINY), new_model(TINY), new_model(Task(seed=1, layers=1, width=16, context=16))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one.head.weight, same.head.weight)
    assert not torch.equal(one.head.weight, other.head.weight)


def test_plain_training_is_repeatable_and_learns() -> None:
    first = train_plain(some_text(), TINY, 60, ignore)
    again = train_plain(some_text(), TINY, 60, ignore)
    assert torch.equal(first.window_losses, again.window_losses)
    assert first.validation_loss < float(validate(new_model(TINY), some_text(), TINY).mean()) - 0.5
    assert first.wait_seconds == 0.0
    assert first.run_dir is None


def test_progress_tells_every_update_and_the_loss_as_last_read() -> None:
    told: list[tuple[int, float]] = []
    train_plain(some_text(), TINY, 5, lambda update, loss: told.append((update, loss)))
    assert [update for update, _ in told] == [1, 2, 3, 4, 5]
    assert math.isnan(told[0][1])
    assert told[1][1] == told[2][1] != told[3][1]


def test_validation_is_one_loss_a_window_and_changes_nothing() -> None:
    model = new_model(TINY)
    before = [p.clone() for p in model.parameters()]
    losses = validate(model, some_text(), TINY)
    assert losses.shape == (8,)
    assert losses.dtype == torch.float64
    assert all(torch.equal(p, q) and p.grad is None for p, q in zip(model.parameters(), before, strict=True))
