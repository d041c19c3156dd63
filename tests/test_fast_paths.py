"""The official layer's fast path, and what is said where it is not taken: seen in torch at work, not assumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up_runs import make_workload
from own_layers import write_layer
from torch import nn

from mha import call_official, causal_mask, fast_path, official_layer
from profiling.measuring.contenders import fast_paths
from profiling.measuring.contenders.fast_paths import SWITCHED_OFF, fast_path_reason, with_fast_path
from profiling.measuring.contenders.kernels import FAST_PATH, observe_kernel
from profiling.measuring.contenders.known import make_contender, make_input, make_weights
from profiling.measuring.devices import Cpu
from profiling.measuring.passes import measure
from profiling.settings import CLONE

EVEN = {"bias": True, "num_heads": 2}


def run(
    *contenders: str, reference: str = "official", layers: dict[str, str] | None = None, **changes: Any
) -> dict[str, dict[str, Any]]:
    rows = measure(
        make_workload(**{**EVEN, **changes}),
        list(contenders),
        Cpu(),
        budget_s=0.02,
        order_seed=7,
        say=lambda *_: None,
        layers=layers,
        reference=reference,
    )
    return {name: row.cells for name, row in rows.items() if not name.startswith(CLONE)}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_fast_path_runs_under_its_own_name_and_computes_what_the_default_call_does(
    dtype: str, causal: bool
) -> None:
    rows = run("official-fastpath", "official", "official-fused", dtype=dtype, causal=causal)
    mine = rows["official-fastpath"]
    assert (mine["status"], mine["kernel"], mine["check_verdict"]) == ("ok", FAST_PATH, "pass"), mine
    assert mine["speedup"] > 0
    assert "fast_path_reason" not in mine
    assert (rows["official"]["kernel"], rows["official-fused"]["kernel"]) == ("explicit", "sdpa flash (cpu)")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"bias": False}, "bias=False: in_proj_bias is None"),
        ({"num_heads": 5}, "self.num_heads is not even"),
        ({"mode": "training"}, "training is enabled"),
    ],
)
def test_where_it_cannot_be_taken_nothing_is_timed_under_its_name_and_torch_says_why(
    changes: dict[str, Any], reason: str
) -> None:
    rows = run("official-fastpath", "official", "official-fused", **changes)
    mine = rows["official-fastpath"]
    assert (mine["status"], mine["status_reason"]) == ("unavailable", f"the fast path does not run: {reason}")
    assert "latency_median_ms" not in mine
    for name in ("official", "official-fused"):
        assert rows[name]["fast_path_reason"] == reason
        assert rows[name]["status"] == "ok"


@pytest.mark.parametrize(
    ("causal", "reason"),
    [(False, SWITCHED_OFF), (True, "floating-point masks are not supported for fast path")],
)
def test_the_other_official_calls_say_what_kept_them_off_it(causal: bool, reason: str) -> None:
    rows = run("custom", "official", "official-fused", causal=causal)
    assert {rows[name]["fast_path_reason"] for name in ("official", "official-fused")} == {reason}
    assert "fast_path_reason" not in rows["custom"]


def test_it_may_be_a_reference_with_a_clone_of_its_own(tmp_path: Path) -> None:
    name = f"{write_layer(tmp_path)}:Right"
    # Right has no place for biases, without which there is no fast path: so it is timed, and not compared.
    rows = run(name, "official-fastpath", "official", reference="official-fastpath", layers={name: name})
    assert rows["official-fastpath"]["status"] == "ok"
    assert rows["official-fastpath"]["clone_speedup"] > 0
    assert rows[name]["clone_speedup"] > 0
    assert rows[name]["speedup"] > 0


def test_another_program_in_its_place_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Planted: the switch does nothing, so the call runs as that of `official-fused` does.
    monkeypatch.setattr(torch.backends.mha, "set_fastpath_enabled", lambda _: None)
    monkeypatch.setattr(torch.backends.mha, "get_fastpath_enabled", lambda: False)
    mine = run("official-fastpath", "official")["official-fastpath"]
    assert mine["status"] == "unavailable"
    assert "get_fastpath_enabled() was not True" in mine["status_reason"]


def test_the_switch_is_on_within_the_call_alone_also_where_it_raises() -> None:
    get = torch.backends.mha.get_fastpath_enabled
    with fast_path(False):
        assert with_fast_path(get)() is True
        assert get() is False
        with pytest.raises(ZeroDivisionError):
            with_fast_path(lambda: 1 / 0)()
        assert get() is False
    with fast_path(True):
        assert with_fast_path(get)() is True
        assert get() is True


def _unbatched(layer: nn.MultiheadAttention, x: torch.Tensor) -> Callable[[], object]:
    return lambda: layer(x[0], x[0], x[0])


def _crossed(layer: nn.MultiheadAttention, x: torch.Tensor) -> Callable[[], object]:
    return lambda: layer(x, x.clone(), x.clone())


def _with_gradients(layer: nn.MultiheadAttention, x: torch.Tensor) -> Callable[[], object]:
    def call() -> object:
        with torch.enable_grad():
            return layer(x, x, x)

    return call


@pytest.mark.parametrize(
    ("make_call", "words"),
    [
        (_unbatched, "input not batched; expected query.dim() of 3 but got 2"),
        (_crossed, "non-self attention was used"),
        (_with_gradients, "grad is enabled and at least one of query or the"),
    ],
)
def test_torchs_own_words_are_told(make_call: Callable[..., Callable[[], object]], words: str) -> None:
    layer, x = official_layer(10, 2, bias=True).eval(), torch.randn(3, 7, 10)
    with torch.no_grad():
        assert fast_path_reason(make_call(layer, x), layer).startswith(words)


def test_a_reason_that_torch_keeps_to_itself_is_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_paths, "_VARIABLE", "renamed_in_another_torch")
    layer, x = official_layer(10, 5, bias=True).eval(), torch.randn(3, 7, 10)
    with torch.no_grad():
        assert fast_path_reason(lambda: layer(x, x, x), layer) == "torch gives no reason"


def test_a_boolean_mask_is_what_lets_a_causal_call_take_it() -> None:
    layer, x = official_layer(10, 2, bias=True).eval(), torch.randn(3, 7, 10)
    with torch.no_grad(), fast_path(True):
        for dtype, program in ((None, FAST_PATH), (torch.float32, "explicit")):
            mask = causal_mask(7, dtype=dtype)
            assert observe_kernel(lambda mask=mask: call_official(layer, x, causal_mask=mask)) == program


def test_what_is_set_up_to_look_is_taken_down_again() -> None:
    import sys

    point = make_workload(**EVEN)
    contender = make_contender("official", point, make_weights(point), make_input(point))
    before = (sys.getprofile(), torch.backends.mha.get_fastpath_enabled())
    with torch.inference_mode():
        fast_path_reason(contender.call, contender.layer)
    assert (sys.getprofile(), torch.backends.mha.get_fastpath_enabled()) == before
