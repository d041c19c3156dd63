"""What the server keeps of the answers to questions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dashboard.kept_answers import KeptAnswers


def test_the_answer_that_was_not_asked_for_longest_is_forgotten_first():
    kept: KeptAnswers[str, int] = KeptAnswers(2)
    kept.put("a", 3)
    kept.put("b", 5)
    assert kept.of("a") == 3
    kept.put("c", 7)
    assert (kept.of("a"), kept.of("b"), kept.of("c")) == (3, None, 7)


@given(steps=st.lists(st.tuples(st.sampled_from(["put", "of", "forget"]), st.integers(0, 6))), most=st.integers(1, 5))
def test_what_is_kept_is_what_was_used_last(steps, most):
    kept: KeptAnswers[int, int] = KeptAnswers(most)
    used: list[int] = []
    for number, (step, question) in enumerate(steps):
        was_there = question in used
        if step == "of":
            assert (kept.of(question) is not None) == was_there
        elif step == "put":
            kept.put(question, number)
        else:
            kept.forget(question)
        if was_there:
            used.remove(question)
        if step == "put" or (step == "of" and was_there):
            used.append(question)
        used = used[-most:]
        assert [each for each, _ in kept.all()] == used
