"""Nonsense is refused in one sentence that names argument, rule and value: the same from a library's call, at the
command line, in the page and by its address."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dashboard_fakes import FakeChecker, FakeJobs, opened
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import FakeChild

from dashboard import address, services, session
from dashboard.controls import wish
from dashboard.layer_controls import wish as layer_wish
from dashboard.layers import Layers
from dashboard.live_checks import LiveChecks
from dashboard.presets import DEFAULTS
from profiling import run_sweep
from profiling.cli import main
from profiling.commands.check import _check_workload
from profiling.commands.sweep import _parse_options
from profiling.measuring.failures import failure
from profiling.parsing import parse_sizes
from profiling.quoted import WIDTH, quoted
from profiling.sweep import split_options
from profiling.workload import MAX_POINTS, Grid, GridError

OPTIONS = {"time_budget_s": "--time-budget", "time_limit_s": "--time-limit", "quiet_wait_s": "--quiet-wait"}
CONTROLS = {"time_budget_s": session.TIME_BUDGET, "quiet_wait_s": session.QUIET_WAIT}
WHOLE, MOST = "must be a whole number of at least 1, not ", "must be at most 2,147,483,647, not "

# Argument, as a text, as a value, and what has to be told of it.
VALUES = [
    ("batch_size", "0", [0], f"{WHOLE}0"),
    ("batch_size", "-1", [-1], f"{WHOLE}-1"),
    ("seq_len", "10000000000", [10**10], f"{MOST}10,000,000,000"),
    ("seq_len", str(10**90), [10**90], MOST),
    ("num_heads", "2,3,2", [2, 3, 2], "must name each value once, not 2 twice"),
    ("d_model", "0", 0, f"{WHOLE}0"),
    ("d_model", "2147483648", 2**31, f"{MOST}2,147,483,648"),
    ("threads", "0", 0, f"{WHOLE}0"),
    ("threads", "1000000", 10**6, "must be at most 1,024, not 1,000,000"),
    ("seed", "-1", -1, "must be a whole number from 0 to 2^63 - 1, not -1"),
    ("seed", str(2**63), 2**63, "must be a whole number from 0 to 2^63 - 1, not 9223372036854775808"),
    ("replicates", "0", 0, f"{WHOLE}0"),
    ("replicates", "-1", -1, f"{WHOLE}-1"),
    ("replicates", str(10**10), 10**10, f"{MOST}10,000,000,000"),
    ("dtype", "float8", ["float8"], "must be one of float32, bfloat16, float16, float64, not 'float8'"),
    ("dtype", "float32,float32", ["float32", "float32"], "must name each value once, not 'float32' twice"),
    ("mode", "eval", ["eval"], "must be one of inference, training, not 'eval'"),
    ("device", "banana", "banana", "must be auto, cpu, cuda, xpu or mps, or one by its number such as cuda:0, not 'ba"),
    ("device", "cuda:x", "cuda:x", "must be auto, cpu, cuda, xpu or mps, or one"),
    ("device", "cuda:-1", "cuda:-1", "must be auto, cpu, cuda, xpu or mps, or one"),
    ("device", "../../x", "../../x", "must be auto, cpu, cuda, xpu or mps, or one"),
    ("time_budget_s", "0", 0.0, "must be a number of seconds above 0, not 0.0"),
    ("time_budget_s", "-1", -1.0, "must be a number of seconds above 0, not -1.0"),
    ("time_budget_s", "1e300", 1e300, "must be at most 1,000,000 seconds, not 1e+300"),
    ("quiet_wait_s", "-1", -1.0, "must be a number of seconds of 0 or more, not -1.0"),
    ("heap", "big", "big", "must be one of pinned, as-is, not 'big'"),
    ("reference", "custom", "custom", "must be one of official, official-fused, official-fastpath, not 'custom'"),
]
# What is no value at all: only a text can be it.
LISTS = "must be whole numbers separated by commas, not "
TEXTS = [
    ("batch_size", "", "must hold at least one value, not an empty list"),
    ("batch_size", " ", "must hold at least one value, not an empty list"),
    ("batch_size", "1,,4", "must have a value between any two commas, not '1,,4'"),
    *[
        ("seq_len", text, f"{LISTS}{text!r}")
        for text in ("1.5", "1e3", "٣", "1_000", "nan", "inf", "0x10", "¹", "1;2", "1 2")
    ],
    ("num_heads", "four", f"{LISTS}'four'"),
    ("num_heads", "\x1b[2J", f"{LISTS}'\\x1b[2J'"),
    ("seq_len", "9" * 5000, LISTS),
]
NUMBERS = [
    *[("d_model", text, "must be a whole number, not ") for text in ("1.5", "1e3", "٣", "1_000", "nan", "x")],
    ("seed", "9" * 5000, "must be a whole number, not "),
    *[
        ("time_budget_s", text, "must be a number of seconds, not ")
        for text in ("nan", "inf", "٣", "1_0", "1e999", "x")
    ],
]


def short(value: object) -> str:
    """Short, and never an int of thousands of digits, which pytest cannot write out."""
    return quoted(value, 24)


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """A sweep at the command line takes the signals over; here it must not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("profiling.stopping.StopSwitch.on_signals", lambda _: None)
        yield


