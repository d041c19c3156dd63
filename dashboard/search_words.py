"""The answer of a search in words: the sentence that tells it, then what limits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from profiling.charts.formatting import plain


def show(words: Sequence[str], names: Mapping[str, str]) -> None:
    """Draws the sentences, the first one as the answer.

    Args:
        words: the sentences, without a full stop.
        names: contender → what it is called here.
    """
    first, *others = [_begun(plain(named(sentence, names))) for sentence in words]
    st.markdown(f"**{first}.**")
    if others:
        st.markdown("\n".join(f"- {sentence}." for sentence in others))


def named(sentence: str, names: Mapping[str, str]) -> str:
    """A sentence with layers of one's own by their names rather than by where they lie."""
    for contender in sorted(names, key=len, reverse=True):
        sentence = sentence.replace(contender, names[contender])
    return sentence


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
