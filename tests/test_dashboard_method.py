"""The method view tells what the program does: its verdicts, its warnings, its figures."""

import ast
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.views.method import column_table, warning_table
from profiling.charts import method_text
from profiling.columns import REPORT_COLUMNS, STATUSES
from profiling.intervals import LEVEL
from profiling.ratios import SMALLEST_CLAIM
from profiling.settings import MIN_REPLICATES_FOR_VERDICT, REFERENCES

ROOT = Path(__file__).resolve().parent.parent


def said_by_the_program() -> str:
    """Every text in the sources of what is measured and joined, those of one expression together."""
    files = (ROOT / "profiling").rglob("*.py")
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    texts = [
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join(texts)


@pytest.fixture(scope="module")
def sources():
    return said_by_the_program()


@pytest.mark.parametrize("words", [words for words, *_ in method_text.WARNINGS])
def test_a_warning_that_is_explained_is_one_that_the_program_says(words, sources):
    assert words in sources


def test_words_that_the_program_never_says_would_be_noticed(sources):
    assert "the moon was full while this was timed" not in sources


def test_the_view_shows_every_part_without_an_error():
    app = AppTest.from_string("from dashboard.views import method\nmethod.show()", default_timeout=20).run()
    assert not app.exception
    shown = "\n".join(part.value for part in (*app.markdown, *app.latex, *app.header))
    for words in ("Bonferroni", "clone", "Student's t", "self-test", "roofline", "compile_s", "waited_s", "fast path"):
        assert words in shown
    assert len(app.latex) == 4
    assert len(app.table[0].value) == len(method_text.WARNINGS)
    assert list(app.dataframe[0].value["column"]) == [column.name for column in REPORT_COLUMNS]


def test_figures_of_the_rule_are_those_of_the_program():
    assert f"{SMALLEST_CLAIM * 100:g} %" in method_text.SPEED_VERDICTS["same"]
    assert f"fewer than {MIN_REPLICATES_FOR_VERDICT} replicates" in method_text.SPEED_VERDICTS["provisional"]
    assert f"{LEVEL:.0%}" in method_text.INTERVAL


def test_every_column_status_and_contender_is_explained():
    assert list(column_table()["column"]) == [column.name for column in REPORT_COLUMNS]
    assert set(method_text.STATUSES) == set(STATUSES)
    app = AppTest.from_string("from dashboard.views import method\nmethod.show()", default_timeout=20).run()
    told = next(part.value for part in app.markdown if "each layer is compared with" in part.value)
    assert all(f"- **{name}**:" in told for name in REFERENCES)


def test_every_warning_has_a_cure():
    table = warning_table()
    assert table.index.is_unique
    assert (table["what to do"].str.len() > 4).all()
