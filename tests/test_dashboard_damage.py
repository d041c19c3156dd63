"""The page over damaged runs: no traceback, what is whole is shown, and what is not is named."""

import json
import math
import os
import shutil

import pytest
from dashboard_fakes import FakeChecker, FakeJobs, opened
from dashboard_samples import make_run, without_numbers

from dashboard import run_picker, services
from dashboard.layers import Layers
from dashboard.live_checks import LiveChecks
from profiling.settings import SweepSettings
from profiling.workload import Grid

GRID = Grid(batch_size=(2,), seq_len=(16, 32), num_heads=(4, 8), d_model=64, device="cpu")
SETTINGS = SweepSettings(contenders=("custom", "official"), replicates=2)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage") / "r"
    changes = {(point, name): {"num_samples": 7} for point in range(1, 5) for name in SETTINGS.contenders}
    changes[(4, "custom")] = without_numbers("oom", "out of memory: 3 GiB asked for")
    make_run(folder, grid=GRID, settings=SETTINGS, changes=changes, num_rounds=7)
    return folder


@pytest.fixture(autouse=True)
def folder(good, tmp_path, monkeypatch):
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    checks, jobs = LiveChecks(FakeChecker), FakeJobs()
    monkeypatch.setattr(services, "jobs", lambda: jobs)
    monkeypatch.setattr(services, "live_checks", lambda: checks)
    monkeypatch.setattr(services, "layers", lambda: Layers(specs=(), complaints=()))
    yield shutil.copytree(good, tmp_path / "r")
    checks.close()


def text(app):
    """All that the page tells, without what keeps a text from being markdown."""
    parts = (part.value for part in (*app.markdown, *app.caption, *app.info, *app.warning, *app.error))
    return "\n".join(parts).replace("\\", "")


def lines(edit):
    """An edit of a file's lines, from the header on."""

    def apply(path):
        path.write_text("\n".join(edit(path.read_text().splitlines())) + "\n", newline="")

    return apply


def cell(number, name, value):
    """An edit of one cell of a line."""

    def edit(given):
        cells = given[number].split(",")
        cells[given[0].split(",").index(name)] = value
        return [*given[:number], ",".join(cells), *given[number + 1 :]]

    return lines(edit)


def without_column(name):
    def edit(given):
        place = given[0].split(",").index(name)
        return [",".join(cells[:place] + cells[place + 1 :]) for cells in (line.split(",") for line in given)]

    return lines(edit)


def backwards(path):
    lines(lambda given: [",".join(reversed(line.split(","))) for line in given])(path)


def by_a_spreadsheet(path):
    lines(lambda given: [line.replace(",", ";").replace(".", ",") for line in given])(path)


def as_folder(path):
    path.unlink()
    path.mkdir()


def as_pipe(path):
    path.unlink()
    os.mkfifo(path)


def in_bytes(edit):
    return lambda path: path.write_bytes(edit(path.read_bytes()))


WHOLE = "speed-up"  # a headline is there
NONE_LEFT = "This run has no rows."

# The damage to measurements.csv, and what the page must tell; lines are counted from 0 for the header.
MEASUREMENTS = {
    "gone": (os.unlink, NONE_LEFT),
    "empty": (in_bytes(lambda data: b""), NONE_LEFT),
    "header alone": (lines(lambda given: given[:1]), NONE_LEFT),
    "cut in a line": (in_bytes(lambda data: data[: len(data) - 30]), WHOLE),
    "cut in the header": (in_bytes(lambda data: data[:40]), NONE_LEFT),
    "a short line": (lines(lambda given: [*given[:3], "short,row", *given[3:]]), "could not be read: line 4"),
    "an open quotation": (cell(2, "status_reason", '"'), "could not be read: line 3"),
    "NUL bytes": (lines(lambda given: [*given[:2], "\0" * 100, *given[2:]]), "could not be read: line 3"),
    "a repeated line": (lines(lambda given: [*given, given[1]]), "1 row"),
    "a repeated line with other numbers": (lines(lambda given: [*given, given[1].replace("0.", "9.")]), "1 row"),
    "text for a place": (cell(1, "point", "first"), "1 row"),
    "blank lines": (lines(lambda given: [line for each in given for line in (each, "")]), WHOLE),
    "line ends of another system": (in_bytes(lambda data: data.replace(b"\n", b"\r\n")), WHOLE),
    "a mark before the first letter": (in_bytes(lambda data: b"\xef\xbb\xbf" + data), WHOLE),
    "an additional column": (lines(lambda given: [f"{line},7" for line in given]), WHOLE),
    "a column less": (without_column("status"), "has no column status"),
    "columns in another order": (backwards, WHOLE),
    "other delimiters": (by_a_spreadsheet, "has no column"),
    "another table": (in_bytes(lambda data: b"a,b\n1,2\n"), "has no column"),
    "no table": (in_bytes(lambda data: bytes(range(256)) * 200), "cannot be shown"),
    "a folder": (as_folder, "cannot be read"),
    "a pipe": (as_pipe, "cannot be read"),
}


