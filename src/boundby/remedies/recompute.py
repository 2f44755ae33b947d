"""Recomputation: what repeated blocks keep for the backward pass is thrown away and computed again there."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import seconds_of
from boundby.remedies.predicting import predicted_from_saving
from boundby.remedies.sums import LEAST_KNOWN, known_share
from boundby.results.language import tr, trn
from boundby.results.report import OpRow
from boundby.results.units import format_size, format_time

NAME = "recompute"
CHANGES_NUMBERS = False
ENVIRONMENT: Mapping[str, str] = {}
FEWEST_BLOCKS = 2
PROBED_OPS = 8
PROBE_S = 0.05
# What the second forward pass takes over the first: caches are fuller, its last ops may be left out.
LEAST_AGAIN, MOST_AGAIN = 0.85, 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The children of one container: how many, their forward seconds a step, what they write (bytes), their ops."""

    container: str
    count: int
    seconds: float
    written_bytes: int
    ops: int

    @property
    def bytes_per_s(self) -> float:
        """Memory that may be freed for each second lost."""
        return self.written_bytes / max(self.seconds, 1e-12)


def title() -> str:
    """What it does, for people."""
    return tr("compute repeated blocks again in the backward pass (less memory, more time)")


def _change() -> str:
    return tr("where memory is short, {code}", code="torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)")


def predict(evidence: Evidence) -> Prediction:
    """The blocks' forward pass a second time, and what noting and finding them again takes by a probe."""
    report = evidence.report
    if not any(row.phase == "backward" for row in report.ops):
        return NotApplicable(tr("there is no backward pass"))
    if report.counts.recomputed_flops:
        return NotApplicable(tr("the script computes something again already"))
    groups = repeated_blocks(evidence)
    if not groups:
        return NotApplicable(tr("the model has no repeated blocks"))
    if known_share(report) < LEAST_KNOWN:
        return CannotTell(tr("too little of the step is accounted for"), change=_change())
    again = sum(one.seconds for one in groups)
    noting = _noting_s(evidence) * sum(one.count + one.ops / PROBED_OPS for one in groups) / 2.0
    added, least, most = again + noting, LEAST_AGAIN * again + 0.5 * noting, MOST_AGAIN * again + 1.5 * noting
    freed = sum(one.written_bytes for one in groups)
    if report.counts.saved_bytes is not None:
        freed = min(freed, report.counts.saved_bytes)
    best = groups[0]
    names = trn(
        "{container} ({count} block)", "{container} ({count} blocks)", best.count, container=f"{best.container}.*"
    )
    return predicted_from_saving(
        report,
        -added,
        -most,
        -least,
        reason=tr(
            "the blocks' forward pass, {time}, would run twice a step; that frees at most {size} between forward and "
            "backward pass: for memory, never for speed",
            time=format_time(again),
            size=format_size(freed),
        ),
        change=tr("{change}, first for {names}: it frees most a second lost", change=_change(), names=names),
        changes_numbers=CHANGES_NUMBERS,
    )


def repeated_blocks(evidence: Evidence) -> tuple[Blocks, ...]:
    """Containers of blocks that ran forward in a step, those first that free most memory for each second lost.

    A block is a numbered child with children of its own; one layer alone keeps little but its input.

    Args:
        evidence: its report's rows.
    """
    rows: dict[str, dict[str, list[OpRow]]] = defaultdict(lambda: defaultdict(list))
    composite: set[tuple[str, str]] = set()
    for row in evidence.report.ops:
        parts = (row.module or "").split(".")
        at = next((index for index, part in enumerate(parts) if part.isdecimal()), None)
        if at is None or row.phase != "forward":
            continue
        container = ".".join(parts[:at])
        rows[container][parts[at]].append(row)
        if len(parts) > at + 1:
            composite.add((container, parts[at]))
    found = []
    for container, children in rows.items():
        blocks = [some for child, some in children.items() if (container, child) in composite]
        if len(blocks) < FEWEST_BLOCKS:
            continue
        own = [row for some in blocks for row in some]
        found.append(
            Blocks(
                container=container or "model",
                count=len(blocks),
                seconds=seconds_of(evidence.report, own),
                written_bytes=sum(row.bytes_written for row in own),
                ops=sum(row.calls for row in own),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.bytes_per_s))


def _noting_s(evidence: Evidence) -> float:
    """Seconds that a block of a few ops on almost nothing takes longer under a checkpoint; 0 where none is timed."""
    if evidence.probe is None:
        return 0.0
    import torch
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(4, requires_grad=True)

    def block(value: Any) -> Any:
        for _ in range(PROBED_OPS):
            value = torch.sin(value)
        return value

    def plain() -> None:
        torch.autograd.grad(block(x), x, x.detach())

    def kept() -> None:
        torch.autograd.grad(checkpoint(block, x, use_reentrant=False), x, x.detach())

    compared = evidence.probe(plain, kept, budget_s=PROBE_S)
    return max(0.0, compared.changed_s - compared.base_s)


def apply(effects: Effects) -> None:
    """Repeated blocks of every model run under a checkpoint while it trains."""
    import weakref

    import torch
    from torch.utils.checkpoint import checkpoint

    plain = torch.nn.Module.__call__
    known: weakref.WeakSet[Any] = weakref.WeakSet()
    blocks: weakref.WeakSet[Any] = weakref.WeakSet()

    def look_at(model: Any) -> None:
        for container in _containers(model):
            for block in container:
                why = _why_not(block)
                if why is None:
                    blocks.add(block)
                else:
                    effects.cannot(why)
        known.update(model.modules())

    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not (self.training and torch.is_grad_enabled()) or torch.compiler.is_compiling():
            return plain(self, *args, **kwargs)
        if self not in known:
            look_at(self)
        if self not in blocks:
            return plain(self, *args, **kwargs)
        runs = 0

        def run(*some: Any, **named: Any) -> Any:
            nonlocal runs
            runs += 1
            if runs == 1:
                return plain(self, *some, **named)
            effects.saw(tr("a block computed again"))
            with _unheard():
                return plain(self, *some, **named)

        return checkpoint(run, *args, use_reentrant=False, **kwargs)

    torch.nn.Module.__call__ = call  # type: ignore[method-assign]  # what applying from outside means


@contextmanager
def _unheard() -> Iterator[None]:
    """Without hooks on all modules' calls: a block that runs again is no forward pass of its own, to be counted."""
    from torch.nn.modules import module

    hooks = module._global_forward_pre_hooks
    kept = dict(hooks)
    hooks.clear()
    try:
        yield
    finally:
        hooks.update(kept)


def _containers(module: Any) -> Iterator[Sequence[Any]]:
    """The outermost lists of blocks of one kind in a model."""
    import torch

    for child in module.children():
        own = list(child.children()) if isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential)) else []
        of_blocks = [one for one in own if next(one.children(), None) is not None]
        if len(of_blocks) >= FEWEST_BLOCKS and len({type(one) for one in of_blocks}) < len(of_blocks):
            yield of_blocks
        else:
            yield from _containers(child)


def _why_not(block: Any) -> str | None:
    if any(getattr(one, "track_running_stats", False) for one in block.modules()):
        return tr("blocks with running statistics would count each batch twice")
    return None


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """A callable's blocks are not known from outside."""
