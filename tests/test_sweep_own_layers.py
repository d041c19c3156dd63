"""Sweeps over layers of one's own: resumed, edited, and misbehaving in a real child."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_runs import FakeChild, measured_points
from own_layers import MISBEHAVING, RIGHT, write_layer

from profiling import run_sweep
from profiling.layers import source_hash
from profiling.runs import RunError, read_run
from profiling.sweep import sweep
from profiling.table import load_measurements, load_run, load_samples
from profiling.workload import GridError

GRID: dict[str, Any] = {
    "batch_size": [3],
    "seq_len": [5, 7],
    "num_heads": [2],
    "d_model": 10,
    "device": "cpu",
    "contenders": ["mine.py:Right"],
    "time_budget_s": 0.02,
    "quiet_wait_s": 0,  # other tests are no reason to wait
}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A right layer, in the working folder."""
    monkeypatch.chdir(write_layer(tmp_path / "code").parent)
    return tmp_path / "code" / "mine.py"


# -- with a child that measures nothing -------------------------------------------------------------------------------


def test_the_child_is_told_where_the_layer_lies_and_the_rows_keep_its_name(
    fake: type[FakeChild], mine: Path, tmp_path: Path
) -> None:
    sweep({**GRID, "reference": "official-fused"}, tmp_path / "run")
    asked = next(request for request in fake.asked if request["request"] == "measure")
    assert asked["contenders"] == ["mine.py:Right", "official-fused"]
    assert asked["layers"] == {"mine.py:Right": f"{mine}:Right"}
    assert asked["reference"] == "official-fused"
    rows = load_measurements(tmp_path / "run")
    assert rows["contender"].tolist() == ["mine.py:Right", "official-fused"] * 2
    assert rows["reference"].tolist()[0] == "official-fused"
    assert rows["source_hash"].tolist()[0] == source_hash(mine)


