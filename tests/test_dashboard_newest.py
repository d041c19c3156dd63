"""What is kept of files that grow: the newest alone, of a few of them, read once for all who ask at once."""

import threading

import pytest
from dashboard_samples import make_run

from dashboard import store
from dashboard.newest import Newest
from profiling.run_writer import RunWriter
from profiling.settings import SweepSettings
from profiling.workload import Grid


def test_a_thing_is_made_once_until_its_stamp_changes():
    kept, made = Newest(3), []

    def make():
        made.append(len(made))
        return made[-1]

    assert [kept.of("a", stamp, make) for stamp in (1, 1, [2], [2], 1)] == [0, 0, 1, 1, 2]


def test_of_each_thing_the_newest_alone_is_kept():
    kept = Newest(5)
    for size in range(100):
        kept.of("a", size, object)
    assert len(kept) == 1


def test_of_more_things_than_are_kept_the_one_longest_not_asked_for_goes():
    kept, made = Newest(2), []
    for name in ("a", "b", "a", "c", "a", "b"):
        kept.of(name, 1, lambda name=name: made.append(name))
    assert made == ["a", "b", "c", "b"]
    assert len(kept) == 2
    assert len(kept._busy) == 2


def test_what_cannot_be_made_is_tried_again():
    kept = Newest(2)
    with pytest.raises(ZeroDivisionError):
        kept.of("a", 1, lambda: 1 // 0)
    assert kept.of("a", 1, lambda: 7) == 7


def test_who_asks_while_it_is_made_waits_for_it_and_who_asks_for_another_does_not():
    kept, made, may_end, has_begun = Newest(3), [], threading.Event(), threading.Event()

    def make():
        has_begun.set()
        assert may_end.wait(10)
        made.append(1)
        return "slow"

    found = []
    askers = [threading.Thread(target=lambda: found.append(kept.of("a", 1, make))) for _ in range(5)]
    for asker in askers:
        asker.start()
    assert has_begun.wait(10)
    assert kept.of("b", 1, lambda: "quick") == "quick"
    may_end.set()
    for asker in askers:
        asker.join(10)
    assert found == ["slow"] * 5
    assert made == [1]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    grid = Grid(batch_size=(2,), seq_len=(3, 5), num_heads=(1,), d_model=22, device="cpu")
    return make_run(tmp_path / "r", grid=grid, settings=SweepSettings(contenders=("custom",)), done=1)


def test_a_table_is_read_again_when_and_only_when_it_changed(run, monkeypatch):
    read = []
    monkeypatch.setattr(store, "load_table", lambda folder, real=store.load_table: read.append(folder) or real(folder))
    assert store.table_of(run).equals(store.table_of(run))
    assert len(read) == 1
    path = store.folder_of(run) / "measurements.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1].replace("official", "0fficial"))  # as long as before
    assert store.table_of(run)["contender"].tolist() == ["custom", "0fficial"]
    writer = RunWriter(store.folder_of(run), run)
    writer.update(state_reason="another word")
    assert len(read) == 2
    store.table_of(run)
    assert len(read) == 2, "what run.json says of its progress changes no row"


@pytest.mark.parametrize("read", [store.table_of, lambda run: store.replicates_of(run, 1)])
def test_what_is_changed_in_a_table_is_nobody_elses(run, read):
    mine = read(run)
    mine["extra"] = 1
    mine.loc[0, "status"] = "lost"
    assert "extra" not in read(run)
    assert read(run)["status"].tolist() == ["ok", "ok"]
