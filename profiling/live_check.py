"""The live check: a resident measuring child that answers whether a layer is right, in well under a second."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiling.child_process import MeasuringChild
from profiling.device_lock import CHECK_PATIENCE_S, DeviceLock, Owner
from profiling.layers import LayerFile, find_layer, is_layer, source_hash
from profiling.memory_estimate import require_room_for_check
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
        self._loaded: dict[Path, str] = {}
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

    def check(
        self,
        workload: Workload,
        contender: str,
        *,
        batch_first: bool = True,
        input_scale: float = 1.0,
        self_check: bool = False,
        anyway: bool = False,
        limit_s: float = CHECK_LIMIT_S,
        patience_s: float = CHECK_PATIENCE_S,
        on_wait: Callable[[Owner], None] | None = None,
    ) -> dict[str, Any]:
        """The report of a contender's check at a workload's shape and at the fixed probe shapes.

        A layer of one's own whose source has changed since the child loaded it is checked in a new child.

        Args:
            workload: the shape to check at, besides the probe shapes.
            contender: a name of ours, or `path/to/file.py:Name`.
            batch_first: whether a layer of one's own takes (batch, sequence, channel) or (sequence, batch, channel).
            input_scale: the deviation of the normal input.
            self_check: whether to plant faults in a right layer as well, and say how many the check catches.
            anyway: whether to check also where the shape needs more memory than is free.
            limit_s: seconds after which the layer counts as hanging, and its process is ended.
            patience_s: seconds to wait for someone else's check on the device.
            on_wait: told once who is waited for.

        Raises:
            GridError: there is no such file, or the shape needs more memory than is free.
            DeviceBusy: a sweep measures on the device, and a check would disturb it; or a check outlasts the patience.
            MeasuringError: the child could not answer; the message says why.
        """
        with self._turn:
            layer = find_layer(contender) if is_layer(contender) else None
            child = self._ready_child() if layer is None else self._child_for(layer)
            device = self._environment["device"]
            if not anyway:
                require_room_for_check(workload, device)
            lock = DeviceLock(device)
            lock.acquire("check", patience_s=patience_s, on_wait=on_wait)
            try:
                request = {
                    "request": "check",
                    "workload": {**workload.to_dict(), "device": device},
                    "contender": contender,
                    "layer": layer.spec if layer else None,
                    "batch_first": batch_first,
                    "input_scale": input_scale,
                    "self_check": self_check,
                }
                return child.ask(request, limit_s=limit_s)
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

    def _child_for(self, layer: LayerFile) -> MeasuringChild:
        # A process keeps to what it has loaded, and to whatever that has done to it: an edit begins with a clean one.
        source = source_hash(layer.path)
        if self._child is not None and self._loaded.get(layer.path, source) != source:
            self._child.close()
        child = self._ready_child()
        self._loaded[layer.path] = source
        return child

    def _ready_child(self) -> MeasuringChild:
        if self._child is None or not self._child.is_alive():
            if self._child is not None:
                self._child.close()
                self._child = None
            self._loaded = {}
            child = MeasuringChild()
            try:
                self._environment = child.ask({"request": "environment", "device": self._device}, limit_s=START_LIMIT_S)
            except BaseException:
                child.close()
                raise
            self._child = child
        return self._child
