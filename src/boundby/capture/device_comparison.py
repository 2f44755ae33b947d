"""Where meta tensors run other ops than a real device does.

Which op a function runs is decided above the dispatcher, in C++, by the device of its tensors: a recurrent layer on
meta is a loop of products, on a CPU one op. So each distinct call on meta tensors is made once more, on fake tensors
that say they are on the real device, and the ops of both are compared. Fake tensors have no data, so this takes no
memory. What Python code decides by looking at a device itself stays unknown, but for the case named here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from boundby.capture.costs import CostCache
from boundby.capture.module_tree import ModuleCalls
from boundby.capture.watcher import OpWatcher
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.op_names import op_name
from boundby.results.units import format_count, format_ratio

_SHOWN = 4
# Calls that need the graph, or the very tensor, they are made on; none of them computes anything but backward.
_NOT_COMPARED = frozenset(
    {
        *("backward", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "requires_grad_"),
        *("storage", "untyped_storage", "data_ptr", "grad"),
        *("__get__", "__set__", "__delete__", "__repr__", "__format__", "__hash__", "__deepcopy__", "__reduce_ex__"),
    }
)
_ATTENTION = torch.nn.functional.multi_head_attention_forward
# Ops that keep a buffer for backward whose size their kernel alone knows.
OWN_BUFFERS = frozenset({"aten::mkldnn_rnn_layer", "aten::_cudnn_rnn", "aten::miopen_rnn"})


def real_device() -> torch.device:
    """The device that a model on meta would run on here: the accelerator, or the CPU where there is none."""
    if torch.accelerator.is_available():
        found = torch.accelerator.current_accelerator()
        if found is not None:
            return torch.device(found.type)
    return torch.device("cpu")


class _Lister(OpWatcher):
    """Lists the ops that do work, with their costs."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: Counter[str] = Counter()
        self.matmul_flops = 0
        self.bytes_moved = 0
        self._costs = CostCache()

    def run_op(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the op and note it."""
        out = func(*args, **kwargs)
        cost, _ = self._costs.lookup(func, args, kwargs, out)
        if cost.launches:
            self.ops[func._schema.name] += 1
            self.matmul_flops += cost.matmul_flops
            self.bytes_moved += cost.bytes_read + cost.bytes_written
        return out


@dataclass(slots=True)
class _Compared:
    """One distinct call: where it was made, and what it runs on meta and on the device, forward and backward.

    None where it could not be run.
    """

    name: str
    on_meta: tuple[_Lister, _Lister] | None
    on_device: tuple[_Lister, _Lister] | None
    places: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Difference:
    """A function whose calls run other ops on the device; numbers first of meta, then of the device."""

    places: Counter[str] = field(default_factory=Counter)
    ops: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    flops: list[int] = field(default_factory=lambda: [0, 0])
    moved: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, one: _Compared, parts: list[tuple[_Lister, _Lister]]) -> None:
        """Add a distinct call that differs."""
        calls = one.places.total()
        self.places.update(one.places)
        for meta, real in parts:
            for side, lister in enumerate((meta, real)):
                for name, times in lister.ops.items():
                    if meta.ops[name] != real.ops[name]:
                        self.ops[side][name] += calls * times
                self.flops[side] += calls * lister.matmul_flops
                self.moved[side] += calls * lister.bytes_moved


class DeviceComparison(TorchFunctionMode):
    """Compares the ops of each distinct call on meta tensors with those that the real device would run.

    On while a callable runs on meta tensors. What the callable gets back is what it would get anyway.
    """

    def __init__(self, modules: ModuleCalls, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self._modules = modules
        self._fake = FakeTensorMode()
        self._seen: dict[Any, _Compared] = {}
        self._fast_paths: Counter[str] = Counter()
        self._in_transforms = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compare the call where its like was not compared yet, then make it."""
        kwargs = kwargs or {}
        if _is_comparable(func):
            leaves, structure = tree_flatten((args, kwargs))
            if not any(isinstance(leaf, torch.Tensor) and leaf.is_meta for leaf in leaves):
                pass
            elif torch._C._functorch.peek_interpreter_stack() is not None:
                self._in_transforms += 1
            else:
                self._compare(func, leaves, structure)
        return func(*args, **kwargs)

    def _compare(self, func: Any, leaves: list[Any], structure: Any) -> None:
        key = (func, str(structure), *self._modes(), *map(_described, leaves), *_first_places(leaves))
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = self._run_both(func, leaves, structure)
        where = self._modules.now(2).path()
        found.places[where] += 1
        if func is _ATTENTION and _without_gradients(leaves):
            self._fast_paths[where] += 1

    def _modes(self) -> tuple[Any, ...]:
        kind = self.device.type
        casts = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)
        return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), casts

    def _run_both(self, func: Any, leaves: list[Any], structure: Any) -> _Compared:
        name = resolve_name(func) or getattr(func, "__name__", tr("a function"))
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            on_meta = _listed(func, leaves, structure, torch.device("meta"))
            with self._fake:
                on_device = _listed(func, leaves, structure, self.device)
        return _Compared(name, on_meta, on_device)

    def findings(self, *, backward: bool) -> tuple[Finding, ...]:
        """What differs and what could not be compared.

        Args:
            backward: whether the backward pass is among what was counted.
        """
        device = self.device.type
        advice = tr(
            "To count what {device} runs, count on fake tensors ({command}).",
            device=device,
            command="boundby count --fake",
        )
        differences: dict[str, _Difference] = {}
        failed: Counter[str] = Counter()
        for one in self._seen.values():
            if one.on_meta is None or one.on_device is None:
                failed[one.name] += one.places.total()
                continue
            parts = list(zip(one.on_meta, one.on_device, strict=True))[: 1 + backward]
            if any(meta.ops != real.ops for meta, real in parts):
                differences.setdefault(one.name, _Difference()).add(one, parts)
        messages = [_difference_text(name, one, device) for name, one in differences.items()]
        if self._fast_paths:
            messages.append(
                tr(
                    "{module} without gradients ({places}) may run as one op on {device}, which it never does on meta",
                    module="torch.nn.MultiheadAttention",
                    places=_places_text(self._fast_paths),
                    device=device,
                )
            )
        found = [Finding(code="meta-differs", message=message, advice=advice) for message in messages]
        if self._in_transforms:
            failed[tr("what ran inside {module} transforms", module="torch.func")] = self._in_transforms
        if failed:
            names = [
                trn("{name} ({count} call)", "{name} ({count} calls)", calls, name=name)
                for name, calls in failed.most_common()
            ]
            found.append(
                Finding(
                    code="meta-unchecked",
                    message=tr("could not compare with {device}: {names}", device=device, names=listed_text(names)),
                    advice=tr("Their counts are those of meta tensors; another device may run other ops."),
                )
            )
        return tuple(found)


