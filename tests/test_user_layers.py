"""Layers of one's own, checked and measured in a real child: what they do wrong costs themselves and says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import make_workload
from own_layers import MISBEHAVING, RIGHT, write_layer

from profiling.check_report import error_report
from profiling.child_process import ChildDied, MeasuringChild


class Asker:
    """One child, a new one after a death, and a folder with files of layers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = write_layer(folder, text=MISBEHAVING)
        self._child: MeasuringChild | None = None

    @property
    def child(self) -> MeasuringChild:
        if self._child is None or not self._child.is_alive():
            self.close()
            self._child = MeasuringChild()
        return self._child

    def close(self) -> None:
        if self._child is not None:
            self._child.close()

    def check(self, name: str, file: Path | None = None, limit_s: float = 60, **changes: Any) -> dict[str, Any]:
        point = make_workload(**changes).to_dict()
        request = {"request": "check", "workload": point, "contender": name, "layer": f"{file or self.file}:{name}"}
        return self.child.ask(request, limit_s=limit_s)

    def measure(self, *names: str, others: tuple[str, ...] = ("official",), **changes: Any) -> dict[str, Any]:
        request = {
            "request": "measure",
            "workload": make_workload(**changes).to_dict(),
            "contenders": [*(f"mine.py:{name}" for name in names), *others],
            "layers": {f"mine.py:{name}": f"{self.file}:{name}" for name in names},
            "time_budget_s": 0.01,
            "order_seed": 7,
        }
        rows: dict[str, Any] = self.child.ask(request, limit_s=60)["rows"]
        return {name.removeprefix("mine.py:"): row for name, row in rows.items()}


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    shared = Asker(tmp_path_factory.mktemp("own"))
    yield shared
    shared.close()


# -- finding and importing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Right", "MixesUp.Inner", "make", "instance"])
def test_a_class_one_in_a_class_a_factory_and_an_instance_are_layers(asker: Asker, name: str) -> None:
    assert asker.check(name)["verdict"] == "pass"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (
            "import math\nimport no_such_module\n",
            "X",
            "layer.py, line 2: ModuleNotFoundError: No module named 'no_such",
        ),
        ("x = 1\ndef broken(:\n", "X", "layer.py, line 2: SyntaxError: invalid syntax"),
        ("x = 1\n\n\nx / 0\n", "X", "layer.py, line 4: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)\n", "X", "layer.py, line 2: called exit(3)"),
        ("raise GeneratorExit\n", "X", "layer.py, line 1: GeneratorExit: no message"),
        ("x = '\0'\n", "X", "null bytes"),
        ("# coding: nonsense\n", "X", "layer.py"),
        ("raise ValueError('a\\nb')\n", "X", "layer.py, line 1: ValueError: a b"),
        ("", "X", "layer.py has no X"),
        (RIGHT, "Rigth", "layer.py has no Rigth; did you mean Right?"),
        (RIGHT, "Nothing", "layer.py has no Nothing; it has Right"),
        (RIGHT, "Right.Inner", "layer.py.Right has no Inner"),
        ("number = 5\n", "number", "a layer must be a class, a factory or a torch.nn.Module, got a int"),
    ],
    ids=str,
)
def test_what_cannot_be_loaded_is_an_error_in_one_sentence(
    asker: Asker, tmp_path: Path, text: str, name: str, words: str
) -> None:
    report = asker.check(name, write_layer(tmp_path, "layer.py", text))
    assert report["verdict"] == "error"
    assert words in report["reason"]
    assert "Traceback" not in report["reason"]
    assert "\n" not in report["reason"]
    assert report.keys() >= error_report("", "").keys()


def test_a_file_that_is_gone_is_an_error(asker: Asker, tmp_path: Path) -> None:
    report = asker.check("X", tmp_path / "gone.py")
    assert (report["verdict"], report["reason"]) == ("error", f"there is no file {tmp_path / 'gone.py'}")


def test_a_file_may_have_any_name(asker: Asker, tmp_path: Path) -> None:
    text = "from dataclasses import dataclass\n@dataclass\nclass Sizes:\n    a: 'int' = 1\n" + RIGHT
    assert asker.check("Right", write_layer(tmp_path / "v1.2", "my-layer (2).new.py", text))["verdict"] == "pass"


def test_an_error_in_a_file_beside_it_names_that_file(asker: Asker, tmp_path: Path) -> None:
    write_layer(tmp_path, "near.py", "x = 1\ny = x.nothing\n")
    report = asker.check("Right", write_layer(tmp_path, text="import near\n" + RIGHT))
    assert report["reason"] == "near.py, line 2: AttributeError: 'int' object has no attribute 'nothing'"


