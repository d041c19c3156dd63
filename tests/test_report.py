"""A run as one HTML file and as a summary in Markdown."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser_server import MAY_SKIP
from click.testing import CliRunner
from dashboard_samples import make_run
from hostile_runs import ALL, HOSTILE, hostile_run
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from playwright.sync_api import BrowserContext

from profiling.cli import main
from profiling.report import html_page as page
from profiling.report import markdown_summary as summary
from profiling.report.writing import html_of, markdown_of, write_html, write_markdown
from profiling.run_notes import name_run
from profiling.runs import MEASUREMENTS_FILE, REPORT_FILE, RUN_FILE, SAMPLES_FILE, RunError
from profiling.settings import SweepSettings
from profiling.table import load_run, report_csv, write_table
from profiling.workload import Grid

GRID = Grid(batch_size=(2,), seq_len=(5, 7, 11), num_heads=(3,), d_model=15, device="cpu")
CHANGES = {
    (1, "custom"): {"speedup": 1.25, "latency_median_ms": 0.0123456789012345, "max_abs_error": 0.0},
    (2, "custom"): {"speedup": 0.8, "warnings": "took 0.7 of 2 cores; the clock fell from 3000 to 2000 MHz"},
    (3, "custom"): {"status": "oom", "status_reason": "you tried to allocate 1,024 bytes"},
}
SETTINGS = SweepSettings(contenders=("custom", "official"))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "made-up"
    make_run(folder, grid=GRID, settings=SETTINGS, changes=CHANGES)
    return folder


@pytest.fixture(scope="module")
def html(run_folder: Path) -> str:
    return html_of(run_folder)


@pytest.fixture(scope="module")
def hostile_html(hostile: Path) -> str:
    return html_of(hostile)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "hostile"
    hostile_run(folder)
    return folder


class Tags(HTMLParser):
    """Every tag of a text with its attributes, and the text outside of programs and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.words.append(data)


def words_of(html: str) -> str:
    return " ".join(" ".join(Tags(html).words).split())


# -- HTML -------------------------------------------------------------------------------------------------------------


def test_the_page_tells_each_contender_with_what_may_be_claimed_and_what_was_not_measured(html: str) -> None:
    words = words_of(html)
    assert "mha-bench: run made-up" in words
    assert "speed-up 1.00×" in words, "the geometric mean of 1.25 and 0.8"
    assert "provisional (1 replicate)" in words
    assert "oom, 1 row: you tried to allocate 1,024 bytes" in words
    assert "1 row: took 0.7 of 2 cores" in words
    assert "Test CPU" in words
    assert "torch 2.13.0" in words
    assert "python -m profiling sweep --batch-size 2 --seq-len 5,7,11 --num-heads 3 --d-model 15" in words


def test_the_table_holds_every_row_with_its_numbers_in_full(html: str, run_folder: Path) -> None:
    tags = Tags(html).tags
    values = [found["data-value"] for tag, found in tags if tag == "td" and "data-value" in found]
    assert "0.0123456789012345" in values
    assert sum(tag == "tr" for tag, _ in tags) >= len(load_run(run_folder)) + 1
    assert words_of(html).count("custom official") == 0, "the columns stand apart"


def test_the_method_is_told_in_words_and_formulas(html: str) -> None:
    words = words_of(html)
    for told in (
        "Is the difference real?",
        "noise floor",
        "8 b s d² + 4 b s² d",
        "sd(log s) / √n",
        "not-comparable",
        "Self time",
    ):
        assert told in words
    assert "$" not in words.partition("Method")[2]


def test_the_csv_that_is_carried_along_is_the_runs_report(html: str, run_folder: Path) -> None:
    (link,) = [found for tag, found in Tags(html).tags if tag == "a"]
    kind, _, data = str(link["href"]).partition(",")
    assert kind == "data:text/csv;charset=utf-8;base64"
    assert base64.b64decode(data).decode() == report_csv(load_run(run_folder))
    assert link["download"] == "mha-bench-made-up.csv"


def test_a_csv_too_large_is_not_carried_along(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_CSV_BYTES", 100)
    assert "too large to be carried along" in html_of(run_folder)


def test_nothing_is_fetched_and_the_browser_is_told_so(html: str, hostile_html: str) -> None:
    for text in (html, hostile_html):
        tags = Tags(text).tags
        (policy,) = [found["content"] for tag, found in tags if found.get("http-equiv")]
        assert str(policy).startswith("default-src 'none'")
        assert [found for _, found in tags if "src" in found] == []
        assert {str(found["href"])[:5] for _, found in tags if "href" in found} == {"data:"}


def test_what_others_have_named_is_text_in_the_page_and_nothing_else(hostile_html: str, html: str) -> None:
    found = Tags(hostile_html)
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in Tags(html).tags} | {"details", "li", "ul"}
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert "<img src=http://" in " ".join(found.words), "it is shown as it is"


