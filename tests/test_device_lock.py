from __future__ import annotations

import json
import os
import shutil
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


# -- several at once, for real ----------------------------------------------------------------------------------------

CONTEND = """
import sys, time
from pathlib import Path
from profiling.device_lock import DeviceBusy, DeviceLock
from profiling.runs import RunError

lock = DeviceLock("cuda:3")
Path(sys.argv[1], sys.argv[2]).touch()
while not Path(sys.argv[1], "go").exists():
    pass
try:
    lock.acquire("sweep", run_id="number" + sys.argv[2])
except DeviceBusy as error:
    print(error)
else:
    print("measures", flush=True)
    input()
    lock.release()
"""


def test_of_several_that_begin_in_the_same_instant_one_measures_and_the_others_are_told_whom_to_wait_for(
    tmp_path: Path,
) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CONTEND, str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(5)
    ]
    try:
        while len(list(tmp_path.iterdir())) < 5:
            assert all(process.poll() is None for process in started)
        (tmp_path / "go").touch()
        said = [process.stdout.readline().strip() for process in started if process.stdout is not None]
        (first,) = (number for number, line in enumerate(said) if line == "measures")
        holder = owner("cuda:3")
        assert holder is not None
        words = f"cuda:3 is busy since {holder.started_at} with sweep number{first} (process {started[first].pid})"
        assert [line for line in said if line != "measures"] == [words] * 4
    finally:
        for process in started:
            process.communicate("\n", timeout=20)
    assert owner("cuda:3") is None


def locks_folder() -> Path:
    owner("cuda:3")
    return next(Path(tempfile.gettempdir()).glob("mha-bench-*"))


HOLD = "from profiling.device_lock import DeviceLock; DeviceLock('cuda:3').acquire('sweep', run_id='theirs'); input()"


@pytest.fixture
def theirs() -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the device."""
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, text=True)
    while (holder := owner("cuda:3")) is None or holder.run_id != "theirs":
        assert process.poll() is None
    yield process
    process.kill()
    process.communicate()


NO_OWNERS: list[str | bytes] = [
    "",
    "\0" * 64,
    "[" * 100_000,
    "[]",
    "null",
    '{"kind": "sweep"}',
    '{"kind": ["sweep"], "device": "cuda:3", "pid": 1, "started_at": "noon"}',
    '{"kind": "sweep", "device": "cuda:3", "pid": true, "started_at": "noon"}',
    '{"kind": "sweep", "device": "cuda:3", "pid": 1, "started_at": 5}',
    '{"kind": "sweep", "device": "cuda:3", "pid": 1, "started_at": "noon", "more": 1}',
    b"\xff\xfe",
]


def test_what_is_no_owners_file_is_told_as_nobody_known(theirs: subprocess.Popen[str]) -> None:
    path = locks_folder() / "cuda-3.json"
    for text in NO_OWNERS:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        holder = owner("cuda:3")
        assert holder is not None
        assert (holder.kind, holder.is_known, holder.started_at) == ("measurement", False, ""), text
        with pytest.raises(DeviceBusy, match=r"^cuda:3 is busy with a measurement that does not say whose it is$"):
            DeviceLock("cuda:3").acquire("sweep", patience_s=0.0)


@pytest.mark.parametrize("how", ["no such process", "its number was given to another"])
def test_a_sweep_that_was_killed_is_waited_for_until_its_child_has_ended(
    theirs: subprocess.Popen[str], how: str
) -> None:
    path = locks_folder() / "cuda-3.json"
    dead = {"pid": 2**22 + 1} if how == "no such process" else {"process_started": 1.0}
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | dead), encoding="utf-8")
    told: list[Owner] = []

    def on_wait(holder: Owner) -> None:
        told.append(holder)
        theirs.kill()

    lock = DeviceLock("cuda:3")
    lock.acquire("sweep", run_id="mine", on_wait=on_wait)
    assert [holder.run_id for holder in told] == ["theirs"]
    lock.release()


# -- what others may have put where the locks lie ---------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folder of the locks will be looked for; nothing is there yet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"mha-bench-{os.getuid()}"


@pytest.mark.parametrize("kind", ["file", "link to a folder", "link to nothing"])
def test_a_folder_of_locks_that_is_none_is_refused(place: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    if kind == "file":
        place.write_text("", encoding="utf-8")
    else:
        place.symlink_to(tmp_path / ("elsewhere" if kind == "link to a folder" else "nowhere"))
    with pytest.raises(RunError, match=r"mha-bench-\d+ must be a folder, not a file or a link; remove it$"):
        DeviceLock("cpu").acquire("sweep")
    assert owner("cpu") is None
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_of_locks_that_belongs_to_another_user_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.mkdir()
    if os.geteuid() == 0:
        os.chown(place, 65534, 65534)
    else:  # nobody but root can give a folder away
        stranger = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: stranger)
        place.rename(place.with_name(f"mha-bench-{stranger}"))
    with pytest.raises(RunError, match=r"belongs to another user \(uid \d+\); have it removed, or set TMPDIR"):
        DeviceLock("cpu").acquire("sweep")
    assert owner("cpu") is None


def test_a_folder_of_locks_that_others_may_write_is_closed_to_them(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)
    lock = DeviceLock("cpu")
    lock.acquire("sweep")
    assert place.stat().st_mode & 0o077 == 0
    lock.release()


def test_without_a_temporary_folder_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(RunError, match=r"cannot be made: No usable temporary directory .*; set TMPDIR to a folder"):
        DeviceLock("cpu").acquire("sweep")
    assert owner("cpu") is None


def test_a_file_system_without_locks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> bool:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("profiling.device_lock.lock_descriptor", none)
    with pytest.raises(RunError, match=r"cuda-3\.lock cannot be taken: No locks available"):
        DeviceLock("cuda:3").acquire("sweep")
    assert owner("cuda:3") is None


def test_a_folder_of_locks_that_was_taken_away_does_not_keep_from_ending(place: Path) -> None:
    lock = DeviceLock("cpu")
    lock.acquire("sweep")
    shutil.rmtree(place)
    lock.release()
