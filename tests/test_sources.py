"""The sources of a run: kept as they were read, held to their hash, and never another's file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import FakeChild, lost_row, make_row, make_workload, measured_points, write_run
from own_layers import RIGHT, write_layer

from profiling.child_process import ChildDied
from profiling.kept_sources import (
    MAX_SOURCE_BYTES,
    find_source,
    keep_layer,
    keep_recipe,
    keep_source,
    measured_sources,
    read_recipes,
    read_source,
    recipe_key,
)
from profiling.layers import LayerFile, hash_of_source, read_source_files, source_hash
from profiling.live_check import LiveChecker
from profiling.measuring.contenders import loading
from profiling.measuring.contenders.known import source_hash as hash_of_ours
from profiling.protocol import Running
from profiling.runs import RunError
from profiling.sources import NoSource, Source, source_diff
from profiling.sweep import sweep
from profiling.table import load_measurements

GRID: dict[str, Any] = {
    "batch_size": [3],
    "seq_len": [5, 7],
    "num_heads": [2],
    "d_model": 10,
    "device": "cpu",
    "contenders": ["mine.py:Right"],
    "time_budget_s": 0.02,
    "quiet_wait_s": 0,
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A layer's file in a package, with one beside it, one above it, and one that it does not import."""
    inner = tmp_path / "code" / "pack" / "inner"
    mine = write_layer(inner, text="from ..base import scale\nfrom . import beside\n" + RIGHT)
    write_layer(inner, "beside.py", "x = 1\n")
    write_layer(inner, "alone.py", "y = 2\n")
    write_layer(inner, "__init__.py", "")
    write_layer(inner.parent, "base.py", "scale = 3\n")
    write_layer(inner.parent, "__init__.py", "")
    return mine


def test_a_source_is_its_files_as_they_were_read_and_says_what_imports_need(package: Path, tmp_path: Path) -> None:
    source = Source.of_layer(package)
    names = {"pack/inner/mine.py", "pack/inner/beside.py", "pack/inner/__init__.py", "pack/base.py", "pack/__init__.py"}
    assert set(source.files) == names
    assert (source.main, source.root, source.hash) == ("pack/inner/mine.py", ".", source_hash(package))
    assert keep_source(tmp_path / "run", source)
    before = sorted((tmp_path / "run").rglob("*"))
    assert keep_source(tmp_path / "run", source), "once is enough"
    assert sorted((tmp_path / "run").rglob("*")) == before
    package.write_text("edited")
    assert read_source(tmp_path / "run", source.hash) == source
    assert not [path for path in before if path.name.startswith(".")], "nothing is left over"


def test_the_source_of_our_layers_is_what_a_child_says_it_has_loaded() -> None:
    assert Source.of_ours().hash == hash_of_ours("custom") == hash_of_ours("custom-fused")


def test_what_is_too_large_or_has_no_room_is_not_kept_and_costs_nothing(tmp_path: Path) -> None:
    large = write_layer(tmp_path / "code", text="#" * (MAX_SOURCE_BYTES + 1))
    assert not keep_source(tmp_path / "run", Source.of_layer(large))
    assert not (tmp_path / "run").exists()
    (tmp_path / "file").write_text("a file where a folder should be")
    assert not keep_source(tmp_path / "file", Source.of_ours())


def kept(folder: Path, text: str = RIGHT) -> tuple[Path, Source]:
    """A run's folder with one source in it, and that source."""
    source = Source.of_layer(write_layer(folder / "code", text=text))
    assert keep_source(folder / "run", source)
    return folder / "run", source


def edit_text(place: Path) -> None:
    (place / "mine.py").write_text(RIGHT.replace("math.sqrt", "math.log"))


def link_to_secret(place: Path) -> None:
    secret = place.parents[2] / "secret.txt"
    secret.write_text(RIGHT)  # the very text that was measured: it is still no file of the run's
    (place / "mine.py").unlink()
    (place / "mine.py").symlink_to(secret)


def name_outside(name: str) -> Callable[[Path], None]:
    def edit(place: Path) -> None:
        (place.parents[2] / "secret.txt").write_text(RIGHT)
        (place / "source.json").write_text(json.dumps({"main": name, "root": ".", "files": [name]}))

    return edit


