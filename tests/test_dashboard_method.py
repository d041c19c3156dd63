"""The method view tells what the program does: its verdicts, its warnings, its figures."""

import ast
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.views.method import column_table, warning_table
from profiling.charts import method_answers, method_text
from profiling.cli import main
from profiling.columns import REPORT_COLUMNS, STATUSES
from profiling.compare.comparing import FAIL_ABOVE
from profiling.intervals import LEVEL
from profiling.laws.fitting import MIN_SIZES
from profiling.laws.growth import WIDEST_INTERVAL
from profiling.laws.largest_fit import SHARE_OF_FREE
from profiling.operators.roles import ROLES
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
    headers = [part.value for part in app.header]
    assert [header for header in headers if header in method_answers.SECTIONS] == list(method_answers.SECTIONS)
    assert method_answers.LIMITS.strip() in [part.value.strip() for part in app.markdown]
    assert len(app.latex) == 4
    assert len(app.table[0].value) == len(method_text.WARNINGS)
    assert list(app.dataframe[0].value["column"]) == [column.name for column in REPORT_COLUMNS]


def test_its_contents_lead_to_each_section_and_to_nothing_else():
    app = AppTest.from_string("from dashboard.views import method\nmethod.show()", default_timeout=20).run()
    (contents,) = [part.value for part in app.markdown if part.value.startswith("[")]
    links = re.findall(r"\[([^]]+)\]\(#([\w-]+)\)", contents)
    assert links == [(part.value, part.proto.anchor) for part in app.header]
    assert len({anchor for _, anchor in links}) == len(links) == contents.count(" · ") + 1


def test_figures_of_the_rule_are_those_of_the_program():
    assert f"{SMALLEST_CLAIM * 100:g} %" in method_text.SPEED_VERDICTS["same"]
    assert f"fewer than {MIN_REPLICATES_FOR_VERDICT} replicates" in method_text.SPEED_VERDICTS["provisional"]
    assert f"{100 * LEVEL:g} %" in method_text.INTERVAL


@pytest.mark.parametrize("text", [method_answers.LIMITS, *method_answers.SECTIONS.values()])
def test_every_answer_says_what_may_be_claimed_of_it(text):
    if text is not method_answers.REPEAT:  # of which nothing more is claimed than of the row
        assert "*What may be claimed:*" in text
        assert "disturbs it:*" in text.replace("\n", " ")


def test_the_roles_of_operators_are_called_as_in_a_profile():
    named, overhead, *_ = re.findall(r"\*\*([^*]+)\*\*", method_answers.OPERATORS.partition("set beside")[2])
    roles = [*re.split(r",\s+", " ".join(named.split())), overhead]
    assert len(roles) == 7
    assert set(roles) <= set(ROLES)


def test_every_option_and_command_that_the_method_names_is_there():
    text = "\n".join(
        (method_text.SELF_TEST, method_text.NOT_CLAIMED, method_answers.LIMITS, *method_answers.SECTIONS.values())
    )
    named = re.findall(r"python -m profiling ([\w-]+)", text)
    assert set(named) == {"self-test", "profile", "compare"}
    options = {name for command in main.commands.values() for each in command.params for name in each.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", text)) <= options
    assert set(named) <= set(main.commands)


def test_figures_of_the_answers_are_those_of_the_program():
    found = {
        method_answers.LAWS: [f"below {MIN_SIZES} sizes", f"wider than ±{WIDEST_INTERVAL:g}"],
        method_answers.FITS: [f"{100 * SHARE_OF_FREE:g} %"],
        method_answers.COMPARE: [f"({100 * FAIL_ABOVE:g} % unless", f"below {MIN_REPLICATES_FOR_VERDICT} replicates"],
        method_answers.CROSSOVER: ["At each size, 5 replicates", "up to 10 where"],
    }
    for text, told in found.items():
        assert all(words in " ".join(text.split()) for words in told)


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
