"""What steps leave behind: containers of tensors that grow, and autograd graphs that go on from step to step.

The script's own variables are looked through between two steps, a few times in a run: those of its functions that run,
of its modules, and the attributes of its objects. Nothing found is kept: from one look to the next there are only
identities and lengths. (Python's list of all objects would hold more, but making that list takes megabytes at once,
which moves the allocator's thresholds and with them the script's page faults.)
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from types import FrameType, FunctionType, ModuleType
from typing import Any

import torch

from boundby.capture.saved import storages_of
from boundby.capture.sites import SCRIPT_RUNNER, is_users
from boundby.capture.sources import growing_line, is_users_file, users_modules
from boundby.results.habits import Held, Place

# Objects looked at in all, and how far from a variable.
MOST_OBJECTS = 20_000
DEEPEST = 6
# Of a plain container, so many elements are looked into.
FEW_ELEMENTS = 64
# Nodes of a graph beyond these are not followed.
MOST_NODES = 50_000
# Steps between two looks that say anything, and the share of steps that leave something behind.
FEWEST_STEPS = 4
LEAST_PER_STEP = 0.5
# Looks that are more than two agree within this share on what a step adds.
AGREES = 0.35
# Of a container, so many of the newest elements are asked for their memory.
NEWEST = 16

_Tensor = torch.Tensor
_PLAIN = (str, bytes, int, float, bool, type(None), type, ModuleType)


@dataclass(frozen=True, slots=True)
class _Seen:
    """An object met on the way: where from, and by which name; no name of an attribute before one is asked for."""

    value: Any
    parent: _Seen | None
    label: str | None
    frame: FrameType | None
    path: str | None
    depth: int


@dataclass(slots=True)
class _Look:
    """The state before a step: lengths of containers, and nodes of the graphs behind tensors."""

    step: int
    lengths: dict[int, int] = field(default_factory=dict)
    nodes: int = 0


class Retained:
    """Looks for what grows from step to step, and who holds it."""

    def __init__(self) -> None:
        self._looks: list[_Look] = []
        self._in_script = False
        self._held: tuple[Held, ...] = ()

    def look(self, step: int) -> None:
        """Note what is there before step number ``step``; what has grown since the first look is told with its name.

        To be called on the thread of the script's steps, whose variables are looked at.
        """
        in_script = _in_script()
        # Once the script is over, the variables of its functions are gone.
        if self._looks and (step <= self._looks[-1].step or in_script != self._in_script):
            return
        self._in_script = in_script
        now = _Look(step=step)
        containers: list[_Seen] = []
        tensors: list[_Seen] = []
        for seen in _walk():
            value = seen.value
            if type(value) is _Tensor:
                if value.grad_fn is not None:
                    tensors.append(seen)
            elif _is_growable(value):
                now.lengths[id(value)] = len(value)
                containers.append(seen)
        now.nodes = _count_nodes([one.value for one in tensors])
        self._looks.append(now)
        self._held = tuple(self._tell(containers, tensors))

    def found(self) -> tuple[Held, ...]:
        """What had grown by the last look."""
        return self._held

    def _tell(self, containers: list[_Seen], tensors: list[_Seen]) -> Iterator[Held]:
        held = False
        for seen in containers:
            per_step = _slope([(one.step, one.lengths.get(id(seen.value))) for one in self._looks])
            if per_step is None:
                continue
            newest = list(_newest_tensors(seen.value))
            if not newest:
                yield Held(
                    kind="plain",
                    name=_name(seen),
                    what=type(seen.value).__name__,
                    place=_growing_line(seen),
                    per_step=per_step,
                    bytes_per_step=None,
                    graphs=False,
                )
                continue
            sizes = {key: size for one in newest for key, size in _storages(one)}
            graphs = any(one.grad_fn is not None for one in newest)
            held = held or graphs
            yield Held(
                kind="container",
                name=_name(seen),
                what=type(seen.value).__name__,
                place=_growing_line(seen),
                per_step=per_step,
                bytes_per_step=per_step * sum(sizes.values()) / max(1, min(len(seen.value), NEWEST)),
                graphs=graphs,
            )
        per_node = _slope([(one.step, one.nodes) for one in self._looks])
        if per_node is None or held or not tensors:
            return
        # The tensor whose graph is the largest holds it, as long as a graph ends where it was made.
        largest = max(tensors, key=lambda one: _count_nodes([one.value]))
        yield Held(
            kind="graph",
            name=_name(largest),
            what="tensor",
            place=_growing_line(largest),
            per_step=per_node,
            bytes_per_step=None,
            graphs=True,
        )


def _slope(seen: list[tuple[int, int | None]]) -> float | None:
    """What a step adds, from looks (step, count); None unless all looks agree that steps add something.

    A container that was not there at the first look has no count there.
    """
    known = [(step, count) for step, count in seen if count is not None]
    if len(known) < 2 or known[-1][0] - known[0][0] < FEWEST_STEPS:
        return None
    whole = (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])
    if whole < LEAST_PER_STEP:
        return None
    for (begin, before), (end, after) in pairwise(known):
        if abs((after - before) / (end - begin) - whole) > AGREES * whole:
            return None
    return whole


# The way through the script's variables.


def _walk() -> Iterator[_Seen]:
    """The script's objects, each once: values of variables, elements of plain containers, attributes of objects."""
    met: set[int] = set()
    pending: list[_Seen] = list(_variables())
    while pending and len(met) < MOST_OBJECTS:
        seen = pending.pop()
        value = seen.value
        if isinstance(value, _PLAIN) or id(value) in met:
            continue
        met.add(id(value))
        yield seen
        if isinstance(value, FunctionType):
            pending += _closed_over(value, seen)
        elif seen.depth < DEEPEST:
            pending += [
                _Seen(inner, seen, label, seen.frame, seen.path, seen.depth + 1) for label, inner in _inside(seen)
            ]


