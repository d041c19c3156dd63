"""The devices to measure on: the questions that each answers, the processor, the accelerators, and finding them."""

from profiling.measuring.devices.cpu import Cpu
from profiling.measuring.devices.finding import available_devices, find_device
from profiling.measuring.devices.seam import Device, UnavailableDevice

__all__ = ["Cpu", "Device", "UnavailableDevice", "available_devices", "find_device"]
