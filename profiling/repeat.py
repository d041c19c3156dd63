"""The command line that measures one row again: its workload, its contender and reference, under the run's settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from profiling.layers import is_layer
from profiling.settings import SweepSettings
from profiling.workload import Workload


def repeat_command(workload: Workload, contender: str, reference: str | None, settings: SweepSettings) -> str:
    """One line for a POSIX shell, in which nothing is left to the machine that it is typed on.

    Layers of one's own are named as they were: relative to the folder in which the sweep was started.

    Args:
        workload: the row's, with the device and the threads that it was measured with.
        contender: the row's.
        reference: what it was compared with; None for a reference itself.
        settings: those of its run.
    """
    options: dict[str, object] = {
        "batch-size": workload.batch_size,
        "seq-len": workload.seq_len,
        "num-heads": workload.num_heads,
        "d-model": workload.d_model,
        "dtype": workload.dtype,
        "mode": workload.mode,
    }
    options |= {name: "yes" for name, is_so in (("bias", workload.bias), ("causal", workload.causal)) if is_so}
    if is_layer(contender):
        options |= {"contender": contender, "reference": reference}
    else:
        options["contenders"] = ",".join(name for name in (contender, reference) if name)
    options |= {
        "device": workload.device,
        "threads": workload.threads,
        "seed": workload.seed,
        "replicates": settings.replicates,
        "time-budget": _seconds(settings.time_budget_s),
        "time-limit": _seconds(settings.time_limit_s),
        "quiet-wait": _seconds(settings.quiet_wait_s),
        "heap": settings.heap,
    }
    words = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join(["python", "-m", "profiling", "sweep", *words])


def repeat_command_of_row(row: Mapping[str, Any], settings: SweepSettings) -> str | None:
    """The same for a row of a table; None where a cell of its workload is empty (None): someone has edited the file."""
    workload = {name: row[name] for name in Workload.__dataclass_fields__}
    if None in workload.values():
        return None
    return repeat_command(Workload.from_dict(workload), row["contender"], row["reference"], settings)


def _seconds(seconds: float | None) -> str | None:
    """The shortest text for exactly this number."""
    if seconds is None:
        return None
    short = f"{seconds:g}"
    return short if float(short) == seconds else repr(seconds)
