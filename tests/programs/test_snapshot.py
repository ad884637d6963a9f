"""A snapshot puts back everything that an updater's state can be made of, shared objects included."""

from __future__ import annotations

import random
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

from cases.fingerprint import differences
from opal.programs.contract import program_from_texts
from opal.programs.load import ProgramModules
from opal.programs.snapshot import Snapshot, snapshot_bytes

PROGRAM = """
import dataclasses
class Plain:
    def __init__(self, **values):
        self.__dict__.update(values)
class Slotted:
    __slots__ = ("one", "two", "__hidden")
    def __init__(self, one):
        self.one = one
        self.__hidden = [1]
    def hidden(self):
        return self.__hidden
class Child(Slotted):
    __slots__ = "three"
@dataclasses.dataclass
class Data:
    values: list
"""


@pytest.fixture(scope="module")
def program() -> Any:
    """The classes of a program."""
    texts = {"updater.py": PROGRAM, "analysis.py": ""}
    modules = ProgramModules("v001", program_from_texts(texts))
    yield modules.load("updater")
    modules.unload()


def params(count: int = 2) -> list[tuple[str, torch.nn.Parameter]]:
    torch.manual_seed(0)
    made = [(f"p{index}", torch.nn.Parameter(torch.randn(3, 2))) for index in range(count)]
    for _, param in made:
        param.grad = torch.randn(3, 2)
    return made


def data_replaced(param: torch.nn.Parameter) -> None:
    param.data = torch.ones(3, 2)


def data_of_another_kind(param: torch.nn.Parameter) -> None:
    param.data = torch.ones(5, dtype=torch.float64)


def resized(param: torch.nn.Parameter) -> None:
    param.data.resize_(40)


def transposed(param: torch.nn.Parameter) -> None:
    param.data = param.data.t()


def grad_data_replaced(param: torch.nn.Parameter) -> None:
    assert param.grad is not None
    param.grad.data = torch.ones(3, 2)


