"""What a sweep tells whoever listens, as it happens. The sweep itself never prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from profiling.device_lock import Owner
from profiling.estimate import Estimate
from profiling.runs import Progress, Run


@dataclasses.dataclass(frozen=True)
class Waiting:
    """The device is busy with a live check; the sweep begins after it."""

    owner: Owner


@dataclasses.dataclass(frozen=True)
class Started:
    """The run folder is there and measuring begins."""

    run: Run
    folder: Path
    estimate: Estimate
    num_steps_done: int


@dataclasses.dataclass(frozen=True)
class StepStarted:
    """A workload of some replicate is being measured."""

    progress: Progress


@dataclasses.dataclass(frozen=True)
class StepFinished:
    """A workload's rows are on the disk."""

    progress: Progress
    rows: Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Ended:
    """The sweep is over: `run.state` says how, `report` where its table lies; None where none was written."""

    run: Run
    folder: Path
    report: Path | None


Event = Waiting | Started | StepStarted | StepFinished | Ended
Listener = Callable[[Event], None]
