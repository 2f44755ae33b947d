"""Which module each op belongs to, as a tree of calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType

import torch
from torch.nn.parameter import is_lazy

from boundby.capture.saved import SavedTensors, storages_of
from boundby.results.counts import GroupCounts, Unmodelled
from boundby.results.module_tree import ModuleNode

_MODULE_CALL = torch.nn.Module._wrapped_call_impl.__code__
_frame_at = sys._getframe


class CalledModule:
    """A module as called from one parent. The root has none and stands for the whole call."""

    __slots__ = ("calls", "children", "module", "name", "names", "parent")

    def __init__(self, module: torch.nn.Module | None, parent: CalledModule | None, name: str) -> None:
        self.module = module
        self.parent = parent
        self.name = name
        self.calls = 0
        self.children: dict[int, CalledModule] = {}
        self.names: dict[int, str] | None = None

    def name_of(self, module: torch.nn.Module) -> str | None:
        """The qualified name that ``module`` has inside this one, the first where it has several; None outside it."""
        if self.module is None:
            return None
        name = self._names().get(id(module))
        if name is None:
            # A module made, or put in, since.
            self.names = None
            name = self._names().get(id(module))
        return name

    def _names(self) -> dict[int, str]:
        if self.names is None:
            self.names = {}
            for name, module in self.module.named_modules() if self.module is not None else ():
                self.names[id(module)] = name
        return self.names

    def path(self) -> str:
        """The qualified name from the outermost module; of that module itself its own name; empty for the root."""
        names = [node.name for node in self.above() if node.parent is not None]
        return ".".join(reversed(names[:-1] or names))

    def above(self) -> Iterator[CalledModule]:
        """This node and those it was called from."""
        node: CalledModule | None = self
        while node is not None:
            yield node
            node = node.parent


class ModuleCalls:
    """Finds the called module of the op being dispatched from the Python frames of this thread.

    Hooks would find calls without ops too, but they change what torch.compile compiles.
    """

    def __init__(self) -> None:
        self.root = CalledModule(None, None, "")
        self._homes: dict[int, CalledModule] = {}
        # Of frames of module calls, by id. A frame that was seen is marked by turning off its line events, which
        # nobody traces in torch's own code: a new frame at the address of an old one lacks the mark.
        self._frames: dict[int, CalledModule] = {}

    def now(self, depth: int = 1, *, again: bool = False) -> CalledModule:
        """The innermost module being called, below the modules that called it.

        Args:
            depth: frames above this call to begin at.
            again: whether forward is being run again inside backward; such calls are not counted.
        """
        frame: FrameType | None = _frame_at(depth)
        calls: list[FrameType] = []
        node = self.root
        while frame is not None:
            if frame.f_code is _MODULE_CALL:
                known = None if frame.f_trace_lines else self._frames.get(id(frame))
                if known is not None:
                    node = known
                    break
                calls.append(frame)
            frame = frame.f_back
        for call in reversed(calls):
            node = self._called(node, call.f_locals["self"], again)
            call.f_trace_lines = False
            self._frames[id(call)] = node
        return node

    def _called(self, parent: CalledModule, module: torch.nn.Module, again: bool) -> CalledModule:
        node = self._find(parent, module, again)
        if not again:
            node.calls += 1
        return node

    def _find(self, parent: CalledModule, module: torch.nn.Module, again: bool) -> CalledModule:
        for node in parent.above():
            if node.module is module:  # It calls itself.
                return node
        home = self._homes.get(id(module))
        if again and parent is self.root and home is not None:
            # Backward stands outside the modules that called this one in forward.
            return home
        node = parent.children.get(id(module)) or self._place(parent, module)
        self._homes.setdefault(id(module), node)
        return node

    def _place(self, parent: CalledModule, module: torch.nn.Module) -> CalledModule:
        inside = parent.name_of(module)
        if inside is None:
            names = (name for one in parent.above() if (name := one.name_of(module)) is not None)
            return _add(parent, module, next(names, f"({type(module).__name__})"))
        node = parent
        *containers, last = inside.split(".")
        for at, part in enumerate(containers, start=1):
            assert parent.module is not None
            between = parent.module.get_submodule(".".join(containers[:at]))
            node = node.children.get(id(between)) or _add(node, between, part)
        return _add(node, module, last)

    def finish(self) -> None:
        """Add the modules that were never called, in the order in which the modules define them."""
        for node in list(self.root.children.values()):
            self._complete(node)

    def _complete(self, node: CalledModule) -> None:
        assert node.module is not None
        called = node.children
        order: dict[int, CalledModule] = {}
        for name, child in node.module.named_children():
            key = id(child)
            if key in called:
                order[key] = called[key]
            elif key not in self._homes:
                order[key] = self._homes[key] = CalledModule(child, node, name)
        order.update((key, child) for key, child in called.items() if key not in order)
        node.children = order
        for child_node in order.values():
            self._complete(child_node)


def _add(parent: CalledModule, module: torch.nn.Module, name: str) -> CalledModule:
    if parent.parent is None:
        name = type(module).__name__
    taken = {child.name for child in parent.children.values()}
    if name in taken:
        name = next(f"{name} #{number}" for number in range(2, len(taken) + 2) if f"{name} #{number}" not in taken)
    node = parent.children[id(module)] = CalledModule(module, parent, name)
    return node


class OwnedSavedTensors(SavedTensors):
    """Saved tensors, and for each storage the earliest autograd node that keeps it.

    ``owners`` has that node's sequence number by the storage's address.
    """

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[int, int] = {}
        self._visited = 0

    def is_new(self, node: object) -> bool:
        """Whether a node has not been visited yet; the one that is asked about last is the one being visited."""
        new = super().is_new(node)
        if new:
            self._visited = int(node._sequence_nr())  # type: ignore[attr-defined]  # an autograd node, untyped in torch
        return new

    def add(self, tensor: torch.Tensor) -> None:
        """Note a tensor's storage for the node being visited."""
        super().add(tensor)
        for storage in storages_of(tensor):
            key = storage._cdata
            self.owners[key] = min(self._visited, self.owners.get(key, self._visited))

    def sizes(self) -> dict[int, int]:
        """Bytes of each storage noted, by its address."""
        return {key: size for key, (_, size) in self._found.items()}


