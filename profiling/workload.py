"""Workloads (one point to measure) and grids (the product of lists), and the rules that both obey."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from profiling.quoted import quoted
from profiling.units import format_duration

DTYPES = ("float32", "bfloat16", "float16", "float64")
MODES = ("inference", "training")
DEFAULT_D_MODEL = 512

# A grid above this many points would take weeks; it is a slip of the keyboard, not a wish.
MAX_POINTS = 100_000
# Sizes of a tensor's axis; beyond it the products below would not mean anything on any machine.
MAX_SIZE = 2**31 - 1

# More threads than any machine has, and about as many as a system lets one process start.
MAX_THREADS = 1024
# As torch calls the kinds of devices; all but the processor may have a number.
DEVICE_KINDS = ("cpu", "cuda", "xpu", "mps")
_DEVICE = re.compile(r"auto|cpu|(cuda|xpu|mps)(:[0-9]{1,4})?")

# The order of the axes: the first varies slowest. Sizes last, so that a run covers every kind of call early on.
AXES = ("dtype", "mode", "bias", "causal", "num_heads", "batch_size", "seq_len")


class GridError(ValueError):
    """A grid or a setting that breaks a rule; the message names the argument, the rule and the value."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """One point: everything that decides what a call computes and how.

    `mode` is `inference` (eval and `torch.inference_mode`) or `training` (forward and backward).
    """

    batch_size: int
    seq_len: int
    num_heads: int
    d_model: int
    dtype: str
    device: str
    mode: str
    bias: bool
    causal: bool
    threads: int
    seed: int

    @property
    def head_dim(self) -> int | None:
        """Channels per head, or None where the heads do not divide the width."""
        return None if self.d_model % self.num_heads else self.d_model // self.num_heads

    @property
    def invalid_reason(self) -> str | None:
        """Why no attention layer of this shape exists, or None where one does."""
        if self.d_model % self.num_heads:
            return f"d_model {self.d_model} is not divisible by num_heads {self.num_heads}"
        return None

    @property
    def label(self) -> str:
        """A short name for progress lines: the sizes, then what differs from the usual."""
        sizes = f"batch {self.batch_size}, seq_len {self.seq_len}, heads {self.num_heads}, d_model {self.d_model}"
        unusual = [
            word
            for word, is_so in (
                (self.dtype, self.dtype != "float32"),
                (self.mode, self.mode != "inference"),
                ("bias", self.bias),
                ("causal", self.causal),
            )
            if is_so
        ]
        return ", ".join([sizes, *unusual])

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Workload:
        """The workload whose fields `values` holds; unknown or missing names raise GridError."""
        return cls(**_known_fields(cls, values))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """The product of lists, with what all its points share.

    The width either stays fixed while the heads vary (`d_model`), or grows with them (`head_dim`; then
    `d_model = head_dim * num_heads`). Exactly one of the two is set.

    Raises:
        GridError: a value breaks a rule; the message names the argument, the rule and the value.
    """

    batch_size: tuple[int, ...] = (1, 4)
    seq_len: tuple[int, ...] = (128, 512)
    num_heads: tuple[int, ...] = (4, 8)
    d_model: int | None = None
    head_dim: int | None = None
    dtype: tuple[str, ...] = ("float32",)
    mode: tuple[str, ...] = ("inference",)
    bias: tuple[bool, ...] = (False,)
    causal: tuple[bool, ...] = (False,)
    device: str = "auto"
    threads: int | None = None
    seed: int = 42

    def __post_init__(self) -> None:
        """Checks every rule once, here at the boundary."""
        if self.d_model is None and self.head_dim is None:
            object.__setattr__(self, "d_model", DEFAULT_D_MODEL)
        if self.d_model is not None and self.head_dim is not None:
            raise GridError(
                "d_model and head_dim exclude each other: give one, "
                f"not d_model {quoted(self.d_model)} and head_dim {quoted(self.head_dim)}"
            )
        for name in ("batch_size", "seq_len", "num_heads"):
            _require_values(name, getattr(self, name))
            for value in getattr(self, name):
                require_size(name, value)
            _require_distinct(name, getattr(self, name))
        for name in ("d_model", "head_dim"):
            if getattr(self, name) is not None:
                require_size(name, getattr(self, name))
        for name, allowed in (("dtype", DTYPES), ("mode", MODES), ("bias", (False, True)), ("causal", (False, True))):
            _require_values(name, getattr(self, name))
            for value in getattr(self, name):
                if type(value) is not type(allowed[0]) or value not in allowed:
                    raise GridError(f"{name} must be one of {', '.join(map(str, allowed))}, not {quoted(value)}")
            _require_distinct(name, getattr(self, name))
        if self.head_dim is not None:
            require_size("head_dim times num_heads", self.width(max(self.num_heads)))
        require_threads(self.threads)
        require_seed(self.seed)
        require_device(self.device)
        if self.num_points > MAX_POINTS:
            took = format_duration(float(self.num_points))
            raise GridError(
                f"the grid may hold up to {MAX_POINTS:,} points, not {self.num_points:,}, which at a second each would "
                f"take about {took}: shorten a list"
            )

    @property
    def num_points(self) -> int:
        """How many points the product holds, invalid ones included."""
        return math.prod(len(getattr(self, axis)) for axis in AXES)

    def workloads(self, *, device: str | None = None, threads: int | None = None) -> Iterator[Workload]:
        """The points in the order in which they are measured.

        Args:
            device: the device that `auto` stands for; the grid's own where it names one.
            threads: the thread count where the grid leaves it open.
        """
        for values in itertools.product(*(getattr(self, axis) for axis in AXES)):
            point = dict(zip(AXES, values, strict=True))
            yield Workload(
                **point,
                d_model=self.width(point["num_heads"]),
                device=device or self.device,
                threads=self.threads or threads or 1,
                seed=self.seed,
            )

    def width(self, num_heads: int) -> int:
        """The d_model of the points with that many heads."""
        if self.head_dim is not None:
            return self.head_dim * num_heads
        assert self.d_model is not None, "set in __post_init__"
        return self.d_model

    def swept_axes(self) -> tuple[str, ...]:
        """The axes with more than one value, sizes first: what a chart can be drawn against."""
        sizes_first = ("seq_len", "batch_size", "num_heads", "dtype", "mode", "bias", "causal")
        return tuple(axis for axis in sizes_first if len(getattr(self, axis)) > 1)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, lists as lists, ready for JSON."""
        fields = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Grid:
        """The grid whose fields `values` holds (lists or tuples); unknown names raise GridError."""
        fields = _known_fields(cls, values)
        frozen: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
        return cls(**frozen)


