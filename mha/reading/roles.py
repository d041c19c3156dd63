"""Which role a parameter has, by its name: does it make queries, keys, values, or the output, or several at once?"""

from __future__ import annotations

import re
from collections.abc import Sequence

QUERY = frozenset(["q", "qs", "query", "queries", "qry"])
KEY = frozenset(["k", "ks", "key", "keys"])
VALUE = frozenset(["v", "vs", "value", "values", "val", "vals"])
OUTPUT = frozenset(["o", "out", "output", "outputs", "unify", "unifyheads", "merge", "combine", "final", "concat"])
PACKED = {
    "qkv": ("q", "k", "v"),
    "kv": ("k", "v"),
    "vk": ("v", "k"),
    "qk": ("q", "k"),
    "kq": ("k", "q"),
    "qv": ("q", "v"),
    "vq": ("v", "q"),
    "kqv": ("k", "q", "v"),
    "qvk": ("q", "v", "k"),
    "vkq": ("v", "k", "q"),
}
# What stands around the letter: W_Q, to_q, fc_q, q_proj, lin_q, wq, toQ.
_BEFORE = ("linear", "lin", "proj", "fc", "to", "w", "b", "m", "mat")
_AFTER = ("projection", "projections", "proj", "linear", "lin", "layer", "fc", "weight", "bias", "mat", "w", "b", "s")
_NORM = re.compile(r"norm|(^|[._])ln(\d|[._]|$)|rms")
_PLAIN_OUTPUT = frozenset(["proj", "projection", "dense", "fc", "linear", "cproj", "lin"])


def roles_of(name: str) -> tuple[str, ...] | None:
    """The roles that a parameter's name tells, ("q",) or ("q", "k", "v") and so on; None where it tells none."""
    if is_norm(name):
        return None
    tokens = [_core(token) for token in _tokens(name)]
    joined = "_".join(tokens)
    if "in_proj" in joined and not {"q", "k", "v"} & set(tokens):  # the official layer's block
        return ("q", "k", "v")
    if "c_attn" in joined or "pack" in tokens:  # GPT-2's and its relatives'
        return ("q", "k", "v")
    for token in reversed(tokens):  # the module that is nearest to the parameter decides
        if token in PACKED:
            return PACKED[token]
    told = [role for token in tokens for role, words in _SINGLE if token in words]
    singles = [role for role in told if role != "o"]
    if len(set(singles)) > 1:  # query_key_value
        return tuple(dict.fromkeys(singles))
    if singles:
        return (singles[0],)
    return ("o",) if told else None


def is_norm(name: str) -> bool:
    """Whether a parameter belongs to a normalisation: ``norm.weight``, ``q_norm.weight``, ``ln_1.bias``."""
    return bool(_NORM.search(name.lower()))


def is_plain_output(name: str) -> bool:
    """Whether a parameter that tells no role has one of the plain names of an output projection: ``proj``, ``fc``."""
    tokens = [token for token in _tokens(name) if token not in ("weight", "bias", "kernel", "w", "b")]
    return bool(tokens) and (tokens[-1] in _PLAIN_OUTPUT or "".join(tokens[-2:]) in _PLAIN_OUTPUT)


def without_index(name: str) -> str:
    """The name with its numbers taken out: the same for all heads of a list."""
    return re.sub(r"(?<=[._])\d+(?=[._]|$)|(?<=[a-zA-Z])\d+(?=[._]|$)", "#", name)


def _tokens(name: str) -> list[str]:
    return [token.lower() for token in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _core(token: str) -> str:
    """The token without what stands around its role."""
    known: Sequence[frozenset[str]] = (QUERY, KEY, VALUE, OUTPUT, frozenset(PACKED))
    for before in ("", *_BEFORE):
        for after in ("", *_AFTER):
            core = token[len(before) : len(token) - len(after)]
            if token.startswith(before) and token.endswith(after) and any(core in words for words in known):
                return core
    return token


_SINGLE = (("q", QUERY), ("k", KEY), ("v", VALUE), ("o", OUTPUT))
