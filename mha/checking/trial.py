"""One layer built at one shape and run: with random weights, in eval mode, and watched for what it should not do."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from mha.checking.report import Finding, Shape
from mha.checking.wording import short, words
from mha.official import official_layer
from mha.reading.building import BuildError, build_layer
from mha.reading.calling import CallError, Calling, calling_of
from mha.reading.layouts import Reading, UnknownLayoutError, parameters_of
from mha.reading.reader import readings
from mha.slots import randomize_
from mha.slots import slots as official_slots

DROPOUT_IN_EVAL = Finding(
    "dropout-in-eval",
    "Dropout is on in eval mode: pass dropout_p=self.dropout if self.training else 0.0 to "
    "scaled_dot_product_attention, training=self.training to F.dropout, or use nn.Dropout.",
)
STATE_BETWEEN_CALLS = Finding(
    "state-between-calls",
    "The output depends on earlier calls: the layer keeps something from one to the next, such as a cache of keys and "
    "values, or draws from a random generator of its own. Keep none, or clear it before each call.",
)


def is_fused(layer: nn.Module) -> bool:
    """Whether a layer says that it attends by torch's fused kernel."""
    return any(vars(cls).get("attends") == "fused" for cls in type(layer).__mro__)


class Stopped(Exception):
    """The check cannot go on at this shape; says which verdict that makes, why, and what was found."""

    def __init__(self, verdict: str, reason: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.findings = tuple(findings)

    def at(self, shape: Shape) -> Stopped:
        """The same, with the shape said."""
        return Stopped(self.verdict, f"at {shape}: {self}", self.findings)


class How(NamedTuple):
    """How a layer is built and run: the settings of a check that every trial shares."""

    target: Any
    device: torch.device | str
    bias: bool | None
    causal: bool
    seed: int
    batch_first: bool
    input_scale: float
    notes: list[str]  # sentences on what the layer did that it should not, in whichever trial
    dropout: float | None = None  # None leaves it to the layer


@dataclass
class Trial:
    """A layer ready to run at one shape, with random weights that are known by role.

    Attributes:
        layer: a module of its own, in eval mode.
        calling: how it is called.
        x: the input (B, S, E).
        candidates: the ways to read its weights, the likeliest first; empty where it loads the official layer's itself.
        loaded: the official layer that it has loaded, where it does.
        given: its parameters by name, as they were before it was first called.
        extra: further arguments of every call, such as a mask.
    """

    how: How
    shape: Shape
    dtype: torch.dtype
    layer: nn.Module
    calling: Calling
    x: Tensor
    candidates: list[Reading]
    loaded: nn.MultiheadAttention | None
    given: dict[str, Tensor]
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, how: How, shape: Shape, dtype: torch.dtype) -> Trial:
        """Build the layer, give it random weights, and make an input.

        Raises:
            Stopped: where it cannot be built or called, or its weights cannot be read.
        """
        layer = _built(how, shape, dtype)
        with theirs("to look at the layer"):  # attributes that raise, parameters that cannot be written to
            try:
                return cls._of(layer, how, shape, dtype)
            except UnknownLayoutError as error:
                raise Stopped("not-comparable", str(error)) from error

    @classmethod
    def _of(cls, layer: nn.Module, how: How, shape: Shape, dtype: torch.dtype) -> Trial:
        generator = torch.Generator().manual_seed(how.seed)
        calling = calling_of(layer, batch_first=how.batch_first)
        _initialised(layer, calling, how, shape, dtype)
        loaded, candidates = None, []
        if callable(getattr(layer, "load_from_official", None)):
            loaded = _loaded(layer, how, shape, dtype, generator)
        else:
            candidates = readings(layer, shape.d_model, shape.num_heads)
            randomize_roles(layer, candidates, generator)
            _settle_biases(layer, candidates, how.bias)
        # As they are before the first call: a layer may change its own.
        given = {name: tensor.clone() for name, tensor in parameters_of(layer).items()}
        x = torch.randn(shape.batch_size, shape.seq_len, shape.d_model, generator=generator) * how.input_scale
        x = x.to(device=how.device, dtype=dtype)
        return cls(how, shape, dtype, layer, calling, x, candidates, loaded, given)

    def weights(self, reading: Reading | None) -> dict[str, Tensor]:
        """Role -> float64 values on the CPU, as copies."""
        if reading is None:
            assert self.loaded is not None
            return {role: slot.tensor.cpu().double() for role, slot in official_slots(self.loaded).items()}
        read = reading.read(self.given)
        return {role: values.cpu().to(torch.float64, copy=True) for role, values in read.items()}

    def official(self, reading: Reading | None, *, bias: bool) -> nn.MultiheadAttention:
        """The official layer with this layer's weights; biases that only it has are zero."""
        shape = self.shape
        made = official_layer(shape.d_model, shape.num_heads, bias=bias, device=self.how.device, dtype=self.dtype)
        randomize_(made, self.how.seed)  # an output projection that the layer lacks must not be one that does nothing
        given = self.weights(reading)
        for role, slot in official_slots(made).items():
            if role in given:
                slot.tensor.copy_(given[role])
            elif role.startswith("b_"):
                slot.tensor.zero_()
        return made.eval()

    def run(self, x: Tensor | None = None, *sides: Tensor, seed: int | None = None, **extra: Any) -> Tensor:
        """The layer's output without gradients.

        Raises:
            Stopped: where it raises, exits, or returns no tensor.
        """
        x = self.x if x is None else x
        torch.manual_seed(self.how.seed if seed is None else seed)
        copies = {
            id(side): side.clone() for side in (x, *sides)
        }  # a layer that writes to its input spoils only its own
        given = [copies[id(side)] for side in (x, *sides)]  # and sees where two are one
        threads = torch.get_num_threads()
        with torch.no_grad():
            output = called(self.calling, self.layer, *given, **{**self.extra, **extra})
        _require_numbers(output)
        if torch.get_num_threads() != threads:
            self.note("The layer sets the number of threads, for the whole process: leave that to whoever runs it.")
            torch.set_num_threads(threads)
        if any(not _same(before, after) for before, after in zip((x, *sides), given)):  # noqa: B905 - Python 3.8 has no strict=
            self.note("The layer writes to its input: work on a copy, the caller may still need it.")
        return output

    def run_twice(self) -> Tensor:
        """The output, after seeing that a second run under another seed gives the same.

        Raises:
            Stopped: where the two differ, or the shape is not that of the input.
        """
        first = self.run(seed=self.how.seed)
        state = torch.get_rng_state()
        second = self.run(seed=self.how.seed + 1)
        if torch.equal(state, torch.get_rng_state()):
            self.note("The layer reseeds the random generator when it runs, which makes the caller's numbers repeat.")
            with mock.patch("torch.manual_seed"), mock.patch("torch.random.manual_seed"):
                first, second = (_freely(self, self.how.seed + i) for i in range(2))
        if first.shape == second.shape and not _same(first, second):
            raise self._differing()
        if first.dtype != self.x.dtype:
            self.note(f"The layer returns {short(first.dtype)} for {short(self.x.dtype)}: the official layer does not.")
        if first.shape != self.x.shape:
            raise Stopped(
                "fail", f"the output has shape {tuple(first.shape)}, the official layer's {tuple(self.x.shape)}"
            )
        return first

    def _differing(self) -> Stopped:
        """Why two runs on the same input differ: chance, where the same seed gives the same output, else memory."""
        again = [_freely(self, self.how.seed) for _ in range(2)]
        if again[0].shape == again[1].shape and _same(*again):
            return Stopped(
                "fail",
                "two runs on the same input differ in eval mode: something random, such as dropout, is still on",
                [DROPOUT_IN_EVAL],
            )
        return Stopped(
            "fail",
            "two runs on the same input and with the same seed differ in eval mode: the layer remembers earlier calls",
            [STATE_BETWEEN_CALLS],
        )

    def note(self, sentence: str) -> None:
        """Keep a sentence on what the layer did, once."""
        if sentence not in self.how.notes:
            self.how.notes.append(sentence)


