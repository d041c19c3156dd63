"""What a layer can do to its process, done for real: it costs its own row, and nothing of it is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from faulty_layers import FAULTY, SEQ_LEN
from made_up_runs import FakeChild, make_workload
from own_layers import write_layer
from real_faults import grandchildren, make_memory_group, wait_until

from profiling import child_process, run_sweep
from profiling.cgroup_limits import OomKills
from profiling.child_exits import LAST_WORDS_LENGTH, explain_exit, with_last_words
from profiling.child_process import ChildDied, MeasuringChild, MeasuringError
from profiling.device_lock import owner
from profiling.environment import ROOT
from profiling.events import Event, StepFinished
from profiling.leftovers import FOLDER_PREFIX, started_by
from profiling.live_check import LiveChecker
from profiling.protocol import Running
from profiling.runs import read_run
from profiling.sweep import sweep
from profiling.table import load_run

WHOLE = 11

# Contender → status of its row at the faulty point, and words of the reason.
LOST = {
    "SegfaultsInLatency": (
        "crashed",
        r"^ended by signal 11 \(SIGSEGV\), at mine\.py, line \d+(; its last words: .*)?, in latency$",
    ),
    "AbortsInMemory": (
        "crashed",
        r"^ended by signal 6 \(SIGABRT\), at mine\.py, line \d+(; its last words: .*)?, in memory$",
    ),
    "ForksAndDiesInCheck": ("crashed", r"ended without an answer, though with exit status 0.*, in check"),
    "InterruptsInWarmUp": ("crashed", r"last words: KeyboardInterrupt: no message \(mine\.py, line \d+\), in warm-up"),
    "MuteInLatency": ("error", r"^Mute \(mine\.py, line \d+\)$"),
    "StickyInCheck": ("error", r"^Sticky: planted \(mine\.py, line \d+\)$"),
    "MuchInWarmUp": ("error", r"^ValueError: \\x1b\[31m\\x00\\ud800 xxx"),
    "ExitsSoftlyInCheck": ("error", r"^called exit\(3\) \(mine\.py, line \d+\)$"),
    "TorchOomInLatency": ("oom", r"^asked for 16\.0 TiB: RuntimeError: .*you tried to allocate 17592186044416 bytes"),
    "PythonOomInWarmUp": ("oom", r"^MemoryError: no message \(mine\.py, line \d+\)$"),
    "WrappedOomInCheck": ("oom", r"^ValueError: the layer says: can't allocate memory"),
    "LimitedInCheck": ("oom", r"^asked for 1\.00 GiB: RuntimeError: .*\(mine\.py, line \d+\)$"),
    "NothingInCheck": ("error", r"^the layer returned a NoneType without a tensor in it, not a tensor$"),
}
# Contender → its verdict at the faulty point: measured all the same.
MEASURED = {
    "TorchOomInMemory": "pass",
    "ChangesInCheck": "pass",
    "ForksInCheck": "pass",
    "WritesInWarmUp": "pass",
    "RemovesInCheck": "pass",
    "TupleInCheck": "pass",
    "NanInCheck": "fail",
    "InfinityInCheck": "fail",
    "ShapeInCheck": "fail",
    "DtypeInCheck": "pass",
    "Right": "pass",
}


def measuring_children() -> list[psutil.Process]:
    return [process for process in psutil.Process().children() if "--marker" in process.cmdline()]


def folders_left() -> list[Path]:
    return list(Path(os.environ["TMPDIR"]).glob(f"{FOLDER_PREFIX}*"))


# -- a sweep over layers that misbehave, each in its own way ----------------------------------------------------------


class Counted(MeasuringChild):
    """Counts how often one was started."""

    starts = 0

    def __init__(self, **options: Any) -> None:
        Counted.starts += 1
        super().__init__(**options)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """One sweep of two points: at the first all misbehave, at the second none; between the two the child is killed."""
    folder = tmp_path_factory.mktemp("faulty")
    mine = write_layer(folder, text=FAULTY)
    hungry = write_layer(folder, "hungry.py", "x = bytearray(2**62)")

    def on_event(event: Event) -> None:
        if isinstance(event, StepFinished) and event.rows[0]["seq_len"] == SEQ_LEN:
            (child,) = measuring_children()
            child.kill()

    Counted.starts = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("profiling.measurer.MeasuringChild", Counted)
        table = run_sweep(
            out=folder / "run",
            on_event=on_event,
            batch_size=[3],
            seq_len=[SEQ_LEN, WHOLE],
            num_heads=[2],
            d_model=10,
            device="cpu",
            threads=1,
            time_budget_s=0.01,
            quiet_wait_s=0,  # other tests are no reason to wait
            contenders=[
                *(f"{mine}:{name}" for name in (*LOST, *MEASURED, "TorchOomInBuild")),
                *(f"{hungry}:X", "custom"),
            ],
        )
    return folder / "run", table.assign(short=table["contender"].str.rpartition("/")[2].str.removeprefix("mine.py:"))


def row(faulty: tuple[Path, pd.DataFrame], seq_len: int, name: str) -> Any:
    table = faulty[1]
    return table[(table["seq_len"] == seq_len) & (table["short"] == name)].iloc[0]


@pytest.mark.parametrize("name", LOST)
def test_what_a_layer_does_to_its_process_costs_its_own_row_which_says_what_it_was(
    faulty: tuple[Path, pd.DataFrame], name: str
) -> None:
    found = row(faulty, SEQ_LEN, name)
    status, words = LOST[name]
    assert found["status"] == status
    assert re.search(words, found["status_reason"]), found["status_reason"]
    assert len(found["status_reason"]) < 1000
    assert found["status_reason"].isprintable()
    assert found["latency_median_ms"] is pd.NA


@pytest.mark.parametrize("name", MEASURED)
def test_what_does_no_harm_to_others_is_measured_and_judged(faulty: tuple[Path, pd.DataFrame], name: str) -> None:
    found = row(faulty, SEQ_LEN, name)
    assert (found["status"], found["check_verdict"]) == ("ok", MEASURED[name])
    assert found["latency_median_ms"] > 0


def test_what_happens_when_a_file_is_loaded_or_a_layer_is_built_costs_its_own_rows(
    faulty: tuple[Path, pd.DataFrame],
) -> None:
    for seq_len in (SEQ_LEN, WHOLE):
        assert row(faulty, seq_len, "TorchOomInBuild")["status"] == "oom"
        assert "asked for 16.0 TiB: RuntimeError:" in row(faulty, seq_len, "TorchOomInBuild")["status_reason"]
        assert row(faulty, seq_len, "hungry.py:X")["status"] == "oom"
        assert "hungry.py, line 1: MemoryError" in row(faulty, seq_len, "hungry.py:X")["status_reason"]


def test_an_oom_in_the_memory_pass_leaves_what_was_timed_and_says_why_the_peak_is_empty(
    faulty: tuple[Path, pd.DataFrame],
) -> None:
    found = row(faulty, SEQ_LEN, "TorchOomInMemory")
    assert found["peak_memory_mib"] is pd.NA
    assert "memory not measured: asked for 16.0 TiB" in found["warnings"]


def test_what_a_layer_changes_of_its_process_is_told_in_its_row_and_put_back(
    faulty: tuple[Path, pd.DataFrame],
) -> None:
    words = row(faulty, SEQ_LEN, "ChangesInCheck")["warnings"]
    assert "changed its process (working folder" in words
    for name in ("-> /", "priority", "SIGALRM", "ITIMER_REAL", "RLIMIT_NOFILE", "put back after it"):
        assert name in words
    assert "RLIMIT_DATA" in row(faulty, SEQ_LEN, "LimitedInCheck")["warnings"]
    for name in ("Right", "custom"):
        assert "changed its process" not in str(row(faulty, SEQ_LEN, name)["warnings"])


def test_every_contender_is_measured_where_none_misbehaves_also_after_a_kill_between_two_workloads(
    faulty: tuple[Path, pd.DataFrame],
) -> None:
    table = faulty[1]
    always = ["hungry.py:X", "TorchOomInBuild"]
    rest = table[(table["seq_len"] == WHOLE) & ~table["short"].isin(always)]
    assert set(rest["status"]) == {"ok"}
    assert (rest["peak_memory_mib"] > 0).all()
    assert set(rest["check_verdict"].dropna()) == {"pass"}
    assert row(faulty, WHOLE, "custom")["max_abs_error"] == 0.0


def test_each_death_costs_one_start_of_a_child(faulty: tuple[Path, pd.DataFrame]) -> None:
    deaths = faulty[1]["status"].eq("crashed").sum()
    assert deaths == 4
    assert Counted.starts == 1 + deaths + 1, "and one for the kill between the two points"


def test_nothing_is_left_of_a_sweep_over_layers_that_misbehave(faulty: tuple[Path, pd.DataFrame]) -> None:
    folder, table = faulty
    assert read_run(folder).state == "finished"
    pd.testing.assert_frame_equal(load_run(folder), table.drop(columns="short"))
    assert measuring_children() == []
    assert folders_left() == []
    assert owner("cpu") is None


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, list[int]]:
    """A point at which a layer starts things, and is compared with what is not there; and how many were left."""
    folder = tmp_path_factory.mktemp("beside")
    seen: list[int] = []

    def on_event(event: Event) -> None:
        if isinstance(event, StepFinished):
            seen.append(len(grandchildren()))

    grid = {"batch_size": [3], "seq_len": [5], "num_heads": [2], "d_model": 10, "device": "cpu", "threads": 1}
    how = {"time_budget_s": 0.01, "quiet_wait_s": 0, "reference": "official-fastpath"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(write_layer(folder, text=FAULTY).parent)
        contenders = ["mine.py:StartsThings", "custom", "official"]
        sweep({**grid, **how, "contenders": contenders}, folder / "run", on_event=on_event)
    return load_run(folder / "run").set_index("contender"), seen


@pytest.mark.soak
def test_a_layer_that_leaves_things_running_is_told_in_every_row_and_does_not_disturb_the_next_point(
    beside: tuple[pd.DataFrame, list[int]],
) -> None:
    table, seen = beside
    assert set(table["status"]) == {"ok", "unavailable"}
    for words in table["warnings"][table["status"] == "ok"]:
        assert "mine.py:StartsThings left 1 thread running" in words
        assert "layers left 1 process running" in words
    assert seen == [0], "its process goes with what it has started before the next workload"


# -- memory -----------------------------------------------------------------------------------------------------------


PASSES = ("Build", "Check", "Latency", "Memory")


def test_memory_is_given_back_after_an_oom_in_each_pass_also_by_a_pinned_heap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = write_layer(tmp_path, text=FAULTY)
    monkeypatch.chdir(tmp_path)
    probe, *hogs = (f"mine.py:{name}" for name in ("Probe", *(f"HogsIn{place}" for place in PASSES)))
    with MeasuringChild(heap="pinned") as child:

        def measure(seq_len: int, *names: str, **changes: Any) -> Any:
            own = {name: f"{mine.parent}/{name}" for name in names if name != "custom"}
            request = {
                "request": "measure",
                "workload": make_workload(seq_len=seq_len, **changes).to_dict(),
                "contenders": [*names, "official"],
                "layers": own,
                "time_budget_s": 0.01,
                "order_seed": 7,
            }
            return child.ask(request, limit_s=120)["rows"]

        measure(SEQ_LEN, probe, "custom")
        rows = measure(SEQ_LEN, *hogs)
        measure(SEQ_LEN, probe, "custom")
        large = measure(509, "custom", d_model=64)
    assert [rows[name]["status"] for name in hogs] == ["oom", "oom", "oom", "ok"]
    assert "memory not measured: ValueError: can't allocate memory" in rows[hogs[-1]]["warnings"]
    (before, tensors_before), (after, tensors_after) = map(json.loads, Path("probed.jsonl").read_text().splitlines())
    assert tensors_after == tensors_before
    assert after - before < 2**25, "each of them held 2^27 bytes"
    assert (large["custom"]["status"], large["custom"]["max_abs_error"]) == ("ok", 0.0)


def test_what_an_error_holds_is_let_go_with_the_errors_behind_it() -> None:
    from profiling.measuring.garbage import forget

    class Tensor:
        pass

    held: list[weakref.ref[Tensor]] = []

    def call() -> None:
        tensor = Tensor()
        held.append(weakref.ref(tensor))
        raise MemoryError

    def wrap() -> None:
        try:
            call()
        except MemoryError as error:
            raise ValueError("planted") from error

    with pytest.raises(ValueError, match="planted") as caught:
        wrap()
    error = caught.value
    del caught
    assert held[0]() is not None
    forget(error)
    assert held[0]() is None


@pytest.fixture
def memory_group() -> Iterator[Path]:
    yield from make_memory_group(900)


@pytest.mark.soak
def test_the_kernels_oom_killer_and_a_kill_from_outside_are_told_apart(memory_group: Path, tmp_path: Path) -> None:
    write_layer(tmp_path, text=FAULTY)
    code = (
        f"import os; open({str(memory_group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from profiling import run_sweep\n"
        "run_sweep(batch_size=[3], seq_len=[5], num_heads=[2], d_model=10, device='cpu', threads=1, quiet_wait_s=0,\n"
        "    time_budget_s=0.01, contenders=['mine.py:Kills', 'mine.py:Eats', 'custom', 'official'], out='run')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    table = load_run(tmp_path / "run").set_index("contender")
    assert table["status"].to_dict() == {
        "mine.py:Kills": "crashed",
        "mine.py:Eats": "oom",
        "custom": "ok",
        "official": "ok",
    }
    assert table["status_reason"]["mine.py:Eats"].startswith("ended by the kernel's out-of-memory killer")
    assert "signal 9 (SIGKILL)" in table["status_reason"]["mine.py:Kills"]


@pytest.mark.parametrize(
    ("after", "status", "words"),
    [
        (OomKills(5, is_of_group=True), "crashed", "ended by signal 9 (SIGKILL)"),
        (OomKills(6, is_of_group=True), "oom", "ended by the kernel's out-of-memory killer"),
        (OomKills(6), "oom", "probably ended by the kernel's out-of-memory killer"),
    ],
)
def test_a_kill_is_an_oom_where_the_kernels_count_rose_while_the_child_was_asked(
    monkeypatch: pytest.MonkeyPatch, after: OomKills, status: str, words: str
) -> None:
    script(monkeypatch, "sys.stdin.readline(); os.kill(os.getpid(), 9)")
    # One at the start, one when it is asked: what was counted between the two befell another process.
    counts = iter([OomKills(3, is_of_group=True), OomKills(5, is_of_group=True), after])
    monkeypatch.setattr(child_process, "oom_kills", lambda: next(counts))
    assert death().status == status
    counts = iter([OomKills(3, is_of_group=True), OomKills(5, is_of_group=True), after])
    assert str(death()) == words


@pytest.mark.parametrize(
    ("code", "count", "status", "words"),
    [
        (-11, 1, "crashed", "signal 11 (SIGSEGV)"),
        (-77, 0, "crashed", "signal 77 (unknown)"),
        (0, 0, "crashed", "though with exit status 0"),
        (3, 1, "crashed", "exit status 3"),
    ],
)
def test_an_exit_that_was_no_kill_is_never_the_oom_killers(code: int, count: int, status: str, words: str) -> None:
    told, reason = explain_exit(code, before=OomKills(), after=OomKills(count, is_of_group=True))
    assert told == status
    assert words in reason


def test_each_death_for_want_of_memory_costs_one_contender_and_never_goes_on_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hungry(FakeChild):
        """The kernel takes it at each measurement, whoever runs."""

        starts = 0

        def __init__(self, **options: Any) -> None:
            Hungry.starts += 1
            super().__init__(**options)

        def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
            if request["request"] == "measure":
                raise ChildDied("oom", "planted", Running("check", request["contenders"][0]))
            return super().ask(request, limit_s=limit_s)

    FakeChild.reset()
    monkeypatch.setattr("profiling.measurer.MeasuringChild", Hungry)
    grid = {"batch_size": [3], "seq_len": [5, 7], "num_heads": [2], "d_model": 10, "device": "cpu"}
    assert sweep({**grid, "contenders": ["custom", "official"]}, tmp_path / "run").state == "finished"
    assert set(load_run(tmp_path / "run")["status"]) == {"oom"}
    assert Hungry.starts == 1 + 4


# -- what comes over the pipes, from a process that only pretends to measure ------------------------------------------


def script(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Children of this test run that."""
    monkeypatch.setattr(child_process, "_CHILD", f"import os, sys, time; {code}")


