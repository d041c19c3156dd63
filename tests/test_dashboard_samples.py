"""The samples of one point: found in their file, laid out, divided round by round, drawn, and told in words."""

import csv
import math
import os

import pandas as pd
import pytest
from dashboard_samples import make_run, point_rows, sample_rows, without_numbers
from hypothesis import given
from hypothesis import strategies as st

from dashboard import sample_charts, sample_panel, sample_store, sample_text, store
from dashboard.sample_charts import looks_of, ratios_chart, shown_range, spread_chart, times_chart
from dashboard.sample_ratios import laid_out, ratios_of, thinned, within
from dashboard.sample_store import SampleFile
from profiling.columns import SAMPLE_COLUMNS, names
from profiling.run_writer import RunWriter, to_csv
from profiling.runs import SAMPLES_FILE, RunError
from profiling.settings import SweepSettings
from profiling.table import load_measurements, load_run, load_samples
from profiling.workload import Grid

GRID = Grid(batch_size=(2,), seq_len=(3, 5, 7), num_heads=(1, 11), d_model=22, device="cpu")
SETTINGS = SweepSettings(contenders=("custom", "official"), replicates=3)


def written(folder, rows):
    folder.mkdir(exist_ok=True)
    (folder / SAMPLES_FILE).write_text(to_csv(SAMPLE_COLUMNS, rows, header=True))
    return SampleFile(folder)


def row(point, contender="custom", *, replicate=1, number=1, latency_ms=2.0):
    return {
        **{"run_id": "r", "replicate": replicate, "point": point},
        **{"contender": contender, "round": number, "latency_ms": latency_ms},
    }


def samples(*rows):
    """Of (contender, replicate, round, time)."""
    return pd.DataFrame(rows, columns=["contender", "replicate", "round", "latency_ms"])


def test_the_samples_of_a_point_are_those_that_the_whole_file_holds_of_it(tmp_path):
    make_run(tmp_path / "r", grid=GRID, settings=SETTINGS, num_rounds=13)
    every = load_samples(tmp_path / "r")
    found = SampleFile(tmp_path / "r").of_point(5)
    expected = every[every["point"] == 5]
    assert len(found) == 3 * 13 * 3  # custom, official and its clone
    assert set(found["contender"]) == {"custom", "official", "clone:official"}
    assert sorted(found["latency_ms"]) == sorted(float(value) for value in expected["latency_ms"])
    assert found["round"].dtype == found["replicate"].dtype == "int64"


def test_only_the_lines_of_the_point_are_parsed(tmp_path, monkeypatch):
    file = written(tmp_path / "r", [row(point, number=number) for point in (1, 2, 3) for number in (1, 2)])
    parsed = []
    read_csv = pd.read_csv
    monkeypatch.setattr(
        sample_store.pd, "read_csv", lambda text, **options: parsed.append(text.getvalue()) or read_csv(text, **options)
    )
    assert len(file.of_point(2)) == 2
    assert parsed[0].count(b"\n") == 3  # the header as well


def test_a_file_that_grew_is_looked_at_from_where_it_ended(tmp_path):
    file = written(tmp_path / "r", [row(1)])
    assert len(file.of_point(1)) == 1
    with (tmp_path / "r" / SAMPLES_FILE).open("a") as stream:
        stream.write(to_csv(SAMPLE_COLUMNS, [row(1, replicate=2), row(2)], header=False) + "r,1,1,custom,9,")
    assert len(file.of_point(1)) == 2  # not the torn line
    with (tmp_path / "r" / SAMPLES_FILE).open("a") as stream:
        stream.write("7.0\n")
    assert list(file.of_point(1)["latency_ms"]) == [2.0, 7.0, 2.0]


def test_a_file_that_was_replaced_is_read_anew(tmp_path):
    make_run(tmp_path / "r", grid=GRID, settings=SETTINGS, num_rounds=7)
    file = SampleFile(tmp_path / "r")
    assert len(file.of_point(2)) == 63
    run = load_run(tmp_path / "r")
    assert not run.empty
    writer = RunWriter(tmp_path / "r", make_run(tmp_path / "other", grid=GRID))
    writer.keep_only({(1, 1), (2, 2)})
    assert (len(file.of_point(1)), len(file.of_point(2)), len(file.of_point(3))) == (21, 21, 0)