def called(calling: Calling, layer: nn.Module, *inputs: Tensor, **extra: Any) -> Tensor:
    """The output of one call.

    Raises:
        Stopped: where the layer raises, exits, or returns no tensor.
    """
    with theirs("the layer"):
        return calling(layer, *inputs, **extra)


@contextlib.contextmanager
def theirs(doing: str) -> Iterator[None]:
    """Run someone else's code: whatever it raises, an exit among it, is an answer of the check.

    Raises:
        Stopped: with what was raised, in words; a person's own interrupt passes through.
    """
    try:
        yield
    except (Stopped, KeyboardInterrupt):
        raise
    except (BuildError, CallError) as error:  # said by us, about it
        raise Stopped("error", str(error)) from error
    except SystemExit as error:
        raise Stopped("error", f"{doing} called exit({error.code!r})") from error
    except BaseException as error:
        raise Stopped("error", f"{doing} raised {words(error)}") from error


def randomize_roles(layer: nn.Module, candidates: Sequence[Reading], generator: torch.Generator) -> None:
    """Fill every parameter that has a role with random values, in place; others, such as a norm's, stay as built."""
    kinds = {name: one.kind for reading in candidates for one in reading.stored for name in one.names}
    width = candidates[0].sizes["E"]
    with torch.no_grad():
        for name, tensor in parameters_of(layer).items():
            if name in kinds:
                std = width**-0.5 if kinds[name] == "w" else 0.5
                tensor.copy_(torch.randn(tuple(tensor.shape), generator=generator) * std)


