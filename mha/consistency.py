"""The check: is this layer right? The same weights and input through it and the official layer, and a verdict."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mha.attention import MultiHeadAttention
from mha.comparison import ERROR_RATIO_TOLERANCE, Comparison, compare_outputs
from mha.official import call_official, causal_mask, fast_path, official_layer
from mha.oracle import AttentionWeights, oracle
from mha.report import ConsistencyReport, MappedWeight, Shape, ShapeComparison
from mha.transplant import TransplantError, UnknownLayoutError, randomize_, slots, transplant

PLAIN_TOLERANCE = 1e-5

# Pairwise different sizes, head_dim among them, no head_dim a power of four: a swapped axis or a wrong scale cannot
# pass by luck, as it does where head_dim equals num_heads. One with seq_len below d_model, one with seq_len above.
PROBE_SHAPES = (Shape(15, 3, 2, 7), Shape(14, 2, 3, 17))
# (batch_size, seq_len) for a layer that is given ready-made and so fixes d_model and num_heads.
PROBE_SIZES = ((2, 7), (3, 17))


def check_consistency(
    layer: nn.Module | Callable[..., nn.Module] = MultiHeadAttention,
    *,
    d_model: int = 64,
    num_heads: int = 4,
    batch_size: int = 2,
    seq_len: int = 8,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    bias: bool | None = None,
    causal: bool = False,
    need_weights: bool | None = None,
    seed: int = 42,
    probes: bool = True,
) -> ConsistencyReport:
    """Hold a layer against ``torch.nn.MultiheadAttention``, at a shape and at fixed probe shapes.

    Both get the same random weights (and biases) and normal input, and run in eval mode without gradients. The rule is
    that of :func:`mha.comparison.compare_outputs`; the verdict comes from all shapes together, and besides from two
    runs that must agree.

    Args:
        layer: a class or factory that takes (d_model, num_heads), or a layer; a layer is copied, not touched, its own
            weights are not used, and it decides d_model and (by an attribute ``num_heads``) the number of heads.
            Its weights must be called ``W_Q``, ``W_K``, ``W_V``, ``W_O``, or as in our layers or the official one.
        d_model, num_heads, batch_size, seq_len: the shape asked for.
        dtype, device: of weights and input.
        bias: whether the official layer has biases; None: as the layer has. Passed on to a class that takes it.
        causal: the official layer gets a causal mask; passed on to a class that takes it; True for a layer whose
            attribute ``causal`` is.
        need_weights: how the official layer is called; None: False where the layer says it ``attends`` ``"fused"``.
        seed: of weights and input; the global random state is left as it was.
        probes: whether to run the probe shapes too.

    Raises:
        ValueError: where a size is not positive or ``num_heads`` does not divide ``d_model``.
    """
    asked = _asked_shape(layer, d_model, num_heads, batch_size, seq_len)
    if isinstance(layer, nn.Module):
        causal = causal or getattr(layer, "causal", False) is True  # a layer that is given ready-made has decided
    settings = _Settings(layer, dtype, device, bias, causal, need_weights, seed)
    shapes = [asked] + (_probe_shapes(layer, asked) if probes else [])
    comparisons: list[ShapeComparison] = []
    mapping: tuple[MappedWeight, ...] = ()
    verdict, reason = "pass", ""
    for shape in shapes:
        try:
            with _own_random_state(device):
                comparison, at_shape = _compare_at(shape, settings)
        except _Stopped as stop:
            verdict, reason = stop.verdict, f"at {shape}: {stop}"
            break
        mapping = mapping or at_shape
        comparisons.append(ShapeComparison(shape, comparison))
    failed = [found for found in comparisons if found.comparison.verdict == "fail"]
    if failed:  # a wrong output stands, whatever happened at a later shape
        verdict, reason = "fail", f"at {failed[0].shape}: {failed[0].comparison.reason}"
    return _report(verdict, reason, _scope(settings, shapes), tuple(comparisons), mapping)


class _Settings(NamedTuple):
    layer: Any
    dtype: torch.dtype
    device: torch.device | str
    bias: bool | None
    causal: bool
    need_weights: bool | None
    seed: int


class _Stopped(Exception):
    """The check cannot go on at this shape."""

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


def _asked_shape(layer: Any, d_model: int, num_heads: int, batch_size: int, seq_len: int) -> Shape:
    if isinstance(layer, nn.Module):
        d_model, num_heads = _width(layer, d_model), getattr(layer, "num_heads", num_heads)
    shape = Shape(d_model, num_heads, batch_size, seq_len)
    for name, value in shape._asdict().items():
        if value <= 0:
            raise ValueError(f"{name} must be positive, got {value}")
    if d_model % num_heads:
        raise ValueError(f"num_heads must divide d_model, got d_model={d_model} and num_heads={num_heads}")
    return shape


def _width(layer: nn.Module, otherwise: int) -> int:
    try:
        return int(slots(layer)["w_o"].tensor.shape[0])
    except UnknownLayoutError:
        return otherwise  # the verdict will be not-comparable, at any width


def _probe_shapes(layer: Any, asked: Shape) -> list[Shape]:
    if isinstance(layer, nn.Module):
        return [Shape(asked.d_model, asked.num_heads, *sizes) for sizes in PROBE_SIZES]
    return list(PROBE_SHAPES)


def _compare_at(shape: Shape, settings: _Settings) -> tuple[Comparison, tuple[MappedWeight, ...]]:
    """Build both layers at one shape, give them the same weights, run them, compare."""
    generator = torch.Generator().manual_seed(settings.seed)
    layer = _build(shape, settings)
    official, mapping = _official_with_same_weights(layer, shape, settings, generator)
    x = torch.randn(shape.batch_size, shape.seq_len, shape.d_model, generator=generator)
    x = x.to(device=settings.device, dtype=settings.dtype)
    need_weights = settings.need_weights
    if need_weights is None:
        need_weights = getattr(layer, "attends", "explicit") != "fused"
    mask = causal_mask(shape.seq_len, dtype=settings.dtype, device=settings.device) if settings.causal else None
    try:
        with torch.no_grad(), fast_path(False):
            expected = call_official(official, x, need_weights=need_weights, causal_mask=mask)
    except (RuntimeError, TypeError) as error:  # it has no kernel for every dtype on every device
        raise _Stopped("error", f"the official layer raised {_words(error)}") from error
    output = _run_twice(layer, x, settings)
    if output.shape != expected.shape:
        raise _Stopped(
            "fail", f"the output has shape {tuple(output.shape)}, the official layer's {tuple(expected.shape)}"
        )
    truth = oracle(x, AttentionWeights.of(official), shape.num_heads, causal=settings.causal)
    return compare_outputs(output, expected, truth, settings.dtype), mapping


def _build(shape: Shape, settings: _Settings) -> nn.Module:
    torch.manual_seed(settings.seed)
    try:
        layer = _copy_or_construct(settings.layer, shape, {"bias": settings.bias, "causal": settings.causal})
    except Exception as error:  # whatever a user's constructor raises is the answer
        raise _Stopped("error", f"building the layer raised {_words(error)}") from error
    if not isinstance(layer, nn.Module):
        raise _Stopped("error", f"the layer is a {type(layer).__name__}, not a torch.nn.Module")
    return layer.to(device=settings.device, dtype=settings.dtype).eval()


def _copy_or_construct(layer: Any, shape: Shape, options: dict[str, Any]) -> Any:
    if isinstance(layer, nn.Module):
        return copy.deepcopy(layer)
    taken = inspect.signature(layer).parameters
    options = {name: value for name, value in options.items() if name in taken and value is not None}
    return layer(shape.d_model, shape.num_heads, **options)


def _official_with_same_weights(
    layer: nn.Module, shape: Shape, settings: _Settings, generator: torch.Generator
) -> tuple[nn.MultiheadAttention, tuple[MappedWeight, ...]]:
    try:
        has_bias = any(role.startswith("b_") for role in slots(layer))
        if settings.bias and not has_bias:
            raise _Stopped("not-comparable", "a bias was asked for, and the layer has none")
        bias = has_bias if settings.bias is None else settings.bias
        official = official_layer(
            shape.d_model, shape.num_heads, bias=bias, device=settings.device, dtype=settings.dtype
        )
        randomize_(official, generator)
        mapping = transplant(official, layer)
    except (UnknownLayoutError, TransplantError) as error:
        raise _Stopped("not-comparable", str(error)) from error
    except (RuntimeError, TypeError) as error:  # it can't be made in every dtype
        raise _Stopped("error", f"the official layer raised {_words(error)}") from error
    official.eval()
    return official, tuple(MappedWeight(entry.target, entry.source, entry.how) for entry in mapping)


def _run_twice(layer: nn.Module, x: Tensor, settings: _Settings) -> Tensor:
    """The layer's output, after seeing that a second run under another seed gives the same."""
    first, second = (_run(layer, x, settings.seed + i) for i in range(2))
    if first.shape != second.shape or not torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
        raise _Stopped(
            "fail", "two runs on the same input differ in eval mode: something random, such as dropout, is still on"
        )
    return first