def death() -> ChildDied:
    with MeasuringChild() as child, pytest.raises(ChildDied) as caught:
        child.ask({"request": "environment"}, limit_s=30)
    assert folders_left() == []
    return caught.value


def test_a_child_without_memory_to_answer_is_an_oom_of_whoever_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, "sys.stdin.readline(); print('{\"is_out_of_memory\": true}', flush=True); time.sleep(600)")
    assert (death().status, str(death())) == ("oom", "had no memory left to go on or to answer, and was ended")


def test_a_refusal_has_the_status_that_the_child_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, 'sys.stdin.readline(); print(\'{"error": "too large", "status": "oom"}\', flush=True)')
    with MeasuringChild() as child, pytest.raises(MeasuringError, match="too large") as caught:
        child.ask({"request": "environment"}, limit_s=30)
    assert caught.value.status == "oom"


def test_an_answer_that_never_ends_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "ANSWER_MAX_BYTES", 2**16)
    script(monkeypatch, "sys.stdin.readline(); sys.stdout.write('x' * 2**20); time.sleep(600)")
    died = death()
    assert died.status == "crashed"
    assert "something else than JSON" in str(died)


def test_a_child_that_closes_its_answers_and_goes_on_is_told_as_that_not_as_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child_process, "EXIT_LIMIT_S", 0.2)
    script(monkeypatch, "sys.stdin.readline(); os.close(1); time.sleep(600)")
    died = death()
    assert (died.status, str(died)) == ("crashed", "closed the pipe for its answers, and was ended")