def build_tree(
    root: CalledModule,
    *,
    own: Mapping[CalledModule, GroupCounts],
    saved: Mapping[CalledModule, int],
    unmodelled: Mapping[CalledModule, Mapping[str, int]],
) -> ModuleNode:
    """The tree as a result.

    Args:
        root: the root, finished.
        own: what each node did by itself, for nodes that did anything.
        saved: bytes saved for backward by each node's own ops.
        unmodelled: for each node the calls of its own ops without a rule, by name.
    """
    counted: set[int] = set()

    def build(node: CalledModule) -> ModuleNode:
        path = node.path()
        mine = list(node.module._parameters.values()) if node.module is not None else []
        sized = [one for one in mine if one is not None and not is_lazy(one)]
        fresh = {id(one): one.numel() for one in sized if id(one) not in counted}
        shared = bool(sized) and not fresh
        counted.update(fresh)
        children = tuple(map(build, node.children.values()))
        mine_counted = own.get(node) or GroupCounts(name=path)
        kept = saved.get(node, 0)
        return ModuleNode(
            name=node.name,
            path=path,
            type=type(node.module).__name__ if node.module is not None else "",
            calls=node.calls,
            parameters=sum(fresh.values()) + sum(child.parameters for child in children),
            own_parameters=sum(fresh.values()),
            total=_added(path, [mine_counted, *(child.total for child in children)]),
            own=_added(path, [mine_counted]),
            saved_bytes=kept + sum(child.saved_bytes for child in children),
            own_saved_bytes=kept,
            shared=shared,
            unmodelled=tuple(
                Unmodelled(name=name, calls=calls) for name, calls in sorted(unmodelled.get(node, {}).items())
            ),
            children=children,
        )

    return build(root)


def _added(name: str, groups: list[GroupCounts]) -> GroupCounts:
    return GroupCounts(
        name=name,
        ops=sum(one.ops for one in groups),
        launches=sum(one.launches for one in groups),
        matmul_flops=sum(one.matmul_flops for one in groups),
        pointwise_flops=sum(one.pointwise_flops for one in groups),
        bytes_read=sum(one.bytes_read for one in groups),
        bytes_written=sum(one.bytes_written for one in groups),
    )
