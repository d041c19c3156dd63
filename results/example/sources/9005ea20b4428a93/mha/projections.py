"""The weights of a self-attention layer: one packed block for q, k and v, and an output projection."""

from __future__ import annotations

import numbers
from typing import Any

import torch
from torch import Tensor, nn

ROLES = ("W_Q", "W_K", "W_V")


class PackedProjections(nn.Module):
    """Holds the four projections of self-attention, the first three as one parameter block.

    ``in_proj_weight`` is (3E, E), rows 0:E for q, E:2E for k, 2E:3E for v, as in ``torch.nn.MultiheadAttention``, so
    that one product makes all three. ``W_O`` is an ``nn.Linear``. With ``bias=True`` there are ``in_proj_bias`` (3E)
    and ``W_O.bias``. Values are drawn as the official layer draws them and in its order: the same seed gives both the
    same weights.

    ``W_Q``, ``W_K`` and ``W_V`` read and write their third of the block, see :class:`ProjectionView`.

    ``load_state_dict`` takes the packed names (``in_proj_weight``, ``W_O.weight``), four separate ones (``W_Q.weight``,
    ``W_K.weight``, ``W_V.weight``, ``W_O.weight``) and the official layer's (``in_proj_weight``, ``out_proj.weight``),
    biases likewise.

    Raises:
        ValueError: where a size is not a positive integer, or ``num_heads`` does not divide ``d_model``.
    """

    in_proj_weight: Tensor
    in_proj_bias: Tensor | None
    attends: str

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.d_model = _positive_int("d_model", d_model)
        self.num_heads = _positive_int("num_heads", num_heads)
        if self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads must divide d_model, got d_model={self.d_model} and num_heads={self.num_heads} "
                f"({self.d_model} % {self.num_heads} = {self.d_model % self.num_heads})"
            )
        self.head_dim = self.d_model // self.num_heads

        placed: dict[str, Any] = {"device": device, "dtype": dtype}
        self.in_proj_weight = nn.Parameter(torch.empty((3 * self.d_model, self.d_model), **placed))
        if bias:
            self.in_proj_bias = nn.Parameter(torch.zeros(3 * self.d_model, **placed))
        else:
            self.register_parameter("in_proj_bias", None)
        # W_O draws before the block does, as in the official layer; its bias is drawn there too, then zeroed.
        self.W_O = nn.Linear(self.d_model, self.d_model, bias=bias, **placed)
        nn.init.xavier_uniform_(self.in_proj_weight)
        if bias:
            nn.init.zeros_(self.W_O.bias)

    @property
    def W_Q(self) -> ProjectionView:  # noqa: N802 - the name of the matrix
        """The query projection, rows 0:E of the block."""
        return ProjectionView(self, 0)

    @property
    def W_K(self) -> ProjectionView:  # noqa: N802
        """The key projection, rows E:2E of the block."""
        return ProjectionView(self, 1)

    @property
    def W_V(self) -> ProjectionView:  # noqa: N802
        """The value projection, rows 2E:3E of the block."""
        return ProjectionView(self, 2)

    def _weights(self) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
        """Weight and bias of the block, then of W_O; read as attributes they cost a tenth of a small call."""
        own, out = self._parameters, self._modules["W_O"]._parameters  # type: ignore[union-attr]
        try:
            return own["in_proj_weight"], own["in_proj_bias"], out["weight"], out["bias"]  # type: ignore[return-value]
        except KeyError:  # pruned, parametrized or replicated: there they are attributes or properties
            return self.in_proj_weight, self.in_proj_bias, self.W_O.weight, self.W_O.bias

    def __setattr__(self, name: str, value: Any) -> None:
        # nn.Module would register a module or parameter under this name, beside the block, and forward never use it.
        if name in ROLES:
            raise AttributeError(f"{name} is a view of in_proj_weight and cannot be replaced: assign {name}.weight")
        super().__setattr__(name, value)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for part in ("weight", "bias"):
            theirs, ours = f"{prefix}out_proj.{part}", f"{prefix}W_O.{part}"
            if theirs in state_dict and ours not in state_dict:
                state_dict[ours] = state_dict.pop(theirs)
            self._pack(part, state_dict, prefix, missing_keys, error_msgs)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _pack(
        self, part: str, state_dict: dict[str, Any], prefix: str, missing_keys: list[str], error_msgs: list[str]
    ) -> None:
        """Replace the entries ``W_Q``, ``W_K``, ``W_V`` by the packed one; say what is missing or misshapen."""
        own, packed = getattr(self, f"in_proj_{part}"), f"{prefix}in_proj_{part}"
        names = [f"{prefix}{role}.{part}" for role in ROLES]
        given = [name for name in names if name in state_dict]
        if own is None or packed in state_dict or not given:
            return  # names that are left over are reported as unexpected
        pieces = []
        for name, current in zip(names, own.detach().chunk(3)):  # noqa: B905 - Python 3.8 has no strict=
            piece = state_dict.pop(name, None)
            if not isinstance(piece, Tensor):
                missing_keys.append(name)
                piece = current  # stays as it is
            elif piece.shape != current.shape:
                error_msgs.append(
                    f"size mismatch for {name}: copying a param with shape {tuple(piece.shape)} from checkpoint, "
                    f"the shape in current model is {tuple(current.shape)}."
                )
                piece = current
            pieces.append(piece)
        if any(piece.device != pieces[0].device or piece.dtype != pieces[0].dtype for piece in pieces):
            if own.is_meta:
                return  # nothing to complete them with: what is missing is reported
            pieces = [piece.to(own) for piece in pieces]
        state_dict[packed] = torch.cat(pieces)


class ProjectionView:
    """One of the three projections inside the packed block; reads and writes go to the block itself.

    - ``view.weight``: (E, E), a view of the block: ``view.weight.data[...] = values`` changes what the layer computes.
    - ``view.weight = values``: copies in; ``ValueError`` where the shape is another.
    - ``view.bias``: (E,), likewise, or None for a layer without bias.

    Rebinding ``view.weight.data = values`` has no effect on the layer: it redirects a view that was made for the
    occasion. The gradient is the block's: ``layer.in_proj_weight.grad``, the same rows.
    """

    def __init__(self, layer: PackedProjections, index: int) -> None:
        d_model = layer.d_model
        self._layer = layer
        self._name = ROLES[index]
        self._rows = slice(index * d_model, (index + 1) * d_model)

    @property
    def weight(self) -> Tensor:
        """The projection's matrix (E, E), out x in, a live view."""
        return self._layer.in_proj_weight[self._rows]

    @weight.setter
    def weight(self, values: Tensor) -> None:
        self._copy_in("weight", self.weight, values)

    @property
    def bias(self) -> Tensor | None:
        """The projection's bias (E,), a live view; None for a layer without bias."""
        block = self._layer.in_proj_bias
        return None if block is None else block[self._rows]

    @bias.setter
    def bias(self, values: Tensor) -> None:
        if self.bias is None:
            raise ValueError(f"{self._name}.bias cannot be set: the layer was built with bias=False")
        self._copy_in("bias", self.bias, values)

    def _copy_in(self, part: str, view: Tensor, values: Tensor) -> None:
        if values.shape != view.shape:
            raise ValueError(
                f"{self._name}.{part} has shape {tuple(view.shape)}, got values of shape {tuple(values.shape)}"
            )
        with torch.no_grad():
            view.copy_(values)

    def __repr__(self) -> str:
        return f"{self._name}(rows {self._rows.start}:{self._rows.stop} of in_proj_weight)"


def _positive_int(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value <= 0:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)
