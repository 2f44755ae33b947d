"""Facts about the script's own objects: its optimizers, loaders and settings, looked at once and left alone."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psutil
import torch

from boundby.capture.sites import users_line
from boundby.results.remedy import LoaderFacts, OptimizerFacts, ScriptFacts

# More objects than these are of the same few kinds.
MOST_OBJECTS = 16
# The workers' first batches come with their start.
FIRST_READING = 4
LEAST_CPU_S = 0.1


class FactsSeen:
    """Collects facts while a script runs; holds no object of the script's."""

    def __init__(self) -> None:
        self._optimizers: dict[int, OptimizerFacts] = {}
        self._without_gradients: set[int] = set()
        self._loaders: dict[int, LoaderFacts] = {}
        self._workers: dict[int, WorkersUsage] = {}
        self._settings: dict[str, Any] = {}
        self._grad: bool | None = None
        self._module_dtypes: tuple[str, ...] = ()
        self._forward: tuple[str | None, int | None] = (None, None)
        self._modules: weakref.WeakSet[Any] = weakref.WeakSet()
        self._modules_seen = 0
        self._linear_shapes: set[tuple[int, ...]] = set()

    def optimizer(self, optimizer: Any) -> None:
        """An optimizer is about to step, so that its parameters have their gradients."""
        if id(optimizer) in self._optimizers or len(self._optimizers) >= MOST_OBJECTS:
            return
        facts = optimizer_facts(optimizer)
        if not facts.shapes and id(optimizer) not in self._without_gradients:
            # A closure makes the gradients within the step: those of this step are there before the next one.
            self._without_gradients.add(id(optimizer))
            return
        self._optimizers[id(optimizer)] = facts
        self._see_settings()

    def loader(self, iterator: Any) -> None:
        """A DataLoader's iterator gave a batch."""
        known = self._loaders.get(id(iterator))
        if known is None:
            if len(self._loaders) < MOST_OBJECTS:
                path, line = users_line(sys._getframe(1))
                self._loaders[id(iterator)] = replace(loader_facts(iterator), path=path, line=line)
        elif known.workers:
            usage = self._workers.setdefault(id(iterator), WorkersUsage())
            usage.batch(getattr(iterator, "_workers", ()))
            if usage.cpu_s is not None and usage.cpu_s != known.worker_cpu_s:
                self._loaders[id(iterator)] = replace(known, worker_cpu_s=usage.cpu_s)

    def module(self, module: Any) -> None:
        """An outermost module is about to be called."""
        if self._modules_seen <= MOST_OBJECTS and module not in self._modules:
            self._modules.add(module)
            self._modules_seen += 1
            linear = (one for one in module.modules() if isinstance(one, torch.nn.Linear))
            self._linear_shapes.update(tuple(one.weight.shape) for one in linear)
        if self._grad is None:
            parameters = list(module.parameters())
            self._grad = torch.is_grad_enabled() and any(one.requires_grad for one in parameters)
            self._module_dtypes = tuple(sorted({_dtype_name(one) for one in parameters}))
            self._forward = users_line(sys._getframe(1))
            self._see_settings()

    def facts(self, *, inference: bool) -> ScriptFacts:
        """What was seen. ``grad_in_inference`` is told where steps are forward passes alone."""
        trained = {name for one in self._optimizers.values() for name in one.dtypes}
        return ScriptFacts(
            optimizers=tuple(self._optimizers.values()),
            parameter_dtypes=tuple(sorted(trained)) or self._module_dtypes,
            forward_path=self._forward[0],
            forward_line=self._forward[1],
            # With more modules than were looked at, any layer may be linear.
            linear_shapes=tuple(sorted(self._linear_shapes)) if 0 < self._modules_seen <= MOST_OBJECTS else None,
            loaders=tuple(dict.fromkeys(self._loaders.values())),
            grad_in_inference=self._grad if inference else None,
            **self._settings,
        )

    def _see_settings(self) -> None:
        self._settings = {
            # Seen once is enough: an optimizer steps outside of it.
            "autocast": torch.is_autocast_enabled("cpu") or bool(self._settings.get("autocast")),
            "anomaly_mode": torch.is_anomaly_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "matmul_precision": torch.get_float32_matmul_precision(),
            "threads": torch.get_num_threads(),
            "interop_threads": torch.get_num_interop_threads(),
        }


class WorkersUsage:
    """Processor time of a loader's workers a batch, from readings at its 4th, 8th, 16th... batch."""

    def __init__(self) -> None:
        self.cpu_s: float | None = None
        self._batches = 0
        self._first: tuple[tuple[int, ...], int, float] | None = None

    def batch(self, workers: Sequence[Any]) -> None:
        """One more batch was asked for; ``workers`` are their processes."""
        self._batches += 1
        if self._batches < FIRST_READING or self._batches & (self._batches - 1):
            return
        pids = tuple(worker.pid for worker in workers)
        used = _cpu_seconds(pids)
        if used is None:
            return
        if self._first is None or self._first[0] != pids:
            self._first = (pids, self._batches, used)
            return
        _, then, before = self._first
        # The clock of processes ticks every hundredth of a second.
        if used - before >= LEAST_CPU_S:
            self.cpu_s = (used - before) / (self._batches - then)


def _cpu_seconds(pids: Sequence[int]) -> float | None:
    """User and system time of processes; None where one has ended or may not be asked."""
    try:
        times = [psutil.Process(pid).cpu_times() for pid in pids]
    except psutil.Error:
        return None
    return float(sum(one.user + one.system for one in times))


def optimizer_facts(optimizer: Any) -> OptimizerFacts:
    """What can be known of an optimizer without touching it."""
    shapes, dtypes, sparse = [], [], 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            shapes.append(tuple(parameter.shape))
            dtypes.append(_dtype_name(parameter))
            sparse += parameter.grad.layout is not torch.strided
    defaults = optimizer.defaults
    plain = {
        name: value
        for name, value in defaults.items()
        if isinstance(value, (bool, str, type(None))) or (isinstance(value, (int, float)) and math.isfinite(value))
    }
    return OptimizerFacts(
        name=type(optimizer).__name__,
        fused=defaults.get("fused"),
        foreach=defaults.get("foreach"),
        shapes=tuple(shapes),
        dtypes=tuple(dtypes),
        sparse=sparse,
        options=plain,
    )


def _dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def loader_facts(iterator: Any) -> LoaderFacts:
    """What can be known of a DataLoader from its iterator."""
    from torch.utils.data import TensorDataset, default_collate

    dataset = getattr(iterator, "_dataset", None)
    sampler = getattr(iterator, "_index_sampler", None)
    size = getattr(sampler, "batch_size", None)
    try:
        items: int | None = len(dataset) if dataset is not None else None
    except TypeError:  # an iterable dataset has no length
        items = None
    tensors = dataset.tensors if type(dataset) is TensorDataset else ()
    return LoaderFacts(
        workers=int(getattr(iterator, "_num_workers", 0)),
        batch_size=size if isinstance(size, int) else None,
        pinned=bool(getattr(iterator, "_pin_memory", False)),
        prefetch=getattr(iterator, "_prefetch_factor", None),
        dataset=type(dataset).__name__,
        items=items,
        item_shapes=tuple(tuple(one.shape[1:]) for one in tensors),
        item_dtypes=tuple(str(one.dtype).removeprefix("torch.") for one in tensors),
        plain_collate=getattr(iterator, "_collate_fn", None) is default_collate,
    )
