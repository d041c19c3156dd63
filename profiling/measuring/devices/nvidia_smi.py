"""What NVIDIA's own tool tells of one of its devices, where it is installed: clock, throttling, other processes.

torch tells these by a package that is not installed with it; the tool comes with the driver.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence

LIMIT_S = 1.0
# The reasons for a lower clock that are no choice of the user's, as bits of `clocks_event_reasons.active`.
REASON_BITS = {"heat": 0x20 | 0x40, "power": 0x04 | 0x80}
# The time spent so, which newer drivers add up, in microseconds.
REASON_COUNTERS = {
    "heat": ("sw_thermal_slowdown", "hw_thermal_slowdown"),
    "power": ("sw_power_cap", "hw_power_brake_slowdown"),
}

Runner = Callable[[Sequence[str]], str | None]


def run_tool(arguments: Sequence[str]) -> str | None:
    """What `nvidia-smi` with these arguments prints; None where it is absent, fails or takes longer than a second."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


class NvidiaSmi:
    """Questions about one device.

    Args:
        device: its UUID, or its number; the UUID stays true where some devices are hidden from torch.
        run: runs the tool; a fake in tests.
    """

    def __init__(self, device: str, run: Runner = run_tool) -> None:
        self._device, self._run = device, run
        self._seen = dict.fromkeys(REASON_BITS, 0)

    def clock_mhz(self) -> float | None:
        """The clock of its processors now, in MHz."""
        told = self._numbers("clocks.sm")
        return float(told[0]) if told else None

    def throttles(self) -> dict[str, int]:
        """By cause: the microseconds it ran slower so far; with an older driver, how often it was found so when asked.

        Empty where the tool tells neither.
        """
        fields = [f"clocks_event_reasons_counters.{name}" for names in REASON_COUNTERS.values() for name in names]
        counters = self._numbers(",".join(fields))
        if counters is not None:
            left = iter(counters)
            return {cause: sum(next(left) for _ in names) for cause, names in REASON_COUNTERS.items()}
        # The field was renamed with driver 535.
        active = self._numbers("clocks_event_reasons.active") or self._numbers("clocks_throttle_reasons.active")
        if active is None:
            return {}
        for cause, bits in REASON_BITS.items():
            self._seen[cause] += bool(active[0] & bits)
        return dict(self._seen)

    def other_processes(self, *, is_on_it: bool) -> int | None:
        """How many processes other than this one compute on it.

        Args:
            is_on_it: whether this process holds memory there, so that it should be in the tool's list itself.

        Returns:
            None where the tool tells none, or a list without this process though it is on the device: then its
            numbers are those of another system, outside a container, and who is who cannot be told.
        """
        told = self._run(["--query-compute-apps=pid", "--format=csv,noheader", "-i", self._device])
        if told is None:
            return None
        try:
            processes = {int(line) for line in told.split()}
        except ValueError:  # a sentence instead, such as [N/A]
            return None
        if is_on_it and os.getpid() not in processes:
            return None
        return len(processes - {os.getpid()})

    def _numbers(self, fields: str) -> list[int] | None:
        told = self._run([f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-i", self._device])
        if told is None:
            return None
        try:
            # The number comes first: some drivers name the unit though asked not to.
            numbers = [int(field.split()[0], 0) for field in told.split(",")]
        except (ValueError, IndexError):  # a field that this driver or device does not tell
            return None
        return numbers if len(numbers) == fields.count(",") + 1 else None
