"""Structures: exact counts of published models, and any config of Llama's style."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.llm.config import LARGEST_FILE, read_config, structure_from_config
from boundby.llm.formats import weight_format
from boundby.llm.models import find_model, model_names
from boundby.results.errors import BoundbyError

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}

# Name: parameters in all, active, read by one token; bytes of 16-bit cache a token at full length.
# Source: counts of the published checkpoints where one was seen, else the formula and the rounded published size.
COUNTS: dict[str, tuple[int, int, int, int]] = {
    name: tuple(values)
    for name, values in json.loads((Path(__file__).parent / "files" / "published_counts.json").read_text()).items()
}


@pytest.mark.parametrize("name", COUNTS)
def test_published_counts_are_reproduced_exactly(name: str) -> None:
    model = find_model(name)
    assert COUNTS[name] == (model.total, model.active, model.streamed_by_one, model.cache_bytes_per_token())


def test_gemma_4_has_the_published_cache_and_says_that_its_count_is_unchecked() -> None:
    model = find_model("gemma-4-31b")
    local = sum(2 * layer.cache_elements for layer in model.layers if layer.window)
    full = sum(2 * layer.cache_elements for layer in model.layers if not layer.window)
    assert (local, full) == (819_200, 81_920)
    assert any("no published exact count" in note for note in model.notes)


def test_every_shipped_structure_is_checked() -> None:
    assert {*COUNTS, "gemma-4-31b"} == set(model_names())
    assert len(model_names()) >= 34


def test_windows_stop_growing() -> None:
    model = find_model("gpt-oss-20b")
    # 12 layers keep 128 tokens, 12 keep all.
    assert model.cache_bytes(10_000) == 24_576 * 10_000 + 24_576 * 128


def test_layer_types_name_each_layers_window() -> None:
    kinds = ["sliding_attention", "full_attention"] * 16
    model = structure_from_config(LLAMA | {"sliding_window": 512, "layer_types": kinds}, name="x")
    assert [layer.window for layer in model.layers] == [512, None] * 16


def test_a_nested_language_model_counts() -> None:
    plain = structure_from_config(LLAMA, name="x")
    assert structure_from_config({"model_type": "vision", "text_config": LLAMA}, name="x").total == plain.total


def test_what_a_type_leaves_out_is_known() -> None:
    # google/gemma-3-4b-it writes no more than this of its language model.
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    model = structure_from_config({"model_type": "gemma3", "text_config": text}, name="x")
    assert model.total == find_model("gemma-3-4b-text").total


def test_biases_add_up() -> None:
    plain = structure_from_config(LLAMA, name="x").total
    biased = structure_from_config(LLAMA | {"attention_bias": True, "mlp_bias": True}, name="x").total
    a_layer = (4096 + 2 * 1024 + 4096) + (2 * 14336 + 4096)
    assert biased - plain == 32 * a_layer


def test_shared_experts_and_dense_layers_are_read_by_every_token() -> None:
    moe = {
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 512,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
    }
    model = structure_from_config(LLAMA | moe, name="x")
    first, second = model.layers[:2]
    assert (first.experts, second.experts) == (0, 8)
    assert second.gate_up + second.down == 3 * 4096 * 512
    assert second.experts_touched(1) == pytest.approx(2)
    assert second.experts_touched(1000) == pytest.approx(8)


@given(
    heads=st.integers(1, 64),
    group=st.integers(1, 8),
    head_dim=st.integers(1, 256),
    width=st.integers(1, 8192),
    hidden=st.integers(1, 8192),
    depth=st.integers(1, 40),
    words=st.integers(1, 200_000),
    tied=st.booleans(),
)
def test_any_llama_style_config_counts(
    heads: int, group: int, head_dim: int, width: int, hidden: int, depth: int, words: int, tied: bool
) -> None:
    config = {
        "hidden_size": hidden,
        "num_hidden_layers": depth,
        "intermediate_size": width,
        "num_attention_heads": heads * group,
        "num_key_value_heads": heads,
        "head_dim": head_dim,
        "vocab_size": words,
        "tie_word_embeddings": tied,
    }
    model = structure_from_config(config, name="any")
    queries, keys = heads * group * head_dim, heads * head_dim
    layer = hidden * (queries + 2 * keys) + queries * hidden + 3 * hidden * width + 2 * hidden
    assert model.total == words * hidden * (1 if tied else 2) + hidden + depth * layer
    assert model.streamed_by_one == model.total - (0 if tied else words * hidden)
    assert model.cache_bytes_per_token() == 4 * keys * depth


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hidden_size": None}, "no hidden_size"),
        ({"vocab_size": None}, "no vocab_size"),
        ({"hidden_size": "big"}, "expected a whole number"),
        ({"hidden_size": True}, "expected a whole number"),
        ({"num_hidden_layers": -1}, "expected 1 to"),
        ({"num_hidden_layers": 10**9}, "expected 1 to"),
        ({"hidden_size": 10**12}, "expected 1 to"),
        ({"hidden_size": 4097}, "no multiple"),
        ({"num_key_value_heads": 5}, "no multiple"),
        ({"num_key_value_heads": 64}, "no multiple"),
        ({"tie_word_embeddings": "yes"}, "true or false"),
        ({"num_experts": 4, "num_experts_per_tok": 8}, "more than the 4 experts"),
        ({"num_experts": 4}, "no num_experts_per_tok"),
        ({"layer_types": ["full_attention"]}, "names 1 layers"),
        ({"layer_types": ["sliding_attention"] * 32}, "no sliding_window"),
        ({"layer_types": ["linear_attention"] * 32}, "kind of layer"),
        ({"layer_types": 3}, "expected a list"),
        ({"n_routed_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 99}, "more than the 32 layers"),
        ({"model_type": "gpt2"}, "Llama-style"),
    ],
)
def test_what_does_not_add_up_is_one_clear_line(change: dict[str, Any], told: str) -> None:
    with pytest.raises(BoundbyError) as raised:
        structure_from_config(LLAMA | change, name="mine")
    assert raised.value.code == "model-config"
    assert told in raised.value.message
    assert "\n" not in raised.value.message


@given(
    st.dictionaries(
        st.sampled_from([*LLAMA, "head_dim", "num_experts", "sliding_window", "layer_types", "kv_lora_rank"]),
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.text(max_size=3))
        ),
    )
)
def test_nonsense_is_never_a_traceback(config: dict[str, Any]) -> None:
    codes = set()
    try:
        structure_from_config(LLAMA | config, name="any")
    except BoundbyError as error:
        codes.add(error.code)
    assert codes <= {"model-config"}


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as stream:
        stream.truncate(300 * 1024 * 1024)
    assert path.stat().st_size > LARGEST_FILE
    with pytest.raises(BoundbyError) as raised:
        read_config(path)
    assert raised.value.code == "file-too-large"


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_no_config_is_one_clear_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(BoundbyError) as raised:
        read_config(path)
    assert raised.value.code == "model-config"
    assert "\n" not in raised.value.message


def test_names_are_found_by_their_owner_and_unknown_ones_name_near_ones() -> None:
    assert find_model("meta-llama/Llama-3.1-8B-Instruct").name == "llama-3.1-8b"
    assert find_model("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B").name == "qwen2.5-14b"
    with pytest.raises(BoundbyError, match=r"Near: .*llama-3\.1-8b") as raised:
        find_model("lama-3.1-8b")
    assert raised.value.code == "unknown-model"


SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


@pytest.mark.parametrize(
    "change",
    [
        {"torch_dtype": "float7"},
        {"dtype": {"a": 1}},
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        {"quantization_config": {"quant_method": "gptq", "bits": 5, "group_size": 128}},
        {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 0}},
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": False}},
        {"quantization_config": {"quant_method": "unheard-of", "bits": 5}},
        {"quantization_config": 5},
    ],
)
def test_weights_in_a_format_that_is_not_known_are_said_to_be(change: dict[str, Any]) -> None:
    found = structure_from_config({**SMALL, **change}, name="mine")
    assert found.weights_format is None
    (note,) = found.notes
    assert note.startswith("The config says that its weights are")
    assert "bf16" in note


@pytest.mark.parametrize(
    ("change", "form"),
    [
        ({}, None),
        ({"torch_dtype": "auto"}, None),
        ({"dtype": "torch.float16"}, "fp16"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}, "int4-g128"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": -1}}, "int4-column"),
        ({"quantization_config": {"quant_method": "fbgemm_fp8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "nf4-single"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "llm-int8"),
        ({"quantization_config": {"load_in_4bit": True, "bnb_4bit_use_double_quant": True}}, "nf4"),
    ],
)
def test_a_known_format_or_none_needs_no_note(change: dict[str, Any], form: str | None) -> None:
    found = structure_from_config({**SMALL, **change}, name="mine")
    assert (found.weights_format, found.notes) == (form, ())
    assert form is None or weight_format(form).name == form
