"""Seeing every leaf aten op of a step without changing what the user's code does."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch
from torch._C import (
    DispatchKey,
    _dispatch_has_kernel_for_dispatch_key,
    _dispatch_key_for_device,
    _get_dispatch_stack_at,
    _len_torch_dispatch_stack,
    _parse_dispatch_key,
    _pop_torch_dispatch_stack,
    _push_on_torch_dispatch_stack,
)
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

try:
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
except ImportError:  # torch before 2.7: the mode stays wrapped in torch._disable_dynamo, 0.8 us dearer an op
    CAN_SKIP_FRAMES = False
else:
    CAN_SKIP_FRAMES = True


class _Route(IntEnum):
    PLAIN = 0
    COMPOSITE = 1
    HIGHER_ORDER = 2
    QUERY = 3
    MARKER = 4


_PLAIN = _Route.PLAIN

# Asked of tensor subclasses that compute their own sizes: answers about a tensor, no work and no aten op of a step.
_QUERIES = frozenset(
    {
        "aten::dim",
        "aten::is_contiguous",
        "aten::is_non_overlapping_and_dense",
        "aten::is_strides_like_format",
        "aten::numel",
        "aten::size",
        "aten::storage_offset",
        "aten::stride",
        "aten::sym_is_contiguous",
        "aten::sym_numel",
        "aten::sym_size",
        "aten::sym_storage_offset",
        "aten::sym_stride",
        "prim::device",
        "prim::layout",
    }
)

# What optimizers call the range of their ``zero_grad`` begins with this.
CLEARING = "Optimizer.zero_grad#"

# Higher-order ops whose own kernel is made of aten ops.
_WORKS_ITSELF = frozenset({"flex_attention", "flex_attention_backward", "associative_scan", "map_impl"})
_SUBGRAPHS = (FunctionType, MethodType, partial, torch.nn.Module)

# By id, as hashing an op runs Python code; the list keeps the ids from being used again.
_routes: dict[int, _Route] = {}
_known_ops: list[Any] = []
_plain_types: dict[type, bool] = {}


class OpWatcher(TorchDispatchMode):
    """A dispatch mode that hands each leaf aten op to :meth:`run_op`.

    What reaches ``run_op`` is what a backend kernel executes: composites that inference mode delivers whole are
    decomposed, tensor subclasses and higher-order ops are looked into. Results are bit-identical with and without
    the watcher, since the very same kernels run. Ops of other threads are not seen.

    A subclass implements ``run_op`` and may implement ``run_marker`` and ``missed_op``. Watch with ``start()`` and
    ``stop()`` at any two moments of one thread; ``with`` works too.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self._routes = _routes
        self._inner_seen = False

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Tell torch that user code should not notice this mode."""
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Tell torch.compile to compile as if this mode were absent."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return not CAN_SKIP_FRAMES

    def run_op(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Execute ``func(*args, **kwargs)`` and return its result.

        Args:
            func: the OpOverload.
            args: its positional arguments.
            kwargs: its keyword arguments, a dict.
        """
        raise NotImplementedError

    def run_marker(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Execute the begin (``args`` start with its name) or the end of a range that is marked for profilers."""
        return func(*args, **kwargs)

    def missed_op(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Take note of an op in which no inner op could be seen: on an opaque subclass, or a Triton kernel."""

    def start(self) -> None:
        """Begin to watch this thread."""
        self._routes = _routes
        _push_on_torch_dispatch_stack(self)

    def stop(self) -> None:
        """End watching, also when modes were pushed since ``start``. Does nothing if it is not watching."""
        self._routes = {}  # If this is called from inside an op, torch puts the mode back: it must then be inert.
        self._leave()

    def __enter__(self) -> OpWatcher:
        self.start()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        self.stop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Route one op; the common case is two dict look-ups and a call."""
        if not types and self._routes.get(id(func)) is _PLAIN:
            self._inner_seen = True
            return self.run_op(func, args, kwargs or {})
        return self._route_rest(func, types, args, kwargs or {})

    def _route_rest(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if self._routes is not _routes:
            return func(*args, **kwargs)
        route = _routes.get(id(func))
        if route is None:
            _known_ops.append(func)
            route = _routes[id(func)] = _classify(func)
        foreign = [kind for kind in types if not _is_plain_type(kind)]
        if route is _Route.QUERY:
            return NotImplemented if foreign else func(*args, **kwargs)
        if route is _Route.MARKER:
            return self.run_marker(func, args, kwargs)
        if route is _Route.HIGHER_ORDER:
            return self._run_higher_order(func, args, kwargs)
        if foreign:
            return self._run_subclass(func, types, foreign, args, kwargs)
        if route is _Route.COMPOSITE and not _has_backend_kernel(func, args, kwargs):
            # Not func.decompose: that prefers decompositions in Python, made for tracing, which round otherwise.
            return self._look_inside(func._op_dk, (DispatchKey.CompositeImplicitAutograd, *args), kwargs)
        self._inner_seen = True
        return self.run_op(func, args, kwargs)

    def _run_subclass(self, func: Any, types: Any, foreign: list[Any], args: Any, kwargs: Any) -> Any:
        if _len_torch_dispatch_stack():
            # Another mode stands between the op and the subclass: it must get the op, and hides the inner ones.
            self._inner_seen = True
            return self.run_op(func, args, kwargs)
        self._inner_seen = False
        out: Any = NotImplemented
        for kind in foreign:
            out = self._look_inside(kind.__torch_dispatch__, (func, types, args, kwargs), {})
            if out is not NotImplemented:
                break
        if not self._inner_seen and out is not NotImplemented:
            self.missed_op(func, args, kwargs, out)
        self._inner_seen = True
        return out

    def _run_higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        kernel = func.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
        self._inner_seen = False
        if kernel is None or _len_torch_dispatch_stack() or func._get_overloaded_args(args, kwargs):
            out = func(*args, **kwargs)
        elif func.name() in _WORKS_ITSELF:
            out = self._look_inside(kernel, args, kwargs)
        else:
            # Most of these kernels insist that no mode is on, and do their work in the functions they are given.
            watched = [self._watch_inside(arg) if isinstance(arg, _SUBGRAPHS) else arg for arg in args]
            out = func(*watched, **kwargs)
        if not self._inner_seen:
            self.missed_op(func, args, kwargs, out)
        self._inner_seen = True
        return out

    def _watch_inside(self, subgraph: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            return self._look_inside(subgraph, args, kwargs)

        return run

    def _look_inside(self, run: Any, args: Any, kwargs: Any) -> Any:
        """Call ``run`` with this mode on again (torch takes it off the stack while it handles an op)."""
        _push_on_torch_dispatch_stack(self)
        try:
            return run(*args, **kwargs)
        finally:
            self._leave()

    def _leave(self) -> None:
        above = []
        stack = [_get_dispatch_stack_at(at) for at in range(_len_torch_dispatch_stack())]
        if not any(mode is self for mode in stack):
            return
        while True:
            mode = _pop_torch_dispatch_stack(None)
            if mode is self:
                break
            above.append(mode)
        for mode in reversed(above):
            _push_on_torch_dispatch_stack(mode)


def _classify(func: Any) -> _Route:
    if isinstance(func, HigherOrderOperator):
        return _Route.HIGHER_ORDER
    name = func._schema.name
    if name in _QUERIES:
        return _Route.QUERY
    if name.startswith("profiler::"):  # marks ranges for profilers, as optimizers do around their step
        return _Route.MARKER
    if _dispatch_has_kernel_for_dispatch_key(func.name(), DispatchKey.CompositeImplicitAutograd):
        return _Route.COMPOSITE
    return _Route.PLAIN


def _is_plain_type(kind: type) -> bool:
    """Whether ops on this type are the ops that run: true of Tensor, Parameter, and torch's own tracing tensors.

    A FakeTensor or FunctionalTensor must go on to its mode, and its inner ops are torch's own affair.
    """
    plain = _plain_types.get(kind)
    if plain is None:
        from torch._subclasses.fake_tensor import FakeTensor
        from torch._subclasses.functional_tensor import FunctionalTensor

        plain = kind.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl or issubclass(  # type: ignore[attr-defined]  # untyped in torch
            kind, (FakeTensor, FunctionalTensor)
        )
        _plain_types[kind] = plain
    return plain


_LAYOUT_PREFIX = {
    torch.strided: "",
    torch.sparse_coo: "Sparse",
    torch.sparse_csr: "SparseCsr",
    torch.sparse_csc: "SparseCsr",
    torch.sparse_bsr: "SparseCsr",
    torch.sparse_bsc: "SparseCsr",
    torch._mkldnn: "Mkldnn",  # type: ignore[attr-defined]  # untyped in torch
}


def _has_backend_kernel(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether a composite op has a kernel of its own for its first tensor's backend; the dispatcher then takes that."""
    first = _first_tensor(args)
    if first is None:
        first = _first_tensor(tuple(kwargs.values()))
    if first is None:
        return False
    if first.is_nested:
        prefix = "NestedTensor"
    elif first.is_quantized:
        prefix = "Quantized"
    else:
        prefix = _LAYOUT_PREFIX.get(first.layout, "")
    key = _parse_dispatch_key(prefix + str(_dispatch_key_for_device(first.device.type)))
    return key is not None and _dispatch_has_kernel_for_dispatch_key(func.name(), key)


def _first_tensor(values: Any) -> Any:
    for value in values:
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, (list, tuple)):
            found = _first_tensor(value)
            if found is not None:
                return found
    return None


if CAN_SKIP_FRAMES:
    # Inside a compiled function torch.compile would try to compile this very code, and everything it calls.
    set_code_exec_strategy(
        OpWatcher.__torch_dispatch__.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
    )
