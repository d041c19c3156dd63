"""A layer of one's own as a contender: built for a workload, with the workload's weights if it takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mha import TransplantError, UnknownLayoutError
from mha.reading.building import build_layer
from mha.reading.calling import calling_of
from mha.transplant import read_and_transplant
from profiling.layers import is_compiled
from profiling.measuring.contenders.compiled import compiled
from profiling.measuring.contenders.known import Contender, torch_dtype
from profiling.measuring.contenders.loading import load_layer
from profiling.measuring.contenders.masks import causal_arguments
from profiling.measuring.contenders.recipe import build_recipe, call_recipe, weight_recipe
from profiling.workload import Workload


def make_user_contender(name: str, spec: str, workload: Workload, weights: nn.Module, x: Tensor) -> Contender:
    """The contender `name`, which `spec` says where to find, for a workload, with a copy of `weights`.

    A compiled one compiles at its first call. One that cannot take the weights keeps its own: it can be timed, and not
    be compared.

    Raises:
        LayerError: its file cannot be loaded.
        BuildError, CallError: it cannot be built or called without being told how.
        BaseException: whatever it raises itself, also an exit.
    """
    layer, recipe = _build(spec, workload)
    warnings: list[str] = []
    incomparable = ""
    try:
        entries, reading = read_and_transplant(weights, layer)
    except (UnknownLayoutError, TransplantError) as error:
        incomparable = f"measured with its own weights: {error}"
    else:
        recipe["weights"] = weight_recipe(entries, reading)
        num_zeroed = sum(entry.how == "set to zero" for entry in entries)
        if num_zeroed:
            warnings.append(f"{num_zeroed} of its biases set to zero, since the reference has none")
    layer.train(workload.mode == "training")
    calling = calling_of(layer, batch_first=getattr(layer, "batch_first", True) is not False)
    arguments = causal_arguments(layer, calling, workload, x) if workload.causal else {}
    if arguments is None:
        incomparable = incomparable or "measured without a mask: no switch or mask that it takes makes it causal"
    given: dict[str, Any] = arguments or {}
    recipe |= call_recipe(calling, given)
    # An input of its own: what it does to it in place must not reach the others.
    x = x.detach().clone().requires_grad_(x.requires_grad)

    def run() -> Tensor:
        return calling(layer, x, **given)

    work = compiled(run) if is_compiled(name) else run
    call = _training(layer, work, x) if workload.mode == "training" else work
    forward = _in_eval_mode(layer, work) if workload.mode == "training" else work
    return Contender(name, layer, forward, call, x, tuple(warnings), incomparable, recipe)


def _build(spec: str, workload: Workload) -> tuple[nn.Module, dict[str, Any]]:
    target = load_layer(spec)
    options: dict[str, Any] = {"bias": workload.bias, "causal": workload.causal, "max_length": workload.seq_len}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(workload.seed)
        layer = build_layer(target, workload.d_model, workload.num_heads, **options)
    torch.set_num_threads(workload.threads)  # whatever it set
    placed = layer.to(device=torch.device(workload.device), dtype=torch_dtype(workload))
    return placed, build_recipe(spec, target, workload, options)


def _in_eval_mode(layer: nn.Module, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Runs without dropout, which a layer of one's own may have: outputs are compared so, whatever is timed."""

    def forward() -> Tensor:
        was_training = layer.training
        layer.eval()
        try:
            return run()
        finally:
            layer.train(was_training)

    return forward


def _training(layer: nn.Module, run: Callable[[], Tensor], x: Tensor) -> Callable[[], object]:
    inputs = [x, *(parameter for parameter in layer.parameters() if parameter.requires_grad)]
    gradients: dict[torch.Size, Tensor] = {}

    def step() -> object:
        output = run()
        # Made once: its output may have another shape than the input, which is for the check to say.
        if output.shape not in gradients:
            gradients[output.shape] = torch.ones_like(output)
        return torch.autograd.grad(output, inputs, gradients[output.shape], allow_unused=True)

    return step
