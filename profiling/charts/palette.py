"""Colour, dash and mark of every series, the same in every chart, light or dark: never colour alone.

The colours are those of Okabe and Ito, which people with any colour vision tell apart.
"""

from __future__ import annotations

import dataclasses

from profiling.layers import inner_of, is_compiled, is_layer

FAILED = "#D62728"
UNRELIABLE = "#8C8C8C"
MUTED = "rgba(128,128,128,0.55)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Style:
    """How one series is drawn."""

    color: str
    dash: str
    symbol: str

    def faint(self, opacity: float) -> str:
        """The colour, see-through."""
        red, green, blue = (int(self.color[at : at + 2], 16) for at in (1, 3, 5))
        return f"rgba({red},{green},{blue},{opacity})"


# A layer and the official call that it stands beside are of one hue; the official one is dashed.
_CONTENDERS = {
    "custom": Style(color="#0072B2", dash="solid", symbol="circle"),
    "official": Style(color="#56B4E9", dash="dash", symbol="circle-open"),
    "custom-fused": Style(color="#D55E00", dash="solid", symbol="square"),
    "official-fused": Style(color="#E69F00", dash="dash", symbol="square-open"),
    "official-fastpath": Style(color="#56B4E9", dash="dot", symbol="diamond-open"),
}
# What torch.compile makes of a layer has the layer's hue, and a dash and a mark of its own.
_COMPILED = {
    "custom": Style(color="#0072B2", dash="longdash", symbol="cross"),
    "official": Style(color="#56B4E9", dash="longdashdot", symbol="cross-open"),
    "custom-fused": Style(color="#D55E00", dash="longdash", symbol="x"),
    "official-fused": Style(color="#E69F00", dash="longdashdot", symbol="x-open"),
    "official-fastpath": Style(color="#56B4E9", dash="dashdot", symbol="star-open"),
}
_CYCLE = (
    Style(color="#009E73", dash="solid", symbol="circle"),
    Style(color="#CC79A7", dash="dash", symbol="square"),
    Style(color="#0072B2", dash="dot", symbol="diamond"),
    Style(color="#D55E00", dash="dashdot", symbol="triangle-up"),
    Style(color="#E69F00", dash="longdash", symbol="cross"),
    Style(color="#56B4E9", dash="longdashdot", symbol="star"),
)

# A person's own layers stand beside the four above, so they have the hues that are left.
_OWN_LAYERS = (
    Style(color="#009E73", dash="dot", symbol="diamond"),
    Style(color="#CC79A7", dash="dashdot", symbol="triangle-up"),
    Style(color="#009E73", dash="longdash", symbol="cross"),
    Style(color="#CC79A7", dash="longdashdot", symbol="star"),
)


def style_of(value: object, position: int) -> Style:
    """The style of a series: a contender's own, or the next of the cycle."""
    if is_layer(str(value)):
        return _OWN_LAYERS[position % len(_OWN_LAYERS)]
    known = _COMPILED if is_compiled(str(value)) else _CONTENDERS
    return known.get(inner_of(str(value)), _CYCLE[position % len(_CYCLE)])
