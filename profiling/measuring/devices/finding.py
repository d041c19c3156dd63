"""Which devices are here, and the one that is asked for."""

from __future__ import annotations

from profiling.measuring.devices.accelerators import KINDS
from profiling.measuring.devices.cpu import Cpu
from profiling.measuring.devices.seam import Device, UnavailableDevice

__all__ = ["Cpu", "Device", "UnavailableDevice", "available_devices", "find_device"]


def available_devices() -> list[Device]:
    """The devices torch can use here, the best first: CUDA, XPU, MPS, then the CPU."""
    return [*(device for kind in KINDS for device in kind.found()), Cpu()]


def find_device(name: str) -> Device:
    """The device with that name; `auto` is the best one, `cuda` the first of its kind.

    Raises:
        UnavailableDevice: there is none.
    """
    devices = available_devices()
    for device in devices:
        if name == "auto" or name in (device.name, device.name.partition(":")[0]):
            device.select()
            return device
    there = ", ".join(device.name for device in devices)
    raise UnavailableDevice(f"device must be auto or one that torch finds here ({there}), not {name!r}")
