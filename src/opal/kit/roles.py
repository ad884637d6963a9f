"""What a parameter is for, from its name, its shape and its place in the model.

A *role* is a name with the layer numbers replaced, so that the same weight of every layer has one role. A *kind* says
how update rules tell parameters apart: hidden matrices from embeddings, output heads, convolutions and vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

__all__ = ["KINDS", "group_by_kind", "group_by_role", "role"]

NamedParams = Sequence[tuple[str, Tensor]]

KINDS = ("hidden", "embedding", "head", "conv", "norm", "bias", "other")

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_EMBEDDING_WORDS = frozenset({"emb", "embs", "embed", "embeds", "embedding", "embeddings", "embedder", "wte", "wpe"})
# Words that mean an embedding only where they are the whole name of the module: `tok.weight`, `token_pos.weight`.
_TABLE_WORDS = frozenset(
    {"tok", "token", "tokens", "pos", "position", "positions", "positional", "vocab", "word", "words"}
)
_LAYER_WORDS = frozenset({"proj", "projection", "linear", "fc", "dense", "mlp", "norm", "ln", "conv"})
_HEAD_WORDS = frozenset({"head", "heads", "classifier", "logits", "unembed", "unembedding", "score", "readout"})
_HEAD_NAMES = frozenset({"output", "embed_out", "output_projection", "fc_out", "to_logits"})
_NORM_WORDS = frozenset({"norm", "ln", "bn", "gn", "layernorm", "batchnorm", "groupnorm", "rmsnorm"})


def role(name: str) -> str:
    """The name with each layer number replaced: `blocks.3.attn.weight` becomes `blocks.N.attn.weight`.

    A layer number is a whole part of the dotted name; digits inside a part (`conv1`, `w2`) stay.
    """
    return _NUMBER.sub("N", name)


def group_by_role(named_params: Iterable[tuple[str, Tensor]]) -> dict[str, list[tuple[str, Tensor]]]:
    """The parameters of each role as (name, parameter), in the order in which they come."""
    groups: dict[str, list[tuple[str, Tensor]]] = {}
    for name, param in named_params:
        groups.setdefault(role(name), []).append((name, param))
    return groups


def group_by_kind(
    named_params: Iterable[tuple[str, Tensor]], *, known: Mapping[str, str] | None = None
) -> dict[str, list[tuple[str, Tensor]]]:
    """The parameters of each kind as (name, parameter); every kind is there, some are empty.

    - `hidden`: matrices (two dimensions, both above 1) inside the model, attention and recurrent ones included, and the
      first layer of a network that has no embedding.
    - `embedding`: tables, known by the name of the module that holds them (`wte`, `embed_tokens`, `byte_embedding`,
      `pos`, …) or, where no name says it, the first matrix if it has the shape of the head and more rows than columns.
      A table that is tied to the head comes once and is an embedding.
    - `head`: the matrix that makes the output: known by its name where that has no layer number (`lm_head`,
      `classifier`, `output`, …); or else the last matrix, unless it is one of several alike (a matrix of a block). In a
      model with embeddings, a last matrix with a layer number is a head only if it has as many rows as a table.
    - `conv`: kernels, which are weights with three or more dimensions.
    - `norm`: gains, which are vectors called `weight`, or those of a module whose name says norm. `bias`: what is
      called so, of norms as well. `other`: scalars, tokens, scales, stacks of matrices.

    Names and shapes do not prove what a parameter is for: a table called `encoder` that is tied to the head looks
    hidden. `known` settles such cases: from a name or a role to its kind. Shapes are those of the tensors as they
    are.

    Raises:
        ValueError: `known` names a kind that does not exist.
    """
    pairs = list(named_params)
    known = dict(known or {})
    for name, kind in known.items():
        if kind not in KINDS:
            raise ValueError(f"known[{name!r}] is {kind!r}: a kind is one of {', '.join(KINDS)}")
    kinds = {name: _kind_alone(name, param) for name, param in pairs}
    _find_head_and_table(pairs, kinds)
    groups: dict[str, list[tuple[str, Tensor]]] = {kind: [] for kind in KINDS}
    for name, param in pairs:
        kind = known.get(name) or known.get(role(name)) or kinds[name]
        groups[kind].append((name, param))
    return groups


def _kind_alone(name: str, param: Tensor) -> str:
    """The kind as far as one name and shape tell; a matrix that may be the last one counts as hidden."""
    parts = name.split(".")
    if param.dim() <= 1:
        return _vector_kind(parts)
    if any("bias" in _words(part) for part in parts[-2:]):
        return "embedding" if param.dim() == 2 and "relative" in _words(".".join(parts[-2:])) else "other"
    if param.dim() >= 3 and parts[-1] == "weight":
        return "conv"
    if param.dim() == 2 and _names_head(name):
        return "head"
    if _names_embedding(parts):
        return "embedding"
    return "hidden" if param.dim() == 2 and 1 not in param.shape else "other"


def _vector_kind(parts: list[str]) -> str:
    if "bias" in _words(parts[-1]):
        return "bias"
    if parts[-1] == "weight" or any(word in _NORM_WORDS for part in parts[-2:] for word in _words(part)):
        return "norm"
    return "other"


def _find_head_and_table(pairs: list[tuple[str, Tensor]], kinds: dict[str, str]) -> None:
    """Find, in `kinds`, the head and the table that no name gives away."""
    matrices = [(name, param) for name, param in pairs if kinds[name] == "hidden" or _is_row(name, param, kinds)]
    tables = [param for name, param in pairs if kinds[name] == "embedding" and param.dim() == 2]
    heads = [param for name, param in pairs if kinds[name] == "head"]
    if not heads and matrices and _is_head(matrices, tables):
        name, last = matrices[-1]
        kinds[name] = "head"
        heads = [last]
    if not tables and heads and matrices:
        name, first = matrices[0]
        if kinds[name] == "hidden" and first.shape == heads[0].shape and first.shape[0] > first.shape[1]:
            kinds[name] = "embedding"


def _is_head(matrices: list[tuple[str, Tensor]], tables: list[Tensor]) -> bool:
    """Whether the last matrix makes the output, where no name says so."""
    name, last = matrices[-1]
    numbered = role(name) != name
    if numbered and tables and not any(word in _HEAD_WORDS for word in _words(name.split(".")[0])):
        return any(last.shape[0] == table.shape[0] for table in tables)
    return not any(role(other) == role(name) and param.shape == last.shape for other, param in matrices[:-1])


def _is_row(name: str, param: Tensor, kinds: dict[str, str]) -> bool:
    """Whether it is the weight of a layer with one output or one input, which may be the last one."""
    return kinds[name] == "other" and param.dim() == 2 and name.endswith("weight")


def _names_head(name: str) -> bool:
    """Whether the name, which must hold no layer number, is that of an output layer."""
    parts = name.split(".")
    if role(name) != name:
        return False
    holder = parts[-2] if len(parts) > 1 else parts[-1]
    return holder in _HEAD_NAMES or any(word in _HEAD_WORDS for word in _words(holder))


def _names_embedding(parts: list[str]) -> bool:
    named = [part for part in parts if not part.isdigit()]
    holder = named[-2] if len(named) > 1 and named[-1] == "weight" else named[-1] if named else ""
    words = _words(holder)
    if any(word in _LAYER_WORDS for word in words):
        return False
    if any(word in _EMBEDDING_WORDS for word in words):
        return True
    return bool(words) and all(word in _TABLE_WORDS for word in words) and named == parts


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
