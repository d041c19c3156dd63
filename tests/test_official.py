"""The official layer, called in a stated way."""

import pytest
import torch

from mha import call_official, causal_mask, fast_path, official_layer, randomize_


def operators(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return {event.key for event in profile.key_averages()}


def test_the_mask_forbids_keys_after_the_query():
    assert causal_mask(3).tolist() == [[False, True, True], [False, False, True], [False, False, False]]
    inf = float("inf")
    additive = causal_mask(3, dtype=torch.float64)
    assert additive.tolist() == [[0.0, -inf, -inf], [0.0, 0.0, -inf], [0.0, 0.0, 0.0]]
    assert additive.dtype == torch.float64


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_a_causal_call_does_not_see_later_tokens(need_weights, dtype):
    official = randomize_(official_layer(14, 2), 1).eval()
    x = torch.randn(3, 5, 14)
    changed = x.clone()
    changed[:, 3:] += 1
    mask = causal_mask(5, dtype=dtype)
    with torch.no_grad():
        before, after = (call_official(official, t, need_weights=need_weights, causal_mask=mask) for t in (x, changed))
        unmasked = call_official(official, changed, need_weights=need_weights)
    assert torch.allclose(before[:, :3], after[:, :3], atol=1e-6)
    assert not torch.allclose(before[:, 3:], after[:, 3:], atol=1e-3)
    assert not torch.allclose(before[:, :3], unmasked[:, :3], atol=1e-3)


def test_each_call_runs_the_program_it_is_said_to_run():
    plain, biased, x = official_layer(14, 2).eval(), official_layer(14, 2, bias=True).eval(), torch.randn(3, 5, 14)
    with torch.no_grad():
        assert "aten::bmm" in operators(lambda: call_official(plain, x))
        assert "aten::scaled_dot_product_attention" in operators(lambda: call_official(plain, x, need_weights=False))
        with fast_path(True):
            assert "aten::_native_multi_head_attention" in operators(lambda: call_official(biased, x))
        with fast_path(False):
            assert "aten::_native_multi_head_attention" not in operators(lambda: call_official(biased, x))


def test_the_fast_path_switch_is_put_back_even_after_an_error():
    before = torch.backends.mha.get_fastpath_enabled()
    with fast_path(not before):
        assert torch.backends.mha.get_fastpath_enabled() is not before
    with pytest.raises(ZeroDivisionError), fast_path(not before):
        1 / 0  # noqa: B018
    assert torch.backends.mha.get_fastpath_enabled() is before


def test_the_switch_does_nothing_where_torch_has_none(monkeypatch):
    monkeypatch.delattr(torch.backends, "mha")
    with fast_path(False):
        pass


def test_official_layer_has_biases_only_where_asked():
    assert official_layer(14, 2).in_proj_bias is None
    assert official_layer(14, 2, bias=True, dtype=torch.float64).in_proj_bias.dtype == torch.float64
