"""Counts by module as a tree: who called whom, with parameters, work and saved memory."""

from __future__ import annotations

from dataclasses import dataclass

from boundby.results.counts import Counts, GroupCounts, Unmodelled
from boundby.results.machine import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleNode:
    """A module as it was called from one parent, with all that it and the modules below it did.

    ``path`` is the qualified name from the outermost module, ``name`` its last part. The outermost node stands for the
    whole call: its name, path and type are empty, its children are the outermost modules. ``calls`` are the calls in
    which an op ran; calls that checkpointing makes again in backward are not among them. A module that two parents call
    has a node under each; its parameters belong to the first, and ``shared`` marks the others.

    ``total`` and ``saved_bytes`` include the modules below, ``own`` and ``own_saved_bytes`` do not:
    a node's total is its own and its children's totals. ``parameters`` and ``own_parameters`` are numbers of elements,
    each parameter once in the whole tree. ``unmodelled`` are the node's own ops without a cost rule.
    """

    name: str
    path: str
    type: str
    calls: int
    parameters: int
    own_parameters: int
    total: GroupCounts
    own: GroupCounts
    saved_bytes: int
    own_saved_bytes: int
    shared: bool = False
    unmodelled: tuple[Unmodelled, ...] = ()
    children: tuple[ModuleNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCounts(Counts):
    """The counts of one call, with its modules as a tree and what the counts cannot hold.

    ``devices`` are where ops ran: ``cpu``, ``cuda``, ``meta``, or ``fake cpu`` for fake tensors that say ``cpu``.
    """

    tree: ModuleNode
    devices: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
