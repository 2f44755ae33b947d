"""Hugging Face ``config.json`` to a model structure: every field checked, one clear line where it does not add up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from boundby.llm.families import FAMILIES, OTHER_SHAPES, PLAIN, Family
from boundby.llm.formats import is_weight_format
from boundby.llm.structure import Layer, ModelStructure
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

# A config has a few kilobytes; a tokenizer or an index of weights, given by mistake, has megabytes.
LARGEST_FILE = 4 * 1024 * 1024

_NESTED = ("text_config", "llm_config", "language_config")
_LIMITS = {
    "hidden_size": 1 << 20,
    "num_hidden_layers": 4096,
    "intermediate_size": 1 << 24,
    "vocab_size": 1 << 26,
    "num_attention_heads": 1 << 14,
    "head_dim": 1 << 14,
}
_LARGEST = 1 << 26
_MISSING: Any = object()


def read_config(path: Path) -> ModelStructure:
    """The structure that a ``config.json`` describes.

    Raises:
        BoundbyError: ``no-such-file``, ``unreadable-file``, ``file-too-large`` or ``model-config``.
    """
    from boundby.results.files import read_file

    data = read_file(path, most_bytes=LARGEST_FILE, advice=_advice())
    try:
        content = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse(str(path), tr("it is not JSON: {error}", error=error).split("\n")[0])
    if not isinstance(content, dict):
        _refuse(str(path), tr("it holds no JSON object"))
    name = path.parent.name if path.name == "config.json" and path.parent.name else path.stem
    return structure_from_config(content, name=name, source=str(path))


def structure_from_config(config: Mapping[str, Any], *, name: str, source: str = "") -> ModelStructure:
    """The structure a config describes.

    Args:
        config: the content of a ``config.json``; where the language model is nested (``text_config``), that counts.
        name: what to call the model.
        source: where the config is from.

    Raises:
        BoundbyError: ``model-config``: a field is missing, is no whole number, is absurd or contradicts another.
    """
    fields = _Fields(config, name)
    return _structure(fields, name, source or name)


class _Fields:
    """The config's values, checked as they are taken."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        outer = config
        for key in _NESTED:
            if isinstance(config.get(key), Mapping):
                config = config[key]
                break
        self.name = name
        self.type = str(config.get("model_type") or outer.get("model_type") or "")
        if self.type not in FAMILIES and f"{self.type}_text" in FAMILIES:
            self.type = f"{self.type}_text"
        family = FAMILIES.get(self.type)
        if family is None and self.type in OTHER_SHAPES:
            _refuse(
                name,
                tr(
                    "model_type {type} is not built of Llama-style layers, which are all boundby knows",
                    type=f"{self.type!r}",
                ),
            )
        self.known = family is not None
        self.family: Family = family or PLAIN
        self.values = {**self.family.defaults, **{key: value for key, value in config.items() if value is not None}}
        # Only these two are said beside a nested language model as often as in it.
        for key in ("tie_word_embeddings", "quantization_config"):
            if key not in self.values and outer.get(key) is not None:
                self.values[key] = outer[key]

    def has(self, *keys: str) -> bool:
        return any(key in self.values for key in keys)

    def whole(self, *keys: str, default: Any = _MISSING, least: int = 1) -> int:
        """The whole number under the first of ``keys`` that is there."""
        for key in keys:
            if key in self.values:
                value = self.values[key]
                if isinstance(value, float) and value.is_integer():
                    value = int(value)
                if isinstance(value, bool) or not isinstance(value, int):
                    self.refuse(tr("{key} is {value}; expected a whole number", key=key, value=_short(value)))
                if not least <= value <= _LIMITS.get(keys[0], _LARGEST):
                    self.refuse(
                        tr(
                            "{key} is {value}; expected {least} to {most}",
                            key=key,
                            value=_short(value),
                            least=least,
                            most=f"{_LIMITS.get(keys[0], _LARGEST):,}",
                        )
                    )
                return int(value)
        if default is _MISSING:
            self.refuse(tr("it has no {keys}", keys=keys[0]))
        return int(default)

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.refuse(tr("{key} is {value}; expected true or false", key=key, value=_short(value)))
        return value

    def refuse(self, what: str) -> NoReturn:
        _refuse(self.name, what)