def test_without_a_file_there_are_no_samples(tmp_path):
    assert SampleFile(tmp_path).of_point(1).empty


def test_a_table_of_another_kind_is_refused(tmp_path):
    (tmp_path / SAMPLES_FILE).write_text("a,b\n1,2\n")
    with pytest.raises(RunError, match="its columns are a, b"):
        SampleFile(tmp_path).of_point(1)


def test_a_sample_that_is_no_time_is_left_out(tmp_path):
    rows = [row(1, latency_ms=value) for value in (3.0, "x", 0.0, -1.0, "inf", "")]
    assert list(written(tmp_path / "r", rows).of_point(1)["latency_ms"]) == [3.0]


def test_a_sample_counts_once_and_one_of_no_round_not_at_all(tmp_path):
    rows = [row(1, number=1), row(1, number=1, latency_ms=5.0), row(1, number=2, latency_ms=3.0)]
    rows += [row(1, number=number, latency_ms=7.0) for number in (0, -1, 1.5, 10**30, "1e400", "")]
    rows += [row(1, replicate=replicate, number=3, latency_ms=11.0) for replicate in (0, 10**15)]
    assert list(written(tmp_path / "r", rows).of_point(1)["latency_ms"]) == [2.0, 3.0]


def test_a_file_that_was_edited_in_its_place_is_read_anew(tmp_path):
    file = written(tmp_path / "r", [row(1), row(2, number=3), row(2, number=5)])
    assert len(file.of_point(2)) == 2
    path = tmp_path / "r" / SAMPLES_FILE
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "something longer than a line of the file\n", *lines[1:]]))
    assert (len(file.of_point(1)), len(file.of_point(2))) == (1, 2)
    path.write_text("".join([*lines[:2], lines[2].replace("r,1,2", "r,1,1"), lines[3]]))  # as long as at first
    assert list(file.of_point(2)["round"]) == [5], "never a sample of another point"


@pytest.mark.parametrize("damage", ['"', 'r,1,1,cus"tom,1,2.0', 'r,1,1,"custom,1,2.0', 'a"b,"c', "\r", "\0,\0"])
def test_a_damaged_line_costs_itself_alone(tmp_path, damage):
    whole = to_csv(SAMPLE_COLUMNS, [row(1, number=number) for number in (1, 2, 3)], header=True)
    lines = whole.splitlines(keepends=True)
    (tmp_path / SAMPLES_FILE).write_text("".join([*lines[:2], damage + "\n", *lines[2:]]), newline="")
    found = SampleFile(tmp_path).of_point(1)
    assert list(found.loc[found["contender"] == "custom", "round"]) == [1, 2, 3]


def test_a_folder_or_a_pipe_in_place_of_the_file_is_told(tmp_path):
    os.mkfifo(tmp_path / SAMPLES_FILE)
    with pytest.raises(RunError, match="it is no file"):
        SampleFile(tmp_path).of_point(1)
    (tmp_path / SAMPLES_FILE).unlink()
    (tmp_path / SAMPLES_FILE).mkdir()
    with pytest.raises(RunError, match="it is no file"):
        SampleFile(tmp_path).of_point(1)


@given(
    run_id=st.text(min_size=1, max_size=9).filter(lambda text: text == " ".join(text.split())),
    point=st.integers(1, 10**18 - 1),
)
def test_a_line_s_place_is_read_whatever_the_run_is_called(run_id, point):
    try:
        line = to_csv(SAMPLE_COLUMNS, [row(point) | {"run_id": run_id}], header=False).encode()
    except UnicodeEncodeError:  # half of a character: no name of a folder
        return
    assert next(csv.reader([line.decode()]))[2] == str(point)
    assert int(sample_store._PLACE.match(line)[2]) == point


def test_the_rounds_of_replicates_stand_one_after_the_other():
    placed = laid_out(samples(("a", 1, 1, 2.0), ("a", 1, 3, 2.0), ("a", 2, 1, 2.0), ("a", 4, 2, 2.0)))
    assert list(placed["position"]) == [1, 3, 4, 6]


