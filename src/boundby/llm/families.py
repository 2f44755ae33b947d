"""What the model types of Hugging Face configs imply without saying it.

A ``config.json`` leaves out what equals the default of its model type, and the presence of some parameters (biases of
queries, norms of heads) is known from the type alone.

Source:
    The configuration and modelling classes of transformers, one per model type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Facts of a model type. ``defaults`` are values of keys that its configs may leave out.

    ``query_bias``: queries, keys and values always have biases; ``output_bias``: where the config asks for biases of
    attention, its output has one too. ``norms`` is how many norms of the hidden width a layer has; ``head_norms``
    whether queries and keys have norms, of one head's width or of all heads'. ``full_every``: each so-many-th layer
    sees all tokens where a window is set and no list of layer types is given (0: none does).
    """

    defaults: Mapping[str, Any] = field(default_factory=dict)
    tied: bool = False
    query_bias: bool = False
    output_bias: bool = True
    norms: int = 2
    norm_bias: bool = False
    norm_free: bool = False
    head_norms: Literal["none", "head", "all"] = "none"
    full_every: int = 0
    sinks: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    shared_gate: bool = False


_GEMMA3 = {
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
}
_GEMMA2 = _GEMMA3 | {"vocab_size": 256000}
_LATENT = {"qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "kv_lora_rank": 512}

PLAIN = Family()

FAMILIES: Mapping[str, Family] = {
    "llama": PLAIN,
    "mistral": PLAIN,
    "ministral": PLAIN,
    "mixtral": PLAIN,
    "phi3": PLAIN,
    "granite": PLAIN,
    "ernie4_5": PLAIN,
    "exaone4": Family(head_norms="head"),
    "glm": Family(output_bias=False),
    "glm4": Family(output_bias=False, norms=4),
    "glm4_moe": Family(output_bias=False, router_bias=True),
    "dots1": Family(head_norms="head", router_bias=True),
    "seed_oss": Family(output_bias=False),
    "smollm3": Family(tied=True),
    "qwen2": Family(query_bias=True),
    "qwen2_moe": Family(query_bias=True, shared_gate=True),
    "qwen3": Family(head_norms="head"),
    "qwen3_moe": Family(head_norms="head"),
    "gemma": Family(tied=True, defaults={"head_dim": 256}),
    "gemma2": Family(tied=True, norms=4, full_every=2, defaults=_GEMMA2),
    "gemma3_text": Family(tied=True, norms=4, head_norms="head", full_every=6, defaults=_GEMMA3),
    "gemma4_text": Family(tied=True, norms=4, head_norms="head", full_every=6),
    "olmo": Family(norm_free=True),
    "olmo2": Family(head_norms="all"),
    "olmoe": Family(head_norms="all"),
    "cohere": Family(tied=True, norms=1),
    "cohere2": Family(tied=True, norms=1, full_every=4),
    "stablelm": Family(norm_bias=True),
    "deepseek_v2": Family(defaults=_LATENT),
    # The router's correction of scores is a parameter of each expert.
    "deepseek_v3": Family(router_bias=True, defaults=_LATENT),
    "kimi_k2": Family(router_bias=True, defaults=_LATENT),
    "gpt_oss": Family(
        sinks=True, expert_bias=True, router_bias=True, full_every=2, defaults={"attention_bias": True, "head_dim": 64}
    ),
}

# Types whose layers are built otherwise: no gate in the feed-forward, learned positions, states instead of a cache.
_OTHER_SHAPES = (
    "apertus arcee bart bert bloom codegen dbrx deberta falcon falcon_mamba gpt2 gpt_bigcode gpt_neo gpt_neox gptj "
    "helium jamba lfm2 llama4 llama4_text mamba mamba2 minimax mpt nemotron opt persimmon phi recurrent_gemma "
    "roberta rwkv starcoder2 t5 whisper xglm zamba zamba2"
)
OTHER_SHAPES = frozenset(_OTHER_SHAPES.split())
