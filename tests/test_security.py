"""Nothing is run but what was named at the start, no name of a run leads out of results/, no text is a formula."""

from __future__ import annotations

import ast
import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import lost_row, make_row, write_run
from own_layers import RIGHT, write_layer

from profiling import run_sweep
from profiling.cli import main
from profiling.run_list import list_runs
from profiling.runs import RunError, find_run_folder
from profiling.settings import SweepSettings
from profiling.table import load_run, report_csv
from profiling.wording import is_formula
from profiling.workload import GridError

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path for package in ("mha", "profiling", "dashboard") for path in (ROOT / package).rglob("*.py"))

# What reads may run whatever a file says.
RUNS_WHAT_IT_READS = (
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle", "yaml"),
    *("multiprocessing", "xmlrpc", "code", "runpy"),
)
CALLS = (
    *("eval", "exec", "compile", "__import__", "breakpoint", "input"),
    *("torch.load", "torch.jit.load", "torch.hub.load", "torch.package.PackageImporter"),
    *("pd.read_pickle", "pd.read_hdf", "pd.eval", "np.load", "numpy.load", "pandas.read_pickle", "pandas.eval"),
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
)
METHODS = ("to_pickle", "read_pickle")
# Turned on, each lets a text be more than text.
SWITCHES = ("shell", "allow_pickle", "unsafe_allow_html", "unsafe_allow_javascript")
# Where the layers that were named at the start are imported.
IMPORTS_LAYERS = "profiling/measuring/contenders/loading.py"
# Where a name of ours leads to the module that holds it.
IMPORTS_OURS = "profiling/__init__.py"


