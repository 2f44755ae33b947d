"""How much of what a step works on is padding, counted from the values that say so: indices and attention masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from boundby.results.habits import Padding, Place

_EMBEDDINGS = frozenset({"aten::embedding"})
# By the name of an op, where its mask stands among the positional arguments; all of them take it by name too.
_MASK_AT = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": 5,
    "aten::_scaled_dot_product_fused_attention_overrideable": 3,
    "aten::_scaled_dot_product_efficient_attention": 3,
    "aten::_scaled_dot_product_cudnn_attention": 3,
}
_MASK_NAMES = ("attn_mask", "attn_bias")
# A mask larger than this takes longer to look through than it is worth.
MOST_ELEMENTS = 1 << 26
# An additive mask's value that leaves nothing of a key after the softmax.
NEVER = -1e4


@dataclass(slots=True)
class _Count:
    padded: int = 0
    tokens: int = 0


class PaddingCounts:
    """Counts padded tokens, by source line and by what tells them apart. Keeps no tensor."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str | None, int | None], _Count] = {}

    def looks_at(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Whether calls of an op with such arguments say anything of padding."""
        return _padding_index(func, args, kwargs) is not None or _mask_of(func, args, kwargs) is not None

    def look(self, func: Any, args: Any, kwargs: Any, path: str | None, line: int | None) -> None:
        """Count the padded tokens of one call; tensors without values on the CPU are passed over."""
        index = _padding_index(func, args, kwargs)
        with _disable_current_modes(), torch.no_grad():
            if index is not None:
                indices = args[1]
                if _readable(indices):
                    self._add("padding_idx", path, line, int((indices == index).sum()), indices.numel())
                return
            mask = _mask_of(func, args, kwargs)
            if mask is not None and _readable(mask) and mask.dim() >= 2 and mask.shape[-1] > 1:
                hidden = ~mask if mask.dtype is torch.bool else mask <= NEVER
                # A key that no query may look at is padding; what only some may not is causal or local attention.
                keys = hidden.all(dim=-2)
                self._add("attention mask", path, line, int(keys.sum()), keys.numel())

    def found(self) -> tuple[Padding, ...]:
        """What was counted, by line."""
        return tuple(
            Padding(
                told_by="padding_idx" if by == "padding_idx" else "attention mask",
                place=Place(path=path, line=line),
                padded=count.padded,
                tokens=count.tokens,
            )
            for (by, path, line), count in self._counts.items()
        )

    def _add(self, by: str, path: str | None, line: int | None, padded: int, tokens: int) -> None:
        count = self._counts.setdefault((by, path, line), _Count())
        count.padded += padded
        count.tokens += tokens


def _readable(tensor: Any) -> bool:
    return type(tensor) is torch.Tensor and tensor.device.type == "cpu" and 0 < tensor.numel() <= MOST_ELEMENTS


def _padding_index(func: Any, args: Any, kwargs: Any) -> int | None:
    """The index that stands for padding in an embedding's call; None where it is no such call, or has none."""
    if func._schema.name not in _EMBEDDINGS or len(args) < 2:
        return None
    index = args[2] if len(args) > 2 else kwargs.get("padding_idx", -1)
    return index if isinstance(index, int) and index >= 0 else None


def _mask_of(func: Any, args: Any, kwargs: Any) -> Any:
    at = _MASK_AT.get(func._schema.name)
    if at is None:
        return None
    if len(args) > at:
        return args[at]
    return next((kwargs[name] for name in _MASK_NAMES if kwargs.get(name) is not None), None)
