"""`doctor`: each probe with faked facts, torch's part in the measuring process, and the whole on machines that lack
much."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from real_faults import make_memory_group

from profiling.device_lock import DeviceLock, Owner, owners
from profiling.disk_room import nearest_there
from profiling.doctor import examination
from profiling.doctor.examination import Examination, examine, look
from profiling.doctor.facts import Facts, compiler, file_system, gather, is_guest
from profiling.doctor.finding import DISTURBS
from profiling.doctor.report_text import WIDTH, report_lines
from profiling.measuring.abilities import abilities
from profiling.measuring.devices import Cpu

DEVICE = {
    "name": "cpu",
    "description": "Made-up 3",
    "dtypes": dict.fromkeys(("float32", "bfloat16", "float16", "float64"), ""),
    "fused": "",
    "fast_path": "",
    "no_peak_reason": None,
    "clock_step_s": 7e-8,
    "clock_mhz": 3000.0,
    "throttles": {"heat": 0},
    "other_processes": None,
}
TORCH = {
    "torch_version": "2.13.0",
    "torch_threads": 2,
    "devices": [DEVICE],
    "taken_cores": 0.03,
    "stolen_cores": 0.0,
    "has_triton": False,
    "allocator": "glibc 2.36",
    "heap_pinned": True,
    "deterministic": False,
    "matmul_precision": "highest",
}
HOST = {
    "cpu_name": "Made-up 3",
    "num_cores": 2,
    "num_threads": 4,
    "usable_threads": 2,
    "quota_cores": None,
    "memory_limit_mib": None,
    "clock_governor": "performance",
    "turbo": False,
    "variables": {},
}
# A machine on which there is nothing to find.
SOUND = Facts(
    host=HOST,
    torch=TORCH,
    free_mib=5000.0,
    swap_mib=0.0,
    load=0.1,
    is_on_battery=False,
    profile="performance",
    is_guest=False,
    compiler="g++",
    can_pin=True,
    results="/somewhere/results",
    results_free_mib=7000.0,
    results_system="ext4",
)
SWEEP = Owner(kind="sweep", device="cpu", pid=7, started_at="2026-03-01T05:00:00+00:00", run_id="mine")


def on(**changes: Any) -> Facts:
    return dataclasses.replace(SOUND, **changes)


def with_host(**changes: Any) -> Facts:
    return on(host={**HOST, **changes})


def with_torch(**changes: Any) -> Facts:
    return on(torch={**TORCH, **changes})


def with_device(**changes: Any) -> Facts:
    return with_torch(devices=[{**DEVICE, **changes}])


def test_a_sound_machine_has_no_note_and_no_problem_and_all_is_said_that_it_can() -> None:
    found = look(SOUND)
    assert {finding.severity for finding in found} == {"ok"}
    told = " ".join(finding.text for finding in found)
    for words in (
        "cpu (Made-up 3): float32, bfloat16, float16, float64; clock steps of 70.0 ns",
        "the fused kernel and the official layer's fast path",
        "by g++",
        "true peaks of memory on cpu; the heap can be pinned",
        "4.88 GiB of memory free",
        "runs can be written into /somewhere/results, 6.84 GiB free",
        "others take 0.0 of 4 logical processors now",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("facts", "severity", "words", "advice"),
    [
        (on(owners=(SWEEP,)), "problem", "cpu is busy since 2026-03-01T05:00:00+00:00 with sweep mine", "wait until"),
        (with_torch(taken_cores=0.3), "note", "others take 0.3 of 4 logical processors", "--quiet-wait"),
        (with_torch(taken_cores=1.7), "problem", "others take 1.7 of 4 logical processors", "close them"),
        (with_torch(stolen_cores=0.2), "note", "the host gives 0.2 processors to other guests", "measure later"),
        (with_torch(taken_cores=None) , "ok", "not told by this machine: who else computes", ""),
        (on(torch=None, load=3.0), "note", "the load of the last minute is 3.0 on 4", "close what computes"),
        (with_host(usable_threads=1), "problem", "torch takes 2 threads, and may run 1 at once", "--threads 1"),
        (with_host(usable_threads=1), "note", "one processor only", "8 --replicates"),
        (with_host(quota_cores=1.5), "problem", "the container grants 1.5 cores, torch takes 2", "--threads 1"),
        (with_host(quota_cores=0.5), "problem", "the container grants 0.5 cores", "--threads 1"),
        (with_host(num_cores=1), "note", "torch takes 2 threads on 1 cores: two share one", "--threads 1"),
        (with_host(clock_governor="powersave"), "note", "governor powersave", "cpupower frequency-set"),
        (with_host(turbo=True), "note", "turbo is on", "compare ratios"),
        (on(is_on_battery=True), "problem", "runs on its battery", "plug it in"),
        (on(profile="low-power"), "note", "profile low-power", "performance"),
        (with_device(throttles={"heat": 1234}), "note", "slowed itself down for heat 1,234 times", "let it cool"),
        (with_device(other_processes=3), "note", "others hold memory on cpu: 3", "another --device"),
        (on(is_guest=True), "note", "this is a virtual machine", "self-test"),
        (on(swap_mib=100.0), "note", "100 MiB are swapped out", "end what holds memory"),
        (on(results_system="nfs4"), "note", "network or shared folder (nfs4)", "MHA_BENCH_RESULTS"),
        (with_host(variables={"OMP_NUM_THREADS": "3"}), "note", "computes in threads: OMP_NUM_THREADS=3", "unset"),
        (with_host(variables={"LD_PRELOAD": "libx.so"}), "note", "how memory is kept: LD_PRELOAD=libx.so", "unset"),
        (with_host(variables={"NVIDIA_TF32_OVERRIDE": "0"}), "note", "NVIDIA_TF32_OVERRIDE=0", "unset"),
        (with_torch(deterministic=True), "note", "deterministically", "unset"),
        (with_torch(matmul_precision="medium"), "note", "the precision medium", "larger errors"),
        (with_device(dtypes={**DEVICE["dtypes"], "float16": "no code for Half"}), "note",
         "cpu cannot compute in float16: no code for Half", "leave float16 out"),
        (with_device(dtypes={"float32": "broken"}), "problem", "cpu cannot compute in float32: broken", "leave"),
        (with_device(fused="none here"), "note", "the fused kernel does not run on cpu: none here", "leave out"),
        (with_device(fast_path="none here"), "note", "fast path does not run on cpu", "leave out"),
        (with_device(no_peak_reason="a pool is no peak"), "note", "cpu: a pool is no peak", "peak_memory_mib"),
        (with_torch(heap_pinned=False, allocator="jemalloc"), "note", "memory is kept by jemalloc", "--replicates"),
        (on(compiler=""), "note", "no C++ compiler", "install g++"),
        (with_device(name="cuda:0"), "note", "no triton for CUDA", "install triton"),
        (on(free_mib=1000.0), "note", "only 1,000 MiB of memory free", "end what holds memory"),
        (on(free_mib=300.0, host={**HOST, "memory_limit_mib": 512}), "problem",
         "only 300 MiB of memory free within the container's limit of 512 MiB", "raise the container's limit"),
        (on(results_error="it cannot be written"), "problem", "it cannot be written", "MHA_BENCH_RESULTS"),
        (on(results_free_mib=50.0), "problem", "only 50.0 MiB free on the disk of /somewhere", "make room"),
        (on(temp_error="no lock"), "problem", "no lock", "TMPDIR"),
        (on(torch=None, torch_error="it crashed"), "problem", "torch gives no answer: it crashed", "README"),
        (on(torch=None, torch_error="out-of-memory killer"), "problem", "torch gives no answer", "more memory"),
        (on(torch=None, owners=(SWEEP,)), "note", "torch was not asked what it can", "ask later"),
    ],
)  # fmt: skip
def test_a_probe_finds_what_is_planted_and_says_what_to_do(
    facts: Facts, severity: str, words: str, advice: str
) -> None:
    (found,) = [finding for finding in look(facts) if words in finding.text]
    assert found.severity == severity
    assert advice in found.advice
    assert bool(advice) == bool(found.advice)


def test_a_machine_that_tells_nothing_is_not_told_anything_wrong() -> None:
    found = look(Facts())
    assert {finding.severity for finding in found} <= {"ok"}
    assert [finding.text for finding in found] == [
        "not told by this machine: who else computes, what governs the clock, turbo, slowing down for heat, free memory"
    ]


def test_problems_come_first_and_what_can_be_measured_before_what_disturbs() -> None:
    found = look(on(is_guest=True, owners=(SWEEP,), compiler="", results_error="no"))
    kinds = [finding.kind for finding in found]
    assert kinds == sorted(kinds)
    disturbing = [finding.severity for finding in found if finding.kind == DISTURBS]
    assert disturbing == ["problem", "note", "ok"]


@pytest.mark.parametrize(
    ("facts", "can"),
    [
        (SOUND, True),
        (on(torch=None, owners=(SWEEP,)), True),
        (on(torch=None, torch_error="it crashed"), False),
        (with_device(dtypes=dict.fromkeys(("float32", "float64"), "broken")), False),
        (with_torch(devices=[]), False),
        (on(temp_error="no lock"), False),
        (on(results_error="read-only"), True),
    ],
)
def test_nothing_can_be_measured_only_where_that_is_so(facts: Facts, can: bool) -> None:
    examined = Examination(facts, look(facts))
    assert examined.can_measure is can
    assert report_lines(examined)[-1].startswith("nothing can be measured here") is not can


MAYBE_NUMBER = st.none() | st.floats(0, 1e6)


@given(
    st.builds(
        Facts,
        host=st.fixed_dictionaries(
            {},
            optional={
                "num_cores": st.none() | st.integers(1, 999),
                "num_threads": st.none() | st.integers(1, 999),
                "usable_threads": st.none() | st.integers(1, 999),
                "quota_cores": MAYBE_NUMBER,
                "memory_limit_mib": st.none() | st.integers(1, 10**7),
                "clock_governor": st.none() | st.text(max_size=20),
                "turbo": st.none() | st.booleans(),
                "variables": st.dictionaries(st.text(max_size=9), st.text(max_size=300), max_size=3),
            },
        ),
        torch=st.none() | st.just(TORCH) | st.builds(dict, st.just(TORCH), taken_cores=MAYBE_NUMBER),
        torch_error=st.just("") | st.text(max_size=300),
        free_mib=MAYBE_NUMBER,
        swap_mib=MAYBE_NUMBER,
        load=MAYBE_NUMBER,
        is_on_battery=st.none() | st.booleans(),
        profile=st.none() | st.text(max_size=20),
        results=st.text(max_size=300),
        results_error=st.text(max_size=30),
        results_free_mib=MAYBE_NUMBER,
        results_system=st.none() | st.text(max_size=20),
    )
)
def test_no_facts_break_a_probe_and_no_line_is_wider_than_a_screen(facts: Facts) -> None:
    examined = Examination(facts, look(facts))
    assert all(len(line) <= WIDTH for line in report_lines(examined))
    json.dumps(examined.to_dict())


# -- the facts --------------------------------------------------------------------------------------------------------


def test_facts_that_cannot_be_had_are_none_and_nothing_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise KeyError("planted")

    monkeypatch.setattr(psutil, "swap_memory", broken)
    monkeypatch.setattr(psutil, "sensors_battery", broken, raising=False)
    monkeypatch.setattr(psutil, "virtual_memory", broken)
    monkeypatch.setattr(psutil, "disk_partitions", broken)
    monkeypatch.setattr(os, "getloadavg", broken, raising=False)
    monkeypatch.setattr("profiling.doctor.facts.host_environment", broken)
    monkeypatch.setattr("profiling.doctor.facts.shutil.disk_usage", broken)
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    facts = gather()
    assert (facts.host, facts.free_mib, facts.swap_mib, facts.load, facts.is_on_battery) == ({}, None, None, None, None)
    assert (facts.results_error, facts.results_free_mib, facts.results_system) == ("", None, None)
    look(facts)


def test_a_results_folder_that_is_a_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path / "file"))
    assert "is no folder" in gather().results_error


def test_a_virtual_machine_is_known_by_what_its_processor_says(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    for text, said in (("flags\t: fpu hypervisor sse\n", True), ("flags\t: fpu sse\n", False), ("model: 3\n", None)):
        path.write_text(text)
        assert is_guest(path) is said


def test_the_compiler_is_the_one_that_is_named_or_the_first_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compiler() == ""
    (tmp_path / "clang++").touch(mode=0o755)
    assert compiler() == "clang++"
    monkeypatch.setenv("CXX", "icpx")
    assert compiler() == ""


def test_the_file_system_is_that_of_the_nearest_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mounted(fstype: str, place: Path) -> Any:
        return type("Part", (), {"mountpoint": str(place), "fstype": fstype})()

    mounts = [mounted("ext4", Path("/")), mounted("nfs4", tmp_path), mounted("tmpfs", tmp_path / "other")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)
    assert file_system(nearest_there(tmp_path / "not" / "there")) == "nfs4"
    assert file_system(Path("/")) == "ext4"


# -- torch's part -----------------------------------------------------------------------------------------------------


def test_every_element_type_and_both_kernels_work_on_the_processor() -> None:
    told = abilities([Cpu()], look_s=0.01)
    (device,) = told["devices"]
    assert device["dtypes"] == dict.fromkeys(("float32", "bfloat16", "float16", "float64"), "")
    assert (device["fused"], device["fast_path"], device["no_peak_reason"]) == ("", "", None)
    assert device["clock_step_s"] > 0
    assert told["torch_version"] == torch.__version__
    assert look(on(torch=json.loads(json.dumps(told))))


class Hollow(Cpu):
    """A device on which tensors have no values."""

    name = "meta"


class Gone(Cpu):
    @property
    def torch_device(self) -> torch.device:
        raise RuntimeError("planted: the driver\nis gone")


def test_what_does_not_work_on_a_device_is_told_and_the_rest_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    hollow, gone = abilities([Hollow(), Gone()], look_s=0.01)["devices"]
    assert all(hollow["dtypes"].values())
    assert hollow["fused"] != ""
    assert set(gone["dtypes"].values()) == {"planted: the driver is gone"}
    assert gone["clock_step_s"] > 0
    monkeypatch.setattr(torch.Tensor, "sum", lambda self: torch.tensor(44.0))
    (wrong,) = abilities([Cpu()], look_s=0.01)["devices"]
    assert wrong["dtypes"]["float32"] == "a product of ones gives 44 where it should give 45"


def test_torch_is_left_alone_while_somebody_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(**_: object) -> None:
        raise AssertionError("a process with torch was started")

    monkeypatch.setattr(examination, "MeasuringChild", started)
    assert owners() == []
    lock = DeviceLock("cuda:3")
    lock.acquire("sweep", run_id="long")
    try:
        examined = examine()
    finally:
        lock.release()
    assert examined.can_measure
    assert examined.facts.torch is None
    (found,) = [finding for finding in examined.findings if "with sweep long" in finding.text]
    assert (found.severity, found.kind) == ("problem", DISTURBS)
    assert f"(process {os.getpid()})" in found.text
    assert owners() == []


# -- the whole, for real ----------------------------------------------------------------------------------------------


def doctor(*arguments: str, before: Callable[[], None] | None = None, **environment: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "profiling", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
        preexec_fn=before,
    )


def test_on_a_bare_machine_it_fits_a_screen(tmp_path: Path) -> None:
    """No PATH, so no git and no compiler; no home; a proxy; one processor; a language of 1970."""

    def one_processor() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    done = doctor(
        before=one_processor if hasattr(os, "sched_setaffinity") else None,
        PATH="",
        HOME=str(tmp_path / "none"),
        LANG="C",
        LC_ALL="C",
        PYTHONUTF8="0",
        HTTP_PROXY="http://127.0.0.1:9",
        https_proxy="http://127.0.0.1:9",
        MHA_BENCH_RESULTS=str(tmp_path / "results"),
        TMPDIR=str(tmp_path),
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= WIDTH
    assert "torch 2." in lines[0]
    assert any(line.startswith("ok       cpu (") for line in lines)
    assert "no C++ compiler" in done.stdout
    if hasattr(os, "sched_setaffinity"):
        assert "one processor only" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"mha-bench-{os.getuid()}"], "nothing is left but locks"


def test_where_torch_cannot_be_loaded_it_says_so_with_status_1(tmp_path: Path) -> None:
    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400 * 2**20, 400 * 2**20))

    done = doctor("--json", before=little_memory, TMPDIR=str(tmp_path), MHA_BENCH_RESULTS=str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "")
    told = json.loads(done.stdout)
    assert told["can_measure"] is False
    first = told["findings"][0]
    assert (first["kind"], first["severity"]) == ("can", "problem")
    assert first["text"].startswith("torch gives no answer: ")
    assert told["facts"]["host"]["python_version"]


@pytest.fixture
def small_group() -> Iterator[Path]:
    yield from make_memory_group(110)


def test_a_containers_limit_counts_and_torch_that_breaks_it_is_told(small_group: Path, tmp_path: Path) -> None:
    def join() -> None:
        (small_group / "cgroup.procs").write_text(str(os.getpid()))

    done = doctor("--json", before=join, TMPDIR=str(tmp_path), MHA_BENCH_RESULTS=str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "")
    texts = [finding["text"] for finding in json.loads(done.stdout)["findings"] if finding["severity"] == "problem"]
    assert any("torch gives no answer: ended by the kernel's out-of-memory killer" in text for text in texts)
    assert any("of memory free within the container's limit of 110 MiB" in text for text in texts)