def by_library(argument: str, value: object, folder: Path) -> str:
    with pytest.raises(GridError) as caught:
        run_sweep(out=folder / "run", **{argument: value})
    assert not (folder / "run").exists()
    return str(caught.value)


def by_command_line(argument: str, text: str, folder: Path) -> str:
    option = OPTIONS.get(argument, "--" + argument.replace("_", "-"))
    done = CliRunner().invoke(main, ["sweep", f"{option}={text}", "--out", str(folder / "run")])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert not (folder / "run").exists()
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("error: ").rstrip("\n")


def by_page(argument: str, value: object) -> str:
    asked = wish({CONTROLS.get(argument, argument): value})
    assert asked.grid is None
    assert asked.argument == argument, "so that the sentence stands by its control"
    return asked.error


@pytest.mark.parametrize(("argument", "text", "value", "rule"), VALUES, ids=short)
def test_a_value_that_cannot_be_is_told_alike_by_library_command_line_and_page(
    argument: str, text: str, value: Any, rule: str, tmp_path: Path
) -> None:
    told = by_library(argument, value, tmp_path)
    assert told.startswith(f"{argument} {rule}")
    assert by_command_line(argument, text, tmp_path) == told
    takes_text = argument in (session.BATCH_SIZE, session.SEQ_LEN, session.NUM_HEADS)
    assert by_page(argument, text if takes_text else value) == told


@pytest.mark.parametrize(("argument", "text", "rule"), TEXTS, ids=short)
def test_a_text_that_is_no_list_is_told_alike_at_the_command_line_and_in_the_page(
    argument: str, text: str, rule: str, tmp_path: Path
) -> None:
    told = by_command_line(argument, text, tmp_path)
    assert told.startswith(f"{argument} {rule}")
    assert len(told) < 200
    assert told.isprintable()
    assert by_page(argument, text) == told


@pytest.mark.parametrize(("argument", "text", "rule"), NUMBERS, ids=short)
def test_a_text_that_is_no_number_is_told_alike_at_the_command_line_and_by_the_address(
    argument: str, text: str, rule: str, tmp_path: Path
) -> None:
    told = by_command_line(argument, text, tmp_path)
    assert told == f"{argument} {rule}{quoted(text)}"
    control = CONTROLS.get(argument, argument)
    assert address.complaints({control: [text]}) == {control: told}


