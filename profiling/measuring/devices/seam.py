"""The device seam: what is asked of every kind of device, and what each may not be able to tell.

Nothing else in the project asks which device it is on.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

import torch


class UnavailableDevice(Exception):
    """The device is not there, or torch cannot use it; the message says which and what is there."""


class Device(abc.ABC):
    """One place where tensors live and calls run.

    What only some devices can tell, the others answer with None: that is "unknown", never 0.

    Attributes:
        name: torch's name for it, such as `cpu` or `cuda:0`.
    """

    name: str

    @property
    def torch_device(self) -> torch.device:
        """The device as torch's functions take it."""
        return torch.device(self.name)

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """The device's own name, for a person."""

    def select(self) -> None:  # noqa: B027 - nothing to do is a proper answer
        """Makes it the device that calls run on where they do not say."""

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def clock_step_s(self) -> float:
        """The smallest difference that its clock tells, in seconds."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Waits until everything launched so far is done."""

    @abc.abstractmethod
    def time_calls(self, call: Callable[[], object], num_calls: int) -> float:
        """Seconds that `num_calls` calls in a row take on the device."""

    def flush_cache(self) -> None:  # noqa: B027 - nothing to do is a proper answer
        """Empties the device's cache before a sample, where that is the custom on such a device."""

    # -- memory -------------------------------------------------------------------------------------------------------

    @property
    def no_peak_reason(self) -> str | None:
        """Why it offers no true peak of memory, or None where `peak_bytes` works."""
        return None

    @abc.abstractmethod
    def peak_bytes(self, call: Callable[[], object]) -> int:
        """The most bytes that the call itself holds at once, beyond what was live before it, its result included.

        Where it cannot be told for certain it raises, with the reason: a figure that comes back is exact.
        """

    def free_bytes(self) -> int | None:
        """What is free of its memory; None where that cannot be told, and where its memory is the machine's own."""
        return None

    def held_bytes(self) -> int | None:
        """What this process holds of the memory that `limit_bytes` limits; None where that cannot be told."""
        return None

    def limit_bytes(self, limit: int | None) -> bool:
        """Lets this process hold so many bytes in all, and refuses it more; None for no limit. Whether that can be."""
        return False

    # -- what may disturb it ------------------------------------------------------------------------------------------

    def clock_mhz(self) -> float | None:
        """The device's clock now, in MHz; None where it cannot be told."""
        return None

    def throttles(self) -> dict[str, int]:
        """How often it was slowed down so far, by cause in a word (`heat`, `power`, `quota`); only causes it can tell.

        Each count only grows: what matters is by how much between two looks.
        """
        return {}

    def other_processes(self) -> int | None:
        """How many other processes hold memory on this accelerator; None where it cannot be told, and for the CPU."""
        return None
