"""The script of a row: it needs torch alone, and computes what the run computed, whatever layer it is of."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_accelerators import FakeBackend
from foreign_layers import RIGHT_LAYERS
from made_up_runs import make_row, make_run, make_workload
from own_layers import write_layer
from script_names import namespace, settings_of_torch

from mha import FusedMultiHeadAttention, MultiHeadAttention
from profiling.agreement import Told, agreement
from profiling.kept_sources import keep_recipe, keep_source, recipe_key
from profiling.layers import LayerFile
from profiling.measured_point import MeasuredPoint
from profiling.measuring.contenders.known import make_contender, make_input, make_weights
from profiling.measuring.contenders.own import make_user_contender
from profiling.settings import SweepSettings
from profiling.sources import Source
from profiling.standalone.ours import layer_text
from profiling.standalone.writing import NoScript, script_text
from profiling.workload import Workload

HERE = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    with settings_of_torch():
        yield


# -- the layers -------------------------------------------------------------------------------------------------------

KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "training", "bias": True},
    {"causal": True, "batch_size": 1, "dtype": "float64"},
    {"causal": True, "bias": True, "dtype": "bfloat16"},
)


def made_up_point(folder: Path, contender: str, workload: Workload, hash_: str, **settings: Any) -> MeasuredPoint:
    names = {"contender": contender, "reference": "official", "source_hash": hash_}
    row = make_row() | workload.to_dict() | names | {"speedup_low": None, "speedup_high": None, "num_speedups": 1}
    run = make_run(settings=SweepSettings(contenders=(contender,), time_budget_s=1e-3, **settings))
    return MeasuredPoint(folder, run, row, None, workload)


@pytest.mark.parametrize("changes", KINDS, ids=str)
@pytest.mark.parametrize("contender", ["custom", "custom-fused", "official", "official-fused", "official-fastpath"])
def test_a_contender_of_ours_or_torchs_computes_the_same_bits(
    contender: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    workload = make_workload(**changes)
    keep_source(tmp_path, Source.of_ours())
    script = namespace(script_text(made_up_point(tmp_path, contender, workload, Source.of_ours().hash)))
    torch.backends.mha.set_fastpath_enabled(False)
    ours = make_contender(contender, workload, make_weights(workload), make_input(workload))
    _, forward, call = script["make"](contender, script["make_weights"](), script["make_input"]())
    with torch.enable_grad() if workload.mode == "training" else torch.inference_mode():
        assert torch.equal(forward(), ours.forward())
        expected, found = ours.call(), call()
    if workload.mode == "training":
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("contender", "cls"), [("custom", MultiHeadAttention), ("custom-fused", FusedMultiHeadAttention)]
)
def test_what_is_taken_of_our_source_runs_by_itself_and_refuses_as_the_class_does(contender: str, cls: type) -> None:
    text = layer_text(contender, list(Source.of_ours().texts.values()))
    before = "import math\nimport numbers\nfrom typing import Any\nimport torch\nimport torch.nn.functional as F\n"
    names = namespace(f"from __future__ import annotations\n{before}from torch import Tensor, nn\n{text}")
    taken = names[cls.__name__](6, 3)
    with pytest.raises(ValueError, match="num_heads must divide d_model") as said:
        cls(6, 4)
    with pytest.raises(ValueError, match="num_heads must divide d_model") as found:
        names[cls.__name__](6, 4)
    assert str(found.value) == str(said.value)
    with pytest.raises(ValueError, match="x must be"):
        taken(torch.zeros(2, 5))
    assert '"""' not in text


def test_a_source_without_the_class_is_told() -> None:
    with pytest.raises(ValueError, match="the kept source has no class MultiHeadAttention"):
        layer_text("custom", ["class Other: pass"])


OWN = [(HERE / "foreign_layers.py", cls.__name__) for cls in RIGHT_LAYERS]


@pytest.mark.parametrize(("file", "name"), OWN, ids=[name for _, name in OWN])
def test_a_layer_of_any_layout_is_built_called_and_filled_as_in_the_run(file: Path, name: str, tmp_path: Path) -> None:
    hold_to_the_run(tmp_path, LayerFile(file, name), make_workload(num_heads=2, d_model=12, seq_len=5))


ODD = """
import torch
from torch import nn

class TurnedAndMasked(nn.Module):
    batch_first = False

    def __init__(self, embed_dim, heads, /, *, qkv_bias=False, max_len=4):
        super().__init__()
        self.inner = nn.MultiheadAttention(embed_dim, heads, bias=qkv_bias, dropout=0.0)

    def forward(self, keys, values, query, attn_mask, key_padding_mask):
        assert key_padding_mask is None
        return {"extra": None, "out": self.inner(query, keys, values, attn_mask=attn_mask, need_weights=False)[0]}

class Switched(nn.MultiheadAttention):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias=bias, batch_first=True)

    def forward(self, x, is_causal=False):
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=x.dtype).triu(1) if is_causal else None
        return super().forward(x, x, x, attn_mask=mask)[0]

ready = Switched(12, 2, bias=False)
"""


