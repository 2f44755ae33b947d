"""What a compiled region would be op by op: its graph as torch.compile took it from the user's code, run on nothing.

The graph is that which dynamo hands to the compiler, still in the user's operations, before decompositions and fusion.
It is found where torch keeps it anyway, and run on fake tensors, which have shapes and no memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch._C import _current_autograd_node
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from boundby.capture.costs import CostCache
from boundby.capture.watcher import OpWatcher
from boundby.results.counts import EagerEquivalent, OpCost

Pair = tuple[EagerEquivalent | None, EagerEquivalent | None]
_UNKNOWN: Pair = (None, None)
_MOST_FRAMES = 40


class EagerEquivalents:
    """The eager equivalents of compiled regions, forward and backward, worked out when a forward region runs.

    A backward region's is that of the forward that ran last, where one compiled function serves several sizes.
    """

    def __init__(self, costs: CostCache) -> None:
        self._costs = costs
        self._known: dict[Any, Pair] = {}
        # Of the class of autograd nodes that a compiled forward makes: what its backward would be.
        self._backwards: weakref.WeakKeyDictionary[type, EagerEquivalent | None] = weakref.WeakKeyDictionary()

    def of(self, graph: Any, frame: FrameType | None, key: Any) -> EagerEquivalent | None:
        """The eager equivalent of the compiled graph that is being called; None where it cannot be told.

        Args:
            graph: the compiled graph.
            frame: the frame that called it.
            key: equal for calls of the same graph on the same sizes.
        """
        owner, entry, function = _callers(frame)
        if _says(graph, "is_backward", default=False):
            return None if owner is None else self._backwards.get(owner)
        trains = is_training(graph)
        found = self._known.get(key)
        if found is None:
            module = getattr(getattr(function, "named_parameters", None), "__self__", None)
            inputs = None if entry is None else entry.f_locals.get("runtime_args")
            found = _UNKNOWN
            if isinstance(module, torch.fx.GraphModule) and _is_flat(module) and isinstance(inputs, tuple):
                found = self._run(module, inputs, trains=trains)
            self._known[key] = found
        if trains and owner is not None:
            self._backwards[owner] = found[1]
        return found[0]

    def _run(self, module: torch.fx.GraphModule, inputs: tuple[Any, ...], *, trains: bool) -> Pair:
        tally = _Tally(self._costs)
        try:
            with _apart():
                arguments = [_like(one, trains=trains) for one in inputs]
                with torch.set_grad_enabled(trains), tally:
                    out = module.forward(*arguments)  # not by a call, which global module hooks would see
                if trains:
                    _run_backward(arguments, out, tally)
        except Exception:  # What torch would not run on fake tensors is unknown; the user's step has run already.
            return _UNKNOWN
        return tally.total(backward=False), tally.total(backward=True)


def is_training(graph: Any) -> bool:
    """Whether a compiled graph is the forward half of a training step."""
    return not (_says(graph, "is_inference", default=True) or _says(graph, "is_backward", default=True))


def _says(graph: Any, name: str, *, default: bool) -> bool:
    return bool((getattr(graph, "fx_kwargs", None) or {}).get(name, default))


def _is_flat(module: torch.fx.GraphModule) -> bool:
    """Whether a graph calls no module, as it does since torch inlines them."""
    return all(node.op != "call_module" for node in module.graph.nodes)


class _Tally(OpWatcher):
    """Adds up what ops cost, those of backward apart."""

    def __init__(self, costs: CostCache) -> None:
        super().__init__()
        self._costs = costs
        self._found: dict[bool, list[OpCost]] = {False: [], True: []}
        self._unmodelled: set[bool] = set()

    def run_op(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the op and note its cost."""
        out = func(*args, **kwargs)
        self._note(self._costs.lookup(func, args, kwargs, out)[0])
        return out

    def missed_op(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """An op that is not seen inside."""
        self._note(self._costs.lookup(func, args, kwargs, out)[0])

    def _note(self, cost: OpCost) -> None:
        backward = _current_autograd_node() is not None
        self._found[backward].append(cost)
        if not cost.modelled:
            self._unmodelled.add(backward)

    def total(self, *, backward: bool) -> EagerEquivalent | None:
        """The sums; None where some op has no cost."""
        if backward in self._unmodelled:
            return None
        found = self._found[backward]
        return EagerEquivalent(
            ops=len(found),
            launches=sum(one.launches for one in found),
            matmul_flops=sum(one.matmul_flops for one in found),
            causal_matmul_flops=sum(one.causal_matmul_flops for one in found),
            pointwise_flops=sum(one.pointwise_flops for one in found),
            bytes_read=sum(one.bytes_read for one in found),
            bytes_written=sum(one.bytes_written for one in found),
        )


@contextmanager
def _apart() -> Iterator[None]:
    """Away from all modes that are on, with fake tensors, and with the state of random numbers as it was after.

    Checkpoints stop to recompute as soon as they have what they need, which torch switches off in graphs.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.checkpoint import set_checkpoint_early_stop

    state = torch.get_rng_state()
    try:
        with (
            _disable_current_modes(),
            torch.inference_mode(False),
            FakeTensorMode(allow_non_fake_inputs=True),
            set_checkpoint_early_stop(True),
        ):
            yield
    finally:
        torch.set_rng_state(state)


def _run_backward(arguments: list[Any], out: Any, tally: _Tally) -> None:
    results = [one for one in tree_leaves(out) if isinstance(one, torch.Tensor) and one.requires_grad]
    wanted = [one for one in arguments if isinstance(one, torch.Tensor) and one.requires_grad]
    if not results or not wanted:
        return
    gradients = [torch.empty_like(one) for one in results]
    with torch._C._DisableAutocast(), tally:
        torch.autograd.grad(results, wanted, gradients, allow_unused=True)


def _like(value: Any, *, trains: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout is not torch.strided or type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise TypeError(f"no stand-in for a {type(value).__name__}")
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.requires_grad_(trains and value.requires_grad)


def _callers(frame: FrameType | None) -> tuple[type | None, FrameType | None, Any]:
    """Of a call of a compiled graph: the class of its autograd nodes, the frame of its entry, and that function.

    The entry is AOTAutograd's function with the module's own parameters as methods; the frame that called it holds it.
    """
    owner: type | None = None
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        code = frame.f_code
        if owner is None and "CompiledFunction" in code.co_freevars:
            owner = frame.f_locals.get("CompiledFunction")
        elif code.co_name == "forward" and code.co_filename.endswith("aot_autograd.py"):
            above = frame.f_back
            function = None if above is None or above.f_code.co_name != "_fn" else above.f_locals.get("fn")
            return owner, frame, function if getattr(function, "__code__", None) is code else None
        frame = frame.f_back
    return owner, None, None
