"""How a self-test measures: where, for how long, and what it plants."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from profiling.settings import MIN_REPLICATES_FOR_VERDICT, require_seconds
from profiling.workload import Workload, require_device, require_seed, require_size, require_threads

# What a planted contender's time is of the reference's: copies of it, and copies slowed down by a known amount.
PLANTED: Mapping[str, float] = {
    **{f"same {number}": 1.0 for number in (1, 2, 3)},
    **{f"slower by {slowdown:.0%}": 1 + slowdown for slowdown in (0.03, 0.05, 0.10)},
}
REFERENCE = "official"
# What the spread of the reported speed-up is looked at with: a real layer, whose true speed-up nobody knows.
REAL = "custom"

# One call in which Python counts and one in which products do: (batch_size, seq_len, num_heads, d_model).
SHAPES = ((1, 64, 4, 256), (4, 256, 8, 512))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelfTestSettings:
    """What a self-test takes.

    Attributes:
        max_sets: sets of replicates, each of which gives a verdict on every planted contender and workload.
        time_limit_s: seconds after which no further set is begun; two are made whatever it says.
        time_budget_s: seconds of timed rounds per contender, workload and replicate.
        device, threads, seed: as of a sweep.
        replicates: fresh processes in a set.

    Raises:
        GridError: a value breaks a rule; the message names the argument, the rule and the value.
    """

    max_sets: int = 10
    time_limit_s: float = 270.0
    time_budget_s: float = 0.08
    device: str = "auto"
    threads: int | None = None
    seed: int = 42
    replicates: int = MIN_REPLICATES_FOR_VERDICT

    def __post_init__(self) -> None:
        """Checks every rule once, here at the boundary."""
        require_size("max_sets", self.max_sets)
        require_size("replicates", self.replicates)
        require_threads(self.threads)
        require_seed(self.seed)
        require_device(self.device)
        require_seconds("time_limit_s", self.time_limit_s)
        require_seconds("time_budget_s", self.time_budget_s)

    def workloads(self, device: str, threads: int) -> list[Workload]:
        """The points that are measured, on the device and with the threads that the settings stand for."""
        return [
            Workload(
                batch_size=batch_size,
                seq_len=seq_len,
                num_heads=num_heads,
                d_model=d_model,
                dtype="float32",
                device=device,
                mode="inference",
                bias=False,
                causal=False,
                threads=self.threads or threads,
                seed=self.seed,
            )
            for batch_size, seq_len, num_heads, d_model in SHAPES
        ]
