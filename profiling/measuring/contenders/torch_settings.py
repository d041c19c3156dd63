"""What torch does for the whole process, which a layer can change for all contenders: seen, told, and put back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

# Name → what tells the setting, and what puts it back.
_SETTINGS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "flash attention": (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    "efficient attention": (
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    "math attention": (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    "oneDNN": (lambda: torch.backends.mkldnn.enabled, lambda value: setattr(torch.backends.mkldnn, "enabled", value)),
    "deterministic": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
}


def torch_settings() -> dict[str, Any]:
    """The settings now, by name."""
    return {name: tell() for name, (tell, _) in _SETTINGS.items()}


def put_back(before: Mapping[str, Any]) -> str | None:
    """Restores what has changed since; a sentence on what it was, or None where nothing has."""
    now = torch_settings()
    changed = [name for name in before if now[name] != before[name]]
    for name in changed:
        _SETTINGS[name][1](before[name])
    if not changed:
        return None
    told = ", ".join(f"{name} {before[name]} -> {now[name]}" for name in changed)
    return (
        f"a layer changed torch for all contenders of this point ({told}): its numbers may not be those of this "
        "workload. Mend that layer, or measure without it"
    )
