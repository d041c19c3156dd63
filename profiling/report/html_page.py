"""A run as one HTML file that opens offline: headline, charts, method, environment and table.

The file asks no other host for anything, and forbids the browser to: what is in it came out of a run's folder, whose
texts others may have written.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence

from markdown_it import MarkdownIt

from profiling.charts import method_answers, method_text
from profiling.charts.formatting import count, day_and_time, error, ratio
from profiling.charts.headline_text import headline_caption
from profiling.charts.names import file_of, name_of
from profiling.charts.summary import Headline
from profiling.report.content import Content, facts_of
from profiling.report.page_charts import charts_html, plotly_source
from profiling.report.page_style import SORTING, STYLE
from profiling.report.page_table import escaped, facts_html, table_html
from profiling.table import report_csv
from profiling.wording import measured_words

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
MOST_REASONS = 30
# A CSV larger than this is not carried in the file.
MOST_CSV_BYTES = 8 * 2**20
_COLOURED = re.compile(r"(?<!\\):[a-z]+\[((?:\\.|[^\]\\])*)\]")
# The method's formulas, for which a browser alone has no letters.
_PAIRS = "speed-up of a process = median over rounds of (time of the reference / time of the contender)"
_INTERVAL = "exp( mean(log s) ± t(1 − α/2, n − 1) · sd(log s) / √n )"
_FLOP = "FLOP = 8 b s d² + 4 b s² d"
_ROOF = "roof = min(matmul, intensity × copy)"


def html_page(content: Content) -> str:
    """The text of the file."""
    title = _title(content)
    sections = [
        _header(content),
        _problems(content.problems),
        f'<div class="cards">{"".join(map(_card, content.headlines))}</div>',
        "<h2>Charts</h2>",
        *charts_html(content),
        _listed("How time and memory grow", content.laws, open_=True),
        _listed("Rows without numbers", [_lost(*each) for each in content.unmeasured], open_=True),
        _listed("Warnings", [f"{count(number, 'row')}: {text}" for text, number in content.warned]),
        "<h2>Table</h2>",
        table_html(content.table),
        _csv_link(content),
        "<h2>What it was measured on</h2>",
        facts_html(facts_of(content.run).items()),
        "<details><summary>Everything that is known of the machine</summary>",
        f"{facts_html(_environment(content))}</details>",
        f"<h2>Measured again</h2><pre>{escaped(content.command)}</pre>",
        "<p class='soft'>Each row's own command is the last column of the table.</p>",
        "<h2>Method</h2>",
        _method(),
    ]
    body = "\n".join(part for part in sections if part)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(title)}</title><style>{STYLE}</style>"
        f"<script>{plotly_source()}</script></head>\n<body>\n{body}\n<script>{SORTING}</script></body></html>\n"
    )


def _title(content: Content) -> str:
    return f"mha-bench: {content.name or f'run {content.run.run_id}'}"


def _header(content: Content) -> str:
    run = content.run
    reason = f": {run.state_reason}" if run.state_reason else ""
    done = measured_words(run.progress.done, run.progress.total, run.settings.replicates)
    facts = [
        *([f"run {run.run_id}"] if content.name else []),
        f"begun {day_and_time(run.started_at)}",
        f"{run.state}{reason}",
        done,
        count(run.settings.replicates, "replicate"),
        str(run.environment.get("device_name") or run.device),
        count(run.threads, "thread"),
        f"torch {run.environment.get('torch_version') or 'of unknown version'}",
    ]
    return f"<h1>{escaped(_title(content))}</h1><p class='soft'>{escaped(' · '.join(facts))}</p>"


def _problems(problems: Sequence[str]) -> str:
    return "".join(f"<p><b>Not all of the run could be read:</b> {escaped(each)}.</p>" for each in problems)


def _card(headline: Headline) -> str:
    file = file_of(headline.contender)
    numbers = (
        ("speed-up", ratio(headline.speedup)),
        ("memory", ratio(headline.memory_ratio)),
        ("max error", error(headline.max_abs_error)),
    )
    told = "".join(f"<span>{name}<b>{escaped(value)}</b></span>" for name, value in numbers)
    return (
        f'<div class="card"><strong>{escaped(name_of(headline.contender))}</strong>'
        f"{f' from {escaped(file)}' if file else ''} next to {escaped(headline.reference)}"
        f'<div class="numbers">{told}</div><span class="soft">{_sentence(headline_caption(headline))}</span></div>'
    )


def _sentence(markdown: str) -> str:
    """A sentence that was made for the page, whose marks are escapes, bold type and the page's colours."""
    told = _COLOURED.sub(r"\1", markdown)  # Colours are Streamlit's own marks; what they set off is bold as well.
    return str(MarkdownIt("commonmark", {"html": False}).renderInline(told))


def _lost(status: str, reason: str, number: int) -> str:
    return f"{status}, {count(number, 'row')}: {reason or 'no reason was given'}"


def _listed(title: str, sentences: Sequence[str], *, open_: bool = False) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in sentences[:MOST_REASONS])
    more = len(sentences) - MOST_REASONS
    items += f"<li>{more:,} more, of fewer rows: they stand in the CSV.</li>" if more > 0 else ""
    return f"<details{' open' if open_ else ''}><summary>{title}</summary><ul>{items}</ul></details>"


def _environment(content: Content) -> Iterable[tuple[str, object]]:
    return ((name, value) for name, value in content.run.environment.items() if value not in (None, ""))


def _csv_link(content: Content) -> str:
    data = report_csv(content.table).encode()
    if len(data) > MOST_CSV_BYTES:
        return "<p class='soft'>The CSV is too large to be carried along: <code>python -m profiling export</code>.</p>"
    name = f"mha-bench-{content.run.run_id}.csv"
    href = f"data:text/csv;charset=utf-8;base64,{base64.b64encode(data).decode()}"
    link = f'<a download="{escaped(name)}" href="{href}">Download the CSV</a>'
    return f"<p>{link}: every row and column, full precision.</p>"


def _method() -> str:
    text = method_text
    pairs = f"{text.PAIRS}\n\n    {_PAIRS}\n\n{text.REPLICATES}\n\n    {_INTERVAL}\n\n{text.INTERVAL}"
    costs = f"{text.COSTS}\n\n    {_FLOP}\n\n{text.ROOFLINE}\n\n    {_ROOF}\n\n"
    parts = [
        ("In short", text.SHORT),
        ("The numbers", text.NUMBERS),
        ("Is the difference real?", pairs),
        ("The verdicts on speed", text.as_list(text.SPEED_VERDICTS) + "\n\n" + text.NOT_CLAIMED),
        ("How it is measured", text.HOW),
        ("How far from the limit", f"{costs}{text.FRACTION}\n\n{method_answers.LIMITS}"),
        *method_answers.SECTIONS.items(),
        ("Verdicts of the check", text.as_list(text.VERDICTS)),
        ("Status of a row", text.as_list(text.STATUSES)),
    ]
    renderer = MarkdownIt("commonmark", {"html": False})
    return "".join(
        f"<details><summary>{title}</summary>{renderer.render(markdown)}</details>" for title, markdown in parts
    )