def test_what_is_drawn_is_every_nth_round_of_all_contenders():
    placed = laid_out(samples(*((name, 1, number, 2.0) for name in "ab" for number in range(1, 14))))
    drawn, step = thinned(placed, 5)
    assert step == 3
    assert list(drawn["position"]) == [1, 4, 7, 10, 13] * 2
    assert thinned(placed, 13)[1] == 1
    assert thinned(placed.head(0), 5)[1] == 1


def test_a_ratio_is_of_one_round_of_one_replicate_and_a_clone_is_divided_into_its_original():
    placed = laid_out(
        samples(
            ("official", 1, 1, 6.0),
            ("official", 1, 2, 8.0),
            ("official", 2, 1, 10.0),
            ("custom", 1, 2, 2.0),
            ("custom", 2, 1, 5.0),
            ("custom", 2, 2, 1.0),  # nothing to divide it into
            ("clone:official", 1, 1, 3.0),
        )
    )
    found = ratios_of(placed, {"custom": "official", "official": None})
    assert found[["contender", "replicate", "round", "ratio"]].to_numpy().tolist() == [
        ["custom", 1, 2, 4.0],
        ["custom", 2, 1, 2.0],
        ["clone:official", 1, 1, 2.0],
    ]
    assert ratios_of(placed.head(0), {}).empty


def test_the_median_within_a_process_has_the_interval_of_its_order_statistics():
    ratios = pd.DataFrame({"contender": "custom", "replicate": 3, "ratio": [2.0, 4.0, 8.0, 0.5, 1.0]})
    (found,) = within(ratios)
    assert (found.contender, found.replicate, found.num_rounds, found.median) == ("custom", 3, 5, pytest.approx(2.0))
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(8.0))


@pytest.fixture
def folder(tmp_path):
    changes = {(2, "custom"): {"warnings": "12 rounds only: go on; the host gave 0.7 cores"}, (3, "custom"): lost()}
    make_run(tmp_path / "r", grid=GRID, settings=SETTINGS, changes=changes, num_rounds=41)
    return tmp_path / "r"


def lost():
    return without_numbers("oom", "out of memory: 3 GiB asked for")


@pytest.fixture
def found(folder):
    return laid_out(SampleFile(folder).of_point(2))


def test_every_contender_and_its_clone_has_a_look_of_its_own(found):
    looks = looks_of(SETTINGS.contenders, list(found["contender"].unique()))
    assert [look.name for look in looks] == ["custom", "official", "clone of official"]
    assert len({(look.style.color, look.style.symbol) for look in looks}) == 3
    assert looks_of(SETTINGS.contenders, ["official"])[0].contender == "official"


def test_times_are_drawn_in_order_with_a_line_between_replicates(found):
    looks = looks_of(SETTINGS.contenders, list(found["contender"].unique()))
    figure = times_chart(found, looks)
    custom = figure.data[0]
    own = found[found["contender"] == "custom"]
    assert list(custom.x) == list(range(1, 124))
    assert "µs" in figure.layout.title.text
    assert list(custom.y) == pytest.approx([value * 1e3 for value in own["latency_ms"]])
    assert [shape.x0 for shape in figure.layout.shapes] == [41.5, 82.5]
    assert [note.text for note in figure.layout.annotations] == ["rep 1", "rep 2", "rep 3"]


def test_a_box_holds_the_quantiles_of_all_samples():
    rows = samples(*(("custom", 1, number, float(number)) for number in range(1, 102)))
    box = spread_chart(rows, looks_of(SETTINGS.contenders, ["custom"])).data[0]
    told = [box.lowerfence[0], box.q1[0], box.median[0], box.q3[0], box.upperfence[0]]
    assert told == pytest.approx([6.0, 26.0, 51.0, 76.0, 96.0])


