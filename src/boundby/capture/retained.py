"""What steps leave behind: containers of tensors that grow, and autograd graphs that go on from step to step.

The script's own variables are looked through between two steps, a few times in a run: those of its functions that run,
of its modules, and the attributes of its objects. Nothing found is kept: from one look to the next there are only
identities, lengths, and weak references to memory. (Python's list of all objects would hold more, but making that list
takes megabytes at once, which moves the allocator's thresholds and with them the script's page faults.)

No code of the script's runs for it: objects are told apart by their type itself, never by ``isinstance``, and
attributes are read from their dicts, never by ``getattr``.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from types import FrameType, FunctionType, ModuleType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from boundby.capture.frame_names import names_in
from boundby.capture.raw import attributes_of, file_of_class
from boundby.capture.saved import following_nodes, keeps_saved, storages_of
from boundby.capture.sites import SCRIPT_RUNNER, is_users
from boundby.capture.sources import belongs_to_users, growing_line, users_modules
from boundby.results.habits import Held, Place

# Objects looked at in all, and how far from a variable.
MOST_OBJECTS = 20_000
DEEPEST = 6
# Of a plain container, so many elements are looked into.
FEW_ELEMENTS = 64
# Nodes of a graph beyond these are not followed.
MOST_NODES = 50_000
# Nodes of a graph that are asked for what they saved.
NODES_ASKED = 2_000
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
    """The state before a step: lengths of containers, nodes of the graphs behind tensors, and memory of tensors."""

    step: int
    lengths: dict[int, int] = field(default_factory=dict)
    nodes: int = 0
    # Weak references keep addresses from being used again, and no memory of the script's.
    storages: dict[int, StorageWeakRef] = field(default_factory=dict)


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
        # A mode of the script's for torch's functions would be asked for a tensor's attributes, too.
        with torch._C.DisableTorchFunction():
            self._look(_Look(step=step))

    def _look(self, now: _Look) -> None:
        containers: list[_Seen] = []
        tensors: list[_Seen] = []
        for seen in _walk():
            value = seen.value
            if type(value) is _Tensor:
                now.storages.update((one._cdata, StorageWeakRef(one)) for one in storages_of(value))
                if value.grad_fn is not None:
                    tensors.append(seen)
            elif _is_growable(value):
                now.lengths[id(value)] = len(value)
                containers.append(seen)
                for tensor in _newest_tensors(value, NEWEST):
                    now.storages.update((one._cdata, StorageWeakRef(one)) for one in storages_of(tensor))
        now.nodes = _count_nodes([one.value for one in tensors])
        self._looks.append(now)
        self._held = tuple(self._tell(containers, tensors))
        # What was there before the look before last says nothing of what came since the last.
        for past in self._looks[:-1]:
            past.storages = {}

    def found(self) -> tuple[Held, ...]:
        """What had grown by the last look."""
        return self._held

    def _tell(self, containers: list[_Seen], tensors: list[_Seen]) -> Iterator[Held]:
        held = False
        before = self._looks[-2] if len(self._looks) > 1 else _Look(step=0)
        for seen in containers:
            per_step = _slope([(one.step, one.lengths.get(id(seen.value))) for one in self._looks])
            if per_step is None:
                continue
            # Those that came since the last look, as far as their number tells.
            came = min(NEWEST, max(1, len(seen.value) - before.lengths.get(id(seen.value), 0)))
            newest = list(_newest_tensors(seen.value, came))
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
            # Views of memory that was there already add none.
            sizes = {key: size for one in newest for key, size in _storages(one) if key not in before.storages}
            # The last look may have met one tensor before it was put in.
            old = sum(all(key in before.storages for key, _ in _storages(one)) for one in newest)
            late = int(came > 1 and 0 < old * came <= len(newest))
            roots = [one for one in newest if one.grad_fn is not None]
            graphs = bool(roots)
            held = held or graphs
            yield Held(
                kind="container",
                name=_name(seen),
                what=type(seen.value).__name__,
                place=_growing_line(seen),
                per_step=per_step,
                bytes_per_step=per_step * sum(sizes.values()) / (came - late),
                graphs=graphs,
                saved=_keep_saved(roots),
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
            saved=_keep_saved([largest.value]),
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
        if issubclass(type(value), _PLAIN) or id(value) in met:
            continue
        met.add(id(value))
        yield seen
        if type(value) is FunctionType:
            pending += _closed_over(value, seen)
        elif seen.depth < DEEPEST:
            pending += [
                _Seen(inner, seen, label, seen.frame, seen.path, seen.depth + 1) for label, inner in _inside(seen)
            ]


def _variables() -> Iterator[_Seen]:
    for module, path in users_modules():
        names = attributes_of(module) or {}
        yield from (_Seen(value, None, name, None, path, 0) for name, value in list(names.items()))
    for frame in _users_frames():
        path = frame.f_code.co_filename
        yield from (_Seen(value, None, name, frame, path, 0) for name, value in names_in(frame))


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
        return [(f"[{key!r}]", one) for key, one in islice(value.items(), FEW_ELEMENTS) if type(key) is str]
    if kind in (list, tuple, deque):
        return [("[...]", one) for one in islice(value, FEW_ELEMENTS)]
    if issubclass(kind, torch.nn.Module):
        names = attributes_of(value) or {}
        return [(name, one) for name, one in names.items() if name not in ("_parameters", "_buffers")]
    # Attributes of other objects by their values alone: asking for the names makes Python lay out the object anew. A
    # library's objects only where a variable holds them.
    if not issubclass(kind, _Tensor) and (seen.depth == 0 or belongs_to_users(kind)):
        return [(None, one) for one in gc.get_referents(value) if type(one) is not type]
    return ()


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
    return next((name for name, value in names.items() if value is seen.value and type(name) is str), None)


def vars_of(seen: _Seen | None) -> dict[str, Any] | None:
    """The attributes of the object that was met; None where it has no such dict."""
    return attributes_of(seen.value) if seen is not None else None


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


def _newest_tensors(container: Any, most: int) -> Iterator[Any]:
    values = container.values() if type(container) is dict else container
    for value in islice(reversed(values), most):
        yield from _tensors_of(value)


def _storages(tensor: Any) -> Iterator[tuple[int, int]]:
    for storage in storages_of(tensor):
        yield storage._cdata, storage.nbytes()


def _nodes(roots: Iterable[Any]) -> Iterator[Any]:
    """Nodes of the graphs behind some tensors, each once, at most ``MOST_NODES``."""
    seen: dict[int, Any] = {}  # the nodes themselves, so that no identity is used again meanwhile
    pending = [one.grad_fn for one in roots]
    while pending and len(seen) < MOST_NODES:
        node = pending.pop()
        if node is not None and id(node) not in seen:
            seen[id(node)] = node
            yield node
            pending += [following for following, _ in following_nodes(node)]


def _count_nodes(roots: Iterable[Any]) -> int:
    return sum(1 for _ in _nodes(roots))


def _keep_saved(roots: Iterable[Any]) -> bool | None:
    """Whether the graphs behind some tensors still have tensors saved for backward; None where they never had any."""
    found: bool | None = None
    for node in islice(_nodes(roots), NODES_ASKED):
        kept = keeps_saved(node)
        if kept:
            return True
        found = found if kept is None else False
    return found


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
        path = file_of_class(type(owner.value))
        if path is not None and belongs_to_users(type(owner.value)):
            return growing_line(path, name, None)
        owner = owner.parent
    return growing_line(seen.path, name, seen.frame)
