"""Devices behind one small interface: wait for one, ask what it is, replay a graph of work on it.

Nothing here knows one vendor's names: torch's own device-independent interface does, so a device that torch learns
tomorrow is measured the same way, and what a device cannot tell is None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProperties:
    """What a device says of itself; None where it says nothing."""

    name: str | None
    memory_bytes: int | None


class Device(Protocol):
    """A device that torch computes on; ``kind`` is the type torch knows it by (``cpu``, ``cuda``, ``mps``, ``xpu``)."""

    kind: str

    def synchronize(self) -> None:
        """Wait until all that was queued is done; at once on a CPU."""

    def properties(self) -> DeviceProperties:
        """What the device says of itself."""

    def graph(self, work: Callable[[], object]) -> Callable[[], object] | None:
        """``work`` captured as a graph, to replay as one launch; None where the device or torch cannot."""


class Cpu:
    """The processor: work is done when the call returns."""

    kind = "cpu"

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def properties(self) -> DeviceProperties:
        """Left to the machine's description, which reads more than torch knows."""
        return DeviceProperties(name=None, memory_bytes=None)

    def graph(self, work: Callable[[], object]) -> None:
        """A processor has no launches to save: None."""


class Accelerator:
    """Any device with a queue, through torch's device-independent interface."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._module: Any = torch.get_device_module(kind)

    def synchronize(self) -> None:
        """Wait until all that was queued is done."""
        self._module.synchronize()

    def properties(self) -> DeviceProperties:
        """What the device says of itself."""
        ask = getattr(self._module, "get_device_properties", None)
        told = ask(self._module.current_device()) if ask is not None else None
        return DeviceProperties(
            name=getattr(told, "name", None),
            memory_bytes=getattr(told, "total_memory", None),
        )

    def graph(self, work: Callable[[], object]) -> Callable[[], object] | None:
        """``work`` captured as a graph; None where the device or torch cannot."""
        make = getattr(torch.accelerator, "Graph", None)
        if make is None:
            make = getattr(self._module, "CUDAGraph", None)
        if make is None:
            return None
        self.synchronize()
        try:
            # A device's default stream cannot be captured.
            with self._module.stream(self._module.Stream()):
                work()
                self.synchronize()
                graph = make()
                graph.capture_begin()
                try:
                    work()
                finally:
                    graph.capture_end()
        except (AttributeError, RuntimeError, NotImplementedError):
            return None
        return graph.replay  # type: ignore[no-any-return]  # torch's own, untyped by way of getattr


def default_device() -> str:
    """The type of the accelerator that torch can use here (``cuda`` before ``mps``); ``cpu`` where there is none."""
    here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return "cpu" if here is None else here.type


def device_of(name: str) -> Device:
    """The device of that name, ready to be used.

    Args:
        name: ``cpu``, or the type of an accelerator that torch can use here.

    Raises:
        BoundbyError: ``no-device`` for one that torch does not know or that is not there.
    """
    if name == "cpu":
        return Cpu()
    here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if here is None or here.type != name:
        usable = "cpu" if here is None else tr("{first} and {second}", first="cpu", second=here.type)
        raise BoundbyError(
            "no-device",
            tr(
                "torch {version} can use no device {name} here, only {usable}.",
                version=torch.__version__,
                name=repr(name),
                usable=usable,
            ),
            tr("Choose one of those, or install a torch that is built for the device."),
            status=EXIT_USAGE,
        )
    return Accelerator(name)
