"""The faults that attention layers are known to have: a name, what it changes in the formula, and what to say of it."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, fields, replace
from typing import Any

from mha.checking.formula import RIGHT, Formula


@dataclass(frozen=True)
class Fault:
    """One known fault.

    Attributes:
        name: what machines call it, such as ``scale-d-model``.
        changes: the fields of the formula that it changes, and to what.
        sentence: what is wrong and the cure, for people; ``{d_model}``, ``{num_heads}``, ``{head_dim}`` and ``{heads}``
            are filled in.
    """

    name: str
    changes: tuple[tuple[str, Any], ...]
    sentence: str

    @property
    def fields(self) -> set[str]:
        """The fields of the formula that it changes."""
        return {field for field, _ in self.changes}

    @property
    def is_common(self) -> bool:
        """Whether it is among the commonest, of which even three together are looked for."""
        return self.changes in COMMON_CHANGES

    @property
    def is_rare(self) -> bool:
        """Whether it is seldom seen: two rare ones together are not looked for."""
        return self.name in RARE_NAMES

    def put_into(self, formula: Formula) -> Formula:
        """The formula with this fault."""
        return replace(formula, **dict(self.changes))

    def told(self, d_model: int, num_heads: int) -> str:
        """The sentence for a layer of these sizes."""
        heads = dict(self.changes).get("heads")
        return self.sentence.format(d_model=d_model, num_heads=num_heads, head_dim=d_model // num_heads, heads=heads)


def _fault(name: str, sentence: str, **changes: Any) -> Fault:
    assert set(changes) <= {field.name for field in fields(Formula)}
    return Fault(name, tuple(changes.items()), sentence)


_SEES = "position i must see positions 0 to i"

# The likeliest first: the first that reproduces a layer is what is told.
FAULTS: tuple[Fault, ...] = (
    _fault(
        "scale-d-model",
        "The scores are scaled by d_model ({d_model}), not by head_dim ({head_dim}): divide them by sqrt(head_dim).",
        scale="d_model",
    ),
    _fault(
        "scale-num-heads",
        "The scores are scaled by num_heads ({num_heads}), not by head_dim ({head_dim}): divide them by "
        "sqrt(head_dim).",
        scale="num_heads",
    ),
    _fault(
        "scale-missing",
        "The scores are not scaled: divide them by sqrt(head_dim) before the softmax.",
        scale="missing",
    ),
    _fault(
        "scale-twice",
        "The scores are divided by head_dim ({head_dim}) instead of its square root, as when the scale is applied "
        "twice, say by hand and again by scaled_dot_product_attention: divide by sqrt(head_dim) once.",
        scale="twice",
    ),
    _fault(
        "scale-upside-down",
        "The scores are multiplied by sqrt(head_dim): divide them by it.",
        scale="upside-down",
    ),
    _fault(
        "scale-seq-len",
        "The scores are scaled by the sequence length, not by head_dim ({head_dim}): the size was read off the wrong "
        "axis; divide by sqrt(head_dim).",
        scale="seq_len",
    ),
    _fault(
        "scale-after-softmax",
        "The scale is applied after the softmax, to the attention weights: apply it to the scores, before.",
        scale="after-softmax",
    ),
    _fault(
        "softmax-axis",
        "The softmax runs over the queries, so that each key's weights sum to 1: take it over the keys, the last axis "
        "(dim=-1).",
        softmax="queries",
    ),
    _fault(
        "softmax-axis",
        "The softmax runs over the heads: take it over the keys, the last axis (dim=-1).",
        softmax="heads",
    ),
    _fault(
        "softmax-axis",
        "The softmax runs over the batch: take it over the keys, the last axis (dim=-1).",
        softmax="batch",
    ),
    _fault("softmax-missing", "There is no softmax: take it of the scaled scores, over the keys.", softmax="missing"),
    _fault("softmax-twice", "The softmax is taken twice: take it once.", softmax="twice"),
    _fault(
        "merge-without-transpose",
        "The heads are merged without transposing back, so that positions and heads get mixed: "
        ".transpose(1, 2) before the reshape to (batch, seq_len, d_model).",
        merge="view",
    ),
    _fault(
        "split-without-transpose",
        "The heads are split by a view to (batch, num_heads, seq_len, head_dim) without transpose, so that positions "
        "and heads get mixed: view as (batch, seq_len, num_heads, head_dim), then .transpose(1, 2).",
        split="view",
    ),
    _fault(
        "split-without-transpose",
        "The heads are split and merged by views without transpose, so that each head sees a stretch of the sequence: "
        "view as (batch, seq_len, num_heads, head_dim), then .transpose(1, 2), and back before merging.",
        split="view",
        merge="view",
    ),
    _fault(
        "batch-sequence-swapped",
        "Batch and sequence are swapped: the layer attends across the batch, as torch.nn.MultiheadAttention does "
        "without batch_first=True. Pass batch_first=True inside, or transpose before and after; if the layer is meant "
        "for (seq_len, batch, d_model), declare batch_first=False to this check.",
        batch_first=False,
    ),
    _fault(
        "bias-ignored",
        "The biases exist and are not applied: add them after each projection (call the module, not its weight).",
        biases="",
    ),
    _fault(
        "bias-ignored",
        "The biases of queries, keys and values exist and are not applied: add them after the projection.",
        biases="o",
    ),
    _fault(
        "bias-ignored",
        "The bias of the output projection exists and is not applied: add it.",
        biases="qkv",
    ),
    _fault("bias-ignored", "The bias of the queries exists and is not applied: add it.", biases="kvo"),
    _fault("bias-ignored", "The bias of the values exists and is not applied: add it.", biases="qko"),
    _fault("bias-ignored", "The biases of queries and keys exist and are not applied: add them.", biases="vo"),
    _fault(
        "no-output-projection",
        "There is no output projection: multiply the merged heads by W_O (out_proj).",
        output_projection=False,
    ),
    _fault(
        "keys-values-swapped",
        "Keys and values are swapped: the layer uses the values' weights for the keys and the reverse. Exchange them, "
        "or the order in which they are unpacked (q, k, v).",
        made_by="qvk",
    ),
    _fault(
        "queries-keys-swapped",
        "Queries and keys are swapped: each position is weighted as a key where it should ask as a query. Exchange "
        "them, or the two sides of the product of the scores.",
        made_by="kqv",
    ),
    _fault(
        "queries-values-swapped",
        "Queries and values are swapped: exchange their weights, or the order in which they are unpacked (q, k, v).",
        made_by="vkq",
    ),
    _fault(
        "wrong-projection", "Queries, keys and values are unpacked as k, v, q: unpack them as q, k, v.", made_by="kvq"
    ),
    _fault(
        "wrong-projection", "Queries, keys and values are unpacked as v, q, k: unpack them as q, k, v.", made_by="vqk"
    ),
    _fault("wrong-projection", "The keys are made by the queries' weights: use W_K.", made_by="qqv"),
    _fault("wrong-projection", "The values are made by the keys' weights: use W_V.", made_by="qkk"),
    _fault("wrong-projection", "The values are made by the queries' weights: use W_V.", made_by="qkq"),
    _fault("wrong-projection", "The queries are made by the keys' weights: use W_Q.", made_by="kkv"),
    _fault("wrong-projection", "The keys are made by the values' weights: use W_K.", made_by="qvv"),
    _fault(
        "wrong-projection",
        "Queries, keys and values are all made by the queries' weights: use W_Q, W_K and W_V.",
        made_by="qqq",
    ),
    _fault(
        "mask-missing",
        f"A causal layer was asked for, and every position sees every other: {_SEES}. Mask the scores with -inf, or "
        "give the layer an argument such as causal or is_causal.",
        pattern="all",
    ),
    _fault(
        "mask-inverted",
        f"The causal mask is inverted: each position sees itself and the future only; {_SEES}. True or 1 in the mask "
        "means the opposite of what the code takes it for: negate it.",
        pattern="future",
    ),
    _fault(
        "mask-inverted",
        f"The causal mask is inverted: each position sees the future only, and the last one nothing; {_SEES}. True or "
        "1 in the mask means the opposite of what the code takes it for: negate it.",
        pattern="strictly-future",
    ),
    _fault(
        "mask-inverted",
        f"The causal mask is inverted: each position sees the future only, and the last one everything; {_SEES}. True "
        "or 1 in the mask means the opposite of what the code takes it for: negate it.",
        pattern="strictly-future",
        masking="finite",
    ),
    _fault(
        "mask-off-by-one",
        f"The causal mask is off by one: a position does not see itself, and the first one nothing; {_SEES} "
        "(tril() without an offset).",
        pattern="strictly-past",
    ),
    _fault(
        "mask-off-by-one",
        f"The causal mask is off by one: a position does not see itself, and the first one everything; {_SEES} "
        "(tril() without an offset).",
        pattern="strictly-past",
        masking="finite",
    ),
    _fault(
        "mask-off-by-one",
        f"The causal mask is off by one: a position sees the one after itself; {_SEES} (tril() without an offset).",
        pattern="one-ahead",
    ),
    _fault(
        "mask-multiplied",
        "The causal mask makes scores 0 (multiplied with them, or filled with 0), and a score of 0 still gets weight: "
        "fill with -inf instead, before the softmax.",
        pattern="causal",
        masking="multiplied",
    ),
    _fault(
        "mask-after-softmax",
        "The causal mask is applied after the softmax, so that the weights no longer sum to 1: fill the scores with "
        "-inf before it.",
        pattern="causal",
        masking="after-softmax",
    ),
    _fault(
        "residual-inside",
        "The layer adds its input to the output: a residual connection belongs to the block around it; return the "
        "attention's output alone.",
        residual=True,
    ),
    _fault(
        "norm-inside",
        "The layer normalises its output (LayerNorm inside): leave that to the block around it.",
        norm="after",
    ),
    _fault(
        "norm-inside",
        "The layer normalises its input (LayerNorm inside): leave that to the block around it.",
        norm="before",
    ),
    _fault(
        "norm-inside",
        "The layer normalises its output (RMSNorm inside): leave that to the block around it.",
        norm="rms-after",
    ),
    _fault(
        "norm-inside",
        "The layer normalises its input (RMSNorm inside): leave that to the block around it.",
        norm="rms-before",
    ),
    _fault(
        "norm-inside",
        "The layer normalises its output (by mean and standard deviation): leave that to the block around it.",
        norm="std-after",
    ),
    _fault(
        "norm-inside",
        "The layer normalises its input (by mean and standard deviation): leave that to the block around it.",
        norm="std-before",
    ),
    _fault(
        "keys-values-from-query",
        "Keys and values are made from the query's input: the arguments key and value are ignored. Project what is "
        "given for each.",
        sources="qqq",
    ),
    _fault(
        "keys-values-from-query",
        "The keys are made from the query's input: project the keys from what is given for them.",
        sources="qqv",
    ),
    _fault(
        "keys-values-from-query",
        "The values are made from the query's input: project the values from what is given for them.",
        sources="qkq",
    ),
    _fault(
        "values-from-key",
        "The values are made from the input given for the keys: project them from value.",
        sources="qkk",
    ),
    _fault(
        "keys-from-value",
        "The keys are made from the input given for the values: project them from key.",
        sources="qvv",
    ),
    _fault(
        "queries-keys-normalised",
        "Another design: queries and keys are normalised per head (LayerNorm) before the scores; the official layer "
        "does not.",
        qk_norm="layer",
    ),
    _fault(
        "queries-keys-normalised",
        "Another design: queries and keys are normalised per head (RMSNorm) before the scores; the official layer "
        "does not.",
        qk_norm="rms",
    ),
    _fault(
        "queries-keys-normalised",
        "Another design: queries and keys are scaled to length 1 per head (cosine attention); the official layer does "
        "not.",
        qk_norm="l2",
    ),
    _fault(
        "queries-keys-normalised",
        "Another design: queries and keys are normalised per head (LayerNorm), and their product is not scaled; the "
        "official layer does it otherwise.",
        qk_norm="layer",
        scale="missing",
    ),
    _fault(
        "queries-keys-normalised",
        "Another design: queries and keys are normalised per head (RMSNorm), and their product is not scaled; the "
        "official layer does it otherwise.",
        qk_norm="rms",
        scale="missing",
    ),
    _fault(
        "queries-keys-normalised",
        "Another design: queries and keys are scaled to length 1 per head (cosine attention), and their product is "
        "not scaled; the official layer does it otherwise.",
        qk_norm="l2",
        scale="missing",
    ),
    _fault(
        "rotary-positions",
        "Another design: queries and keys are turned by rotary position embeddings (in halves, base 10000); the "
        "official layer knows no positions.",
        rotary="half",
    ),
    _fault(
        "rotary-positions",
        "Another design: queries and keys are turned by rotary position embeddings (interleaved, base 10000); the "
        "official layer knows no positions.",
        rotary="interleaved",
    ),
)

COMMON_CHANGES = (
    (("scale", "d_model"),),
    (("scale", "num_heads"),),
    (("scale", "missing"),),
    (("softmax", "queries"),),
    (("softmax", "heads"),),
    (("merge", "view"),),
    (("split", "view"),),
    (("split", "view"), ("merge", "view")),
    (("batch_first", False),),
    (("biases", ""),),
    (("output_projection", False),),
    (("made_by", "qvk"),),
    (("residual", True),),
    (("norm", "after"),),
    (("norm", "before"),),
    (("heads", 1),),
    (("pattern", "causal"), ("masking", "multiplied")),
    (("pattern", "future"),),
)

RARE_NAMES = frozenset(
    [
        "scale-upside-down",
        "scale-seq-len",
        "scale-after-softmax",
        "softmax-missing",
        "softmax-twice",
        "queries-values-swapped",
        "wrong-projection",
        "mask-off-by-one",
        "mask-after-softmax",
        "queries-keys-normalised",
        "rotary-positions",
    ]
)


def heads_ignored(d_model: int, num_heads: int) -> list[Fault]:
    """A fault for each number of heads that a layer of this width could have instead of the one asked for."""
    sentence = (
        "num_heads is ignored: the layer has {heads} heads whatever it is given (asked for: {num_heads}). Use the "
        "argument where the heads are split."
    )
    one = (
        "num_heads is ignored: the layer attends with one head of width {d_model} (asked for: {num_heads} heads). "
        "Split queries, keys and values into heads."
    )
    others = [heads for heads in range(1, d_model + 1) if d_model % heads == 0 and heads != num_heads]
    return [_fault("heads-ignored", one if heads == 1 else sentence, heads=heads) for heads in others]


@functools.lru_cache(maxsize=64)
def variants(
    num_faults: int,
    d_model: int,
    num_heads: int,
    base: Formula = RIGHT,
    *,
    has_bias: bool = True,
    is_cross: bool = False,
) -> tuple[tuple[tuple[Fault, ...], Formula], ...]:
    """The formula with each known fault, or with each two that go together, unless both are rare.

    Of three, only the commonest.

    Args:
        num_faults: 1, 2 or 3.
        d_model, num_heads: of the layer.
        base: the right formula for it, causal or not.
        has_bias: whether it has biases; without them none can be ignored.
        is_cross: whether keys and values are given apart; only then can it show that they are ignored.
    """
    known = [
        fault
        for fault in (*FAULTS, *heads_ignored(d_model, num_heads))
        if (has_bias or fault.name != "bias-ignored")
        and (is_cross or "sources" not in fault.fields)
        and not (base.pattern == "causal" and dict(fault.changes).get("pattern") == "causal")
        and not (base.pattern != "causal" and fault.name == "mask-missing")
    ]
    if num_faults == 1:
        return tuple(((fault,), fault.put_into(base)) for fault in known)
    pairs = tuple(
        ((first, second), second.put_into(first.put_into(base)))
        for first, second in itertools.combinations(known, 2)
        if not (first.is_rare and second.is_rare) and not first.fields & second.fields
    )
    if num_faults == 2:
        return pairs
    common = [fault for fault in known if fault.is_common]
    return tuple(
        ((first, second, third), third.put_into(second.put_into(first.put_into(base))))
        for first, second, third in itertools.combinations(common, 3)
        if not (first.fields & second.fields or first.fields & third.fields or second.fields & third.fields)
    )