def dangers(path: str, source: str) -> Iterator[str]:
    """What in a source (its path from the root) would run what it reads, or take a text for more than text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (name for name in modules if name.split(".")[0] in RUNS_WHAT_IT_READS)
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if called in CALLS or method in METHODS or (method == "query" and node.args):  # of a table, not of an event
            yield called
        if (method in ("exec_module", "load_module", "module_from_spec") or called == "importlib.import_module") and (
            path not in (IMPORTS_LAYERS, IMPORTS_OURS) and not (node.args and isinstance(node.args[0], ast.Constant))
        ):
            yield called
        for option in node.keywords:
            is_off = isinstance(option.value, ast.Constant) and not option.value.value
            if option.arg in SWITCHES and not is_off:
                yield f"{called}({option.arg}=…)"
        if called == "st.html" and not (isinstance(node.args[0], ast.Name) and node.args[0].id.isupper()):
            yield "st.html of what is no constant"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_in_a_source_runs_what_it_reads(path: Path) -> None:
    assert list(dangers(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, marshal",
        "def f():\n    from joblib import load",
        "from multiprocessing.pool import Pool",
        "eval(text)",
        "exec(compile(text, 'f', 'exec'))",
        "torch.load(path)",
        "torch.load(path, weights_only=True)",
        "pd.read_pickle(path)",
        "table.to_pickle(path)",
        "table.query(text)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(text, shell=True)",
        "subprocess.run(text, shell=is_wanted)",
        "st.markdown(text, unsafe_allow_html=True)",
        "st.html(text)",
        "st.html(f'<b>{text}</b>')",
        "importlib.import_module(name)",
        "spec.loader.exec_module(module)",
    ],
)
def test_the_scan_catches_a_planted_danger(source: str) -> None:
    assert list(dangers("profiling/made_up.py", source))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("dashboard/a.py", "st.html(STYLE)\nre.compile(text)\njson.loads(text)\nlayer.eval()"),
        ("profiling/a.py", "subprocess.run(words, shell=False)\nimportlib.import_module('profiling.table')"),
        (IMPORTS_LAYERS, "spec.loader.exec_module(module)"),
    ],
)
def test_the_scan_lets_through_what_is_harmless(path: str, source: str) -> None:
    assert list(dangers(path, source)) == []


def shown(text: str) -> str:
    """A text as the name of a test."""
    return ascii(text)[:40]


OUTSIDE = (
    *("..", "../outside", "..\\outside", "/etc", "/etc/passwd", "results/../../outside", "./mine", "mine/", "mine/."),
    *("mine\0", "mi\0ne", "mine\n", "\nmine", "mine ", " mine", "mine\r", "%2e%2e%2foutside", "..%2foutside", "%00"),
    *(
        "\u2024\u2024/outside",
        "\uff0e\uff0e\uff0foutside",
        "min\u0435",
        "\uff4dine",
        "mine\u200b",
        "\ud800",
        "~",
        "$HOME",
    ),
    *("", ".", "x" * 101, "x" * 100_000, "CON", "file:///etc/passwd", "\\\\host\\share", "*", "mine;ls", "-rf x"),
)
# A name of letters alone is a name, and there is no such folder.
PLAIN = ("CON",)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("security")
    write_run(folder / "outside", [make_row()])
    write_run(folder / "results" / "mine", [make_row()])
    (folder / "results" / "link").symlink_to(folder / "outside")
    (folder / "results" / "etc").symlink_to("/etc")
    return folder / "results"


@pytest.mark.parametrize("run_id", [*OUTSIDE, "link", "etc"], ids=shown)
def test_no_name_of_a_run_leads_out_of_the_results(results: Path, run_id: str) -> None:
    with pytest.raises(RunError) as found:
        find_run_folder(run_id, results)
    assert len(str(found.value)) < 400, "a person reads it"


@given(st.text(max_size=120) | st.from_regex(r"[./\\%~]{1,6}[a-z]{0,9}"))
def test_whatever_the_name_what_is_found_lies_in_the_results(results: Path, run_id: str) -> None:
    try:
        folder = find_run_folder(run_id, results)
    except RunError:
        return
    assert folder.resolve().parent == results.resolve()


def test_a_link_out_of_the_results_is_listed_with_what_cannot_be_read(results: Path) -> None:
    found = list_runs(results)
    assert [run.run_id for run in found.runs] == ["mine"]
    assert found.unreadable == (("link", "it is a link out of this folder"),)


# No command line can hold the first two; a path is what its owner says it is.
@pytest.mark.parametrize(
    "run_id", [each for each in OUTSIDE if not {"\0", "\ud800", "/"}.intersection(each)], ids=shown
)
def test_an_export_by_a_name_is_of_a_run_in_the_results_alone(
    results: Path, run_id: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(results))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["export", "--", run_id])
    assert done.exit_code in (1, 2)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert not list(tmp_path.iterdir())


def test_an_address_that_is_encoded_is_decoded_once_and_no_more(results: Path) -> None:
    with pytest.raises(RunError, match="run id must consist of letters"):
        find_run_folder(quote("../outside", safe=""), results)


FORMULAS = (
    *("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "=HYPERLINK(1)", "=cmd|' /C calc'!A0", "-2+3+cmd|'!A0"),
    *("\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)", "\u200b=1", "\ufeff=1", "\u00a0=1", "\u3000=1", "\t@", "\t"),
)


@pytest.mark.parametrize("text", FORMULAS, ids=shown)
def test_no_text_of_a_report_is_a_formula(tmp_path: Path, text: str) -> None:
    table = load_run(write_run(tmp_path, [lost_row("custom", "error", "x"), make_row("official")]))
    for name in table.select_dtypes("string").columns:  # also what the writer would not have let through
        table[name] = pd.array([text] * len(table), dtype="string")
    rows = list(csv.DictReader(io.StringIO(report_csv(table), newline="")))
    texts = [row[name] for row in rows for name in table.select_dtypes("string").columns]
    assert {each.replace("\r", " ") for each in texts} == {"'" + text.replace("\r", " ")}


def test_a_report_read_by_pandas_gives_the_same_numbers(tmp_path: Path) -> None:
    rows = [
        make_row(max_abs_error_oracle=-0.1 - 0.2, latency_median_ms=1 / 3, max_abs_error=math.inf),
        make_row("official", seed=2**63 - 1, latency_median_ms=5e-324),
        lost_row("custom", "oom", "=1+1", point=2),
    ]
    table = load_run(write_run(tmp_path, rows))
    back = pd.read_csv(io.StringIO(report_csv(table)), dtype=dict(table.dtypes))
    numbers = table.select_dtypes("number").columns
    pd.testing.assert_frame_equal(back[numbers], table[numbers], check_exact=True)
    assert list(back.columns) == list(table.columns)


# -- what stands in the files as it was measured ----------------------------------------------------------------------

BEGINNINGS = "=+-@＝＋－＠"


@pytest.mark.parametrize("sign", BEGINNINGS)
@pytest.mark.parametrize("compiled", ["", "compiled:"])
def test_no_new_layer_has_a_path_that_is_a_formula(
    sign: str, compiled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_layer(tmp_path, f"{sign}x.py")
    monkeypatch.chdir(tmp_path)
    given = f"{compiled}{sign}x.py:M"
    with pytest.raises(GridError) as caught:
        SweepSettings(contenders=(given,))
    assert str(caught.value) == (
        f"a layer's path must not begin with {sign}, which a spreadsheet takes for a formula: "
        f"write ./{sign}x.py:M, not '{given}'"
    )
    done = CliRunner().invoke(main, ["sweep", "--contender", given, "--out", "run"])
    assert (done.exit_code, done.stderr) == (2, f"error: {caught.value}\n")
    assert SweepSettings(contenders=(f"{compiled}./{sign}x.py:M",)).contenders[0] == f"{compiled}./{sign}x.py:M"


def test_a_path_that_begins_with_a_blank_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_layer(tmp_path, " =x.py")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GridError, match="without line breaks or runs of blanks"):
        SweepSettings(contenders=(" =x.py:M",))


def test_a_run_that_was_measured_under_such_a_name_is_still_read() -> None:
    layers = {"=x.py:M": "/mine/=x.py:M"}
    again = SweepSettings.from_dict(SweepSettings(contenders=("=x.py:M",), layers=layers).to_dict())
    assert again.layers == layers


FORMULA_ERRORS = (
    RIGHT
    + """

