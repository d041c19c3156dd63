from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiling.child_process import ChildStopped
from profiling.device_lock import DeviceBusy, DeviceLock, Owner, owner
from profiling.runs import RunError
from profiling.stopping import StopSwitch


@pytest.fixture
def held() -> Iterator[DeviceLock]:
    lock = DeviceLock("cuda:3")
    yield lock
    lock.release()


def test_whoever_holds_a_device_is_known_while_it_is_held(held: DeviceLock, tmp_path: Path) -> None:
    assert owner("cuda:3") is None
    held.acquire("sweep", run_id="mine", folder=tmp_path)
    holder = owner("cuda:3")
    assert holder is not None
    assert (holder.kind, holder.run_id, holder.folder, holder.pid) == ("sweep", "mine", str(tmp_path), os.getpid())
    held.release()
    assert owner("cuda:3") is None


def test_a_second_sweep_is_refused_with_who_and_since_when(held: DeviceLock) -> None:
    held.acquire("sweep", run_id="mine")
    holder = owner("cuda:3")
    assert holder is not None
    with pytest.raises(DeviceBusy) as caught:
        DeviceLock("cuda:3").acquire("sweep", run_id="yours", pause=lambda _: pytest.fail("waited for a sweep"))
    words = f"cuda:3 is busy since {holder.started_at} with sweep mine (process {os.getpid()})"
    assert str(caught.value) == words
    assert caught.value.owner == holder


def test_devices_do_not_disturb_one_another(held: DeviceLock) -> None:
    held.acquire("sweep")
    other = DeviceLock("cuda:4")
    other.acquire("sweep")
    other.release()


def test_a_sweep_waits_for_a_live_check_and_says_so_once(held: DeviceLock) -> None:
    held.acquire("check")
    told: list[Owner] = []

    def on_wait(holder: Owner) -> None:
        told.append(holder)
        threading.Timer(0.25, held.release).start()

    waiting = DeviceLock("cuda:3")
    waiting.acquire("sweep", on_wait=on_wait)
    waiting.release()
    assert [holder.kind for holder in told] == ["check"]


def test_patience_with_a_live_check_ends(held: DeviceLock) -> None:
    held.acquire("check")
    with pytest.raises(DeviceBusy, match="with a check"):
        DeviceLock("cuda:3").acquire("sweep", patience_s=0.0)


def test_a_request_to_stop_ends_the_waiting(held: DeviceLock) -> None:
    held.acquire("check")
    stop = StopSwitch()
    threading.Timer(0.2, stop.request, ["enough"]).start()
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with pytest.raises(ChildStopped):
        DeviceLock("cuda:3").acquire("sweep", pause=stop.pause)
    if descriptors:
        assert len(os.listdir("/proc/self/fd")) == descriptors


def test_the_lock_of_a_dead_process_is_no_obstacle(held: DeviceLock) -> None:
    code = "from profiling.device_lock import DeviceLock; DeviceLock('cuda:3').acquire('sweep', run_id='dead'); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        while (holder := owner("cuda:3")) is None or holder.run_id != "dead":
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
    assert owner("cuda:3") is None
    held.acquire("sweep", run_id="mine")
    holder = owner("cuda:3")
    assert holder is not None
    assert holder.run_id == "mine"


def test_an_owner_that_has_not_said_who_it_is_is_waited_for(held: DeviceLock) -> None:
    held.acquire("sweep")
    for path in Path(tempfile.gettempdir()).glob("mha-bench-*/cuda-3.json"):
        path.write_text("{", encoding="utf-8")
    holder = owner("cuda:3")
    assert holder is not None
    assert holder.kind == "measurement"
    with pytest.raises(DeviceBusy):
        DeviceLock("cuda:3").acquire("sweep", patience_s=0.0)


def test_a_lock_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(RunError, match="lock cannot be made"):
        DeviceLock("cpu").acquire("sweep")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    owner("cpu")
    next(tmp_path.glob("mha-bench-*")).joinpath("cpu.lock").mkdir()
    with pytest.raises(RunError, match="cannot be opened"):
        DeviceLock("cpu").acquire("sweep")


def test_a_lock_whose_owner_cannot_be_written_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RunError("no space")

    monkeypatch.setattr("profiling.device_lock.write_aside", full)
    with pytest.raises(RunError, match="no space"):
        DeviceLock("cuda:3").acquire("sweep")
    assert owner("cuda:3") is None


def test_releasing_what_is_not_held_does_nothing() -> None:
    DeviceLock("cuda:3").release()
