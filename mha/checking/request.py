"""What a check is asked for, validated once: a broken rule is a ValueError that names argument, rule and value."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mha.checking.report import Shape
from mha.checking.wording import words
from mha.reading.building import sizes_of


def asked_shape(layer: Any, d_model: int, num_heads: int, batch_size: int, seq_len: int) -> Shape:
    """The shape asked for; a ready-made layer has decided its own sizes."""
    if isinstance(layer, nn.Module):
        d_model, num_heads = sizes_of(layer, d_model, num_heads)
    shape = Shape(d_model, num_heads, batch_size, seq_len)
    for name, value in shape._asdict().items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
        if value <= 0:
            raise ValueError(f"{name} must be positive, got {value}")
    if d_model % num_heads:
        raise ValueError(f"num_heads must divide d_model, got d_model={d_model} and num_heads={num_heads}")
    return shape


def require_settings(bias: Any, causal: Any, seed: Any, input_scale: Any) -> None:
    """Refuse settings of another kind or range."""
    if bias is not None and not isinstance(bias, bool):
        raise ValueError(f"bias must be True, False or None, got {bias!r}")
    if not isinstance(causal, bool):
        raise ValueError(f"causal must be True or False, got {causal!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ValueError(f"seed must be a whole number from 0 to 2^32 - 1, got {seed!r}")
    if isinstance(input_scale, bool) or not isinstance(input_scale, (int, float)) or not 1e-3 <= input_scale <= 1e6:
        raise ValueError(f"input_scale must be a number from 0.001 to 1,000,000, got {input_scale!r}")


def known_dtype(dtype: torch.dtype | str) -> torch.dtype:
    """A floating type, given as torch has it or by its name."""
    known = getattr(torch, dtype.replace("torch.", ""), None) if isinstance(dtype, str) else dtype
    if not isinstance(known, torch.dtype) or not known.is_floating_point:
        raise ValueError(f"dtype must be a floating type such as float32, bfloat16 or torch.float16, got {dtype!r}")
    return known


def known_device(device: torch.device | str) -> torch.device:
    """A device that can be used here."""
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be one of torch's, such as cpu or cuda:0, got {device!r}") from None
    if known.type == "meta":
        raise ValueError("device must be one that holds values, got 'meta'")
    try:
        torch.empty(1, device=known)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device {str(known)!r} cannot be used here: {words(error)}") from None
    return known
