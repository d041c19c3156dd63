"""What can be measured here, a probe for each question: from facts to findings, silent where they do not tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from profiling.doctor.facts import Facts
from profiling.doctor.finding import Finding, can, lacks
from profiling.units import format_mib, format_time

# A measuring process with torch loaded takes about this; with a layer in it, more than the second.
CHILD_MIB, COMFORT_MIB = 450.0, 1500.0
LITTLE_DISK_MIB = 200.0


def can_measure(facts: Facts) -> bool:
    """Whether anything can be measured: on some device some product works, and a measurement can be locked."""
    devices = facts.torch["devices"] if facts.torch else []
    works = any(reason == "" for device in devices for reason in device["dtypes"].values())
    # While another measures, torch is left alone: that one can.
    return (works or bool(facts.owners)) and not facts.temp_error


def torch_runs(facts: Facts) -> Iterator[Finding]:
    """Whether torch can be used at all."""
    if facts.torch_error:
        is_memory = "memory" in facts.torch_error
        advice = "give it more memory" if is_memory else "install it as the README says, or look why its process ends"
        yield lacks("problem", f"torch gives no answer: {facts.torch_error}", advice)
    elif facts.torch is None and facts.owners:
        yield lacks("note", "torch was not asked what it can: that would disturb what is being measured", "ask later")


def devices(facts: Facts) -> Iterator[Finding]:
    """Each device, and the element types in which a small product works on it."""
    for device in facts.torch["devices"] if facts.torch else ():
        works = [name for name, reason in device["dtypes"].items() if reason == ""]
        step = device["clock_step_s"]
        clock = f"; clock steps of {format_time(step)}" if step else ""
        if works:
            yield can(f"{device['name']} ({device['description']}): {', '.join(works)}{clock}")
        lost = {name: reason for name, reason in device["dtypes"].items() if reason}
        for name, reason in lost.items():
            yield lacks(
                "note" if works else "problem",
                f"{device['name']} cannot compute in {name}: {reason}",
                f"leave {name} out of --dtype there: its rows would be `unavailable`",
            )


def attention(facts: Facts) -> Iterator[Finding]:
    """The fused kernel, the official layer's fast path, and torch.compile."""
    for device in facts.torch["devices"] if facts.torch else ():
        ways = {"the fused kernel": device["fused"], "the official layer's fast path": device["fast_path"]}
        works = [way for way, reason in ways.items() if reason == ""]
        if works:
            yield can(f"attention on {device['name']}: {' and '.join(works)}")
        for way, reason in ways.items():
            if reason:
                yield lacks("note", f"{way} does not run on {device['name']}: {reason}", "leave out what needs it")


def compiling(facts: Facts) -> Iterator[Finding]:
    """Whether torch.compile has what it needs."""
    if facts.compiler:
        yield can(f"compiled:NAME on the CPU, by {facts.compiler}")
    elif facts.compiler is not None:
        yield lacks(
            "note",
            "torch.compile finds no C++ compiler: rows of compiled:NAME would be `unavailable`",
            "install g++ or clang++ if they are wanted",
        )
    if _has_cuda(facts.torch) and not (facts.torch or {}).get("has_triton"):
        yield lacks("note", "torch.compile finds no triton for CUDA", "install triton if compiled:NAME is wanted there")


def memory(facts: Facts) -> Iterator[Finding]:
    """True peaks, a heap that repeats, and how much is free, in a container within its limit."""
    for device in facts.torch["devices"] if facts.torch else ():
        if device["no_peak_reason"]:
            yield lacks("note", f"{device['name']}: {device['no_peak_reason']}", "expect `peak_memory_mib` empty there")
    peaks = [device["name"] for device in (facts.torch or {}).get("devices", ()) if not device["no_peak_reason"]]
    if peaks:
        heap = "; the heap can be pinned" if facts.torch and facts.torch.get("heap_pinned") else ""
        yield can(f"true peaks of memory on {', '.join(peaks)}{heap}")
    if facts.torch and not facts.torch.get("heap_pinned"):
        allocator = facts.torch.get("allocator") or "an unknown allocator"
        yield lacks(
            "note",
            f"the heap cannot be pinned: memory is kept by {allocator}",
            "expect times that depend on what ran before; take more --replicates",
        )
    yield from _free_memory(facts)


def _free_memory(facts: Facts) -> Iterator[Finding]:
    if facts.free_mib is None:
        return
    limit = facts.host.get("memory_limit_mib")
    within = f" within the container's limit of {format_mib(limit)}" if limit else ""
    text = f"{format_mib(facts.free_mib)} of memory free{within}"
    if facts.free_mib >= COMFORT_MIB:
        yield can(text)
    else:
        severity = "problem" if facts.free_mib < CHILD_MIB else "note"
        advice = "raise the container's limit" if limit else "end what holds memory"
        yield lacks(severity, f"only {text}: torch alone takes {CHILD_MIB:.0f} MiB", f"{advice}, or keep shapes small")


def files(facts: Facts) -> Iterator[Finding]:
    """Whether runs can be written, and whether a device can be locked."""
    if facts.temp_error:
        yield lacks("problem", facts.temp_error, "set TMPDIR to a folder of yours that can be written")
    if facts.results_error:
        yield lacks(
            "problem",
            facts.results_error,
            "set MHA_BENCH_RESULTS to a folder that can be written, or give --out",
        )
        return
    free = facts.results_free_mib
    if not facts.results:
        return
    if free is None:
        yield can(f"runs can be written into {facts.results}")
    elif free < LITTLE_DISK_MIB:
        yield lacks("problem", f"only {format_mib(free)} free on the disk of {facts.results}", "make room there")
    else:
        yield can(f"runs can be written into {facts.results}, {format_mib(free)} free")


def _has_cuda(torch: Mapping[str, Any] | None) -> bool:
    return any(device["name"].startswith("cuda") for device in (torch or {}).get("devices", ()))


PROBES = (torch_runs, devices, attention, compiling, memory, files)