def _structure(fields: _Fields, name: str, source: str) -> ModelStructure:
    family = fields.family
    hidden = fields.whole("hidden_size", "n_embd", "d_model", "dim")
    depth = fields.whole("num_hidden_layers", "n_layer", "n_layers")
    vocabulary = fields.whole("vocab_size")
    tied = fields.flag("tie_word_embeddings", family.tied)
    windows = _windows(fields, depth)
    # Layers that are alike are one object, which is what makes counting them quick.
    alike: dict[tuple[int | None, bool], Layer] = {}
    layers = []
    for index in range(depth):
        kind = (windows[index], _routes(fields, index, depth))
        if kind not in alike:
            parts: dict[str, Any] = {**_feed_forward(fields, hidden, routes=kind[1])}
            alike[kind] = Layer(
                **_attention(fields, hidden, local=windows[index] is not None),
                **parts,
                norms=_norms(fields, hidden),
                window=windows[index],
            )
        layers.append(alike[kind])
    table = vocabulary * hidden
    structure = ModelStructure(
        name=name,
        source=source,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        embedding=table,
        head=0 if tied else table,
        final_norm=0 if family.norm_free else hidden * (2 if family.norm_bias else 1),
        layers=tuple(layers),
        longest_context=fields.whole("max_position_embeddings", default=0, least=0) or None,
        weights_format=_stored_format(fields),
        notes=_notes(fields),
    )
    if structure.total > 10**14:
        fields.refuse(tr("it adds up to {total} parameters, more than any model has", total=f"{structure.total:.2g}"))
    return structure


def _attention(fields: _Fields, hidden: int, *, local: bool) -> dict[str, Any]:
    heads = fields.whole("num_attention_heads", "n_head", "n_heads")
    if fields.has("kv_lora_rank"):
        return _latent_attention(fields, hidden, heads)
    prefix = "local_" if local else "global_"
    kv_heads = fields.whole(f"{prefix}kv_heads", *_kv_keys(fields, local), "num_key_value_heads", default=heads)
    if fields.has("head_dim", f"{prefix}head_dim"):
        width = fields.whole(f"{prefix}head_dim", *(() if local else ("global_head_dim",)), "head_dim")
    elif hidden % heads:
        fields.refuse(
            tr(
                "hidden_size {hidden} is no multiple of num_attention_heads {heads}, and there is no head_dim",
                hidden=f"{hidden:,}",
                heads=f"{heads:,}",
            )
        )
    else:
        width = hidden // heads
    if heads % kv_heads:
        fields.refuse(
            tr(
                "num_attention_heads {heads} is no multiple of num_key_value_heads {kv_heads}",
                heads=f"{heads:,}",
                kv_heads=f"{kv_heads:,}",
            )
        )
    family = fields.family
    all_biased = fields.flag("attention_bias", False)
    inputs_biased = (
        all_biased
        or family.query_bias
        or fields.flag("attention_bias_qkv", False)
        or fields.flag("use_qkv_bias", False)
        or fields.flag("qkv_bias", False)
    )
    queries, keys = heads * width, kv_heads * width
    small = heads if family.sinks or fields.flag("attention_sinks", False) else 0
    if family.head_norms == "all":
        small += queries + keys
    elif family.head_norms == "head" or fields.flag("qk_norm", False) or fields.flag("use_qk_norm", False):
        small += 2 * width
    shared_values = not local and fields.flag("attention_k_eq_v", False)
    projected = queries + keys * (1 if shared_values else 2)
    return {
        "input_projections": projected * hidden + (projected if inputs_biased else 0),
        "output_projection": queries * hidden + (hidden if all_biased and family.output_bias else 0),
        "attention_small": small,
        "cache_elements": 2 * keys,
        "query_heads": heads,
        "score_dim": width,
        "value_dim": width,
    }


def _kv_keys(fields: _Fields, local: bool) -> tuple[str, ...]:
    return () if local or not fields.has("num_global_key_value_heads") else ("num_global_key_value_heads",)