def test_last_words_are_one_line_of_bounded_length_without_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, "sys.stdin.readline(); os.write(2, b'\\x1b[31m\\0\\xff' + b'x' * 10**6); os._exit(7)")
    words = str(death())
    assert words.startswith("ended with exit status 7; its last words: ")
    assert words.isprintable()
    assert len(words) <= LAST_WORDS_LENGTH + 50


def test_the_last_words_are_what_was_said_before_python_dumped_its_calls() -> None:
    dump = ["Fatal Python error: Aborted", "", "Current thread 0x7 (most recent call first):"]
    calls = [f'  File "{child_process.__file__}", line 3 in ask', '  File "/home/me/my, layer.py", line 13 in forward']
    torchs = ["Extension modules: torch._C (total: 29)"]
    told = with_last_words("ended", ["terminate called" + dump[0], *dump[1:], *calls, *torchs])
    assert told == "ended, at my, layer.py, line 13; its last words: terminate called"
    assert with_last_words("ended", [*dump, calls[0], '  File "<string>", line 1 in <module>', *torchs]) == "ended"
    assert with_last_words("ended", ["one", "two", " "]) == "ended; its last words: two"


def test_a_copy_that_holds_the_answers_open_does_not_hide_the_death(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, "sys.stdin.readline(); os.fork() or (os.setsid(), time.sleep(600)); os._exit(5)")
    started = time.monotonic()
    assert str(death()) == "ended with exit status 5"
    assert time.monotonic() - started < 20


