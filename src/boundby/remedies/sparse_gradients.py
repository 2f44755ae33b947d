"""Sparse gradients of large embeddings: a step then writes the rows it looked up, and not all of the table."""

from __future__ import annotations

import itertools
import math
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import Shape, base_name, replaced_rows, seconds_of, tensor_shapes
from boundby.results.language import tr, trn
from boundby.results.remedy import OptimizerFacts
from boundby.results.report import OpRow, Report

NAME = "sparse-gradients"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"model", "optimizer"})
SPARSE = "sparse=True"
# Those that step sparse gradients, themselves or by one of their kind.
STEPPING = ("Adam", "AdamW", "SGD", "Adagrad")
LOOKUPS = ("embedding", "_embedding_bag", "_embedding_bag_forward_only")
BACKWARDS = (
    "embedding_dense_backward",
    "embedding_backward",
    "_embedding_bag_backward",
    "_embedding_bag_dense_backward",
)
# Smaller tables are written in less time than sparse tensors take to handle.
SMALLEST_TABLE_BYTES = 1 << 20
# Sparse steps of the probe in a row: in the changed script no dense one comes between them that empties the caches.
SPARSE_CALLS = 8
# Giving a page back takes less than this part of what touching it does.
FREEING = 0.25
# A table in the probe: beyond the caches, as the script's own are together, and soon made.
LARGEST_PROBED_BYTES = 48 << 20


def title() -> str:
    """What it does, for people."""
    return tr("sparse gradients of large embeddings")


def _change(name: str) -> str:
    if name in ("Adam", "AdamW"):
        return tr(
            "make the embeddings with {argument} and give their weights to {other}, all others to {name}",
            argument=SPARSE,
            other="torch.optim.SparseAdam",
            name=name,
        )
    return tr("make the embeddings with {argument}", argument=SPARSE)


def predict(evidence: Evidence) -> Prediction:
    """Tables' gradients and their optimizer step by a probe: a step on one table, dense against sparse."""
    report, facts = evidence.report, evidence.facts
    if not facts.optimizers:
        return NotApplicable(tr("no optimizer stepped"))
    forward = [row for row in report.ops if row.phase == "forward" and base_name(row.op) in LOOKUPS]
    lookups: dict[Shape, Shape] = {}
    for row in forward:
        shapes = tensor_shapes(row)
        if len(shapes) > 1 and len(shapes[0]) == 2:
            lookups[shapes[0]] = shapes[1]
    tables = {shape: rows for shape, rows in lookups.items() if 4 * math.prod(shape) >= SMALLEST_TABLE_BYTES}
    if not tables:
        return NotApplicable(tr("no embedding here is large"))
    reasons = []
    for facts_of in facts.optimizers:
        held = [shape for shape in facts_of.shapes if shape in tables]
        if not held or facts_of.sparse:
            continue
        why = _why_not(facts_of.name, facts_of.options) or (_fused_sgd() if _is_fused_sgd(facts_of) else None)
        if why is None:
            return _predict_with(evidence, facts_of, held, tables)
        reasons.append(why)
    return NotApplicable(_takes_none(reasons[0]) if reasons else tr("no optimizer steps the embeddings"))


def _takes_none(optimizer: str) -> str:
    return tr("{name} takes no sparse gradients", name=optimizer)


def _fused_sgd() -> str:
    return tr("fused {name}", name="SGD")


def _is_fused_sgd(facts: OptimizerFacts) -> bool:
    return facts.name == "SGD" and bool(facts.fused)


def _why_not(name: str, options: Mapping[str, Any]) -> str | None:
    """Which optimizer cannot take sparse gradients, in words; None where one can."""
    if name not in STEPPING:
        return name
    if options.get("weight_decay"):
        return tr("{name} with weight decay", name=name)
    if options.get("amsgrad"):
        return tr("{name} with amsgrad", name=name)
    return None