def test_a_run_is_resumed_from_any_folder(
    fake: type[FakeChild], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(GRID, tmp_path / "run")
    lines = (tmp_path / "run" / "measurements.csv").read_bytes().splitlines(keepends=True)
    (tmp_path / "run" / "measurements.csv").write_bytes(b"".join(lines[:3]))
    fake.reset()
    monkeypatch.chdir("/")
    assert sweep({}, tmp_path / "run", resume=True).state == "finished"
    assert measured_points(fake.asked) == [7]
    (layers,) = [request["layers"] for request in fake.asked if request["request"] == "measure"]
    assert layers == {"mine.py:Right": f"{mine}:Right"}


def test_another_file_of_the_same_name_is_not_taken_for_the_one_that_was_measured(
    fake: type[FakeChild], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(GRID, tmp_path / "run")
    monkeypatch.chdir(write_layer(tmp_path / "other").parent)
    with pytest.raises(RunError, match="its settings had layers"):
        sweep({"contenders": GRID["contenders"]}, tmp_path / "run", resume=True)
    monkeypatch.chdir(mine.parent)
    assert sweep({"contenders": GRID["contenders"]}, tmp_path / "run", resume=True).state == "finished"


def test_a_run_of_a_layer_that_was_edited_or_is_gone_is_not_resumed(
    fake: type[FakeChild], mine: Path, tmp_path: Path
) -> None:
    sweep(GRID, tmp_path / "run")
    write_layer(mine.parent, text=RIGHT + "# edited\n")
    with pytest.raises(RunError, match=r"its source of mine\.py:Right was '\w{16}', now '\w{16}'"):
        sweep({}, tmp_path / "run", resume=True)
    mine.unlink()
    with pytest.raises(GridError, match=r"mine\.py cannot be read"):
        sweep({}, tmp_path / "run", resume=True)
    assert read_run(tmp_path / "run").state == "finished", "it can still be read"


def test_a_layer_edited_while_the_sweep_runs_costs_its_own_rows(
    fake: type[FakeChild], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Edited(FakeChild):
        def ask(self, request: dict[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
            answer = super().ask(request, limit_s=limit_s)
            if request["request"] == "measure" and request["workload"]["seq_len"] == 7:
                answer["rows"]["mine.py:Right"]["source_hash"] = "edited"
            return answer

    monkeypatch.setattr("profiling.measurer.MeasuringChild", Edited)
    sweep(GRID, tmp_path / "run")
    rows = load_measurements(tmp_path / "run")
    assert rows["status"].tolist() == ["ok", "ok", "error", "ok"]
    assert rows["status_reason"].dropna().tolist() == [
        "its source has changed since the run began: start a new run, or put it back and resume this one",
    ]
    samples = load_samples(tmp_path / "run")
    assert set(samples[samples["point"] == 2]["contender"]) == {"official"}
    monkeypatch.setattr("profiling.measurer.MeasuringChild", fake)
    fake.reset()
    sweep({}, tmp_path / "run", resume=True)  # it has been put back
    assert measured_points(fake.asked) == [7], "a row without a measurement is none"
    rows = load_measurements(tmp_path / "run")
    assert rows["status"].tolist() == ["ok"] * 4
    assert not rows.duplicated(["point", "contender"]).any()
    assert not load_samples(tmp_path / "run").duplicated(["point", "contender", "round"]).any()


def test_a_layer_whose_file_is_missing_is_told_before_anything_starts(fake: type[FakeChild], tmp_path: Path) -> None:
    with pytest.raises(GridError, match=r"there is no file none\.py"):
        sweep({**GRID, "contenders": ["none.py:X"]}, tmp_path / "run")
    assert fake.asked == []
    assert not (tmp_path / "run").exists()


# -- for real ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """One sweep of one point with layers that take the child down, and two that do not."""
    folder = tmp_path_factory.mktemp("own")
    mine = write_layer(folder, text=MISBEHAVING)
    endless = write_layer(folder, "endless.py", "while True: pass")
    names = [f"{mine}:{name}" for name in ("Right", "Dies", "Hangs", "Exits")]
    rows = run_sweep(
        **{**GRID, "seq_len": [5], "contenders": [*names, f"{endless}:X"]},
        threads=1,
        time_limit_s=4.0,
        out=folder / "run",
    )
    return rows.set_index(rows["contender"].str.rpartition("/")[2])


@pytest.mark.parametrize(
    ("contender", "status", "words"),
    [
        ("mine.py:Dies", "crashed", "ended without an answer, though with exit status 0, in build"),
        ("mine.py:Hangs", "timeout", "gave no answer within 4 s and was ended, in build"),
        ("endless.py:X", "timeout", "gave no answer within 4 s and was ended, in build"),
        ("mine.py:Exits", "error", "called exit(3) (mine.py, line "),
    ],
)
def test_a_layer_that_takes_the_child_down_costs_its_own_row(
    table: pd.DataFrame, contender: str, status: str, words: str
) -> None:
    assert table.loc[contender, "status"] == status
    assert words in table.loc[contender, "status_reason"]
    assert table.loc[contender, "latency_median_ms"] is pd.NA


def test_the_layers_beside_it_are_measured(table: pd.DataFrame) -> None:
    assert (table.loc["mine.py:Right", "status"], table.loc["mine.py:Right", "check_verdict"]) == ("ok", "pass")
    assert table.loc["mine.py:Right", "speedup"] > 0
    assert table.loc["official", "status"] == "ok"


STALE = """
import torch
from mha import MultiHeadAttention

class Stored(MultiHeadAttention):
    output = None

    def forward(self, x):
        if self.output is None:
            self.output = super().forward(x)
        return self.output

class OneThread(MultiHeadAttention):
    def forward(self, x):
        torch.set_num_threads(1)
        torch.backends.cuda.enable_flash_sdp(False)
        return super().forward(x)
"""


def test_a_stored_result_fails_and_a_change_of_torch_is_told_in_every_row_and_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stale.py").write_text(STALE)
    monkeypatch.chdir(tmp_path)
    grid = {**GRID, "contenders": ["stale.py:Stored", "stale.py:OneThread", "official-fused"], "threads": 2}
    sweep({**grid, "seq_len": [7]}, tmp_path / "run")
    table = load_run(tmp_path / "run").set_index("contender")
    assert table["check_verdict"]["stale.py:Stored"] == "fail"
    assert "a stored result was timed" in table["warnings"]["stale.py:Stored"]
    assert table["check_verdict"]["stale.py:OneThread"] == "pass"
    for text in table["warnings"]:
        assert "threads 2 -> 1, flash attention True -> False" in text
