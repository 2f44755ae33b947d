"""Data that probes work on: random from a generator of our own, already faulted in, the same on every run."""

from __future__ import annotations

import torch

SEED = 20_220_101
PAGE_BYTES = 4096
LINE_BYTES = 64

DTYPES: dict[str, torch.dtype] = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int64": torch.int64,
}


def placed(vector: torch.Tensor, start: int) -> torch.Tensor:
    """A copy of a contiguous tensor, in memory of its own that begins ``start`` bytes into a page.

    A processor first tells a load from an earlier store by the place within a page alone, and a load that comes some
    lines after a store waits for it in vain. So what an op takes depends on where its result lies within a page, behind
    what it reads; and whether tensors allocated one after the other lie so depends on all that went before.

    Args:
        vector: of any shape and dtype, on the CPU.
        start: a multiple of 64, below 4096.

    Raises:
        ValueError: for another start.
    """
    if start % LINE_BYTES or not 0 <= start < PAGE_BYTES:
        raise ValueError(f"a start is a multiple of {LINE_BYTES} below {PAGE_BYTES}, not {start}")
    memory = bytearray(vector.numel() * vector.element_size() + PAGE_BYTES)
    begin = (start - torch.frombuffer(memory, dtype=torch.uint8).data_ptr()) % PAGE_BYTES
    flat = torch.frombuffer(memory, dtype=vector.dtype, count=vector.numel(), offset=begin)
    # No view of another tensor and at the start of its storage: torch.compile would compile for it as one that is not.
    copy = torch.empty(0, dtype=vector.dtype, device="cpu")
    copy.set_(flat.untyped_storage(), 0, vector.shape, vector.stride())
    return copy.copy_(vector)


class DataSource:
    """Makes tensors on the CPU without touching the global random generators.

    Zeros multiply faster than data on some hardware, so no probe works on them.
    """

    def __init__(self) -> None:
        self._generator = torch.Generator(device="cpu").manual_seed(SEED)
        self._large: dict[str, torch.Tensor] = {}

    @property
    def generator(self) -> torch.Generator:
        """The generator all data comes from, for probes that time random ops."""
        return self._generator

    def normal(self, *shape: int, dtype: str = "fp32", scale: float = 1.0) -> torch.Tensor:
        """Normal numbers of mean 0 and the standard deviation ``scale``; shape ``shape``."""
        values = torch.empty(shape, dtype=torch.float32, device="cpu")
        values.normal_(0.0, scale, generator=self._generator)
        return values.to(DTYPES[dtype])

    def uniform(self, *shape: int, low: float, high: float, dtype: str = "fp32") -> torch.Tensor:
        """Numbers evenly spread from ``low`` to ``high``; shape ``shape``."""
        values = torch.empty(shape, dtype=torch.float32, device="cpu")
        values.uniform_(low, high, generator=self._generator)
        return values.to(DTYPES[dtype])

    def integers(self, *shape: int, below: int) -> torch.Tensor:
        """64-bit integers from 0 to ``below`` - 1; shape ``shape``."""
        values = torch.empty(shape, dtype=torch.int64, device="cpu")
        values.random_(0, below, generator=self._generator)
        return values

    def large(self, elements: int, *, dtype: str = "fp32") -> torch.Tensor:
        """A vector of ``elements`` numbers near 1, a short random piece repeated: quick to fill where it is large.

        Calls for one dtype share memory as far as it goes, since what is measured by it needs no numbers of its own.
        """
        known = self._large.get(dtype)
        if known is not None and known.numel() >= elements:
            return known[:elements]
        piece = self.uniform(min(elements, 1 << 18), low=0.5, high=1.5, dtype=dtype)
        whole = torch.empty(elements, dtype=DTYPES[dtype], device="cpu")
        for start in range(0, elements, piece.numel()):
            part = whole[start : start + piece.numel()]
            part.copy_(piece[: part.numel()])
        self._large[dtype] = whole
        return whole
