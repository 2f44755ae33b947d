"""Which results of a step are compared: the first numbers of the first tensor in what it returned."""

from __future__ import annotations

from typing import Any

# Steps whose losses or outputs are told: enough to see where they part, few enough to cost nothing.
COMPARED_STEPS = 200
OUTPUT_ELEMENTS = 2048


def first_tensor(value: Any) -> Any:
    """The first tensor with any numbers in it, in a tensor, mapping or sequence; None without one."""
    import torch

    if torch.is_tensor(value):
        return value if value.numel() else None
    if hasattr(value, "values") and callable(value.values):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return next((found for one in value if (found := first_tensor(one)) is not None), None)
    return None


def first_numbers(value: Any) -> list[float] | None:
    """The first numbers of the first tensor in ``value``; None without one."""
    tensor = first_tensor(value)
    if tensor is None:
        return None
    numbers: list[float] = tensor.detach().reshape(-1)[:OUTPUT_ELEMENTS].double().tolist()
    return numbers


def torch_seed() -> int:
    """The seed of torch's numbers on the CPU: drawn anew in each process unless the script sets it."""
    import torch

    return torch.initial_seed()
