"""Laws in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiling.laws.fitting import Exponent
from profiling.laws.growth import ALL_SIZES, LARGEST_SIZE, LAST_SIZES, MEMORY, TIME, Law

LETTERS = {"seq_len": "S", "batch_size": "B", "num_heads": "H"}
# How many times the scores the square part of the memory has to be: from the first on they are held whole; below the
# second there is nothing of their size.
WHOLE_SCORES, NO_SCORES = 0.9, 0.1
# The same, read off the exponent alone where no curve fits.
SQUARE, LINEAR = 1.7, 1.3
# A time whose exponent lies so near to that of the operations grows as they do.
NEAR = 0.1


def law_words(law: Law, names: Mapping[str, str] | None = None) -> str:
    """One sentence: the exponent with its interval, what it is of, and what it means; or why none is told.

    Args:
        law: what is told.
        names: what contenders are called, where not in full.
    """
    letter, n, name = LETTERS[law.axis], len(law.sizes), (names or {}).get(law.contender, law.contender)
    if law.exponent is None:
        return f"{name}: {law.quantity} against {law.axis}: no law is told: {law.refusal}{_left_out(law)}"
    sizes = f"{n} sizes, {law.sizes[0]:,} to {law.sizes[-1]:,}"
    said = f"{name}: {law.quantity} ~ {letter}^{_shown(law.exponent)}"
    first = law.sizes[-law.num_fitted]
    fitted = "" if law.num_fitted == n else f"over the last {law.num_fitted} sizes, {first:,} to {law.sizes[-1]:,}"
    if law.basis == ALL_SIZES:
        said += f" ({sizes}{_uncertain(law)})"
    else:
        assert law.overall is not None, "a law that bends has one"
        at = f"at {law.axis} {law.sizes[-1]:,}" if law.basis == LARGEST_SIZE else ""
        where = ", fitted ".join(part for part in (at, fitted) if part)
        why = "the times step before them" if law.quantity == TIME and law.basis == LAST_SIZES else "it bends"
        said += f" {where} ({why}: over all {sizes}, it is {letter}^{law.overall.value:.2f}{_uncertain(law)})"
    meaning = law_meaning(law)
    return said + (f": {meaning}" if meaning else "") + _left_out(law)


def law_meaning(law: Law) -> str:
    """What a law says of the layer, in a few words; empty where nothing for certain."""
    if law.exponent is None:
        return ""
    if law.quantity == MEMORY:
        return _memory_meaning(law, law.exponent) if law.axis == "seq_len" else ""
    if law.expected is None:
        return ""
    expected = f"{LETTERS[law.axis]}^{law.expected:.2f}"
    if law.exponent.low - NEAR <= law.expected <= law.exponent.high + NEAR:
        return f"as its operations do, {expected}"
    faster = "more slowly" if law.exponent.value < law.expected else "faster"
    return f"{faster} than its operations, {expected}"


def fixed_words(fixed: Mapping[str, Any]) -> str:
    """What a law holds fixed, in the order of a workload's label."""
    names = {"batch_size": "batch", "seq_len": "seq_len", "num_heads": "heads", "d_model": "d_model"}
    said = [f"{name} {fixed[field]:,}" for field, name in names.items() if field in fixed]
    if "num_heads" not in fixed:  # the axis is the heads: then which of the two stays is half of the law
        said = [part + " fixed" if part.startswith("d_model") else part for part in said]
    if "head_dim" in fixed:
        said.append(f"head_dim {fixed['head_dim']:,} fixed, so that d_model grows")
    said += [str(fixed["dtype"])] if fixed["dtype"] != "float32" else []
    said += ["training"] if fixed["mode"] == "training" else []
    return ", ".join([*said, *(name for name in ("bias", "causal") if fixed[name])])


def _memory_meaning(law: Law, exponent: Exponent) -> str:
    copies = law.score_copies
    if copies is None:
        if exponent.low >= SQUARE:
            return "the scores are materialised"
        return "they are not: the scores are not materialised" if exponent.high <= LINEAR else ""
    if copies >= WHOLE_SCORES:
        return f"the scores are materialised ({copies:.1f} times their size at once)"
    if copies <= NO_SCORES:
        return "the scores are not materialised"
    return f"something grows with S², {copies:.2f} times the size of the scores: a part of them, or a mask"


def _uncertain(law: Law) -> str:
    """That nothing but the fit itself says how exact the times are."""
    return "; by the fit's own scatter, without replicates" if law.quantity == TIME and not law.num_replicates else ""


def _shown(exponent: Exponent) -> str:
    return f"{exponent.value:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"


def _left_out(law: Law) -> str:
    if not law.left_out:
        return ""
    reasons = ", ".join(f"{count} {reason}" for reason, count in law.left_out.items())
    number = sum(law.left_out.values())
    return f"; {number} row{'s' * (number > 1)} left out ({reasons})"