@pytest.mark.parametrize(
    ("name", "causal"),
    # The first cannot be called without a mask.
    [("TurnedAndMasked", True), ("Switched", False), ("Switched", True), ("ready", False), ("ready", True)],
)
def test_an_odd_call_is_repeated(name: str, causal: bool, tmp_path: Path) -> None:
    layer = LayerFile(write_layer(tmp_path / "code", text=ODD), name)
    hold_to_the_run(tmp_path, layer, make_workload(num_heads=2, d_model=12, seq_len=5, causal=causal))


def hold_to_the_run(folder: Path, layer: LayerFile, workload: Workload) -> None:
    """The script's layer gives the same bits as the contender that a run measures, at the same weights and input."""
    torch.backends.mha.set_fastpath_enabled(False)
    ours = make_user_contender(layer.spec, layer.spec, workload, make_weights(workload), make_input(workload))
    assert ours.incomparable == ""
    source = Source.of_layer(layer.path)
    assert keep_source(folder, source)
    assert ours.recipe is not None
    keep_recipe(folder, source.hash, recipe_key(layer, workload), ours.recipe)
    point = made_up_point(folder, layer.spec, workload, source.hash, layers={layer.spec: layer.spec})
    script = namespace(script_text(point))
    _, forward, _ = script["make"](layer.spec, script["make_weights"](), script["make_input"]())
    with torch.inference_mode():
        assert torch.equal(forward(), ours.forward())


# -- what it may contain ----------------------------------------------------------------------------------------------

HOSTILE = ["'''", '"""', "\\", "\\'''", "'", "\r\n", "\x0c", "\0", "#<files>", "{x}", "é", "", "x = '''\\'''"]