@pytest.mark.parametrize(
    ("contender", "words"),
    [
        ("custom,custom", "contenders must name each contender once, not 'custom' twice"),
        ("mine", "contenders must be among "),
        ("compiled:compiled:custom", "not 'compiled:compiled:custom'"),
        ("none.py:Mine", "there is no file none.py in "),
        ("folder.py:Mine", "there is no file folder.py in "),
        ("notes.txt:Mine", "a layer must be a Python file and a name in it"),
        ("mine.py", "a layer needs a name in its file"),
        ("mine.py:1", "'1' in 'mine.py:1' cannot be the name of"),
        ("~nobody-of-that-name/mine.py:Mine", "the file ~nobody-of-that-name/mine.py cannot be found: "),
        (f"{'a' * 300}.py:Mine", "there is no file aaa"),
        (f"{'a' * 3000}.py:Mine", "a layer's path must be at most 400 bytes long"),
    ],
    ids=short,
)
def test_a_contender_that_cannot_be_is_told_alike_by_library_and_command_line(
    contender: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.py").mkdir()
    told = by_command_line("contenders", contender, tmp_path)
    assert words in told
    assert by_library("contenders", contender.split(","), tmp_path) == told
    assert len(told) < 500


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("batch_size", "1,4", "batch_size must be a list of values, not '1,4'"),
        ("batch_size", [[1]], f"batch_size {WHOLE}[1]"),
        ("seq_len", [math.nan], f"seq_len {WHOLE}nan"),
        ("seq_len", [10**5000], f"seq_len {MOST}a number of about 5,001 digits"),
        ("seq_len", [-(10**5000)], f"seq_len {WHOLE}a negative number of about 5,001 digits"),
        ("d_model", "512", f"d_model {WHOLE}'512'"),
        ("dtype", [["float32"]], "dtype must be one of float32, bfloat16, float16, float64, not ['float32']"),
        ("device", 3, "not 3"),
        ("time_budget_s", 10**5000, "time_budget_s must be at most 1,000,000 seconds, not a number of about 5,001"),
        ("time_budget_s", -(10**5000), "time_budget_s must be a number of seconds above 0, not a negative number"),
        ("time_budget_s", math.inf, "time_budget_s must be a number of seconds above 0, not inf"),
        ("contenders", "custom", "contenders must hold at least one name, not 'custom'"),
        ("contenders", [], "contenders must hold at least one name, not ()"),
        ("contenders", ["custom"] * 2000, "contenders may hold up to 1,000 names, not 2,000"),
        ("batchsize", [1], "grid has no field 'batchsize'"),
    ],
    ids=short,
)
def test_what_only_a_caller_can_give_is_refused_too(argument: str, value: object, words: str, tmp_path: Path) -> None:
    assert words in by_library(argument, value, tmp_path)