def test_each_replicate_has_its_median_across_its_rounds(found):
    ratios = ratios_of(found, {"custom": "official", "official": None})
    medians = within(ratios)
    figure = ratios_chart(ratios, medians, looks_of(SETTINGS.contenders, list(found["contender"].unique())))
    line = next(trace for trace in figure.data if trace.name == "custom, median")
    own = [each.median for each in medians if each.contender == "custom"]
    assert list(line.x) == [0.5, 41.5, None, 41.5, 82.5, None, 82.5, 123.5, None]
    assert list(line.y) == [own[0], own[0], None, own[1], own[1], None, own[2], own[2], None]
    assert "replicate 2: " in line.text[3]
    assert {trace.name for trace in figure.data if trace.mode == "markers"} == {"custom", "clone of official"}


def test_the_axis_of_ratios_holds_the_middle_of_them_and_one():
    ratios = pd.DataFrame({"ratio": [2.0] * 200 + [50.0]})
    assert shown_range(ratios) == (pytest.approx(1 / 1.02), pytest.approx(2.04))
    assert shown_range(ratios.head(0)) == (0.9, 1.1)


def told(folder, point, contender="custom"):
    table = load_run(folder)
    rows = table[(table["point"] == point) & (table["contender"] == contender)].to_dict("records")
    measured = load_measurements(folder)
    own = measured[(measured["point"] == point) & (measured["contender"] == contender)]
    placed = laid_out(SampleFile(folder).of_point(point))
    return sample_text.speedup_sentences(
        rows[0], own, within(ratios_of(placed, {"custom": "official", "official": None}))
    )


def test_the_words_tell_the_speedup_of_every_replicate_with_its_interval_and_that_of_the_clone(folder):
    first, replicates, clone = (sentence.replace("\\", "") for sentence in told(folder, 2))
    assert "95 % interval [" in first
    assert "· **provisional**: 3 of the 5 replicates needed: 2 more replicates." in first
    assert replicates.count("rep ") == 3
    assert "rep 1: 1.3" in replicates
    assert "] , rep" not in replicates
    assert replicates.count("[") == 3
    assert "Noise floor 0.8 %" in clone
    assert "rep 3: 0.99×" in clone


def test_strays_of_a_clone_that_cancel_are_told_by_the_largest_of_one_replicate(tmp_path):
    make_run(tmp_path / "a", grid=GRID, settings=SETTINGS)
    rows = pd.read_csv(tmp_path / "a" / "measurements.csv")
    is_one = (rows["point"] == 1) & (rows["contender"] == "custom")
    rows.loc[is_one, "clone_speedup"] = [1.25, 0.8, 1.0]
    rows.to_csv(tmp_path / "a" / "measurements.csv", index=False)
    clone = told(tmp_path / "a", 1)[-1].replace("\\", "")
    assert (
        "Noise floor 0.0 %: so far a clone of official strayed from 1 over all replicates, up to 25 % in one" in clone
    )


def test_a_lost_contender_and_a_lost_reference_are_told(folder, tmp_path):
    assert told(folder, 3) == ["**oom**: out of memory\\: 3 GiB asked for"]
    make_run(tmp_path / "b", grid=GRID, settings=SETTINGS, changes={(1, "custom"): {"speedup": None}})
    assert told(tmp_path / "b", 1) == ["No speed\\-up: official was not measured here.".replace("\\-", "-")]


def test_without_samples_the_replicates_are_told_all_the_same(tmp_path):
    make_run(tmp_path / "r", grid=GRID, settings=SETTINGS)
    replicates = told(tmp_path / "r", 2)[1]
    assert replicates.startswith("Median over rounds: rep 1\\: ")
    assert "[" not in replicates


def test_a_warning_is_told_once_and_of_whom(folder):
    table = load_run(folder)
    rows = table[table["point"] == 2]
    assert [warning.replace("\\", "") for warning in sample_text.warnings_of(rows)] == [
        "12 rounds only: go on (custom)",
        "the host gave 0.7 cores (custom)",
    ]
    everyone = rows.assign(warnings="the host gave 0.7 cores")
    assert [warning.replace("\\", "") for warning in sample_text.warnings_of(everyone)] == ["the host gave 0.7 cores"]


def test_conditions_leave_out_what_nobody_measured(folder):
    table = load_run(folder)
    rows = table[table["point"] == 2]
    plain = sample_text.conditions(rows)
    assert "page faults per call" not in plain
    full = sample_text.conditions(rows.assign(page_faults_per_call=[12.5, None], compile_s=[0.31, None], waited_s=3.5))
    assert list(full["page faults per call"]) == ["12.5", ""]
    assert list(full["compiled in"]) == ["0.310 s", ""]
    assert list(full["waited for quiet"]) == ["3.50 s", "3.50 s"]