# -- processes --------------------------------------------------------------------------------------------------------


def test_a_measuring_child_is_what_the_kernel_takes_first_when_memory_is_short(tmp_path: Path) -> None:
    from profiling.measuring.child import OOM_SCORE, offer_to_the_oom_killer

    path = tmp_path / "score"
    for before, after in (("0\n", OOM_SCORE), ("-17", OOM_SCORE), ("997", 997)):
        path.write_text(before)
        offer_to_the_oom_killer(path)
        assert int(path.read_text()) == after
    offer_to_the_oom_killer(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_nothing_of_a_child_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    mine = write_layer(tmp_path, text=FAULTY)
    request = {
        "request": "measure",
        "workload": make_workload().to_dict(),
        "contenders": ["mine.py:HoldsTheInterpreter"],
        "layers": {"mine.py:HoldsTheInterpreter": f"{mine}:HoldsTheInterpreter"},
        "time_budget_s": 0.01,
        "order_seed": 7,
    }
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from profiling.child_process import MeasuringChild\n"
        "held = MeasuringChild()\n"
        "print(held.pid, flush=True)\n"
        f"held.ask({request!r})"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert supervisor.stdout is not None
        pid = int(supervisor.stdout.readline())
        assert wait_until(lambda: len(grandchildren()) == 2, 120), "one fled from its session, one did not"
        score = Path(f"/proc/{pid}/oom_score_adj")
        if score.exists():
            assert int(score.read_text()) >= 500
        folders = folders_left()
        assert len(folders) == 1
    finally:
        supervisor.kill()
        supervisor.communicate()
    assert wait_until(lambda: not alive(pid), 20)
    assert wait_until(lambda: grandchildren() == [], 20)
    assert wait_until(lambda: not any(folder.exists() for folder in folders), 20)
    assert list(Path(os.environ["TMPDIR"]).rglob("left-by-a-layer-*")) == []


def alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_what_a_child_started_is_found_by_group_and_by_mark_and_nothing_else_is() -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    leader = subprocess.Popen(sleep, start_new_session=True)
    fled = subprocess.Popen(sleep, start_new_session=True, env={**os.environ, "MHA_BENCH_CHILD": "/a/mark"})
    other = subprocess.Popen(sleep, start_new_session=True, env={**os.environ, "MHA_BENCH_CHILD": "/a/mark2"})
    try:
        assert sorted(started_by("/a/mark", leader.pid)) == sorted([leader.pid, fled.pid])
        child_process.end_started("/a/mark", leader.pid)
        assert (leader.wait(10), fled.wait(10)) == (-signal.SIGKILL, -signal.SIGKILL)
        assert other.poll() is None
    finally:
        for process in (leader, fled, other):
            process.kill()
            process.wait()


# -- a reference that is lost -----------------------------------------------------------------------------------------


def test_a_row_without_a_comparison_says_which_reference_was_lost_and_how(
    beside: tuple[pd.DataFrame, list[int]],
) -> None:
    table, _ = beside
    assert table["status"]["official-fastpath"] == "unavailable", "torch takes it with biases only"
    assert table["check_verdict"]["mine.py:StartsThings"] is pd.NA
    words = table["warnings"]
    assert "not compared with official-fastpath, which is unavailable here" in words["mine.py:StartsThings"]
    assert "not compared" not in words["custom"]


def test_a_reference_that_took_its_process_down_is_named_in_the_rows_that_miss_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeChild.reset()
    FakeChild.script = {("official", 5): ChildDied("oom", "planted", Running("check", "official"))}
    monkeypatch.setattr("profiling.measurer.MeasuringChild", FakeChild)
    grid = {"batch_size": [3], "seq_len": [5, 7], "num_heads": [2], "d_model": 10, "device": "cpu"}
    sweep({**grid, "contenders": ["custom", "official"]}, tmp_path / "run")
    words = load_run(tmp_path / "run").set_index(["seq_len", "contender"])["warnings"]
    assert "not compared with official, which is oom here" in words[5, "custom"]
    assert "not compared" not in str(words[7, "custom"])


# -- the check --------------------------------------------------------------------------------------------------------


def test_a_check_names_what_a_layer_did_to_its_process_and_the_next_check_is_answered(tmp_path: Path) -> None:
    mine = write_layer(tmp_path, text=FAULTY)
    broken = write_layer(tmp_path, "broken.py", "import os; os.kill(os.getpid(), 11)")
    with LiveChecker("cpu") as checker:
        with pytest.raises(ChildDied, match=r"ended by signal 11 \(SIGSEGV\)") as caught:
            checker.check(make_workload(), f"{broken}:X")
        assert (caught.value.status, caught.value.running.phase) == ("crashed", "check")
        assert owner("cpu") is None
        assert checker.check(make_workload(), f"{mine}:Right")["verdict"] == "pass"
    assert folders_left() == []
