"""Which rule costs which op: the user's rules, boundby's by op name, torch's flop formulas, then the op's schema."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from boundby.capture.costs.traffic import compute_dtype, distinct_bytes, tensors_in, written_bytes
from boundby.results.counts import MatmulShape, OpCost, OpKind


@dataclass(frozen=True, slots=True)
class Schema:
    """What an op's signature says: argument names, which are changed in place, which are ``out=``, what it returns."""

    name: str
    base: str
    names: tuple[str, ...]
    changed: frozenset[str]
    outs: frozenset[str]
    is_view: bool
    returns_fresh: bool


@dataclass(slots=True)
class Call:
    """One executed op: the overload, its arguments, its result."""

    func: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]
    out: Any
    schema: Schema

    def arg(self, name: str, default: Any = None) -> Any:
        """The argument called ``name`` in the op's schema, ``default`` where the caller left it out."""
        if name in self.kwargs:
            return self.kwargs[name]
        try:
            index = self.schema.names.index(name)
        except ValueError:
            return default
        return self.args[index] if index < len(self.args) else default

    def named(self) -> list[tuple[str, Any]]:
        """All given arguments with their names."""
        return [*zip(self.schema.names, self.args, strict=False), *self.kwargs.items()]

    def inputs(self, without: Sequence[str] = ()) -> list[torch.Tensor]:
        """The tensors the op reads: all but ``out=`` tensors and the arguments named in ``without``."""
        skip = self.schema.outs
        return [
            t for name, value in self.named() if name not in skip and name not in without for t in tensors_in(value)
        ]

    def changed(self) -> list[torch.Tensor]:
        """The tensors the op changes in place, ``out=`` tensors included."""
        if not self.schema.changed:
            return []
        return [t for name, value in self.named() if name in self.schema.changed for t in tensors_in(value)]

    def outputs(self) -> list[torch.Tensor]:
        """The tensors the op writes: those it changes and those it returns fresh."""
        changed = self.changed()
        if not changed:
            return tensors_in(self.out)
        known = {id(tensor) for tensor in changed}
        if not self.schema.returns_fresh:
            return changed
        return changed + [tensor for tensor in tensors_in(self.out) if id(tensor) not in known]

    @property
    def in_place(self) -> bool:
        """Whether the op changes one of its inputs (``out=`` does not count)."""
        return bool(self.schema.changed - self.schema.outs)


Rule = Callable[[Call], OpCost]

RULES: dict[str, Rule] = {}
_user_rules: dict[Any, Callable[..., int | OpCost]] = {}
_user_data_dependent: set[Any] = set()
_resolved: dict[Any, tuple[Rule, Schema]] = {}
# What is kept by signature, to be emptied when a rule is added.
_kept: weakref.WeakSet[Any] = weakref.WeakSet()

DATA_DEPENDENT: set[str] = set()


