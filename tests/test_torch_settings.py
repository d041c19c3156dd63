from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from profiling.measuring.contenders.torch_settings import put_back, torch_settings


def set_one_dnn(enabled: bool) -> None:
    torch.backends.mkldnn.enabled = enabled


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda: torch.set_num_threads(torch.get_num_threads() + 1), "threads "),
        (lambda: torch.set_default_dtype(torch.float64), "default dtype torch.float32 -> torch.float64"),
        (lambda: torch.backends.cuda.enable_flash_sdp(False), "flash attention True -> False"),
        (lambda: torch.set_float32_matmul_precision("medium"), "matmul precision highest -> medium"),
        (lambda: set_one_dnn(False), "oneDNN True -> False"),
        (lambda: torch.set_grad_enabled(False), "gradients True -> False"),
    ],
)
def test_what_a_layer_changes_for_all_is_told_and_put_back(change: Callable[[], None], told: str) -> None:
    before = torch_settings()
    change()
    assert told in (put_back(before) or "")
    assert torch_settings() == before


def test_where_nothing_changed_there_is_nothing_to_tell() -> None:
    assert put_back(torch_settings()) is None