def _is_comparable(func: Any) -> bool:
    """Whether a call may be made once more: a function of torch's that computes something."""
    if getattr(func, "__name__", "__get__") in _NOT_COMPARED:
        return False
    home = getattr(func, "__module__", None)
    return home is None or home.partition(".")[0] == "torch"


def _described(leaf: Any) -> Any:
    """What of an argument the choice of ops may depend on, as something hashable."""
    if isinstance(leaf, torch.Tensor):
        return (*leaf.shape, leaf.layout, leaf.dtype, leaf.requires_grad, leaf.is_leaf, _strides(leaf))
    try:
        hash(leaf)
    except TypeError:
        return repr(leaf)
    return type(leaf), leaf


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.stride()) if tensor.layout is torch.strided else ()


def _first_places(leaves: list[Any]) -> list[int]:
    """For each tensor where it stands first, so that calls with the same tensor twice are told apart."""
    ids = [id(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [ids.index(one) for one in ids]


def _listed(func: Any, leaves: list[Any], structure: Any, device: torch.device) -> tuple[_Lister, _Lister] | None:
    """The ops of a call, forward and backward, on tensors like its own on ``device``; None where that raises."""
    forward, backward = _Lister(), _Lister()
    try:
        made: dict[int, torch.Tensor] = {}
        roots: list[torch.Tensor] = []
        copies = [
            made.setdefault(id(leaf), _like(leaf, device, roots))
            if isinstance(leaf, torch.Tensor)
            else device
            if _is_meta_device(leaf)
            else leaf
            for leaf in leaves
        ]
        args, kwargs = tree_unflatten(copies, structure)
        # Hooks of the user's, of checkpointing for one, must not see what is saved here.
        with torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is), forward:
            out = func(*args, **kwargs)
        ends = [one for one in tree_leaves(out) if isinstance(one, torch.Tensor) and one.grad_fn is not None]
        if ends and roots:
            starts = [torch.empty_like(end) for end in ends]
            with backward:
                torch.autograd.grad(ends, roots, starts, allow_unused=True)
    except Exception:  # Whatever a function may raise on tensors that hold nothing: the call is told as not compared.
        return None
    return forward, backward


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _like(tensor: torch.Tensor, device: torch.device, roots: list[torch.Tensor]) -> torch.Tensor:
    """A tensor of the same make on ``device`` that holds nothing; those that need gradients are added to ``roots``."""
    where = device if tensor.is_meta else tensor.device
    if tensor.layout is not torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise TypeError("only plain tensors can be stood in for")
    fresh = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=where)
    if not tensor.requires_grad:
        return fresh
    fresh.requires_grad_()
    roots.append(fresh)
    if tensor.is_leaf:
        return fresh
    with torch.enable_grad():
        return fresh.clone()  # a result of something, which ops may change in place


