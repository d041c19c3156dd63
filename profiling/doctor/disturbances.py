"""What will show in what is measured here, a probe for each cause: from facts to findings, silent where not told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from profiling.doctor.facts import Facts
from profiling.doctor.finding import Finding, disturbs
from profiling.units import format_mib

# Cores that others take, from which it shows, and from which it spoils.
SOME_CORES, MUCH_CORES = 0.15, 0.5
MUCH_SWAP_MIB = 64.0
# Over a network a write may take as long as a workload.
NETWORK_SYSTEMS = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "davfs", "virtiofs")
STEADY_GOVERNORS = ("performance", "userspace")
_THREADS = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "VECLIB_", "ATEN_")
_HEAP = ("MALLOC_", "MIMALLOC_", "TCMALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES")


def others_measure(facts: Facts) -> Iterator[Finding]:
    """A sweep, a self-test or a check that runs now."""
    for owner in facts.owners:
        yield disturbs("problem", owner.sentence, "wait until it has ended, or stop it: two at once spoil each other")


def others_compute(facts: Facts) -> Iterator[Finding]:
    """Other processes, and other guests of the host, that take the processors now."""
    torch = facts.torch or {}
    cores = facts.host.get("num_threads")
    of_all = f" of {cores} logical processors" if cores else " logical processors"
    taken, stolen = torch.get("taken_cores"), torch.get("stolen_cores")
    if taken is not None and taken < SOME_CORES:
        yield disturbs("ok", f"others take {max(0.0, taken):.1f}{of_all} now")
    elif taken is not None:
        yield disturbs(
            _much(taken),
            f"others take {taken:.1f}{of_all} now",
            "close them (`top` names them), or let a sweep wait for quiet with --quiet-wait",
        )
    elif facts.load is not None and cores and facts.load > cores / 2:
        yield disturbs(
            "note",
            f"the load of the last minute is {facts.load:.1f} on {cores} logical processors",
            "close what computes (`top` names it)",
        )
    if stolen is not None and stolen >= SOME_CORES:
        yield disturbs(
            _much(stolen), f"the host gives {stolen:.1f} processors to other guests now", "measure later, or elsewhere"
        )


def threads(facts: Facts) -> Iterator[Finding]:
    """More threads than may run at once, than a container grants, or than there are cores; one processor only."""
    num = (facts.torch or {}).get("torch_threads")
    usable, quota, cores = (facts.host.get(name) for name in ("usable_threads", "quota_cores", "num_cores"))
    if num and usable and num > usable:
        yield disturbs(
            "problem", f"torch takes {num} threads, and may run {usable} at once", f"give --threads {usable}"
        )
    if quota is not None and num and quota < num:
        yield disturbs(
            "problem",
            f"the container grants {quota:g} cores, torch takes {num} threads: it will be paused",
            f"give --threads {max(1, int(quota))}, or the container more",
        )
    if num and cores and usable and cores < num <= usable:
        yield disturbs(
            "note",
            f"torch takes {num} threads on {cores} cores: two share one",
            f"give --threads {cores}, the same in all runs that are compared",
        )
    if usable == 1:
        yield disturbs(
            "note",
            "one processor only: the sweep's own work takes turns with what is measured",
            "take 8 --replicates, and believe no difference of a few per cent",
        )


def clock(facts: Facts) -> Iterator[Finding]:
    """A clock that follows load, heat or the power supply."""
    governor, is_turbo = facts.host.get("clock_governor"), facts.host.get("turbo")
    if governor and governor not in STEADY_GOVERNORS:
        yield disturbs(
            "note", f"the clock follows the load (governor {governor})", "sudo cpupower frequency-set -g performance"
        )
    if is_turbo:
        yield disturbs(
            "note",
            "turbo is on: the clock falls with heat and with busy cores",
            "compare ratios, which are taken round by round; for times that repeat switch it off in the firmware",
        )
    if facts.is_on_battery:
        yield disturbs("problem", "the machine runs on its battery, which slows it down", "plug it in")
    if facts.profile and ("power" in facts.profile or facts.profile in ("quiet", "cool")):
        yield disturbs(
            "note", f"the firmware saves power (profile {facts.profile})", "choose the profile `performance`"
        )


def heat(facts: Facts) -> Iterator[Finding]:
    """Devices that have slowed themselves down, and who else is on an accelerator."""
    for device in (facts.torch or {}).get("devices", ()):
        for cause, count in device["throttles"].items():
            if count and cause != "quota":
                yield disturbs(
                    "note",
                    f"{device['name']} has slowed itself down for {cause} {count:,} times since it started",
                    "let it cool; a row that it happens in says so",
                )
        if device["other_processes"]:
            yield disturbs(
                "note",
                f"others hold memory on {device['name']}: {device['other_processes']} of them",
                "end what is not needed, or take another --device",
            )


def machine(facts: Facts) -> Iterator[Finding]:
    """A virtual machine, swap in use, results over a network."""
    if facts.is_guest:
        yield disturbs(
            "note",
            "this is a virtual machine: what other guests do shows only in part",
            "take 5 or more --replicates; `self-test` tells how far it can be trusted",
        )
    if facts.swap_mib is not None and facts.swap_mib >= MUCH_SWAP_MIB:
        yield disturbs("note", f"{format_mib(facts.swap_mib)} are swapped out", "end what holds memory")
    if facts.results_system and facts.results_system.lower().startswith(NETWORK_SYSTEMS):
        yield disturbs(
            "note",
            f"the results lie on a network or shared folder ({facts.results_system})",
            "set MHA_BENCH_RESULTS to a folder on a disk of this machine",
        )


def settings(facts: Facts) -> Iterator[Finding]:
    """Variables and switches that change speed or numbers."""
    variables = facts.host.get("variables") or {}
    groups: dict[str, list[str]] = {"threads": [], "heap": [], "torch": []}
    for name, value in variables.items():
        group = "threads" if name.startswith(_THREADS) else "heap" if name.startswith(_HEAP) else "torch"
        groups[group].append(f"{name}={value}")
    what = {"threads": "how torch computes in threads", "heap": "how memory is kept", "torch": "how torch computes"}
    for group, found in groups.items():
        if found:
            yield disturbs(
                "note", f"set here, and changes {what[group]}: {' '.join(found)}", "unset it, unless it is meant"
            )
    yield from _switches(facts.torch or {})


def not_told(facts: Facts) -> Iterator[Finding]:
    """What this machine keeps to itself, so that its silence is not taken for a good sign."""
    host, torch = facts.host, facts.torch or {}
    asked = {
        "who else computes": torch.get("taken_cores") if facts.torch else facts.load,
        "what governs the clock": host.get("clock_governor"),
        "turbo": host.get("turbo"),
        "slowing down for heat": next((1 for each in torch.get("devices", ()) if "heat" in each["throttles"]), None),
        "free memory": facts.free_mib,
    }
    unknown = [what for what, answer in asked.items() if answer is None]
    if unknown:
        yield disturbs("ok", f"not told by this machine: {', '.join(unknown)}")


def _switches(torch: Mapping[str, Any]) -> Iterator[Finding]:
    if torch.get("deterministic"):
        yield disturbs("note", "torch is told to compute deterministically, which is slower", "unset it, unless meant")
    if torch.get("matmul_precision") not in (None, "highest"):
        yield disturbs(
            "note",
            f"torch's products of float32 have the precision {torch['matmul_precision']}",
            "expect larger errors and shorter times than by default",
        )


def _much(cores: float) -> str:
    return "problem" if cores >= MUCH_CORES else "note"


PROBES = (others_measure, others_compute, threads, clock, heat, machine, settings, not_told)