def require_size(name: str, value: object) -> None:
    """Raises GridError unless `value` is a whole number that can be the length of an axis."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise GridError(f"{name} must be a whole number of at least 1, not {quoted(value)}")
    if value > MAX_SIZE:
        raise GridError(f"{name} must be at most {MAX_SIZE:,}, not {_number(value)}")


def require_threads(value: object) -> None:
    """Raises GridError unless `value` is None, torch's own choice, or a number of threads that a machine can have."""
    if value is None:
        return
    require_size("threads", value)
    assert isinstance(value, int)
    if value > MAX_THREADS:
        raise GridError(f"threads must be at most {MAX_THREADS:,}, not {_number(value)}")


def require_seed(value: object) -> None:
    """Raises GridError unless `value` is a seed that torch takes."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise GridError(f"seed must be a whole number from 0 to 2^63 - 1, not {quoted(value)}")


def require_device(value: object) -> None:
    """Raises GridError unless `value` is `auto` or can be a device's name; whether it is here only torch can tell."""
    if not isinstance(value, str) or not _DEVICE.fullmatch(value):
        raise GridError(
            f"device must be auto, {', '.join(DEVICE_KINDS[:-1])} or {DEVICE_KINDS[-1]}, or one by its number such as "
            f"cuda:0, not {quoted(value)}"
        )


def _number(value: int) -> str:
    return f"{value:,}" if value < 10**30 else quoted(value)


def _require_values(name: str, values: object) -> None:
    if not isinstance(values, tuple):
        raise GridError(f"{name} must be a list of values, not {quoted(values)}")
    if not values:
        raise GridError(f"{name} must hold at least one value, not an empty list")
    if len(values) > MAX_POINTS:
        raise GridError(f"{name} may hold up to {MAX_POINTS:,} values, not {len(values):,}: shorten it")


def _require_distinct(name: str, values: tuple[Any, ...]) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise GridError(f"{name} must name each value once, not {quoted(value)} twice")
        seen.add(value)


def _known_fields(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(cls)}
    unknown = sorted(set(values) - names)
    if unknown:
        raise GridError(f"{cls.__name__.lower()} has no field {quoted(unknown[0])}; it has {', '.join(sorted(names))}")
    return dict(values)
