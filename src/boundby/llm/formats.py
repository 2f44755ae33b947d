"""Weight and cache formats by their real bits: scales and zeros counted, and what stays unquantised.

Source:
    Block formats of llama.cpp: bits of a block over its weights (ggml-quants); mixtures such as Q4_K_M from the bits
    per weight that its quantize tool lists for an 8B model, less the head (Q6_K) and the input table, which takes the
    block that the mixture is named after (llama_tensor_get_type in llama-quant.cpp: of a table it changes only that
    which serves as head). Groups: a 16-bit scale and a zero of as many bits as a weight (AWQ, GPTQ), or both of 16 bits
    (torchao); these leave the input table as it was. With one scale a column of thousands of weights it is under 0.2%
    and left out. bitsandbytes: a 32-bit scale for each 64 weights, or 8 bits with one more of 32 for each 256 scales
    (QLoRA, arXiv:2305.14314, section 3). MLC: a 16-bit scale a group, in the table and the head too
    (quantize_embedding in quantization.py). Microscaling: an 8-bit scale for each 32 (OCP MX) or 16 (NVFP4) weights.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

_Q6_K = 6.5625
# Blocks of 256 weights of llama.cpp that mixtures are named after.
_Q2_K, _Q3_K, _Q4_K, _Q5_K = 2.625, 3.4375, 4.5, 5.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFormat:
    """Bits a parameter takes, by where it stands: in the layers' products, in experts, in the head, in the input table.

    A table that serves as the head as well takes the head's.
    """

    name: str
    body_bits: float
    expert_bits: float
    head_bits: float
    table_bits: float = 16

    @property
    def quantised(self) -> bool:
        """Whether weights are unpacked before they are multiplied."""
        return min(self.body_bits, self.expert_bits) < 16

    @property
    def experts_only(self) -> bool:
        """Whether experts alone are stored in what the format is named after."""
        return self.expert_bits < self.body_bits


def _plain(bits: float) -> WeightFormat:
    return WeightFormat(name="", body_bits=bits, expert_bits=bits, head_bits=bits, table_bits=bits)


def _headless(bits: float, head: float = 16) -> WeightFormat:
    return WeightFormat(name="", body_bits=bits, expert_bits=bits, head_bits=head)


def _gguf(bits: float, table: float, head: float = _Q6_K) -> WeightFormat:
    return WeightFormat(name="", body_bits=bits, expert_bits=bits, head_bits=head, table_bits=table)


_FORMATS = {
    "fp32": _plain(32),
    "bf16": _plain(16),
    "fp16": _plain(16),
    "int8": WeightFormat(name="", body_bits=8, expert_bits=8, head_bits=8),
    "fp8": _headless(8),
    "mxfp8": _headless(8.25),
    "nvfp4": _headless(4.5),
    "nvfp4-experts": WeightFormat(name="", body_bits=16, expert_bits=4.5, head_bits=16),
    "nf4": _headless(4.127),
    "nf4-single": _headless(4.5),
    "llm-int8": _headless(8),
    # Published checkpoints quantise the experts alone.
    "mxfp4": WeightFormat(name="", body_bits=16, expert_bits=4.25, head_bits=16),
    "gguf-mxfp4": WeightFormat(name="", body_bits=8.5, expert_bits=4.25, head_bits=8.5, table_bits=8.5),
    "q2_k": _gguf(2.948, _Q2_K),
    "q3_k_s": _gguf(3.439, _Q3_K),
    "q3_k_m": _gguf(3.845, _Q3_K),
    "q3_k_l": _gguf(4.192, _Q3_K),
    "iq4_xs": _gguf(4.25, 4.25),
    "iq4_nl": _gguf(4.5, 4.5),
    "q4_0": _gguf(4.5, 4.5),
    "q4_1": _gguf(5.0, 5.0),
    "q4_k_s": _gguf(4.537, _Q4_K),
    "q4_k_m": _gguf(4.80, _Q4_K),
    "q5_0": _gguf(5.5, 5.5),
    "q5_1": _gguf(6.0, 6.0),
    "q5_k_s": _gguf(5.5, _Q5_K),
    "q5_k_m": _gguf(5.655, _Q5_K),
    "q6_k": _gguf(_Q6_K, _Q6_K),
    "q8_0": _gguf(8.5, 8.5, 8.5),
    "q4f16_1": _plain(4.5),
    "q4f16_0": _plain(4.5),
    "q3f16_1": _plain(3.5),
}
_OTHER_NAMES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "f16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "f32": "fp32",
    "float": "fp32",
    "w8a16": "int8",
    "w8a8": "int8",
    "float8": "fp8",
    "e4m3": "fp8",
    "fp4": "nvfp4",
    "q4_k": "q4_k_m",
    "q5_k": "q5_k_m",
    "q3_k": "q3_k_m",
    "awq": "int4-g128",
    "gptq": "int4-g128",
    "int4": "int4-g128",
}
# The cache: keys and values, without scales unless the format has them.
_CACHE_BITS = {
    "fp32": 32.0,
    "bf16": 16.0,
    "fp16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "q8_0": 8.5,
    "q4_0": 4.5,
    "nvfp4": 4.5,
}

_GROUPED = re.compile(r"(torchao-)?int([2348])-g(\d+)")
_BY_COLUMN = re.compile(r"int([2348])-column")
_PER_WEIGHT = re.compile(r"(\d+(?:\.\d+)?)bpw")
_MLX = re.compile(r"([234568])-?bit")


def format_names() -> tuple[str, ...]:
    """The names of formats that are listed; groups (``int4-g128``) and rates (``4.25bpw``) go by their pattern."""
    return tuple(_FORMATS)


def is_weight_format(name: str) -> bool:
    """Whether `weight_format` knows a name."""
    plain = _plain_name(name)
    return plain in _FORMATS or _by_pattern(plain) is not None


def weight_format(name: str) -> WeightFormat:
    """The format of a name: ``bf16``, ``q4_k_m``, ``int4-g128``, ``int4-column``, ``torchao-int4-g32``, ``4.25bpw``,
    ``4bit`` (MLX).

    Raises:
        BoundbyError: ``unknown-format``.
    """
    plain = _plain_name(name)
    found = _FORMATS.get(plain) or _by_pattern(plain)
    if found is None:
        raise _unknown(
            tr("{name} is no weight format that boundby knows", name=f"{name!r}"),
            name,
            [*_FORMATS, *_OTHER_NAMES, "int4-g128", "4.0bpw", "4bit"],
        )
    return WeightFormat(
        name=plain,
        body_bits=found.body_bits,
        expert_bits=found.expert_bits,
        head_bits=found.head_bits,
        table_bits=found.table_bits,
    )


def cache_bytes_per_element(name: str) -> float:
    """What one element of the cache takes in a format, in bytes.

    Raises:
        BoundbyError: ``unknown-format``.
    """
    plain = name.strip().lower()
    bits = _CACHE_BITS.get(_OTHER_NAMES.get(plain, plain))
    if bits is None:
        told = tr("{name} is no cache format that boundby knows", name=f"{name!r}")
        raise _unknown(told, name, list(_CACHE_BITS))
    return bits / 8


def _plain_name(name: str) -> str:
    plain = name.strip().lower().replace(" ", "-")
    return _OTHER_NAMES.get(plain, plain)


def _by_pattern(plain: str) -> WeightFormat | None:
    if match := _GROUPED.fullmatch(plain):
        bits, group = int(match[2]), int(match[3])
        if not 8 <= group <= 65536:
            return None
        if match[1]:
            return _headless(bits + 32 / group, bits + 32 / group)
        return _headless(bits + (16 + bits) / group)
    if match := _BY_COLUMN.fullmatch(plain):
        return _headless(int(match[1]))
    if match := _PER_WEIGHT.fullmatch(plain):
        bits_each = float(match[1])
        # exllamav2 keeps 6 bits in the head unless told otherwise.
        return _headless(bits_each, max(6.0, bits_each)) if 1 <= bits_each <= 16 else None
    if match := _MLX.fullmatch(plain):
        # MLX: a 16-bit scale and a 16-bit bias for each 64 weights, in the input table too.
        return _plain(int(match[1]) + 0.5)
    return None


def _unknown(told: str, name: str, names: list[str]) -> BoundbyError:
    near = get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    return BoundbyError(
        "unknown-format",
        tr("{told}; near: {names}.", told=told, names=", ".join(near))
        if near
        else tr("{told}; for example {names}.", told=told, names=", ".join(names[:6])),
        tr("Give a format by its published name; the page on `boundby decode` lists them."),
        status=EXIT_USAGE,
    )