# Cells that hold what was never measured, one a line.
CELLS = (
    *(("latency_median_ms", value) for value in ("quick", "-3", "0", "1e999", "nan")),
    *(("speedup", value) for value in ("nan", "-2", "0", "inf", "1e308")),
    *(("num_samples", "9" * 5000), ("seq_len", "9" * 18), ("seq_len", "0"), ("point", "999999"), ("replicate", "-1")),
    *(("contender", "custom-of-tomorrow"), ("status", "tired"), ("check_verdict", "maybe"), ("dtype", "float4")),
    *(
        ("reference", "nobody"),
        ("head_dim", "-1"),
        ("bias", "perhaps"),
        ("peak_memory_mib", "-7"),
        ("noise_floor", "-1"),
    ),
    *(("device", "=1+1"), ("mode", ""), ("threads", "1e3"), ("max_abs_error", "-1"), ("warnings", ";;; ; ")),
)


@pytest.mark.parametrize(
    ("first", "tab"), [(0, "Latency"), (6, "Speed-up map"), (12, "Memory"), (18, "Table"), (24, "Max error")]
)
def test_nonsense_in_cells_is_shown_as_what_it_is_or_left_out(folder, first, tab):
    for number, (name, value) in enumerate(CELLS[first : first + 6], start=1):
        cell(2 * number - 1, name, value)(folder / "measurements.csv")
    app = opened(run="r", tab=tab)
    assert [metric.label for metric in app.metric][:3] == ["speed-up", "memory", "max error"]
    assert "of measurements.csv left out: " in text(app)


@pytest.mark.parametrize(("damage", "told"), MEASUREMENTS.values(), ids=MEASUREMENTS)
def test_damaged_measurements_leave_a_page_that_shows_what_is_whole(folder, damage, told):
    damage(folder / "measurements.csv")
    app = opened(run="r", tab="Samples")
    if told == WHOLE:
        assert [metric.label for metric in app.metric][:3] == ["speed-up", "memory", "max error"]
        assert "cannot be shown" not in text(app)
    else:
        assert told in text(app)
    assert not app.button(key="run_sweep").disabled