def test_a_grid_of_a_million_million_points_is_refused_and_so_is_a_list_without_end() -> None:
    told = "points, not 1,000,000,000,000, which at a second each would take about 31,688 years: shorten"
    with pytest.raises(GridError, match=told):
        Grid(
            batch_size=tuple(range(1, 10**4 + 1)),
            seq_len=tuple(range(1, 10**4 + 1)),
            num_heads=tuple(range(1, 10**4 + 1)),
        )
    text = ",".join(map(str, range(1, 10**6 + 1)))
    with pytest.raises(GridError, match="seq_len may hold up to 100,000 values, not 1,000,000: shorten it"):
        Grid(seq_len=parse_sizes("seq_len", text))
    assert Grid(seq_len=tuple(range(1, MAX_POINTS // 4 + 1))).num_points == MAX_POINTS


def test_what_the_device_has_no_numbers_of_is_unavailable_and_not_a_fault() -> None:
    # As torch says it of float64 on MPS, and of a product that there is no code for.
    said = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
    assert failure(TypeError(said))[0] == "unavailable"
    assert failure(RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"))[0] == "unavailable"


# -- any text at all --------------------------------------------------------------------------------------------------

ANY_TEXT = st.text(max_size=300) | st.from_regex(r"[-+0-9,._ e]{0,300}", fullmatch=True) | st.integers().map(str)
ANY_VALUE = ANY_TEXT | st.none() | st.booleans() | st.integers() | st.floats() | st.lists(st.text() | st.integers())
TEXT_OPTIONS = [
    *("batch_size", "seq_len", "num_heads", "d_model", "head_dim", "dtype", "mode", "bias", "causal", "contenders"),
    *("reference", "device", "threads", "seed", "replicates", "time_budget", "time_limit", "quiet_wait", "heap"),
]


def assert_is_a_sentence(error: str, argument: str, *others: str) -> None:
    assert error.isprintable()
    assert len(error) < 600
    about_layers = ("a layer", "there is no file", "the file ", "'")
    assert error.startswith((argument, *others, *(about_layers if argument == "contenders" else ()))), error
    assert "not " in error or "cannot" in error or "no file" in error


@pytest.mark.parametrize("option", TEXT_OPTIONS)
@given(text=ANY_TEXT)
def test_any_text_in_any_option_gives_a_grid_or_one_sentence(option: str, text: str) -> None:
    try:
        split_options(_parse_options({option: text}))
    except GridError as error:
        assert_is_a_sentence(str(error), option)


CHECK = {
    **{"d_model": "64", "num_heads": "4", "batch_size": "2", "seq_len": "8", "seed": "42", "threads": "1"},
    **{"dtype": "float32", "device": "cpu", "bias": False, "causal": False},
}


@pytest.mark.parametrize(
    "option", ["contender", "d_model", "num_heads", "batch_size", "seq_len", "seed", "threads", "dtype", "device"]
)
@given(text=ANY_TEXT)
def test_any_text_in_any_option_of_a_check_gives_a_workload_or_one_sentence(option: str, text: str) -> None:
    texts = CHECK if option == "contender" else {**CHECK, option: text}
    try:
        _check_workload(text if option == "contender" else "custom", texts)
    except GridError as error:
        known = {"contender": "contenders", "num_heads": "d_model"}
        assert_is_a_sentence(str(error).replace("contender ", "contenders ", 1), known.get(option, option), option)


@pytest.mark.parametrize(
    "control", [*DEFAULTS, session.CONTENDERS, session.COMPILED, session.DEVICE, session.REFERENCE]
)
@given(value=ANY_VALUE)
def test_any_value_of_any_control_gives_a_grid_or_one_sentence(control: str, value: Any) -> None:
    asked = wish({control: value})
    assert (asked.grid is None) == bool(asked.error)
    if asked.error:
        arguments = {session.COMPILED: "contenders", **{key: name for name, key in CONTROLS.items()}}
        assert_is_a_sentence(asked.error, arguments.get(control, control))


@pytest.mark.parametrize("control", [session.LAYER, session.LAYER_D_MODEL, session.LAYER_SEQ_LEN, session.LAYER_DTYPE])
@given(value=ANY_VALUE)
def test_any_value_of_the_layers_controls_gives_a_workload_or_one_sentence(control: str, value: Any) -> None:
    asked = layer_wish({control: value}, Layers(), None)
    assert (asked.workload is None) == bool(asked.error)
    assert asked.error.isprintable()


@given(ANY_VALUE | st.lists(st.integers(10**4000, 10**4500), min_size=1))
def test_a_value_in_a_message_is_short_and_printable(value: object) -> None:
    shown = quoted(value)
    assert shown.isprintable()
    assert 0 < len(shown) <= WIDTH


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("planted")


def test_a_value_that_cannot_be_written_out_is_told_by_its_kind() -> None:
    assert quoted(Unspeakable()) == "a Unspeakable"
    assert quoted("a\u202eb\x1b[2J") == "'a\\u202eb\\x1b[2J'"


# -- by the address ---------------------------------------------------------------------------------------------------


@pytest.fixture
def faked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeJobs]:
    monkeypatch.setenv("MHA_BENCH_RESULTS", str(tmp_path))
    checks, jobs = LiveChecks(FakeChecker), FakeJobs()
    monkeypatch.setattr(services, "live_checks", lambda: checks)
    monkeypatch.setattr(services, "jobs", lambda: jobs)
    monkeypatch.setattr(services, "layers", Layers)
    yield jobs
    checks.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"seq_len": 10**9}, " of memory, of which "), ({"replicates": 10**9}, "it would take about ")],
    ids=short,
)
def test_what_the_estimate_refuses_is_told_alike_by_library_command_line_and_page(
    changes: dict[str, int],
    words: str,
    tmp_path: Path,
    fake: type[FakeChild],
    faked: FakeJobs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("profiling.estimate.free_memory_mib", lambda _: 5003.0)  # the same at each look
    sizes = {"batch_size": 3, "seq_len": 5, "num_heads": 2, "d_model": 14, "threads": 2, "replicates": 1} | changes
    lists = ("batch_size", "seq_len", "num_heads")
    values: dict[str, Any] = {name: [size] if name in lists else size for name, size in sizes.items()}
    with pytest.raises(GridError) as caught:
        run_sweep(out=tmp_path / "run", device="cpu", contenders=["custom"], time_budget_s=0.5, **values)
    told = str(caught.value)
    assert words in told
    options = [f"--{name.replace('_', '-')}={size}" for name, size in sizes.items()]
    where = ["--device=cpu", "--contenders=custom", "--time-budget=0.5", f"--out={tmp_path / 'run'}"]
    done = CliRunner().invoke(main, ["sweep", *options, *where])
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {told}\n")
    assert not (tmp_path / "run").exists()
    texts = {name: str(size) for name, size in sizes.items()} | {session.TIME_BUDGET: "0.5"}
    app = opened(**texts, device="cpu", contenders="custom")
    reason, _, advice = told.partition(": shorten a list, or give ")
    assert advice == "--anyway (in Python anyway=True) to measure all of it"
    shown = [each.value.replace("\\", "") for each in app.error]
    assert shown == [f"{reason[:1].upper()}{reason[1:]}."]
    assert app.button(key="run_sweep").disabled
    app.checkbox(key=session.ANYWAY).check().run()
    assert not app.button(key="run_sweep").disabled, "the page's own way to say --anyway"


NONSENSE: tuple[Any, ...] = ("x", "", "-1", "inf", "nan", "1e300", "9" * 5000, "\x00<b>`", ["1", "2"], "٣")


@pytest.mark.parametrize("text", NONSENSE, ids=short)
def test_an_address_full_of_nonsense_opens_the_page(faked: FakeJobs, text: Any) -> None:
    names = [name for name in vars(session) if name.isupper()]
    keys = [getattr(session, name) for name in names]
    assert len(keys) > 30
    app = opened(**dict.fromkeys([*keys, "nonsense", "sample_batch_size", "at_seq_len"], text))
    assert app.number_input(key=session.D_MODEL).value in (512, 2)
    assert app.session_state[session.SEED] in (42, 2)


def test_what_an_address_asks_for_in_vain_is_told_until_a_control_is_changed(faked: FakeJobs) -> None:
    app = opened(d_model="inf", seed="1.5", dtype="float8", device="cuda:7", seq_len="5, 7")
    (notice,) = [each.value for each in app.warning if "cannot be" in each.value]
    for words in ("d\\_model must be a whole number, not 'inf'", "seed must", "dtype must be one of", "device must be"):
        assert words in notice
    assert app.text_input(key=session.SEQ_LEN).value == "5, 7", "the rest of the address counts"
    assert not app.button(key="run_sweep").disabled
    app.run()
    assert [each.value for each in app.warning] == [notice]
    app.number_input(key=session.D_MODEL).set_value(64).run()
    assert not app.warning
    assert not app.exception


def test_a_device_that_is_not_here_is_told_once_the_devices_are_known() -> None:
    assert address.complaints({"device": ["cuda:7"]}) == {}
    assert address.complaints({"device": ["cuda:7"]}, ["cpu"]) == {
        "device": "device must be one of auto, cpu, not 'cuda:7'"
    }


@pytest.mark.parametrize("control", [session.BATCH_SIZE, session.SEQ_LEN, session.NUM_HEADS])
def test_a_list_that_cannot_be_is_told_by_its_control_and_the_button_is_off(faked: FakeJobs, control: str) -> None:
    app = opened(**{control: "1.5"})
    assert app.button(key="run_sweep").disabled
    assert any(each.value.startswith(f":red[{control}".replace("_", "\\_")) for each in app.caption)


def test_the_address_of_every_default_and_preset_has_nothing_to_complain_of() -> None:
    defaults = {
        name: [str(each) for each in (value if isinstance(value, list) else [value])]
        for name, value in DEFAULTS.items()
        if value is not None
    }
    assert address.complaints(defaults, ["cpu"]) == {}
    assert address.complaints({"contenders": ["sneaky.py:Layer", "custom"], "utm_source": ["x"], "threads": [""]}) == {}
