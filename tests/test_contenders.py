from __future__ import annotations

import pytest
import torch
from made_up_runs import make_workload

from profiling.measuring.contenders.known import (
    LAYERS,
    NEED_WEIGHTS,
    make_contender,
    make_input,
    make_weights,
    source_hash,
)
from profiling.settings import OFFICIAL, REFERENCES


def test_every_contender_of_the_settings_has_a_layer() -> None:
    assert set(LAYERS) == set(REFERENCES)
    assert set(NEED_WEIGHTS) == set(OFFICIAL)


def test_the_input_is_the_same_for_a_seed_and_another_for_another() -> None:
    point = make_workload()
    assert make_input(point).shape == (3, 7, 10)
    assert torch.equal(make_input(point), make_input(point))
    assert not torch.equal(make_input(point), make_input(make_workload(seed=43)))
    assert torch.equal(make_input(point).to(torch.bfloat16), make_input(make_workload(dtype="bfloat16")))


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", [name for name in REFERENCES if REFERENCES[name]])
def test_a_contender_computes_what_its_reference_does(name: str, bias: bool, causal: bool, mode: str) -> None:
    point = make_workload(bias=bias, causal=causal, mode=mode)
    x, weights = make_input(point), make_weights(point)
    mine = make_contender(name, point, weights, x)
    theirs = make_contender(str(REFERENCES[name]), point, weights, x)
    torch.testing.assert_close(mine.forward(), theirs.forward(), rtol=1e-5, atol=1e-6)
    assert mine.layer.training == (mode == "training")


def test_random_weights_have_biases_that_matter() -> None:
    weights = make_weights(make_workload(bias=True))
    assert weights.in_proj_bias.abs().min() > 0
    assert weights.out_proj.bias.abs().min() > 0


def test_each_contender_has_weights_of_its_own() -> None:
    point = make_workload()
    x, weights = make_input(point), make_weights(point)
    layers = [make_contender(name, point, weights, x).layer for name in ("custom", "custom", "official")]
    places = {parameter.data_ptr() for layer in (weights, *layers) for parameter in layer.parameters()}
    assert len(places) == sum(len(list(layer.parameters())) for layer in (weights, *layers))


def test_a_training_call_gives_every_gradient_and_leaves_none_behind() -> None:
    point = make_workload(mode="training", bias=True)
    x, weights = make_input(point), make_weights(point)
    contender = make_contender("official", point, weights, x)
    gradients = contender.call()
    assert isinstance(gradients, tuple)
    assert [tuple(g.shape) for g in gradients] == [tuple(t.shape) for t in (x, *contender.layer.parameters())]
    assert all(tensor.grad is None for tensor in (x, *contender.layer.parameters()))


def test_the_source_hash_tells_layers_apart_and_stays() -> None:
    assert source_hash("custom") == source_hash("custom")
    assert source_hash("custom") != source_hash("official")
    assert source_hash("official") == source_hash("official-fused")


def test_the_source_hash_covers_each_file_that_the_layer_consists_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    plain = source_hash("custom")
    read = Path.read_bytes
    for changed in ("attention.py", "projections.py"):
        with monkeypatch.context() as patch:
            patch.setattr(
                Path, "read_bytes", lambda path, file=changed: read(path) + (b"#" if path.name == file else b"")
            )
            assert source_hash("custom") != plain, changed