@pytest.mark.parametrize(
    "text", [*(t.encode() for t in HOSTILE), b"\xff\xfe", b"# coding: latin-1\nx = '\xe9'"], ids=repr
)
def test_whatever_a_kept_file_holds_it_is_a_literal_with_these_very_bytes(text: bytes, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_bytes(text)
    source, workload = Source.of_layer(mine), make_workload()
    keep_source(tmp_path, source)
    layer = LayerFile(mine, "L")
    recipe = {"name": "L", "is_instance": False, "args": [], "kwargs": {}, "weights": None, "query": None, "sides": []}
    recipe |= {"empty": [], "batch_first": True, "flags": {}, "masks": []}
    keep_recipe(tmp_path, source.hash, recipe_key(layer, workload), recipe)
    point = made_up_point(tmp_path, f"{mine}:L", workload, source.hash, layers={f"{mine}:L": f"{mine}:L"})
    kept = namespace(script_text(point))["FILES"]["mine.py"]
    assert (kept if isinstance(kept, bytes) else kept.encode()) == text


def test_no_text_of_a_run_becomes_code(tmp_path: Path) -> None:
    evil = '\'); import os; os._exit(9) #\n"""\n'
    keep_source(tmp_path, Source.of_ours())
    point = made_up_point(tmp_path, "custom", make_workload(), Source.of_ours().hash)
    run = dataclasses.replace(point.run, environment={"torch_version": evil, "device_name": evil})
    row = {**point.row, "measured_at": evil, "max_abs_error": math.inf}
    point = MeasuredPoint(tmp_path, run, row, {"latency_median_ms": math.nan}, point.workload)
    found = namespace(script_text(point, evil))
    assert found["SAID"]["error"] == math.inf
    assert "os._exit" in found["SAID"]["on"]


def test_a_recipe_that_someone_has_edited_is_none(tmp_path: Path) -> None:
    mine, workload = write_layer(tmp_path / "code"), make_workload()
    source, layer = Source.of_layer(mine), LayerFile(mine, "Right")
    point = made_up_point(tmp_path, f"{mine}:Right", workload, source.hash, layers={f"{mine}:Right": layer.spec})
    keep_source(tmp_path, source)
    for edited in (None, {}, [], {"name": "Right", "weights": [{"kind": "w"}]}, {"name": "os.system", "args": ["ls"]}):
        path = tmp_path / "sources" / source.hash / "recipes.json"
        path.write_text(json.dumps({recipe_key(layer, workload): edited}))
        with pytest.raises(NoScript, match=r"has not kept how .* was built and called here"):
            script_text(point)


def test_a_layer_whose_source_is_gone_has_no_script(tmp_path: Path) -> None:
    mine = write_layer(tmp_path / "code")
    spec = f"{mine}:Right"
    point = made_up_point(tmp_path, spec, make_workload(), "0" * 16, layers={spec: spec})
    with pytest.raises(NoScript, match=r"has not kept source 0{16}; and .*mine\.py is another by now, or gone"):
        script_text(point)


# -- time on an accelerator -------------------------------------------------------------------------------------------


def timed_on(backend: FakeBackend, host: SimpleNamespace) -> Any:
    """What times calls in a script for an accelerator, with a fake in the place of torch."""
    part = (HERE.parent / "profiling" / "standalone" / "time_accelerator.py.txt").read_text(encoding="utf-8")
    module = SimpleNamespace(
        Event=lambda enable_timing: backend.new_event(),
        synchronize=lambda: backend.synchronize(backend.name),
        set_device=backend.set_device,
    )
    torch_like = SimpleNamespace(cuda=module, empty=backend.empty, int8=torch.int8)
    names: dict[str, Any] = {"torch": torch_like, "DEVICE": backend.name, "time": host}
    exec(part, names)
    return names["timed"]


@pytest.mark.parametrize("launch_ms", [0.0, 0.03])
def test_a_script_times_the_devices_own_work_and_no_gap_between_launches(launch_ms: float) -> None:
    backend = FakeBackend("cuda:1", launch_ms)
    timed = timed_on(backend, SimpleNamespace(perf_counter=backend.host_clock))
    assert timed(lambda: backend.launch(0.01), 100) == pytest.approx(1e-3)
    assert backend.selected == "cuda:1"


def test_a_script_gives_up_being_ahead_of_a_call_that_takes_too_long_to_launch() -> None:
    backend = FakeBackend("cuda:1", launch_ms=5.0)
    timed = timed_on(backend, SimpleNamespace(perf_counter=backend.host_clock))
    assert timed(lambda: backend.launch(0.01), 10) > 0.04, "the gaps are in it, as for a person's loop"


# -- what it comes to -------------------------------------------------------------------------------------------------

SAID = [
    {"speedup": 1.32, "low": 1.29, "high": 1.35, "processes": 5, "noise_floor": 0.01},
    {"speedup": 1.32, "low": None, "high": None, "processes": 1, "noise_floor": None},
    {"speedup": 0.9, "low": 0.7, "high": 1.1, "processes": 3, "noise_floor": 0.2},
]
FOUND = [[0.27, 0.28, 0.26], [0.0, 0.4], [0.3]]


@pytest.mark.parametrize("said", SAID, ids=lambda said: str(said["processes"]))
@pytest.mark.parametrize("logs", FOUND, ids=str)
def test_the_script_and_the_command_judge_alike(said: dict[str, Any], logs: list[float], tmp_path: Path) -> None:
    names = namespace(script_text(made_up_point(tmp_path, "official", make_workload(), "")))
    names["SAID"].update(said)
    log, half = names["mean_and_half_width"](logs)
    ends = (None, None) if half is None else (math.exp(log - half), math.exp(log + half))
    found = Told(speedup=math.exp(log), low=ends[0], high=ends[1], processes=len(logs), noise_floor=0.03)
    assert names["judged"](log, half, len(logs), 0.03) == agreement(Told(**said), found)[1]


def test_the_scripts_interval_is_that_of_the_table() -> None:
    from profiling.intervals import mean_interval, t_quantile

    names = namespace(script_text(made_up_point(Path(), "official", make_workload(), "")))
    for count in (2, 3, 5, 8, 16):
        logs = [0.01 * index**2 for index in range(count)]
        log, half = names["mean_and_half_width"](logs)
        low, high = mean_interval(logs)
        assert (log - half, log + half) == pytest.approx((low, high), rel=1e-3)
    assert names["T95"][4] == pytest.approx(t_quantile(0.95, 5), abs=5e-4)


def test_agreement_is_nearness_within_noise() -> None:
    said = Told(speedup=1.32, low=1.29, high=1.35, processes=5, noise_floor=0.01)
    near = Told(speedup=1.31, low=1.28, high=1.34, processes=5, noise_floor=0.0)
    far = Told(speedup=1.2, low=1.17, high=1.23, processes=5, noise_floor=0.0)
    # Half-widths ln(1.35/1.29)/2 = 0.02273 and ln(1.34/1.28)/2 = 0.02290: together 0.03227, which is 3.3 %.
    assert agreement(said, near) == (
        True,
        "the row said 1.320 [1.290, 1.350], here 1.310 [1.280, 1.340]: they agree, within 3.3 % of noise",
    )
    assert agreement(said, far) == (
        False,
        "the row said 1.320 [1.290, 1.350], here 1.200 [1.170, 1.230]: they differ, by more than 3.4 % of noise",
    )
    wide = Told(speedup=1.3, low=1.0, high=1.69, processes=2, noise_floor=0.0)
    assert agreement(said, wide) == (
        None,
        "the row said 1.320 [1.290, 1.350], here 1.300 [1.000, 1.690]: "
        "too noisy to tell; measure with more processes, or in a quieter moment",
    )
    assert agreement(wide, Told(speedup=3.9, low=3.8, high=4.0, processes=5, noise_floor=0.0))[0] is False
    single = Told(speedup=1.2, low=None, high=None, processes=1, noise_floor=0.0)
    # A single process strays √5 times as far: 0.05083 and 0.02273 make 0.05568; ln(1.32/1.2) = 0.0953.
    assert agreement(said, single)[0] is False
    assert agreement(single, single)[0] is None