def link_folder(place: Path) -> None:
    place.rename(place.parents[2] / "elsewhere")
    place.symlink_to(place.parents[2] / "elsewhere")


def pipe(place: Path) -> None:
    (place / "mine.py").unlink()
    os.mkfifo(place / "mine.py")


def grow(place: Path) -> None:
    os.truncate(place / "mine.py", MAX_SOURCE_BYTES + 1)


def write_about(text: str) -> Callable[[Path], None]:
    return lambda place: (place / "source.json").write_text(text) and None


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (edit_text, "is not what was measured: it was edited"),
        (link_to_secret, "no file of the run's own"),
        (name_outside("../../../secret.txt"), "names no files that can be read"),
        (name_outside("/etc/passwd"), "names no files that can be read"),
        (name_outside("..\\..\\secret.txt"), "names no files that can be read"),
        (name_outside("source.json"), "is not what was measured"),
        (link_folder, "no file of the run's own"),
        (pipe, "no file of the run's own"),
        (grow, "larger than any source that is kept"),
        (write_about("["), "cannot be read"),
        (write_about("[" * 100_000), "cannot be read"),
        (write_about("[]"), "holds no object"),
        (write_about('{"files": ["mine.py"], "main": "other.py", "root": "."}'), "which file is the layer's own"),
        (write_about('{"files": ["mine.py"], "main": "mine.py", "root": "../.."}'), "which file is the layer's own"),
    ],
)
def test_what_was_planted_among_the_sources_is_refused(
    edit: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    folder, source = kept(tmp_path)
    edit(folder / "sources" / source.hash)
    with pytest.raises(NoSource, match=words):
        read_source(folder, source.hash)


@given(st.text(max_size=40) | st.sampled_from(("..", "../..", "/etc", "0" * 15, "0" * 17, "0123456789ABCDEF", ".")))
def test_no_hash_leads_anywhere_but_to_what_was_kept(hash_: str) -> None:
    with pytest.raises(NoSource):
        read_source(Path(__file__).parent, hash_)


def test_a_source_that_was_not_kept_is_the_layers_file_where_that_has_its_hash(tmp_path: Path) -> None:
    mine = write_layer(tmp_path / "code")
    layer, hash_ = LayerFile(mine, "Right"), source_hash(mine)
    assert find_source(tmp_path / "run", hash_, layer).texts == {"mine.py": RIGHT}
    mine.write_text("edited")
    with pytest.raises(NoSource, match=rf"has not kept source {hash_}; and .*mine\.py is another by now, or gone"):
        find_source(tmp_path / "run", hash_, layer)


def test_no_run_makes_another_file_a_layer(tmp_path: Path) -> None:
    """Not even with the right hash: a run may name any path as the place of a layer."""
    secret = tmp_path / "passwd"
    secret.write_text("root:x:0:0\n")
    hash_ = hash_of_source(secret, read_source_files(secret))
    with pytest.raises(NoSource):
        find_source(tmp_path / "run", hash_, LayerFile(secret, "Right"))
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    with pytest.raises(NoSource):
        find_source(tmp_path / "run", hash_, LayerFile(pipe, "Right"))


def test_a_diff_tells_changed_new_and_missing_files() -> None:
    before = Source("a" * 16, "m.py", ".", {"m.py": b"x = 1\ny = 2\n", "old.py": b"z\n"})
    after = Source("b" * 16, "m.py", ".", {"m.py": b"x = 1\ny = 3\n", "new.py": b"w\n"})
    lines = source_diff(before, after).splitlines()
    assert lines[:2] == [f"--- {'a' * 16}/m.py", f"+++ {'b' * 16}/m.py"]
    assert [line for line in lines if line[0] in "+-" and not line.startswith(("+++", "---"))] == [
        *("-y = 2", "+y = 3", "-z", "+w"),
    ]
    assert source_diff(before, before) == ""


def test_a_run_tells_which_rows_came_from_which_source(tmp_path: Path) -> None:
    _, source = kept(tmp_path)
    rows = [
        make_row(replicate=replicate, point=point, source_hash=source.hash, measured_at=f"2026-01-0{replicate}")
        for replicate in (2, 1)
        for point in (2, 1)
    ]
    rows += [make_row("official"), lost_row("custom", "invalid", "heads", point=3)]
    found = measured_sources(write_run(tmp_path / "run", rows))
    assert [(one.hash, one.contenders, one.num_rows, one.points, one.first_measured_at) for one in found] == [
        (source.hash, ("custom",), 4, (1, 2), "2026-01-01"),
        ("hash of official", ("official",), 1, (1,), "2026-01-02T03:05:05+00:00"),
    ]
    assert (found[0].source, found[0].reason) == (source, "")
    assert found[1].source is None
    assert "no hash of a source" in found[1].reason


def test_recipes_are_kept_once_each_under_what_they_hang_on(tmp_path: Path) -> None:
    folder, source = kept(tmp_path)
    layer = LayerFile(tmp_path / "code" / "mine.py", "Right")
    keys = [recipe_key(layer, make_workload(**changes)) for changes in ({}, {"causal": True, "bias": True})]
    assert keys == [
        "Right, heads 2, d_model 10, seq_len 7",
        "Right, heads 2, d_model 10, seq_len 7, bias, causal",
    ]
    for number, key in enumerate([*keys, keys[0]]):
        keep_recipe(folder, source.hash, key, {"number": number})
    assert read_recipes(folder, source.hash) == {keys[0]: {"number": 0}, keys[1]: {"number": 1}}
    keep_recipe(folder, "0" * 16, "x", {})
    assert not (folder / "sources" / ("0" * 16)).exists(), "there is no such source"


# -- in a sweep -------------------------------------------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write_layer(tmp_path / "code").parent)
    return tmp_path / "code" / "mine.py"


def edit_at(mine: Path, seq_len: int, what: Callable[[dict[str, Any]], None]) -> type[FakeChild]:
    """A child of which the layer is edited while it measures at that length."""

    class Edited(FakeChild):
        def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
            if request["request"] == "measure" and request["workload"]["seq_len"] == seq_len:
                mine.write_text(RIGHT + "# edited\n")
                answer = super().ask(request, limit_s=limit_s)
                what(answer)
                return answer
            return super().ask(request, limit_s=limit_s)

    return Edited


def test_rows_of_an_edited_source_say_which_it_was_keep_it_and_are_measured_again(
    fake: type[FakeChild], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = source_hash(mine)

    def loaded_anew(answer: dict[str, Any]) -> None:
        answer["rows"]["mine.py:Right"]["source_hash"] = source_hash(mine)

    monkeypatch.setattr("profiling.measurer.MeasuringChild", edit_at(mine, 7, loaded_anew))
    sweep(GRID, tmp_path / "run")
    rows = load_measurements(tmp_path / "run").set_index("contender").loc["mine.py:Right"]
    edited = source_hash(mine)
    assert rows["status"].tolist() == ["ok", "error"]
    assert rows["source_hash"].tolist() == [began, edited]
    before, after = (read_source(tmp_path / "run", hash_) for hash_ in (began, edited))
    assert [line for line in source_diff(before, after).splitlines() if line.startswith("+# ")] == ["+# edited"]

    mine.write_text(RIGHT)
    monkeypatch.setattr("profiling.measurer.MeasuringChild", fake)
    fake.reset()
    sweep({}, tmp_path / "run", resume=True)
    assert measured_points(fake.asked) == [7]
    rows = load_measurements(tmp_path / "run").set_index("contender").loc["mine.py:Right"]
    assert rows["source_hash"].tolist() == [began] * 2


def test_a_layer_that_takes_its_child_down_after_it_was_edited_is_not_told_as_what_the_run_began_with(
    fake: type[FakeChild], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = ChildDied("crashed", "was ended", Running("latency", "mine.py:Right", 0.0))

    def dies(_: dict[str, Any]) -> None:
        raise died

    class Edited(edit_at(mine, 7, dies)):
        def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
            if "mine.py:Right" not in request.get("contenders", ["mine.py:Right"]):
                return FakeChild.ask(self, request, limit_s=limit_s)
            return super().ask(request, limit_s=limit_s)

    monkeypatch.setattr("profiling.measurer.MeasuringChild", Edited)
    sweep({**GRID, "seq_len": [7]}, tmp_path / "run")
    row = load_measurements(tmp_path / "run").set_index("contender").loc["mine.py:Right"]
    assert row["status_reason"].startswith("its source has changed since the run began")
    assert load_measurements(tmp_path / "run")["source_hash"].isna().tolist() == [True, False], "nobody can tell"


def test_a_layer_that_takes_its_child_down_as_it_was_is_told_so(
    fake: type[FakeChild], mine: Path, tmp_path: Path
) -> None:
    fake.script[("mine.py:Right", 7)] = ChildDied("crashed", "was ended", Running("latency", "mine.py:Right", 0.0))
    sweep(GRID, tmp_path / "run")
    rows = load_measurements(tmp_path / "run").set_index("contender").loc["mine.py:Right"]
    assert rows["status"].tolist() == ["ok", "crashed"]
    assert rows["source_hash"].tolist() == [source_hash(mine)] * 2


def test_a_layer_that_is_edited_in_the_moment_in_which_it_is_loaded_has_no_hash(tmp_path: Path) -> None:
    whole = write_layer(tmp_path, "whole.py")
    torn = write_layer(tmp_path, "torn.py", f"{RIGHT}\nopen(__file__, 'a').write('# later\\n')\n")
    for file in (whole, torn):
        loading.loaded_hash(f"{file}:Right")
        loading.load_layer(f"{file}:Right")
    assert loading.loaded_hash(f"{whole}:Right") == source_hash(whole)
    assert loading.loaded_hash(f"{torn}:Right") is None


def test_what_a_child_has_loaded_is_kept_where_the_file_still_is_that(tmp_path: Path) -> None:
    layer = LayerFile(write_layer(tmp_path / "code"), "Right")
    assert not keep_layer(tmp_path / "run", layer, None)
    assert not keep_layer(tmp_path / "run", layer, "0" * 16)
    assert not (tmp_path / "run").exists()
    assert keep_layer(tmp_path / "run", layer, source_hash(layer.path))
    layer.path.unlink()
    assert not keep_layer(tmp_path / "other", layer, "0" * 16)


def test_a_live_check_begins_a_new_child_when_the_file_or_one_that_it_imports_was_edited(
    fake: type[FakeChild], package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[FakeChild] = []

    class Counted(FakeChild):
        def __init__(self, **how: Any) -> None:
            super().__init__(**how)
            started.append(self)

        def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
            return {"verdict": "pass"} if request["request"] == "check" else super().ask(request, limit_s=limit_s)

    monkeypatch.setattr("profiling.live_check.MeasuringChild", Counted)
    counts = []
    with LiveChecker("cpu") as checker:
        for edited in (None, None, package, package.parent / "beside.py", package.parent / "alone.py"):
            if edited is not None:
                edited.write_text(edited.read_text() + "# edited\n")
            assert checker.check(make_workload(), f"{package}:Right") == {"verdict": "pass"}
            counts.append(len(started))
    assert counts == [1, 1, 2, 3, 3]
    assert all(child.is_dead for child in started)


def test_a_disk_without_room_for_a_recipe_costs_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, source = kept(tmp_path)

    def full(*_: object) -> None:
        raise RunError("no space left")

    monkeypatch.setattr("profiling.kept_sources.write_aside", full)
    keep_recipe(folder, source.hash, "x", {})
    assert read_recipes(folder, source.hash) == {}


@pytest.mark.parametrize("part", ["sources", "hash"])
def test_nothing_is_written_through_a_link_out_of_the_run(part: str, tmp_path: Path) -> None:
    folder, source = kept(tmp_path)
    linked = folder / "sources" if part == "sources" else folder / "sources" / source.hash
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    keep_recipe(folder, source.hash, "x", {})
    if part == "sources":
        assert not keep_source(folder, Source.of_ours())
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before