def _run(layer: nn.Module, x: Tensor, seed: int) -> Tensor:
    torch.manual_seed(seed)
    try:
        with torch.no_grad():
            output = layer(x.clone())  # a clone, so that a layer that writes to its input spoils only its own
    except Exception as error:  # whatever a user's layer raises is the answer
        raise _Stopped("error", f"the layer raised {_words(error)}") from error
    if isinstance(output, tuple) and output:
        output = output[0]  # (output, attention weights), as the official layer returns
    if not isinstance(output, Tensor):
        raise _Stopped("error", f"the layer returned a {type(output).__name__}, not a tensor")
    return output


@contextlib.contextmanager
def _own_random_state(device: torch.device | str) -> Iterator[None]:
    """Put the global random state back after: the CPU's, and a CUDA device's."""
    device = torch.device(device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _scope(settings: _Settings, shapes: list[Shape]) -> str:
    layer = settings.layer
    name = type(layer).__name__ if isinstance(layer, nn.Module) else getattr(layer, "__name__", repr(layer))
    bias = {None: "biases as the layer has", True: "with biases", False: "without biases"}[settings.bias]
    asked = shapes[0]
    told = [
        f"{name} against torch.nn.MultiheadAttention (torch {torch.__version__}) on {settings.device}, "
        f"{str(settings.dtype).replace('torch.', '')}, {'causal' if settings.causal else 'no mask'}, {bias}, "
        f"random weights and normal input of seed {settings.seed}, eval mode without gradients",
        f"at {'; '.join(str(shape) for shape in shapes)}",
    ]
    if isinstance(layer, nn.Module) and asked.d_model == asked.num_heads**2:
        told.append(f"head_dim equals num_heads ({asked.num_heads}): a scale by the wrong one of them cannot show")
    return "; ".join(told)


def _report(
    verdict: str,
    reason: str,
    scope: str,
    comparisons: tuple[ShapeComparison, ...],
    mapping: tuple[MappedWeight, ...],
) -> ConsistencyReport:
    found = [entry.comparison for entry in comparisons]
    max_abs_error = _worst([comparison.max_abs_error for comparison in found])
    return ConsistencyReport(
        verdict=verdict,
        reason=reason or _all_passed(max_abs_error or 0.0, found),
        scope=scope,
        max_abs_error=max_abs_error,
        error_ratio=_worst([comparison.error_ratio for comparison in found]),
        tolerance=ERROR_RATIO_TOLERANCE,
        plain_tolerance=PLAIN_TOLERANCE,
        plain_holds=None if max_abs_error is None else max_abs_error < PLAIN_TOLERANCE,
        num_non_finite=sum(comparison.num_non_finite for comparison in found),
        comparisons=comparisons,
        mapping=mapping,
    )


def _worst(figures: list[float]) -> float | None:
    """The largest, NaN above all; None where there are none."""
    return max(figures, key=lambda figure: (math.isnan(figure), figure)) if figures else None


def _all_passed(max_abs_error: float, found: list[Comparison]) -> str:
    if max_abs_error == 0:
        return f"equals the official layer's output bit for bit at {len(found)} of {len(found)} shapes"
    return f"as near the float64 truth as the official layer at {len(found)} of {len(found)} shapes"