def edit_run(**changes):
    def apply(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return apply


# Of run.json, which is read or not.
RUN = {
    "gone": (os.unlink, "holds no run: there is no run.json in it"),
    "empty": (in_bytes(lambda data: b""), "cannot be read"),
    "half": (in_bytes(lambda data: data[: len(data) // 2]), "cannot be read"),
    "no text": (in_bytes(lambda data: b"\xff\xfe" + data), "cannot be read"),
    "a later version": (edit_run(schema_version=3), "a later version of this program (schema version 3): update it"),
    "a contender of tomorrow": (edit_run(settings={"contenders": ["tomorrow"]}), "contenders must be among"),
    "a dtype of tomorrow": (edit_run(grid=GRID.to_dict() | {"dtype": ["float4"]}), "not 'float4'"),
    "a folder": (as_folder, "cannot be read"),
    "a pipe": (as_pipe, "it is no file"),
}


def test_damaged_runs_are_named_with_their_reasons_and_the_others_are_shown(folder, monkeypatch):
    monkeypatch.setattr(run_picker, "MOST_FOLDERS", len(RUN))
    for number, (damage, _) in enumerate(RUN.values()):
        damage(shutil.copytree(folder, folder.parent / f"broken-{number}") / "run.json")
    app = opened()
    told = next(caption.value for caption in app.caption if "cannot be read:" in caption.value).replace("\\", "")
    assert app.selectbox(key="run_choice").value == "r"
    assert told.startswith(f"{len(RUN)} folders among the results hold a run that cannot be read: broken-0 (")
    for number, (_, reason) in enumerate(RUN.values()):
        assert reason in told.split(f"broken-{number} (")[1].split("); broken-")[0]


@pytest.mark.parametrize("told", ["holds no run", "cannot be read"])
def test_without_a_run_that_can_be_read_the_page_says_why(folder, told):
    RUN["gone" if told == "holds no run" else "half"][0](folder / "run.json")
    shown = text(opened())
    assert "Nothing measured yet" in shown
    assert "1 folder among the results holds a run that cannot be read: r (" in shown
    assert told in shown


# What run.json may hold so that the run is shown all the same.
SHOWN = (
    {"environment": {}, "added": [1, {"b": None}], "started_at": "yesterday", "updated_at": "", "ended_at": "\ud800"},
    {"environment": {"ceilings": [3], "device_name": ["x"], "commit": 7, "heap_pinned": "?"}, "run_id": "../../etc"},
    {"environment": {"ceilings": {"copy_gb_per_s": 10**400, "matmul_gflop_per_s": 3}}, "state_reason": "\ud800"},
    {
        "environment": {"ceilings": {"copy_gb_per_s": math.nan, "matmul_gflop_per_s": {"float32": -1}}},
        "sources": {"": 3},
    },
    {"environment": {"device_name": "\ud800 \udfff", "torch_version": "\0"}, "state": "running"},
    {"state": "running", "pid": -1, "process_started": math.nan},
    {"state": "stopped", "state_reason": "x" * 100_000},
)


@pytest.mark.parametrize("changes", SHOWN, ids=range(len(SHOWN)))
def test_what_does_not_decide_what_was_measured_may_be_anything(folder, changes):
    edit_run(**changes)(folder / "run.json")
    app = opened(run="r", tab="Table")
    assert len(app.dataframe[0].value) == 8
    assert [metric.label for metric in app.metric] == ["speed-up", "memory", "max error"]


SAMPLES = {
    "gone": (os.unlink, "No raw samples of this point are kept"),
    "cut": (in_bytes(lambda data: data[: len(data) // 2]), "samples.csv does not hold all samples any more"),
    "a line less": (lines(lambda given: given[:-1]), "6 of the 7 of "),
    "nonsense in a line": (lines(lambda given: [*given[:-1], '"' + given[-1]]), "6 of the 7 of "),
    "another table": (in_bytes(lambda data: b"a,b\n1,2\n"), "The samples cannot be shown"),
    "a folder": (as_folder, "The samples cannot be shown"),
    "a pipe": (as_pipe, "The samples cannot be shown"),
}


@pytest.mark.parametrize(("damage", "told"), SAMPLES.values(), ids=SAMPLES)
def test_damaged_samples_are_told_beside_those_that_are_left(folder, damage, told):
    damage(folder / "samples.csv")
    # The last point of the file.
    app = opened(run="r", tab="Samples", sample_seq_len="32", sample_num_heads="8")
    assert told in text(app)


def test_whole_samples_are_shown_without_a_word(folder):
    app = opened(run="r", tab="Samples", sample_seq_len="32", sample_num_heads="8")
    assert not app.warning
    assert not app.error


def test_a_running_sweep_whose_rows_cannot_be_read_leaves_a_page_that_stands(folder, good):
    shutil.copytree(good, folder.parent / "other")
    edit_run(state="running", started_at="2020-01-01T00:00:00+00:00")(folder / "run.json")
    in_bytes(lambda data: b"a,b\n1,2\n")(folder / "measurements.csv")
    app = opened(run="other")
    assert "its rows are checked as they come" in text(app)
    assert app.selectbox(key="run_choice").value == "other"


def test_more_unreadable_folders_than_have_room_are_counted(folder):
    for number in range(8):
        (folder.parent / f"broken-{number}").mkdir()
        (folder.parent / f"broken-{number}" / "run.json").write_text("{")
    told = text(opened())
    assert "8 folders among the results hold a run that cannot be read: broken-0 (run.json cannot be read: " in told
    assert "broken-4" in told
    assert "broken-5" not in told
    assert "; and 3 more." in told


def test_no_text_of_the_table_becomes_a_formula_where_it_is_downloaded_from_the_table_itself(folder):
    cell(1, "warnings", "=HYPERLINK(1)")(folder / "measurements.csv")
    shown = opened(run="r", tab="Table").dataframe[0].value
    assert [text for text in shown["warnings"] if "HYPERLINK" in str(text)] == ["'=HYPERLINK(1) (replicate 1)"]
