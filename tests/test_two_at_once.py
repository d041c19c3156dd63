"""Two sweeps into one folder at once, in processes of their own: one measures, the other says so and alters nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up_runs import make_row, write_run

from profiling.folder_lock import FolderLock, is_free
from profiling.resuming import stored_run
from profiling.runs import RunError, read_run
from profiling.table import load_measurements, load_samples

TESTS = Path(__file__).resolve().parent
# A sweep whose child measures nothing, which begins on the word, and at its first point waits to be let go on.
SWEEP = """
import sys, time
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import made_up_runs
from profiling import measurer, opening, sweep
from profiling.device_lock import DeviceBusy
from profiling.events import StepStarted
from profiling.runs import RunError

measurer.MeasuringChild = made_up_runs.FakeChild
opening.host_environment = lambda: {"python_version": "3.11.7"}
grid = dict(batch_size=[3], seq_len=[5, 7], num_heads=[2], d_model=10, device="cpu", threads=1)
how = dict(contenders=["custom", "official"], time_budget_s=0.02, quiet_wait_s=0)
out, is_resumed = Path(sys.argv[2]), sys.argv[3] == "resume"

def tell(event):
    if isinstance(event, StepStarted) and event.progress.done == int(is_resumed):
        print("measures", flush=True)
        sys.stdin.readline()

print("ready", flush=True)
sys.stdin.readline()
try:
    sweep.sweep({} if is_resumed else {**grid, **how}, out, resume=is_resumed, on_event=tell)
except (RunError, DeviceBusy) as error:
    print(error)
else:
    print("ended")
"""


class Contestants:
    """Two such sweeps into one folder; with temporary folders of their own they do not share a device lock."""

    def __init__(self, folder: Path, tmp_path: Path, how: str, *, own_locks: bool) -> None:
        self.processes = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            place = {"TMPDIR": str(tmp_path / name)} if own_locks else {}
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-c", SWEEP, str(TESTS), str(folder), how],
                    env={**os.environ, **place},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        assert [self.line(process) for process in self.processes] == ["ready", "ready"]

    def line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def go(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()

    def refusal(self) -> str:
        """Lets both begin in the same instant, and the one that measures go on to its end; what the other said."""
        for process in self.processes:
            self.go(process)
        said = {process.pid: self.line(process) for process in self.processes}
        (winner,) = (process for process in self.processes if said[process.pid] == "measures")
        self.go(winner)
        assert self.line(winner) == "ended"
        self.winner = winner.pid
        return next(words for words in said.values() if words != "measures")

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def started() -> Iterator[list[Contestants]]:
    contestants: list[Contestants] = []
    yield contestants
    for pair in contestants:
        pair.close()


@pytest.mark.parametrize("own_locks", [False, True], ids=["one device lock", "a device lock each"])
@pytest.mark.parametrize("how", ["new", "resume"])
def test_of_two_sweeps_into_one_folder_one_measures_and_the_other_changes_nothing(
    tmp_path: Path, started: list[Contestants], how: str, own_locks: bool
) -> None:
    folder = tmp_path / "run"
    if how == "resume":
        (only,) = started_alone(tmp_path, folder)
        assert only == "ended"
        path = folder / "measurements.csv"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))  # the second point is missing
    pair = Contestants(folder, tmp_path, how, own_locks=own_locks)
    started.append(pair)
    words = pair.refusal()
    # Who came second hears of the device, of the folder, or of the run that the first has begun in it by then.
    assert any(
        text in words
        for text in (
            f"with sweep run (process {pair.winner})",
            f"{folder} is being written by another sweep",
            f"{folder} already holds run run",
            f"run run is still running (process {pair.winner}, since 20",
        )
    ), words
    assert read_run(folder).state == "finished"
    rows, samples = load_measurements(folder), load_samples(folder)
    assert rows["seq_len"].tolist() == [5, 5, 7, 7]
    assert not samples.duplicated(["replicate", "point", "contender", "round"]).any()
    assert len(samples) == 8


def started_alone(tmp_path: Path, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, str(TESTS), str(folder), "new"],
        input="\n\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.split()[2:]


# -- the lock of a folder ---------------------------------------------------------------------------------------------


def test_a_folder_is_held_by_one_and_leaves_nothing_in_it(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path / "run"), FolderLock(tmp_path / "run")
    first.acquire()
    assert not is_free(tmp_path / "run")
    with pytest.raises(RunError, match=r"run is being written by another sweep: give a new folder, or wait"):
        second.acquire()
    second.discard()
    assert list((tmp_path / "run").iterdir()) == []
    first.release()
    assert is_free(tmp_path / "run")
    second.acquire()
    second.release()


def test_a_folder_made_for_a_run_that_never_began_is_taken_away_again(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "run")
    lock.acquire()
    lock.discard()
    lock.release()
    assert not (tmp_path / "run").exists()


def test_a_folder_that_was_there_or_holds_something_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path / "mine", tmp_path / "run"):
        lock = FolderLock(folder)
        lock.acquire()
        if folder.name == "run":
            write_run(folder, [make_row()])
        lock.discard()
        lock.release()
        assert folder.is_dir()


def test_a_file_system_that_locks_no_folders_keeps_nobody_from_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: object) -> None:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refuse)
    lock = FolderLock(tmp_path / "run")
    lock.acquire()
    assert not is_free(tmp_path / "run"), "it cannot be told"
    lock.release()


def test_a_folder_in_which_another_sweep_has_not_yet_written_its_run_is_told_as_being_written(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    lock = FolderLock(folder)
    lock.acquire()
    (folder / ".run.json.7.tmp").write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match="run is being written by another sweep: give a new folder, or wait"):
        stored_run(folder, resume=False)
    lock.release()
    with pytest.raises(RunError, match="run is not empty and holds no run: give a new folder"):
        stored_run(folder, resume=False)