def _latent_attention(fields: _Fields, hidden: int, heads: int) -> dict[str, Any]:
    """Multi-head latent attention: the cache holds one compressed vector and one rotated key a token.

    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.
    """
    rank = fields.whole("kv_lora_rank")
    rotated = fields.whole("qk_rope_head_dim")
    plain = fields.whole("qk_nope_head_dim")
    value = fields.whole("v_head_dim")
    query_rank = fields.whole("q_lora_rank", default=0, least=0)
    queries = heads * (plain + rotated)
    into_queries = hidden * query_rank + query_rank * queries if query_rank else hidden * queries
    into_cache = hidden * (rank + rotated) + rank * heads * (plain + value)
    biases = 0
    if fields.flag("attention_bias", False):
        biases = query_rank + rank + rotated
    return {
        "input_projections": into_queries + into_cache + biases,
        "output_projection": heads * value * hidden + (hidden if biases else 0),
        "attention_small": query_rank + rank,
        "cache_elements": rank + rotated,
        "query_heads": heads,
        # With the up-projections absorbed into queries and output, a head meets the compressed vector itself.
        "score_dim": rank + rotated,
        "value_dim": rank,
        "latent": True,
    }


def _feed_forward(fields: _Fields, hidden: int, *, routes: bool) -> dict[str, int]:
    family = fields.family
    bias = fields.flag("mlp_bias", False)
    if not routes:
        keys = ("intermediate_size_mlp", "intermediate_size", "ffn_dim", "n_inner", "moe_intermediate_size")
        return _dense(hidden, fields.whole(*keys), bias=bias)
    experts = fields.whole("num_local_experts", "num_experts", "n_routed_experts")
    chosen = fields.whole("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts")
    if chosen > experts:
        fields.refuse(
            tr(
                "num_experts_per_tok {chosen} is more than the {experts} experts there are",
                chosen=f"{chosen:,}",
                experts=f"{experts:,}",
            )
        )
    width = fields.whole("moe_intermediate_size", "intermediate_size")
    shared_width = fields.whole("shared_expert_intermediate_size", default=0, least=0)
    if not shared_width:
        shared_width = fields.whole("n_shared_experts", "num_shared_experts", default=0, least=0) * width
    expert_bias = family.expert_bias or fields.flag("expert_bias", False)
    router = experts * hidden
    router += experts if family.router_bias or expert_bias else 0
    router += hidden if family.shared_gate and shared_width else 0
    one = _dense(hidden, width, bias=expert_bias)
    return _dense(hidden, shared_width, bias=bias and shared_width > 0) | {
        "router": router,
        "experts": experts,
        "experts_per_token": chosen,
        "expert_gate_up": one["gate_up"],
        "expert_down": one["down"],
    }


def _dense(hidden: int, width: int, *, bias: bool) -> dict[str, int]:
    return {
        "gate_up": 2 * hidden * width + (2 * width if bias else 0),
        "down": width * hidden + (hidden if bias else 0),
    }


def _routes(fields: _Fields, index: int, depth: int) -> bool:
    """Whether a layer sends tokens to experts."""
    if not fields.has("num_local_experts", "num_experts", "n_routed_experts"):
        if fields.has("num_experts_per_tok") and fields.has("moe_intermediate_size"):
            fields.refuse(tr("it has num_experts_per_tok and no number of experts"))
        return False
    if fields.whole("num_local_experts", "num_experts", "n_routed_experts", least=0) == 0:
        return False
    first = fields.whole("first_k_dense_replace", default=0, least=0)
    if first > depth:
        fields.refuse(
            tr(
                "first_k_dense_replace {first} is more than the {depth} layers there are",
                first=f"{first:,}",
                depth=f"{depth:,}",
            )
        )
    if index < first or index in _listed(fields, "mlp_only_layers"):
        return False
    step = fields.whole("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step", default=1)
    return (index + (0 if fields.has("moe_layer_freq") else 1)) % step == 0


def _listed(fields: _Fields, key: str) -> list[Any]:
    value = fields.values.get(key, [])
    if not isinstance(value, list):
        fields.refuse(tr("{key} is {value}; expected a list", key=key, value=_short(value)))
    return value


def _norms(fields: _Fields, hidden: int) -> int:
    family = fields.family
    if family.norm_free:
        return 0
    return fields.whole("norms_per_layer", default=family.norms, least=0) * hidden * (2 if family.norm_bias else 1)


