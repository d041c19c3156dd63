"""The check of layers of other hands: right ones pass whatever their layout, wrong ones are told what is wrong."""

import pytest
import torch
from foreign_layers import RIGHT_LAYERS

from mha import check_consistency


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layer", RIGHT_LAYERS)
def test_a_right_layer_passes_whatever_its_layout(layer, dtype):
    report = check_consistency(layer, dtype=dtype)
    assert report.verdict == "pass", str(report)
    assert report.unmatched == ()
    assert not report.diagnosis


@pytest.mark.parametrize("layer", RIGHT_LAYERS)
def test_a_ready_made_layer_passes_too(layer):
    from mha.reading.building import build_layer

    report = check_consistency(build_layer(layer, 30, 5), num_heads=5)
    assert report.verdict == "pass", str(report)