def _is_meta_device(value: Any) -> bool:
    return value == "meta" if isinstance(value, str) else isinstance(value, torch.device) and value.type == "meta"


def _without_gradients(leaves: list[Any]) -> bool:
    return not torch.is_grad_enabled() or not any(
        isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves
    )


def _difference_text(name: str, one: _Difference, device: str) -> str:
    what = trn(
        "{name} ({count} call; {places})",
        "{name} ({count} calls; {places})",
        one.places.total(),
        name=name,
        places=_places_text(one.places),
    )
    meta, real = (listed_text([f"{times} {op_name(op)}" for op, times in ops.most_common()]) for ops in one.ops)
    flops = _compared_text(one.flops, tr("matmul FLOPs"))
    moved = _compared_text(one.moved, tr("bytes"))
    buffers = [op for op in one.ops[1] if op in OWN_BUFFERS]
    if buffers:
        moved = tr(
            "{moved} (without the workspace of {ops}, whose size only its kernel knows)",
            moved=moved,
            ops=listed_text([op_name(op) for op in buffers]),
        )
    told = {"what": what, "device": device, "flops": flops, "moved": moved}
    if meta and real:
        return tr(
            "{what} runs {meta} on meta where {device} runs {real}; on meta {flops} and {moved}",
            meta=meta,
            real=real,
            **told,
        )
    if meta:
        return tr("{what} runs {meta} on meta that {device} does not; on meta {flops} and {moved}", meta=meta, **told)
    return tr("{what} lacks {real} on meta that {device} runs; on meta {flops} and {moved}", real=real, **told)


def _compared_text(sides: list[int], what: str) -> str:
    meta, real = sides
    if meta == real:
        return tr("as many {what}", what=what)
    if not meta or not real:
        return tr("{meta} {what} in place of {real}", meta=format_count(meta), what=what, real=format_count(real))
    return tr("{ratio} the {what}", ratio=format_ratio(meta / real), what=what)


def _places_text(places: Iterable[str]) -> str:
    names = [tr("in {name}", name=name) if name else tr("outside modules") for name in places]
    if len(names) == 1:
        return names[0]
    return trn("{first} and {count} more place", "{first} and {count} more places", len(names) - 1, first=names[0])


def listed_text(names: list[str]) -> str:
    shown = tr(", ").join(names[:_SHOWN])
    more = len(names) - _SHOWN
    return trn("{names} and {count} more", "{names} and {count} more", more, names=shown) if more > 0 else shown
