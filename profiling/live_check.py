"""The live check: a resident measuring child that answers whether a layer is right, in well under a second."""

from __future__ import annotations

import threading
from typing import Any

from profiling.child_process import MeasuringChild
from profiling.device_lock import DeviceLock
from profiling.workload import Workload

# Loading torch on a cold, busy machine; then the check itself.
START_LIMIT_S = 180.0
CHECK_LIMIT_S = 120.0


class LiveChecker:
    """Owns one resident child, started at the first question and anew after a death. Safe to use from any thread.

    Args:
        device: `auto` or a device's name.
    """

    def __init__(self, device: str = "auto") -> None:
        self._device = device
        self._child: MeasuringChild | None = None
        self._environment: dict[str, Any] = {}
        self._turn = threading.Lock()

    def environment(self) -> dict[str, Any]:
        """What the child runs on: the device, torch's version and threads, the sources' hashes, all devices.

        Raises:
            MeasuringError: torch or the device cannot be used; the message says why.
        """
        with self._turn:
            self._ready_child()
            return self._environment

    def devices(self) -> list[dict[str, Any]]:
        """The devices that torch can use here, the best first: name, kind, description."""
        found: list[dict[str, Any]] = self.environment()["devices"]
        return found

    def check(self, workload: Workload, contender: str) -> dict[str, Any]:
        """The report of a contender's check at a workload's shape and at the fixed probe shapes.

        Raises:
            DeviceBusy: a sweep measures on the device; a check would disturb it.
            MeasuringError: the child could not answer; the message says why.
        """
        with self._turn:
            child = self._ready_child()
            device = self._environment["device"]
            lock = DeviceLock(device)
            lock.acquire("check")
            try:
                request = {
                    "request": "check",
                    "workload": {**workload.to_dict(), "device": device},
                    "contender": contender,
                }
                return child.ask(request, limit_s=CHECK_LIMIT_S)
            finally:
                lock.release()

    def close(self) -> None:
        """Ends the child."""
        with self._turn:
            if self._child is not None:
                self._child.close()
                self._child = None

    def __enter__(self) -> LiveChecker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ready_child(self) -> MeasuringChild:
        if self._child is None or not self._child.is_alive():
            if self._child is not None:
                self._child.close()
                self._child = None
            child = MeasuringChild()
            try:
                self._environment = child.ask({"request": "environment", "device": self._device}, limit_s=START_LIMIT_S)
            except BaseException:
                child.close()
                raise
            self._child = child
        return self._child