def raising(name, message="boo"):
    class Raising(Right):
        def forward(self, x):
            raise type(name, (Exception,), {})(message)
    return Raising

Equals, Plus, Minus, At, Wide, Behind = map(raising, ("=E", "+E", "-E", "@E", "\uff1dE", "\u200b=E"))
Plain = raising("E", "=1+1")
OutOfMemory = raising("=M", "out of memory")
"""
)
SAID = {
    **{"Equals": "raised =E: boo (mine.py, line ", "Plus": "raised +E: boo", "Minus": "raised -E: boo"},
    **{"At": "raised @E: boo", "Wide": "raised \uff1dE: boo", "Behind": "\\u200b=E: boo"},
    **{"Plain": "E: =1+1", "OutOfMemory": "raised =M: out of memory"},
}


@pytest.fixture(scope="module")
def formulas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run of layers whose errors, and one whose neighbour's file, are called like formulas."""
    folder = tmp_path_factory.mktemp("formulas")
    write_layer(folder, text=FORMULA_ERRORS)
    write_layer(folder, "=helper.py", "raise ValueError('boo')")
    write_layer(folder, "imports.py", "import importlib\nimportlib.import_module('=helper')")
    write_layer(folder, "=x.py", RIGHT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_sweep(
            contenders=[*(f"mine.py:{name}" for name in SAID), "imports.py:X", "./=x.py:Right"],
            out=folder / "run",
            **{"batch_size": [3], "seq_len": [5], "num_heads": [2], "d_model": 10, "device": "cpu", "threads": 1},
            **{"time_budget_s": 0.01, "quiet_wait_s": 0},
        )
    return folder / "run"


def test_what_an_error_is_called_never_begins_a_cell(formulas: Path) -> None:
    table = load_run(formulas).set_index("contender")
    for name, words in SAID.items():
        assert table["status_reason"][f"mine.py:{name}"].startswith(words)
    assert table["status_reason"]["imports.py:X"] == "raised =helper.py, line 1: ValueError: boo"
    assert table["status"]["./=x.py:Right"] == "ok"
    assert table["status"]["mine.py:OutOfMemory"] == "oom"


@pytest.mark.parametrize("file", ["measurements.csv", "samples.csv", "report.csv"])
def test_no_cell_of_a_runs_files_is_a_formula(formulas: Path, file: str) -> None:
    rows = list(csv.reader(io.StringIO((formulas / file).read_text(encoding="utf-8"), newline="")))
    cells = {cell for row in rows for cell in row}
    assert any("./=x.py:Right" in cell for cell in cells)
    assert [cell for cell in cells if is_formula(cell) and not is_number(cell)] == []


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