def _windows(fields: _Fields, depth: int) -> list[int | None]:
    """Each layer's window in tokens; None where it sees all."""
    kinds = _listed(fields, "layer_types")
    if kinds and len(kinds) != depth:
        fields.refuse(
            tr(
                "layer_types names {number} layers and num_hidden_layers is {depth}",
                number=f"{len(kinds):,}",
                depth=f"{depth:,}",
            )
        )
    strange = next((kind for kind in kinds if not isinstance(kind, str) or "attention" not in kind), None)
    if strange is not None or "linear_attention" in kinds:
        fields.refuse(
            tr(
                "layer_types names {kind}, a kind of layer boundby does not know",
                kind=_short(strange or "linear_attention"),
            )
        )
    if not fields.has("sliding_window", "attention_chunk_size") or fields.values.get("use_sliding_window") is False:
        if "sliding_attention" in kinds and not fields.has("sliding_window"):
            fields.refuse(tr("layer_types names sliding_attention and there is no sliding_window"))
        return [None] * depth
    if fields.values.get("sliding_window") is False:
        return [None] * depth
    window = fields.whole("sliding_window", "attention_chunk_size")
    if kinds:
        return [None if kind == "full_attention" else window for kind in kinds]
    every = fields.whole("sliding_window_pattern", "full_every", default=fields.family.full_every, least=0)
    first = fields.whole("max_window_layers", default=0, least=0) if fields.has("use_sliding_window") else 0
    return [None if index < first or (every and (index + 1) % every == 0) else window for index in range(depth)]


def _stored_format(fields: _Fields) -> str | None:
    """The format the config says its weights are in, in boundby's words; None where it says none we know."""
    quantization = fields.values.get("quantization_config")
    if isinstance(quantization, Mapping):
        form = _quantised_format(quantization)
        return form if form is not None and is_weight_format(form) else None
    names = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8"}
    return names.get(str(_dtype(fields)).removeprefix("torch."))


def _quantised_format(quantization: Mapping[str, Any]) -> str | None:
    """What the format of a ``quantization_config`` would be called; None where its method is not known."""
    method = str(quantization.get("quant_method", "")).lower()
    bits, group = quantization.get("bits"), quantization.get("group_size")
    if method in ("mxfp4", "fp8"):
        return method
    if method == "fbgemm_fp8":
        return "fp8"
    if method in ("awq", "gptq") and isinstance(bits, int) and isinstance(group, int):
        # One scale a column of the matrix is written as a group of -1.
        return f"int{bits}-column" if group == -1 else f"int{bits}-g{group}"
    if method in ("bitsandbytes", ""):
        if quantization.get("load_in_4bit") is True:
            return "nf4" if quantization.get("bnb_4bit_use_double_quant") is True else "nf4-single"
        if quantization.get("load_in_8bit") is True:
            return "llm-int8"
    return None


def _dtype(fields: _Fields) -> object:
    return fields.values.get("dtype", fields.values.get("torch_dtype"))


def _unknown_storage(fields: _Fields) -> str | None:
    """What the config says its weights are stored as, where that is no format we know; None where it is one or none."""
    if _stored_format(fields) is not None:
        return None
    quantization = fields.values.get("quantization_config")
    if quantization is not None:
        method = quantization.get("quant_method") if isinstance(quantization, Mapping) else None
        bits = quantization.get("bits") if isinstance(quantization, Mapping) else None
        told = (
            tr("quantised by {method}", method=_short(method))
            if method
            else tr("quantised in a way that it does not name")
        )
        return tr("{told}, {bits} bits", told=told, bits=_short(bits)) if bits is not None else told
    stored = _dtype(fields)
    return None if stored in (None, "auto") else tr("stored as {stored}", stored=_short(stored))


def _notes(fields: _Fields) -> tuple[str, ...]:
    notes = []
    if not fields.known:
        told = (
            tr("model_type {type} is not known", type=f"{fields.type!r}")
            if fields.type
            else tr("the config names no model_type")
        )
        notes.append(
            tr(
                "{told}: layers are taken as Llama's, with the biases, norms and experts that the config names.",
                told=told,
            )
        )
    storage = _unknown_storage(fields)
    if storage is not None:
        notes.append(
            tr(
                "The config says that its weights are {storage}, which boundby cannot size: unless a format is "
                "named (--weights), they are taken as bf16.",
                storage=storage,
            )
        )
    if fields.has("num_nextn_predict_layers"):
        notes.append(tr("Layers that predict further tokens are left out: a plain decode step does not read them."))
    if fields.type == "gemma4_text":
        notes.append(tr("Counted by formula from the config; no published exact count was seen to check it against."))
    return tuple(notes)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _advice() -> str:
    return tr("Give the config.json of a Hugging Face model, unchanged, or one of the shipped names.")


def _refuse(name: str, what: str) -> NoReturn:
    raise BoundbyError(
        "model-config", tr("{name} describes no model: {what}.", name=name, what=what), _advice(), status=EXIT_USAGE
    )
