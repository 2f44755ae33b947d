"""Run something of our own inside the user's process as if none of their modes were there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes


@contextmanager
def modes_set_aside(*, grad: bool) -> Iterator[None]:
    """Runs the body without inference mode, autocast, torch.func transforms and anyone's dispatch or function modes.

    The user's modes must neither see our ops nor change them; all are as they were afterwards.

    Args:
        grad: whether autograd records the body's ops.
    """
    with ExitStack() as stack:
        stack.enter_context(_disable_current_modes())
        stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(torch.inference_mode(False))
        if torch._C._functorch.peek_interpreter_stack() is not None:
            stack.enter_context(temporarily_clear_interpreter_stack())
        if torch._C._autograd._top_saved_tensors_default_hooks(False) is not None:
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is))
        stack.enter_context(torch.set_grad_enabled(grad))
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        yield


def _as_it_is(tensor: Any) -> Any:
    return tensor