def test_samples_that_were_lost_since_they_were_measured_are_told_with_whose_they_are(tmp_path):
    changes = {(point, name): {"num_samples": 13} for point in range(1, 7) for name in ("custom", "official")}
    changes[(2, "custom")] = without_numbers("oom", "3 GiB asked for")
    make_run(tmp_path / "r", grid=GRID, settings=SETTINGS, num_rounds=13, changes=changes)
    measured, file = load_measurements(tmp_path / "r"), SampleFile(tmp_path / "r")

    def told(point, lost=()):
        return sample_text.missing(measured[measured["point"] == point], file.of_point(point).drop(index=list(lost)))

    assert [told(point) for point in range(1, 7)] == [""] * 6
    found = file.of_point(1)
    gone = found.index[(found["contender"] == "official") & (found["replicate"] == 2)][:4]
    assert told(1, gone).startswith(
        "samples.csv does not hold all samples any more: 9 of the 13 of official in replicate 2. What is drawn"
    )
    assert "0 of the 13 of custom in replicate 1, 0 of the 13 of official in replicate 1" in told(1, found.index)
    assert told(2, file.of_point(2).index).count("of the 13") == 3, "nothing was lost of a row that was not measured"


def test_more_losses_than_have_room_are_counted(tmp_path):
    run = make_run(tmp_path / "r", grid=GRID, settings=SweepSettings(contenders=("custom", "official"), replicates=5))
    measured = load_measurements(tmp_path / run.run_id)
    told = sample_text.missing(measured[measured["point"] == 1], SampleFile(tmp_path / "r").of_point(1))
    assert told.count("of the 31 of") == 6
    assert ", and fewer in 4 more rows." in told


def test_a_name_that_the_run_did_not_measure_is_no_contender(tmp_path, monkeypatch):
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    run = make_run(tmp_path / "r", grid=GRID, settings=SETTINGS, num_rounds=3)
    path = tmp_path / "r" / SAMPLES_FILE
    path.write_text(path.read_text().replace("1,1,custom,1,", "1,1,dustom,1,"))
    assert set(store.samples_of(run, 1)["contender"]) == {"custom", "official", "clone:official"}


def test_the_takeaway_says_the_medians(folder, found):
    table = load_run(folder)
    said = sample_text.takeaway(table[table["point"] == 2], found)
    assert said.startswith("369 samples of 3 replicates; medians: custom takes ")
    assert "as fast as official; official takes " in said


def test_the_point_at_first_is_the_slowest_and_of_a_running_run_the_last(tmp_path):
    changes = {(2, "official"): {"latency_median_ms": 1e4}}
    run = make_run(tmp_path / "a", grid=GRID, settings=SETTINGS, changes=changes)
    assert sample_panel.default_point(run, load_run(tmp_path / "a")) == {"seq_len": 5, "num_heads": 1}
    going = make_run(tmp_path / "b", grid=GRID, settings=SETTINGS, changes=changes, state="running", done=4)
    assert sample_panel.default_point(going, load_run(tmp_path / "b")) == {"seq_len": 3, "num_heads": 11}
    assert sample_panel.default_point(going, load_run(tmp_path / "b").head(0)) == {}


def test_made_up_samples_are_what_their_rows_say(tmp_path):
    workload = next(iter(GRID.workloads(device="cpu", threads=2)))
    rows = point_rows("r", 1, workload, SETTINGS, {})
    made = pd.DataFrame(sample_rows(rows, 41))[["contender", "replicate", "round", "latency_ms"]]
    medians = {each.contender: each.median for each in within(ratios_of(laid_out(made), {"custom": "official"}))}
    assert medians["custom"] == pytest.approx(rows[0]["speedup"], rel=0.02)
    assert math.isfinite(medians["clone:official"])
    assert set(names(SAMPLE_COLUMNS)) >= set(made)
    assert sample_charts.MOST_POSITIONS > 41