def same_reading(found: Reading, candidates: Sequence[Reading]) -> Reading:
    """The same reading of the same layer at another size."""
    return next((one for one in candidates if one.signature == found.signature), candidates[0])


def _built(how: How, shape: Shape, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(how.seed)
    with theirs("building the layer"):
        layer = build_layer(
            how.target,
            shape.d_model,
            shape.num_heads,
            bias=how.bias,
            causal=how.causal,
            dropout=how.dropout,
            max_length=shape.seq_len,
        )
        _plain_parameters(layer, how)
        layer = layer.to(device=how.device, dtype=dtype)
        layer.eval()
    return layer


def _plain_parameters(layer: nn.Module, how: How) -> None:
    """Put plain weights in place of those that are computed from others, as by ``weight_norm``."""
    try:
        from torch.nn.utils import parametrize
    except ImportError:  # before torch 1.9
        return
    for name, module in list(layer.named_modules()):
        own = [key for key, _ in module.named_parameters(recurse=False)]
        for tensor in [key[:-2] for key in own if key.endswith("_g")]:  # torch's old weight_norm
            if f"{tensor}_v" in own:
                torch.nn.utils.remove_weight_norm(module, tensor)
        if not parametrize.is_parametrized(module):
            continue
        for tensor in list(module.parametrizations):
            parametrize.remove_parametrizations(module, tensor, leave_parametrized=True)
            note = f"{name}.{tensor} is computed from other parameters: a plain weight was checked in its place."
            if note not in how.notes:
                how.notes.append(note)


def _initialised(layer: nn.Module, calling: Calling, how: How, shape: Shape, dtype: torch.dtype) -> None:
    """Run a layer once whose parameters get their shapes by that (``nn.LazyLinear``)."""
    if not any(is_lazy(parameter) for parameter in layer.parameters()):
        return
    x = torch.zeros(shape.batch_size, shape.seq_len, shape.d_model, device=how.device, dtype=dtype)
    with torch.no_grad():
        called(calling, layer, x)


def _loaded(
    layer: nn.Module, how: How, shape: Shape, dtype: torch.dtype, generator: torch.Generator
) -> nn.MultiheadAttention:
    """An official layer with random weights, after the layer has loaded it by its own method."""
    has_bias = any("bias" in name or parameter.dim() == 1 for name, parameter in layer.named_parameters())
    bias = has_bias if how.bias is None else how.bias
    official = official_layer(shape.d_model, shape.num_heads, bias=bias, device=how.device, dtype=dtype)
    randomize_(official, generator)
    with theirs("the layer's load_from_official"), torch.no_grad():
        layer.load_from_official(copy.deepcopy(official))  # type: ignore[operator]  # its own method, seen to be there
    return official


def _settle_biases(layer: nn.Module, candidates: Sequence[Reading], bias: bool | None) -> None:
    """Zero the biases where none are wanted; refuse a layer that has none where they are."""
    names = {name for reading in candidates for one in reading.stored if one.kind == "b" for name in one.names}
    if bias and not names:
        raise Stopped("not-comparable", "a bias was asked for, and the layer has none")
    if bias is False:
        with torch.no_grad():
            for name, tensor in parameters_of(layer).items():
                if name in names:
                    tensor.zero_()


def _require_numbers(output: Tensor) -> None:
    """Refuse an output that cannot be compared: not real numbers, sparse, nested, or without values."""
    if not output.is_floating_point() or output.layout is not torch.strided or output.is_meta:
        kind = f"{short(output.dtype)} on {output.device}, {str(output.layout).replace('torch.', '')}"
        raise Stopped("error", f"the layer returned a tensor of {kind}: an output of floating numbers was expected")


def _freely(trial: Trial, seed: int) -> Tensor:
    """A run under a seed that the layer cannot overrule."""
    torch.default_generator.manual_seed(seed)
    with torch.no_grad():
        return called(trial.calling, trial.layer, trial.x.clone(), **trial.extra)


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True))