def test_files_of_one_name_and_what_they_import_are_not_confused(asker: Asker, tmp_path: Path) -> None:
    text = "from helpers import factor\n" + RIGHT.replace("1 / math.sqrt(head_dim)", "factor / math.sqrt(head_dim)")
    right, wrong = write_layer(tmp_path / "a", text=text), write_layer(tmp_path / "b", text=text)
    write_layer(tmp_path / "a", "helpers.py", "factor = 1.0")
    write_layer(tmp_path / "b", "helpers.py", "factor = 2.0")
    verdicts = [asker.check("Right", file)["verdict"] for file in (right, wrong, right, wrong)]
    assert verdicts == ["pass", "fail", "pass", "fail"]


def test_a_file_called_like_a_package_of_ours_is_the_persons_own(asker: Asker, tmp_path: Path) -> None:
    write_layer(tmp_path, "mha.py", RIGHT)
    write_layer(tmp_path / "profiling", "__init__.py", "mark = 'theirs'")
    mine = write_layer(tmp_path, text="from mha import Right\nimport profiling\nassert profiling.mark == 'theirs'\n")
    assert asker.check("Right", mine)["verdict"] == "pass"
    assert asker.check("Right", tmp_path / "mha.py")["verdict"] == "pass"
    assert asker.check("Right")["verdict"] == "pass", "ours are in their place again"


def test_a_file_that_imports_ours_gets_ours(asker: Asker, tmp_path: Path) -> None:
    text = "from mha import MultiHeadAttention\nclass Mine(MultiHeadAttention): pass\n"
    report = asker.check("Mine", write_layer(tmp_path, text=text))
    assert (report["verdict"], report["max_abs_error"]) == ("pass", 0.0)


def test_a_file_in_a_package_may_import_relatively(asker: Asker, tmp_path: Path) -> None:
    for folder in (tmp_path / "pkg", tmp_path / "pkg" / "sub"):
        write_layer(folder, "__init__.py", "")
    write_layer(tmp_path / "pkg", "parts.py", RIGHT)
    mine = write_layer(tmp_path / "pkg" / "sub", text="from ..parts import Right\nclass Mine(Right): pass\n")
    assert asker.check("Mine", mine)["verdict"] == "pass"


def test_a_file_may_look_at_its_arguments_and_finds_none(asker: Asker, tmp_path: Path) -> None:
    text = "import argparse\nargparse.ArgumentParser().parse_args()\n" + RIGHT
    assert asker.check("Right", write_layer(tmp_path, text=text))["verdict"] == "pass"


def test_importing_leaves_no_bytecode_and_torch_as_it_was(asker: Asker, tmp_path: Path) -> None:
    write_layer(tmp_path, "near.py", "")
    settings = "import torch\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\n"
    mine = write_layer(tmp_path, text=f"import near\n{settings}{RIGHT}")
    assert asker.check("Right", mine)["verdict"] == "pass"
    assert not list(tmp_path.rglob("__pycache__"))
    assert asker.check("Right")["verdict"] == "pass"


# -- the check --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["GivesATuple", "HasUnusedParameters", "Prints"])
def test_an_odd_layer_that_is_right_passes(asker: Asker, name: str) -> None:
    assert asker.check(name)["verdict"] == "pass"


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("Wrong", "fail", ""),
        ("GivesAnotherShape", "fail", "shape"),
        ("GivesNothing", "error", "returned a NoneType"),
        ("Raises", "error", "ValueError: my own fault"),
        ("RaisesWhenBuilt", "error", "KeyError"),
        ("Exits", "error", "called exit(3)"),
        ("ExitsWhenBuilt", "error", "called exit("),
        ("Interrupts", "error", "GeneratorExit"),
        ("AnotherDesign", "not-comparable", ""),
    ],
)
def test_a_layer_that_misbehaves_gets_its_verdict(asker: Asker, name: str, verdict: str, words: str) -> None:
    report = asker.check(name)
    assert report["verdict"] == verdict, report["reason"]
    assert words in report["reason"]


def test_a_layer_that_hangs_or_dies_takes_the_child_and_nothing_else(asker: Asker) -> None:
    with pytest.raises(ChildDied, match="though with exit status 0") as caught:
        asker.check("Dies")
    assert caught.value.running.contender == "Dies"
    asker.check("Right")  # a new child, loaded
    with pytest.raises(ChildDied) as caught:
        asker.check("Hangs", limit_s=1.0)
    assert caught.value.status == "timeout"
    assert asker.check("Right")["verdict"] == "pass"