def test_a_big_run_is_cut_short_and_says_so(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiling.report.page_table.MOST_ROWS", 4)
    monkeypatch.setattr(summary, "MOST_ROWS", 5)
    assert "2 more rows stand in the CSV." in words_of(html_of(run_folder))
    assert "1 more rows stand in the HTML report and the CSV." in markdown_of(run_folder)


def test_a_run_without_rows_is_a_page_that_says_so(tmp_path: Path) -> None:
    make_run(
        tmp_path / "empty", grid=GRID, settings=SETTINGS, done=0, state="stopped", state_reason="stopped by SIGINT"
    )
    words = words_of(html_of(tmp_path / "empty"))
    assert "stopped: stopped by SIGINT" in words
    assert "No row was measured." in words
    assert "Nothing was compared." in markdown_of(tmp_path / "empty")


@pytest.mark.browser
@pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium")
def test_the_file_opens_offline_draws_its_charts_and_sorts_its_table(
    new_context: Callable[..., BrowserContext], html: str, hostile_html: str, tmp_path: Path
) -> None:
    context = new_context(offline=True, viewport={"width": 390, "height": 800})
    said: list[str] = []
    context.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    context.on("weberror", lambda error: said.append(str(error.error)))
    context.on("request", lambda asked: said.append(asked.url) if asked.url.startswith("http") else None)
    opened = context.new_page()
    for name, text in (("hostile.html", hostile_html), ("report.html", html)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    opened.goto((tmp_path / "hostile.html").as_uri())
    opened.locator(".js-plotly-plot .main-svg").first.wait_for()
    assert opened.evaluate("window.hit") is None
    opened.goto((tmp_path / "report.html").as_uri())
    opened.locator("#chart-latency .main-svg").first.wait_for()
    assert opened.locator(".js-plotly-plot").count() == 5  # no ceiling was measured in this run
    assert opened.evaluate("document.documentElement.scrollWidth") == 390
    column = opened.get_by_role("button", name="latency_median_ms")
    first = opened.locator(".scroll tbody tr").first
    column.click()
    assert "0.01235" in str(first.text_content())
    column.click()
    assert "0.01235" not in str(first.text_content())
    assert said == []


# -- Markdown ---------------------------------------------------------------------------------------------------------


def test_the_summary_tells_what_may_be_claimed_in_one_table(run_folder: Path) -> None:
    told = markdown_of(run_folder)
    assert "## mha-bench: custom\n" in told
    assert (
        "| custom | official | ✅ passes at 2 of 2 | 1.00× | provisional (1 replicate) | 0.57× | 0.00e+00 | 2 of 3 |"
        in told
    )
    assert "- 1 row oom: you tried to allocate 1,024 bytes" in told
    assert "| custom | 2 | 11 | 3 | 15 | oom | – | – | – | – |" in told
    assert "```sh\npython -m profiling sweep --batch-size 2 --seq-len 5,7,11" in told


def test_a_failing_check_is_told_in_the_summary(tmp_path: Path) -> None:
    changes = {(2, "custom"): {"check_verdict": "fail", "max_abs_error": 0.25}}
    make_run(tmp_path / "run", grid=GRID, settings=SETTINGS, changes=changes)
    assert "| custom | official | ❌ fails at 1 of 3 |" in markdown_of(tmp_path / "run")


def test_a_failing_check_is_told_in_the_page_without_marks_of_another_markdown(tmp_path: Path) -> None:
    changes = {(2, "custom"): {"check_verdict": "fail", "max_abs_error": 0.25}}
    make_run(tmp_path / "run", grid=GRID, settings=SETTINGS, changes=changes)
    html = html_of(tmp_path / "run")
    assert "<strong>check not passed at 1 of 3</strong>: these do not count" in html
    assert ":red" not in words_of(html)


def test_every_mark_of_the_map_is_explained_below_it(html: str) -> None:
    assert "Greyed colours, with a ?, are provisional" in words_of(html)


def test_a_run_with_a_name_is_told_by_it_and_by_its_id(tmp_path: Path) -> None:
    make_run(tmp_path / "made-up", grid=GRID, settings=SETTINGS, changes=CHANGES)
    name_run(tmp_path / "made-up", "before <b>it")
    html = html_of(tmp_path / "made-up")
    assert "<title>mha-bench: before &lt;b&gt;it</title>" in html
    assert "mha-bench: before <b>it run made-up · begun" in words_of(html)


def test_what_others_have_named_is_text_in_the_summary_too(hostile: Path) -> None:
    told = markdown_of(hostile)
    rendered = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(told)
    tags = Tags(rendered).tags
    assert {tag for tag, _ in tags} <= {
        *("h2", "table", "thead", "tbody", "tr", "th", "td", "p", "ul", "li", "strong", "details", "summary"),
        *("pre", "code"),
    }
    assert len(told) < 65_536, "what a comment may hold"


@given(st.text(max_size=40) | st.sampled_from(HOSTILE))
def test_any_text_is_a_cell_of_its_own_and_no_markup(text: str) -> None:
    cell = summary.plain(text)
    assert "\n" not in cell
    rendered = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(
        f"| a | b |\n| --- | --- |\n| {cell} | x |\n"
    )
    assert Tags(rendered).tags.count(("td", {})) == 2
    assert {tag for tag, _ in Tags(rendered).tags} == {"table", "thead", "tbody", "tr", "th", "td"}
    assert not re.search(r"(?<!\\)[@#]\w", cell), "nobody is called by it"


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_where_it_is_told(run_folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["report", str(run_folder)])
    assert (done.exit_code, done.output) == (0, f"{run_folder / 'report.html'}\n")
    assert (run_folder / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    (run_folder / "report.html").unlink()
    summary_file = tmp_path / "summary.md"
    done = CliRunner().invoke(main, ["report", str(run_folder), "--markdown", str(summary_file)])
    assert (done.exit_code, done.output) == (0, f"{summary_file}\n")
    assert not (run_folder / "report.html").exists()
    assert summary_file.read_text(encoding="utf-8") == markdown_of(run_folder)
    done = CliRunner().invoke(main, ["report", str(run_folder), "--markdown", "-"])
    assert (done.exit_code, done.output) == (0, markdown_of(run_folder))


def test_a_run_that_is_not_there_and_a_place_that_cannot_be_written_are_told_in_a_sentence(
    run_folder: Path, tmp_path: Path
) -> None:
    done = CliRunner().invoke(main, ["report", str(tmp_path / "nowhere")])
    assert (done.exit_code, done.stderr) == (2, f"error: there is no folder {tmp_path / 'nowhere'}\n")
    done = CliRunner().invoke(main, ["report", str(run_folder), "--out", str(tmp_path / "no" / "report.html")])
    assert done.exit_code == 1
    assert re.fullmatch(r"error: .*report\.html cannot be written: .*\n", done.stderr)


@pytest.mark.parametrize("name", [RUN_FILE, MEASUREMENTS_FILE, SAMPLES_FILE, "notes.json", "sources/a/source.json"])
def test_no_form_of_a_report_takes_the_place_of_what_was_measured(run_folder: Path, tmp_path: Path, name: str) -> None:
    for write in (write_html, write_markdown, write_table):
        with pytest.raises(RunError, match=r"a report must not take (its|their) place"):
            write(run_folder, run_folder / name)
    (tmp_path / "link").symlink_to(run_folder / name)
    with pytest.raises(RunError, match="a report must not take"):
        write_html(run_folder, tmp_path / "link")


def test_no_form_of_a_report_takes_the_place_of_another(run_folder: Path, tmp_path: Path) -> None:
    for write, name in ((write_markdown, REPORT_FILE), (write_html, REPORT_FILE), (write_markdown, "report.html")):
        with pytest.raises(
            RunError, match=r"holds the run's (table|HTML report), and a report must not take its place"
        ):
            write(run_folder, run_folder / name)
    with pytest.raises(RunError, match="holds the run's HTML report"):
        write_table(run_folder, run_folder / "report.html")
    os.link(run_folder / RUN_FILE, tmp_path / "beside")
    with pytest.raises(RunError, match="holds what was measured"):
        write_table(run_folder, tmp_path / "beside")


def test_a_report_written_to_a_link_is_written_to_what_it_leads_to(run_folder: Path, tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "elsewhere.md"
    link.symlink_to(target.name)
    for old in (None, "old"):
        if old is not None:
            target.write_text(old)
        assert write_markdown(run_folder, link) == link
        assert link.is_symlink()
        assert target.read_text(encoding="utf-8") == markdown_of(run_folder)
    link.unlink()
    link.symlink_to("link")
    with pytest.raises(RunError, match="cannot be written: it is a link that leads to itself"):
        write_markdown(run_folder, link)


def test_a_dash_names_no_file_where_it_does_not_mean_the_output(run_folder: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["report", "RUN", "--out", "-"], ["export", "RUN", "--out", "-"], ["profile", "--trace", "-"]):
        done = CliRunner().invoke(main, [str(run_folder) if word == "RUN" else word for word in words])
        assert done.exit_code == 2
        assert done.stderr.endswith("- is no file: give a name; one that is called so is ./-\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["report", "--out", ""], ["report", "--markdown", ""], ["export", "--out", ""]], ids=" ".join
)
def test_an_empty_name_of_a_file_is_a_wrong_option(run_folder: Path, words: list[str]) -> None:
    done = CliRunner().invoke(main, [words[0], str(run_folder), *words[1:]])
    assert done.exit_code == 2
    assert done.stderr.endswith(f"Error: Invalid value for '{words[1]}': it is empty, which names nothing.\n")


def test_all_hostile_texts_are_tried() -> None:
    assert all(text in ALL for text in HOSTILE)
