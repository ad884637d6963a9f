"""Roles and kinds of parameters, on models of many makes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from opal.kit import group_by_kind, group_by_role, role
from opal.kit.roles import KINDS


def kinds(shapes: dict[str, tuple[int, ...]], known: dict[str, str] | None = None) -> dict[str, str]:
    groups = group_by_kind([(name, torch.zeros(shape)) for name, shape in shapes.items()], known=known)
    return {name: kind for kind, pairs in groups.items() for name, _ in pairs}


def kinds_of(model: nn.Module) -> dict[str, str]:
    groups = group_by_kind(list(model.named_parameters()))
    assert list(groups) == list(KINDS)
    return {name: kind for kind, pairs in groups.items() for name, _ in pairs}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("blocks.3.attn.weight", "blocks.N.attn.weight"),
        ("0.weight", "N.weight"),
        ("a.10.b.2.c", "a.N.b.N.c"),
        ("extra.7", "extra.N"),
        ("layer1.0.conv2.weight", "layer1.N.conv2.weight"),
        ("norm.weight", "norm.weight"),
    ],
)
def test_a_role_is_the_name_with_layer_numbers_replaced(name: str, expected: str) -> None:
    assert role(name) == expected


def test_roles_keep_the_order_and_hold_the_parameters_themselves() -> None:
    pairs = [(name, torch.zeros(1)) for name in ("emb.w", "b.0.w", "b.0.bias", "b.1.w", "b.1.bias", "out.w")]
    groups = group_by_role(pairs)
    assert list(groups) == ["emb.w", "b.N.w", "b.N.bias", "out.w"]
    assert [name for name, _ in groups["b.N.w"]] == ["b.0.w", "b.1.w"]
    assert groups["b.N.w"][1][1] is pairs[3][1]


def gpt(layers: int, *, head: bool) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (256, 32), "wpe.weight": (64, 32)}
    for i in range(layers):
        shapes |= {
            f"h.{i}.ln_1.weight": (32,),
            f"h.{i}.attn.c_attn.weight": (96, 32),
            f"h.{i}.attn.c_attn.bias": (96,),
            f"h.{i}.mlp.c_proj.weight": (32, 128),
        }
    return shapes | {"ln_f.weight": (32,)} | ({"lm_head.weight": (256, 32)} if head else {})


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("head", [True, False])
def test_a_gpt_s_blocks_are_hidden_whether_or_not_its_head_is_tied(layers: int, head: bool) -> None:
    found = kinds(gpt(layers, head=head))
    assert {name for name, kind in found.items() if kind == "hidden"} == {
        f"h.{i}.{part}.weight" for i in range(layers) for part in ("attn.c_attn", "mlp.c_proj")
    }
    assert found["wte.weight"] == found["wpe.weight"] == "embedding"
    assert found["ln_f.weight"] == found["h.0.ln_1.weight"] == "norm"
    assert found["h.0.attn.c_attn.bias"] == "bias"
    assert found.get("lm_head.weight", "head") == "head"


def test_the_last_matrix_is_the_head_where_no_name_says_so() -> None:
    for model in (
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
        nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)),
    ):
        found = kinds_of(model)
        *inside, last = [name for name in found if name.endswith("weight")]
        last = max((name for name in found if name.endswith("weight")), key=lambda name: int(name.split(".")[0]))
        assert found[last] == "head"
        assert all(found[name] == "hidden" for name in [*inside] if name != last)


def test_of_several_alike_the_last_is_not_taken_for_a_head() -> None:
    found = kinds({"w.0.weight": (8, 8), "w.1.weight": (8, 8)})
    assert found == {"w.0.weight": "hidden", "w.1.weight": "hidden"}


def test_of_a_classifier_of_several_layers_only_the_last_is_the_head() -> None:
    found = kinds({"features.0.weight": (8, 3, 3, 3), "classifier.0.weight": (64, 32), "classifier.3.weight": (10, 64)})
    assert found == {"features.0.weight": "conv", "classifier.0.weight": "hidden", "classifier.3.weight": "head"}


def test_an_unnamed_table_is_found_by_the_shape_of_its_head() -> None:
    shapes: dict[str, tuple[int, ...]] = {"encoder.weight": (500, 16), "rnn.weight_ih_l0": (64, 16)}
    shapes |= {"rnn.weight_hh_l0": (64, 16), "rnn.bias_ih_l0": (64,), "decoder.weight": (500, 16)}
    found = kinds(shapes)
    assert found["encoder.weight"] == "embedding"
    assert found["decoder.weight"] == "head"
    assert found["rnn.weight_ih_l0"] == found["rnn.weight_hh_l0"] == "hidden"
    assert found["rnn.bias_ih_l0"] == "bias"


def test_a_square_first_layer_is_not_taken_for_a_table() -> None:
    assert kinds({"fc1.weight": (8, 8), "fc2.weight": (8, 8)}) == {"fc1.weight": "hidden", "fc2.weight": "head"}


def test_names_of_other_makes() -> None:
    found = kinds(
        {
            "model.embed_tokens.weight": (100, 8),
            "time_embedding.linear_1.weight": (32, 8),
            "embed_proj.weight": (16, 8),
            "layers.0.self_attn.in_proj_weight": (24, 8),
            "layers.0.self_attn.in_proj_bias": (24,),
            "layers.0.attention.output.dense.weight": (8, 8),
            "layers.0.relative_attention_bias.weight": (32, 4),
            "layers.0.gamma": (8,),
            "layers.0.norm.scale": (8,),
            "layers.0.experts": (4, 8, 16),
            "cls_token": (1, 1, 8),
            "pos_embed": (1, 17, 8),
            "logit_scale": (),
            "patch_embed.proj.weight": (8, 3, 4, 4),
            "output.weight": (100, 8),
        }
    )
    assert found == {
        "model.embed_tokens.weight": "embedding",
        "time_embedding.linear_1.weight": "hidden",
        "embed_proj.weight": "hidden",
        "layers.0.self_attn.in_proj_weight": "hidden",
        "layers.0.self_attn.in_proj_bias": "bias",
        "layers.0.attention.output.dense.weight": "hidden",
        "layers.0.relative_attention_bias.weight": "embedding",
        "layers.0.gamma": "other",
        "layers.0.norm.scale": "norm",
        "layers.0.experts": "other",
        "cls_token": "other",
        "pos_embed": "embedding",
        "logit_scale": "other",
        "patch_embed.proj.weight": "conv",
        "output.weight": "head",
    }


def test_torch_s_transformer_layer_is_sorted() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.byte_embedding = nn.Embedding(64, 8)
            self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False)
            self.to_bytes = nn.Linear(8, 64)

        def forward(self, x: Tensor) -> Tensor:
            return x

    found = kinds_of(Model())
    assert [name for name, kind in found.items() if kind == "embedding"] == ["byte_embedding.weight"]
    assert [name for name, kind in found.items() if kind == "head"] == ["to_bytes.weight"]
    assert sum(kind == "hidden" for kind in found.values()) == 8
    assert found["blocks.layers.1.norm2.weight"] == "norm"


def test_what_a_program_knows_wins_by_name_or_role() -> None:
    shapes: dict[str, tuple[int, ...]] = {f"b.{i}.weight": (8, 8) for i in range(3)}
    found = kinds(shapes, known={"b.N.weight": "other", "b.1.weight": "head"})
    assert found == {"b.0.weight": "other", "b.1.weight": "head", "b.2.weight": "other"}
    with pytest.raises(ValueError, match=r"'matrix'.*hidden, embedding"):
        kinds(shapes, known={"b.N.weight": "matrix"})


def test_no_parameters_are_no_groups() -> None:
    assert group_by_role([]) == {}
    assert group_by_kind([]) == {kind: [] for kind in KINDS}