# -- the passes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_right_layers_are_measured_as_ours_are(asker: Asker, mode: str) -> None:
    rows = asker.measure("Right", "make", "instance", "GivesATuple", "HasUnusedParameters", "Prints", mode=mode)
    for name in ("Right", "make", "instance", "GivesATuple", "HasUnusedParameters", "Prints"):
        row = rows[name]
        assert (row["status"], row["check_verdict"]) == ("ok", "pass"), row
        assert row["latency_median_ms"] > 0
        assert row["speedup"] > 0
        assert row["max_abs_error"] < 1e-5
        assert row["peak_memory_mib"] > 0
        assert row["kernel"] == "explicit"
        assert "weights" not in row.get("warnings", ""), row
    assert rows["Right"]["source_hash"] == rows["make"]["source_hash"] != rows["official"]["source_hash"]


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_layers_that_raise_or_exit_cost_their_own_rows(asker: Asker, mode: str) -> None:
    names = ("Raises", "RaisesWhenBuilt", "Exits", "ExitsWhenBuilt", "Interrupts", "GivesNothing", "number", "absent")
    rows = asker.measure(*names, "Right", mode=mode)
    assert {name: rows[name]["status"] for name in names} == dict.fromkeys(names, "error")
    reasons = {name: rows[name]["status_reason"] for name in names}
    line = 1 + MISBEHAVING.splitlines().index('        raise ValueError("my own fault")')
    assert reasons["Raises"] == f"ValueError: my own fault (mine.py, line {line})"
    assert reasons["RaisesWhenBuilt"].startswith("KeyError: 10 (mine.py, line ")
    assert reasons["Exits"].startswith("called exit(3) (mine.py, line ")
    assert reasons["ExitsWhenBuilt"].startswith("called exit(enough) (mine.py, line ")
    assert reasons["Interrupts"].startswith("GeneratorExit: no message (mine.py, line ")
    assert reasons["GivesNothing"].startswith("the layer returned a NoneType")
    assert reasons["number"].startswith("a layer must be a class, a factory or a torch.nn.Module")
    assert reasons["absent"].startswith("mine.py has no absent")
    assert [rows[name]["status"] for name in ("Right", "official")] == ["ok", "ok"]


def test_a_layer_of_another_design_is_timed_with_its_own_weights_and_not_compared(asker: Asker) -> None:
    row = asker.measure("AnotherDesign")["AnotherDesign"]
    assert (row["status"], row["check_verdict"]) == ("ok", "not-comparable")
    assert row["latency_median_ms"] > 0
    assert row["speedup"] > 0
    assert row.keys().isdisjoint({"max_abs_error", "max_abs_error_oracle", "error_ratio"})
    assert row["warnings"].startswith("measured with its own weights: ")


def test_a_wrong_layer_is_timed_and_fails(asker: Asker) -> None:
    rows = asker.measure("Wrong", "GivesAnotherShape")
    assert [row["check_verdict"] for row in (rows["Wrong"], rows["GivesAnotherShape"])] == ["fail", "fail"]
    assert rows["Wrong"]["max_abs_error"] > 1e-3
    assert rows["GivesAnotherShape"]["warnings"].startswith("its output has shape (3, 6, 10), not (3, 7, 10)")
    assert all(rows[name]["latency_median_ms"] > 0 for name in ("Wrong", "GivesAnotherShape"))


def test_what_a_layer_does_to_its_input_reaches_nobody_else(asker: Asker) -> None:
    rows = asker.measure("WritesToItsInput", "Right", others=("custom", "official"))
    assert rows["WritesToItsInput"]["check_verdict"] == "pass"
    assert rows["WritesToItsInput"]["warnings"].startswith("writes to its input")
    assert [rows[name]["max_abs_error"] < 1e-5 for name in ("Right", "custom")] == [True, True]


def test_a_layer_with_biases_in_a_workload_without_says_that_they_are_zero(asker: Asker, tmp_path: Path) -> None:
    mine = write_layer(tmp_path, text=RIGHT.replace("bias=False", "bias=True"))
    name = f"{mine}:Right"
    request = {
        "request": "measure",
        "workload": make_workload().to_dict(),
        "contenders": [name, "official"],
        "layers": {name: name},
        "time_budget_s": 0.01,
        "order_seed": 7,
    }
    row = asker.child.ask(request, limit_s=60)["rows"][name]
    assert row["warnings"].startswith("4 of its biases set to zero, since the reference has none")
    assert row["check_verdict"] == "pass"


def test_the_reference_is_the_one_that_was_chosen(asker: Asker) -> None:
    request = {
        "request": "measure",
        "workload": make_workload().to_dict(),
        "contenders": ["x.py:Right", "official-fused"],
        "layers": {"x.py:Right": f"{asker.file}:Right"},
        "reference": "official-fused",
        "time_budget_s": 0.01,
        "order_seed": 7,
    }
    answer = asker.child.ask(request, limit_s=60)
    assert answer["rows"]["x.py:Right"]["speedup"] > 0
    assert set(answer["samples_s"]) == {"x.py:Right", "official-fused", "clone:official-fused"}