def rule(*names: str, data_dependent: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for ops by qualified name without overload (``aten::mm``), their in-place and out forms included.

    Args:
        names: qualified op names.
        data_dependent: whether the cost depends on tensors' values, so that it must not be kept by signature.
    """

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
            if data_dependent:
                DATA_DEPENDENT.add(name)
        return function

    return register


def aten(names: str, prefix: str = "") -> list[str]:
    """Qualified aten op names from names separated by spaces."""
    return [f"aten::{prefix}{name}" for name in names.split()]


def cost_rule(
    op: Any, *, data_dependent: bool = False
) -> Callable[[Callable[..., int | OpCost]], Callable[..., int | OpCost]]:
    """Register the cost of a custom op.

    The decorated function gets the op's arguments and its result as ``out``, and returns the FLOPs of a matmul-class
    op (2 x multiply-accumulates; bytes are then taken from the tensors), or a whole :class:`OpCost`::

        @boundby.cost_rule(torch.ops.mylib.fused_mlp)
        def fused_mlp(x, w, *, out):
            return 2 * x.numel() * w.shape[1]

    Args:
        op: an OpOverloadPacket (``torch.ops.mylib.op``), one of its overloads, or a higher-order op.
        data_dependent: whether the cost depends on tensors' values; else it is worked out once for the same sizes.

    Raises:
        TypeError: ``op`` is none of these.
    """
    if not isinstance(op, (OpOverload, OpOverloadPacket, HigherOrderOperator)):
        raise TypeError(f"cost_rule expects an op such as torch.ops.mylib.op or torch.ops.mylib.op.default, not {op!r}")

    def register(function: Callable[..., int | OpCost]) -> Callable[..., int | OpCost]:
        _user_rules[op] = function
        if data_dependent:
            _user_data_dependent.add(op)
        _resolved.clear()
        for one in _kept:
            one.forget()
        return function

    return register


def forget_on_new_rule(keeper: Any) -> None:
    """Have ``keeper.forget()`` called whenever a rule is registered, for as long as ``keeper`` lives."""
    _kept.add(keeper)


def read_schema(func: Any) -> Schema:
    """The facts of an op's schema that costs depend on."""
    schema = func._schema
    changed = set()
    outs = set()
    for argument in schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            changed.add(argument.name)
            if argument.is_out:
                outs.add(argument.name)
    fresh = any(result.alias_info is None for result in schema.returns)
    is_view = not changed and any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    name = schema.name
    base = name[:-1] if changed and not outs and name.endswith("_") and not name.endswith("__") else name
    return Schema(
        name=name,
        base=base,
        names=tuple(argument.name for argument in schema.arguments),
        changed=frozenset(changed),
        outs=frozenset(outs),
        is_view=is_view,
        returns_fresh=fresh,
    )


def cost_of(func: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> OpCost:
    """The cost of one executed op.

    Args:
        func: the op: an OpOverload, or a higher-order op.
        args: its positional arguments.
        kwargs: its keyword arguments.
        out: its result.

    Returns:
        The cost. ``modelled`` is False where no rule is known; bytes are then those of its tensors.
    """
    if isinstance(func, HigherOrderOperator):
        return _higher_order_cost(func, args, kwargs, out)
    found = _resolved.get(func)
    if found is None:
        found = _resolved[func] = _resolve(func)
    apply, schema = found
    return apply(Call(func, args, kwargs, out, schema))


def is_data_dependent(func: Any) -> bool:
    """Whether an op's cost depends on the values of its tensors, or on a result's shape that they decide."""
    if isinstance(func, HigherOrderOperator):
        return True
    if torch.Tag.dynamic_output_shape in func.tags:
        return True
    if func in _user_data_dependent or func._overloadpacket in _user_data_dependent:
        return True
    schema = read_schema(func)
    return schema.name in DATA_DEPENDENT or schema.base in DATA_DEPENDENT


def _resolve(func: Any) -> tuple[Rule, Schema]:
    schema = read_schema(func)
    packet = func._overloadpacket
    custom = _user_rules.get(func) or _user_rules.get(packet)
    if custom is not None:
        return _from_user(custom), schema
    known = RULES.get(schema.name) or RULES.get(schema.base)
    if known is not None:
        return known, schema
    known = _by_structure(func, schema)
    if known is None and func.namespace in ("aten", "prims"):
        # Some overloads lack the tag that others of the same op have; torch's primitive ops, which forward-mode
        # derivatives run, have the names of the aten ops they stand for.
        name = schema.base.rpartition("::")[2]
        known = RULES.get(f"aten::{name}") or _by_other_overloads(name)
    return known or _unknown, schema


def _by_structure(func: Any, schema: Schema) -> Rule | None:
    if schema.is_view or torch.Tag.inplace_view in func.tags:
        return view_cost
    if func.namespace != "aten":
        return None
    if torch.Tag.pointwise in func.tags:
        return RULES["pointwise"]
    if torch.Tag.reduction in func.tags:
        return RULES["reduction"]
    if torch.Tag.view_copy in func.tags or schema.name.endswith("_copy"):
        return RULES["copy"]
    return None


def _by_other_overloads(name: str) -> Rule | None:
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return None
    tags = {tag for name in packet.overloads() for tag in getattr(packet, name).tags}
    if torch.Tag.pointwise in tags:
        return RULES["pointwise"]
    return RULES["reduction"] if torch.Tag.reduction in tags else None


def _from_user(function: Callable[..., int | OpCost]) -> Rule:
    def apply(call: Call) -> OpCost:
        answer = function(*call.args, **call.kwargs, out=call.out)
        if isinstance(answer, OpCost):
            return answer
        return op_cost(call, "other", matmul_flops=int(answer))

    return apply


def _unknown(call: Call) -> OpCost:
    """An op without a rule: torch's own flop formula where one is registered (looked up late), else unmodelled."""
    from torch.utils.flop_counter import flop_registry

    formula = flop_registry.get(call.func._overloadpacket)
    if formula is None:
        return op_cost(call, "other", modelled=False)
    return op_cost(call, "other", matmul_flops=int(formula(*call.args, **call.kwargs, out_val=call.out)))


def _higher_order_cost(func: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> OpCost:
    custom = _user_rules.get(func)
    if custom is not None:
        answer = custom(*args, **kwargs, out=out)
        if isinstance(answer, OpCost):
            return answer
        flops = int(answer)
        return OpCost(kind="other", matmul_flops=flops, causal_matmul_flops=flops)
    return OpCost(
        kind="other",
        bytes_read=distinct_bytes(tensors_in([*args, *kwargs.values()])),
        bytes_written=written_bytes(tensors_in(out)),
        modelled=False,
    )


def view_cost(call: Call) -> OpCost:
    """A view or other change of metadata."""
    return OpCost(kind="view", launches=0, dtype=compute_dtype(tensors_in(call.out), ()))


def op_cost(
    call: Call,
    kind: OpKind,
    *,
    reads: Sequence[torch.Tensor] | None = None,
    writes: Sequence[torch.Tensor] | None = None,
    read_bytes: int | None = None,
    written: int | None = None,
    matmul_flops: int = 0,
    causal_matmul_flops: int | None = None,
    pointwise_flops: int = 0,
    function: str | None = None,
    function_elements: int = 0,
    matmul_shape: MatmulShape | None = None,
    modelled: bool = True,
    dtype: str | None = None,
    indexed_read: int = 0,
    indexed_written: int = 0,
) -> OpCost:
    """An :class:`OpCost` with what is not given taken from the call's tensors.

    Args:
        call: the executed op.
        kind: its class.
        reads: the tensors it reads (default: all inputs).
        writes: the tensors it writes (default: those changed or returned).
        read_bytes: bytes read, where no list of tensors says it.
        written: bytes written, likewise.
        matmul_flops: 2 x multiply-accumulates.
        causal_matmul_flops: the same with masked pairs left out (default: all).
        pointwise_flops: one an output element.
        function: the scalar function that may bind it.
        function_elements: elements through that function.
        matmul_shape: the single product's shape.
        modelled: whether a rule covers the op.
        dtype: the compute dtype (default: from the tensors).
        indexed_read: of the bytes read, those that values of indices or masks decide.
        indexed_written: of the bytes written, likewise.
    """
    inputs = call.inputs() if reads is None else list(reads)
    outputs = call.outputs() if writes is None else list(writes)
    return OpCost(
        kind=kind,
        matmul_flops=matmul_flops,
        causal_matmul_flops=matmul_flops if causal_matmul_flops is None else causal_matmul_flops,
        pointwise_flops=pointwise_flops,
        bytes_read=distinct_bytes(inputs) if read_bytes is None else read_bytes,
        bytes_written=written_bytes(outputs) if written is None else written,
        function=function,
        function_elements=function_elements,
        dtype=compute_dtype(inputs, outputs) if dtype is None else dtype,
        matmul_shape=matmul_shape,
        modelled=modelled,
        indexed_bytes_read=indexed_read,
        indexed_bytes_written=indexed_written,
    )