def _predict_with(
    evidence: Evidence, optimizer: OptimizerFacts, held: Sequence[Shape], tables: Mapping[Shape, Shape]
) -> Prediction:
    report = evidence.report
    backward = [row for row in report.ops if base_name(row.op) in BACKWARDS]
    optimizing = [row for row in report.ops if row.phase == "optimizer" and row.time_s > 0]
    stepping = sum(row.share * max(0.0, 1.0 - row.floors.overhead_s / row.time_s) for row in optimizing)
    elements = sum(math.prod(shape) for one in evidence.facts.optimizers for shape in one.shapes)
    part = sum(math.prod(shape) for shape in held) / max(elements, 1)
    base_s = seconds_of(report, backward) + part * stepping * report.step.time_s.median
    change = _change(optimizer.name)
    if evidence.probe is None:
        return CannotTell(tr("it takes a probe of a step on a table"), change=change)
    largest = max(held, key=math.prod)
    rows = max(1, min(math.prod(tables[largest]), largest[0]))
    probed = (max(rows, min(largest[0], LARGEST_PROBED_BYTES // (4 * largest[1]))), largest[1])
    with warnings.catch_warnings():
        # torch's own remarks on sparse tensors, of which the user has none yet.
        warnings.simplefilter("ignore")
        dense, sparse = (_stepper(optimizer, probed, rows, sparse=choice) for choice in (False, True))
        done = evidence.probe(dense, partial(_several, sparse))
    # What is dense grows with the table and takes as long as it was seen to inside the step, with its page faults; what
    # is sparse takes what the probe took, of any table.
    ratio = done.ratio.scaled(len(held) * done.base_s / max(base_s, 1e-12) / SPARSE_CALLS)
    return replaced_rows(
        report,
        base_s,
        ratio,
        what=trn(
            "writing the gradients of {count} embedding table and stepping every row of them, where a step looks up "
            "{rows} of {all},",
            "writing the gradients of {count} embedding tables and stepping every row of them, where a step looks up "
            "{rows} of {all},",
            len(held),
            rows=f"{rows:,}",
            all=f"{largest[0]:,}",
        ),
        change=change,
        beside_s=_freeing_s(report, [(1.0, row) for row in backward] + [(part, row) for row in optimizing]),
    )


def _freeing_s(report: Report, weighted: Sequence[tuple[float, OpRow]]) -> float:
    """The most that giving back the rows' fresh memory takes between ops (s)."""
    each = report.page_faults.seconds_each if report.page_faults is not None else None
    touching = sum(weight * row.faults for weight, row in weighted) * (each or 0.0)
    return min(report.overhead_parts.host * report.step.time_s.median, FREEING * touching)


def _several(step: Callable[[], object]) -> None:
    for _ in range(SPARSE_CALLS):
        step()


def _stepper(facts: OptimizerFacts, shape: Shape, rows: int, *, sparse: bool) -> Callable[[], object]:
    """A training step on one table alone."""
    import torch

    table = torch.full(shape, 0.5).requires_grad_()
    generator = torch.Generator().manual_seed(1)
    # Each step looks up other rows.
    turns = itertools.cycle([torch.randint(0, shape[0], (rows,), generator=generator) for _ in range(SPARSE_CALLS)])
    gradient = torch.ones(rows, shape[1])
    kind: Any = getattr(torch.optim, "SparseAdam" if sparse and facts.name in ("Adam", "AdamW") else facts.name)
    rate = facts.options.get("lr")
    options: dict[str, Any] = {"lr": rate if isinstance(rate, float) else 1e-3}
    if facts.name == "SGD":
        options["momentum"] = facts.options.get("momentum") or 0.0
    if kind is not torch.optim.SparseAdam and not sparse:
        options |= {"fused": facts.fused, "foreach": facts.foreach}
    optimizer = kind([table], **options)

    def step() -> None:
        table.grad = None
        torch.nn.functional.embedding(next(turns), table, sparse=sparse).backward(gradient)
        optimizer.step()

    step()
    for one in optimizer.state[table].values():
        if torch.is_tensor(one) and one.shape == table.shape and not one.is_sparse:
            one.fill_(1e-3)  # zeros are no memory until they are written, as after some steps all of them are
    return step


def apply(effects: Effects) -> None:
    """Large embeddings made from now on have sparse gradients, and the optimizers that meet these take them."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    sparse = _SparseTables(effects)
    for kind in (torch.nn.Embedding, torch.nn.EmbeddingBag):
        _make_sparse(kind, sparse)
    register_optimizer_step_pre_hook(sparse.before_step)
    register_optimizer_step_post_hook(sparse.after_step)
    for name in ("clip_grad_norm_", "clip_grad_value_", "get_total_norm"):
        sparse.make_dense_before(name)


def _make_sparse(kind: Any, tables: _SparseTables) -> None:
    plain = kind.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        large = self.weight.numel() * self.weight.element_size() >= SMALLEST_TABLE_BYTES
        # These have no sparse gradient.
        other = self.scale_grad_by_freq or getattr(self, "mode", "sum") == "max"
        if large and not other and not self.sparse and not tables.given_up:
            self.sparse = True
            tables.modules.add(self)

    kind.__init__ = init


class _SparseTables:
    """The embeddings that were made sparse, and what their optimizers need so that they can be stepped.

    Adam and AdamW step their dense gradients themselves; a SparseAdam of ours with the same rate and betas steps the
    sparse ones. The script's own optimizer keeps its parameter groups, so that schedulers go on working.
    """

    def __init__(self, effects: Effects) -> None:
        self.modules: weakref.WeakSet[Any] = weakref.WeakSet()
        self.given_up = False
        self._effects = effects
        self._own: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()
        self._held: list[tuple[Any, Any]] = []

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Step the sparse gradients, and hide them from an optimizer that cannot."""
        name = type(optimizer).__name__
        groups = [
            (group, found)
            for group in optimizer.param_groups
            if (found := [one for one in group["params"] if one.grad is not None and one.grad.is_sparse])
        ]
        if not groups or name == "SparseAdam":
            return
        for group, found in groups:
            why = _why_not(name, group)
            if why is None and name == "SGD" and group.get("fused"):
                why = _fused_sgd()
            if why is not None:
                self._give_up(_takes_none(why), found)
                continue
            if name in ("Adam", "AdamW"):
                self._step_apart(optimizer, group, found)
            stepper = "SparseAdam" if "Adam" in name else name
            self._effects.saw(tr("sparse gradients stepped by {name}", name=stepper))

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Gradients are where the script looks for them."""
        for parameter, gradient in self._held:
            parameter.grad = gradient
        self._held = []

    def make_dense_before(self, name: str) -> None:
        """A function of ``torch.nn.utils`` that cannot read sparse gradients is given dense ones."""
        import torch

        plain: Any = getattr(torch.nn.utils, name, None)
        if plain is None:
            return

        def call(first: Any, *args: Any, **kwargs: Any) -> Any:
            first = [first] if torch.is_tensor(first) else list(first)
            found = [one for one in first if one.grad is not None and one.grad.is_sparse] if "clip" in name else []
            if found:
                self._give_up(_takes_none(name), found)
            return plain(first, *args, **kwargs)

        vars(torch.nn.utils)[name] = call

    def _step_apart(self, optimizer: Any, group: dict[str, Any], found: Sequence[Any]) -> None:
        import torch

        own = self._own.setdefault(optimizer, {})
        stepped = own.get(id(group["params"]))
        if stepped is None or len(stepped.param_groups[0]["params"]) != len(found):
            stepped = torch.optim.SparseAdam(
                found, lr=group["lr"], betas=group["betas"], eps=group["eps"], maximize=group["maximize"]
            )
            own[id(group["params"])] = stepped
        stepped.param_groups[0]["lr"] = group["lr"]
        # Past the hooks of all optimizers: a step within a step would be taken for one of the script's.
        plain: Any = getattr(type(stepped).step, "__wrapped__", type(stepped).step)
        plain(stepped)
        for parameter in found:
            self._held.append((parameter, parameter.grad))
            parameter.grad = None

    def _give_up(self, why: str, found: Sequence[Any]) -> None:
        self._effects.cannot(why)
        self.given_up = True
        for module in self.modules:
            module.sparse = False
        for parameter in found:
            parameter.grad = parameter.grad.to_dense()


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """An optimizer that exists already steps what it was given: a callable cannot be changed from outside."""
