"""What is said in the same words everywhere: percentages, counts, how far a run is."""

import pytest

from profiling.wording import counted, measured_words, rounded_percent


@pytest.mark.parametrize(
    ("share", "places", "words"),
    [
        *((0.05, 1, "5 %"), (0.0231, 1, "2.3 %"), (1.0, 1, "100 %"), (0.0, 1, "0 %"), (-0.125, 1, "-12.5 %")),
        *((0.996, 0, "100 %"), (12.5, 0, "1,250 %"), (0.1, 0, "10 %")),
    ],
)
def test_a_share_has_a_space_before_its_sign_and_no_last_zero(share: float, places: int, words: str) -> None:
    assert rounded_percent(share, places) == words


def test_one_of_something_is_no_plural() -> None:
    assert [counted(number, "row") for number in (0, 1, 3_000)] == ["0 rows", "1 row", "3,000 rows"]


def test_points_of_all_replicates_are_said_to_be_of_all() -> None:
    assert measured_words(1, 1, 1) == "1 of 1 point measured"
    assert measured_words(1_024, 4_000, 5) == "1,024 of 4,000 points measured, 5 replicates together"