def _variables() -> Iterator[_Seen]:
    for module, path in users_modules():
        yield from (_Seen(value, None, name, None, path, 0) for name, value in list(vars(module).items()))
    for frame in _users_frames():
        path = frame.f_code.co_filename
        yield from (_Seen(value, None, name, frame, path, 0) for name, value in _names_in(frame))


def _users_frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != SCRIPT_RUNNER:
        if is_users(frame.f_code):
            yield frame
        frame = frame.f_back


def _in_script() -> bool:
    """Whether a script that boundby runs is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == SCRIPT_RUNNER:
            return True
        frame = frame.f_back
    return False


def _names_in(frame: FrameType) -> list[tuple[str, Any]]:
    """Local names of a function's frame; those of the module at its outermost.

    Asking a function's frame for its locals may make Python keep a copy of them, which would keep the user's tensors
    alive for as long as the function runs: it is emptied again. A tracer's copy is written back, and left alone.
    """
    names = frame.f_locals
    found = list(names.items())
    if type(names) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED and sys.gettrace() is None:
        names.clear()
    return found


def _closed_over(function: FunctionType, seen: _Seen) -> Iterator[_Seen]:
    """What a function closes over, by the names it has there."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # the variable is not assigned yet
            continue
        yield _Seen(value, None, name, None, function.__code__.co_filename, seen.depth + 1)


def _inside(seen: _Seen) -> Iterable[tuple[str | None, Any]]:
    value = seen.value
    kind = type(value)
    if kind is dict:
        return [(f"[{key!r}]", one) for key, one in islice(value.items(), FEW_ELEMENTS) if isinstance(key, str)]
    if kind in (list, tuple, deque):
        return [("[...]", one) for one in islice(value, FEW_ELEMENTS)]
    if isinstance(value, torch.nn.Module):
        return [(name, one) for name, one in vars(value).items() if name not in ("_parameters", "_buffers")]
    # Attributes of other objects by their values alone: asking for the names makes Python lay out the object anew. A
    # library's objects only where a variable holds them.
    if not issubclass(kind, _Tensor) and (seen.depth == 0 or _is_users_class(kind)):
        return [(None, one) for one in gc.get_referents(value) if type(one) is not type]
    return ()


def _is_users_class(kind: type) -> bool:
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ == "__main__" or (isinstance(path, str) and is_users_file(path))


def _name(seen: _Seen) -> str | None:
    """How the script calls an object: ``losses``, ``self.history``, ``state['outputs']``."""
    label = _label(seen)
    if seen.parent is None or label is None:
        return label
    before = _name(seen.parent)
    if before is None:
        return None
    # An object's own dict may stand between it and its attribute.
    if label.startswith("["):
        inner = label[2:-2]
        if seen.parent.label is None and vars_of(seen.parent.parent) is seen.parent.value and inner.isidentifier():
            return f"{_name(seen.parent.parent) if seen.parent.parent else before}.{inner}"
        return before + label
    return f"{before}.{label}"


def _label(seen: _Seen) -> str | None:
    if seen.label is not None or seen.parent is None:
        return seen.label
    names = vars_of(seen.parent) or {}
    if names is seen.value:
        return "__dict__"
    return next((name for name, value in names.items() if value is seen.value), None)


def vars_of(seen: _Seen | None) -> dict[str, Any] | None:
    """The attributes of the object that was met; None where it has no such dict."""
    found = getattr(seen.value, "__dict__", None) if seen is not None else None
    return found if isinstance(found, dict) else None


def _is_growable(value: Any) -> bool:
    """Whether it is a plain container without a limit."""
    kind = type(value)
    return kind is list or kind is dict or (kind is deque and value.maxlen is None)


def _tensors_of(value: Any) -> Iterator[Any]:
    kind = type(value)
    if kind is _Tensor:
        yield value
    elif kind in (tuple, list):
        yield from (one for one in value[:8] if type(one) is _Tensor)
    elif kind is dict and len(value) <= 8:
        yield from (one for one in value.values() if type(one) is _Tensor)


def _newest_tensors(container: Any) -> Iterator[Any]:
    values = container.values() if isinstance(container, dict) else container
    for value in islice(reversed(values), NEWEST):
        yield from _tensors_of(value)


def _storages(tensor: Any) -> Iterator[tuple[int, int]]:
    for storage in storages_of(tensor):
        yield storage._cdata, storage.nbytes()


def _count_nodes(roots: Iterable[Any]) -> int:
    """Nodes of the graphs behind some tensors, each once, at most ``MOST_NODES``."""
    seen: dict[int, Any] = {}  # the nodes themselves, so that no identity is used again meanwhile
    pending = [one.grad_fn for one in roots]
    while pending and len(seen) < MOST_NODES:
        node = pending.pop()
        if node is not None and id(node) not in seen:
            seen[id(node)] = node
            pending += [following for following, _ in node.next_functions]
    return len(seen)


# The line that makes it grow.


def _growing_line(seen: _Seen) -> Place:
    """The line that appends to what was met, or adds to it: in the function or module whose variable leads to it."""
    label = _name(seen)
    if label is None:
        return Place(path=seen.path)
    # Of self.metrics['losses'] the last name.
    name = label.partition("[")[0].rpartition(".")[2]
    attribute = "." in label
    owner = seen.parent
    while owner is not None and attribute:
        path = getattr(sys.modules.get(type(owner.value).__module__), "__file__", None)
        if isinstance(path, str) and _is_users_class(type(owner.value)):
            return growing_line(path, name, None)
        owner = owner.parent
    return growing_line(seen.path, name, seen.frame)