CHANGES: dict[str, Callable[[torch.nn.Parameter], Any]] = {
    "values": lambda p: p.data.mul_(2),
    "storage replaced": data_replaced,
    "shape and dtype replaced": data_of_another_kind,
    "resized": resized,
    "transposed": transposed,
    "flag": lambda p: p.requires_grad_(False),
    "gradient's values": lambda p: p.grad.zero_(),  # type: ignore[union-attr]
    "gradient's storage": grad_data_replaced,
    "gradient replaced": lambda p: setattr(p, "grad", torch.ones(3, 2)),
    "gradient gone": lambda p: setattr(p, "grad", None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_parameter_is_put_back_into_its_own_storage(change: str) -> None:
    named = params()
    param = named[0][1]
    view, grad = param.data, param.grad
    assert grad is not None
    values, gradient = param.detach().clone(), grad.clone()
    snapshot = Snapshot(named, [])
    with torch.no_grad():
        CHANGES[change](param)
    snapshot.restore()
    assert torch.equal(param, values)
    assert param.dtype == torch.float32
    assert param.stride() == (2, 1)
    assert param.requires_grad
    assert param.grad is grad
    assert torch.equal(grad, gradient)
    if change != "resized":  # growing moves a storage
        assert param.data_ptr() == view.data_ptr()


def test_a_parameter_without_a_gradient_has_none_again() -> None:
    named = params(1)
    named[0][1].grad = None
    snapshot = Snapshot(named, [])
    named[0][1].grad = torch.ones(3, 2)
    snapshot.restore()
    assert named[0][1].grad is None


def test_parameters_without_entries_and_complex_ones_are_put_back() -> None:
    named = [
        ("empty", torch.nn.Parameter(torch.zeros(0, 3))),
        ("complex", torch.nn.Parameter(torch.ones(2, dtype=torch.complex64) * 1j)),
        ("scalar", torch.nn.Parameter(torch.tensor(2.0))),
    ]
    before = [param.detach().clone() for _, param in named]
    snapshot = Snapshot(named, [])
    with torch.no_grad():
        for _, param in named:
            param.data = torch.ones(4)
    snapshot.restore()
    assert differences(before, [param.detach() for _, param in named]) == []


def state(program: Any) -> Any:
    """An updater with state of every kind, some of it shared."""
    shared = torch.arange(3.0)
    slotted = program.Child(shared)
    slotted.three = [shared]
    return program.Plain(
        tensor=torch.ones(2),
        shared=shared,
        also_shared={"deep": [shared, (shared, deque([1, shared], maxlen=4))]},
        ordered=OrderedDict(b=1, a=2),
        counts=Counter(x=3),
        default=defaultdict(list, {"k": [1]}),
        names={"one", "two"},
        frozen=frozenset({1}),
        numbers=[1, 2.5, None, "text", True],
        queue=deque([1, 2], maxlen=2),
        slotted=slotted,
        data=program.Data([torch.zeros(1)]),
        space=types.SimpleNamespace(value=torch.zeros(2), count=1),
        generator=torch.Generator().manual_seed(3),
        python=random.Random(4),
        numpy=numpy.random.default_rng(5),
        array=numpy.arange(4.0),
        raw=bytearray(b"abc"),
        net=torch.nn.Linear(2, 2),
        optimizer=torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5, momentum=0.9),
        cycle=[],
    )


def look(item: Any) -> dict[str, Any]:
    """The same state as plain values."""
    return {
        **{key: value for key, value in vars(item).items() if key in ("tensor", "shared", "numbers")},
        "also": [item.also_shared["deep"][0], *item.also_shared["deep"][1][:1], *item.also_shared["deep"][1][1]],
        "plain": [list(item.ordered.items()), dict(item.counts), dict(item.default), sorted(item.names), item.frozen],
        "queue": [list(item.queue), item.queue.maxlen],
        "slots": [item.slotted.hidden(), item.slotted.one, hasattr(item.slotted, "two"), list(item.slotted.three)],
        "data": list(item.data.values),
        "space": dict(vars(item.space)),
        "drawn": [item.generator.get_state(), repr(item.python.getstate()), repr(item.numpy.bit_generator.state)],
        "array": [item.array.tolist(), bytes(item.raw)],
        "net": item.net.state_dict(),
        "optimizer": item.optimizer.state_dict(),
        "names": sorted(vars(item)),
    }


def spoil(item: Any) -> None:
    """Change all of it."""
    item.tensor = None
    item.shared.mul_(5)
    item.also_shared["deep"][1][1].append(9)
    item.also_shared["deep"].clear()
    item.also_shared["new"] = 1
    item.ordered.move_to_end("b")
    item.counts["x"] += 1
    item.default["other"].append(2)
    item.names.add("three")
    item.numbers[1:] = []
    item.queue.append(7)
    item.slotted.two = 1
    item.slotted._Slotted__hidden = None
    item.slotted.three.append(0)
    item.slotted.one = 2
    item.data.values[0].fill_(9)
    item.data.values.append(1)
    item.space.value.resize_(7)
    item.space.count = 5
    item.space.more = 1
    torch.rand(1, generator=item.generator)
    item.python.random()
    item.numpy.random()
    item.array[:] = -1
    item.raw.extend(b"d")
    with torch.no_grad():
        item.net.weight.fill_(1)
        item.net.bias.data = torch.ones(2)
    item.optimizer.param_groups[0]["lr"] = 9
    item.optimizer.state[item.optimizer.param_groups[0]["params"][0]]["momentum_buffer"] = torch.ones(1)
    item.extra = 1
    item.cycle.append(item)


def test_the_state_of_an_updater_is_put_back_whatever_it_is_made_of(program: Any) -> None:
    item, untouched = state(program), state(program)
    item.cycle.append(item)
    untouched.net.load_state_dict(item.net.state_dict())
    shared = item.shared
    snapshot = Snapshot(params(), [item])
    spoil(item)
    snapshot.restore()
    assert not hasattr(item.slotted, "two")
    assert differences(look(untouched), look(item)) == []
    assert item.shared is shared
    assert item.also_shared["deep"][1][1][1] is shared
    assert item.slotted.three[0] is shared
    assert item.cycle == [item]


def test_two_tensors_of_the_state_that_were_made_one_are_two_again(program: Any) -> None:
    item = program.Plain(one=torch.zeros(2), two=torch.ones(2))
    kept = item.one
    snapshot = Snapshot([], [item])
    item.one.data = item.two
    item.one.fill_(5)
    snapshot.restore()
    assert item.one is kept
    assert item.one.tolist() == [0.0, 0.0]
    assert item.two.tolist() == [1.0, 1.0]
    item.one.fill_(3)
    assert item.two.tolist() == [1.0, 1.0]


def test_sparse_tensors_are_put_back(program: Any) -> None:
    named = params(1)
    sparse = torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 2), (3, 2), check_invariants=True)
    named[0][1].grad = sparse
    item = program.Plain(kept=sparse.clone())
    before = sparse.to_dense()
    snapshot = Snapshot(named, [item])
    sparse._values().fill_(7)
    item.kept.zero_()
    snapshot.restore()
    assert named[0][1].grad is sparse
    assert torch.equal(sparse.to_dense(), before)
    assert torch.equal(item.kept.to_dense(), before)


def test_the_generators_of_python_numpy_and_torch_go_back() -> None:
    snapshot = Snapshot([], [])
    drawn = (random.random(), numpy.random.rand(), torch.rand(1).item())
    snapshot.restore()
    assert (random.random(), numpy.random.rand(), torch.rand(1).item()) == drawn


def test_objects_of_others_are_not_looked_into(program: Any) -> None:
    class Theirs:
        def __init__(self) -> None:
            self.values = [1]

    theirs = Theirs()
    snapshot = Snapshot([], [program.Plain(theirs=theirs)])
    theirs.values.append(2)
    snapshot.restore()
    assert theirs.values == [1, 2]


def test_the_estimate_counts_parameters_gradients_and_optimizer_state() -> None:
    named = params(2)
    optimizer = torch.optim.AdamW([param for _, param in named])
    assert snapshot_bytes(named, [optimizer]) == 2 * (24 + 24)
    optimizer.step()
    assert snapshot_bytes(named, [optimizer]) == 2 * (24 + 24 + 24 + 24 + 4)
    assert Snapshot(named, [optimizer]).nbytes == snapshot_bytes(named, [optimizer])
