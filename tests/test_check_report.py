from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_runs import make_workload

from profiling.check_report import error_report, reason_of
from profiling.child_process import ChildDied, MeasuringError
from profiling.measuring.answers import Answerer
from profiling.protocol import Marker, Running, encode


def test_a_report_of_nothing_has_every_key_of_a_report_and_its_bounds(tmp_path: Path) -> None:
    request = {"request": "check", "workload": make_workload().to_dict(), "contender": "custom"}
    report = Answerer(Marker(tmp_path / "running")).answer(encode(request))["answer"]
    nothing = error_report("it broke", "all")
    assert list(nothing) == list(report)
    assert {name: nothing[name] for name in ("verdict", "reason", "scope")} == {
        "verdict": "error",
        "reason": "it broke",
        "scope": "all",
    }
    bounds = ("tolerance", "plain_tolerance")
    assert [nothing[name] for name in bounds] == [report[name] for name in bounds]
    assert json.loads(json.dumps(nothing)) == nothing


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            ChildDied("timeout", "gave no answer within 7 s and was ended", Running("check", "x")),
            "the layer did not answer within 7 s",
        ),
        (
            ChildDied("crashed", "ended by signal 11 (SIGSEGV)", Running("check", "x")),
            "the layer took its process down, which ended by signal 11 (SIGSEGV)",
        ),
        (
            ChildDied("crashed", "ended with exit status 1; its last words: no torch", Running("request", "")),
            "the measuring process ended with exit status 1; its last words: no torch",
        ),
        (ChildDied("timeout", "gave no answer within 180 s and was ended", Running("request", "")), "the measuring"),
        (MeasuringError("no such device"), "no such device"),
    ],
)
def test_why_there_is_no_answer_is_told_of_whoever_is_to_blame(error: MeasuringError, words: str) -> None:
    assert reason_of(error, 7.0).startswith(words)
