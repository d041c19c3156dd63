"""The walk-throughs in docs/ and the README: their commands parse, their layers do what the text says, no link is dead.

A file that a walk-through gives stands under `<!-- NAME.py: VERDICT -->`; so does each later change to it, as a diff.
`VERDICT` is what the check says of the layer then. What it says at another dtype and input scale can follow:
`<!-- NAME.py: pass; float16 × 80: fail -->`.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import torch

from dashboard.layers import OPTION
from mha import ConsistencyReport, check_consistency
from profiling.cli import main

ROOT = Path(__file__).resolve().parent.parent
WALKS = ("my-layer-is-wrong.md", "is-mine-faster.md", "guard-speed-in-ci.md")
DOCUMENTS = ("README.md", *(f"docs/{name}" for name in WALKS))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GIVEN = re.compile(
    r"^<!-- (?P<file>\w+\.py)(?:: (?P<verdict>[\w-]+)(?:; (?P<dtype>\w+) × (?P<scale>\d+): (?P<there>[\w-]+))?)? -->\n"
    r"```(?P<kind>python|diff)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGE = re.compile(r"streamlit run (?:PATH/TO/mha-bench/)?(?P<file>\S+)(?: -- (?P<words>.*))?$", re.MULTILINE)
COMMAND = re.compile(r"(?:\S*/)?python3? -m profiling (?P<words>.*)")


@dataclasses.dataclass(frozen=True)
class Stage:
    """A file of a walk-through as it is after one of its steps, and what the check is said to say of it."""

    document: str
    file: str
    source: str
    verdict: str | None
    elsewhere: tuple[str, float, str] | None

    def __str__(self) -> str:
        """Its name among the tests."""
        return f"{self.document}-{self.file}-{self.verdict}"


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def commands(text: str) -> Iterator[list[str]]:
    """The words after `python -m profiling` of each such line in the blocks that a shell or a CI job runs."""
    for kind, block in FENCE.findall(text):
        if kind in ("sh", "yaml"):
            for line in block.replace("\\\n", " ").splitlines():
                found = COMMAND.search(line)
                if found:
                    yield shlex.split(found["words"], comments=True)


def parse(words: list[str], command: click.Command = main) -> None:
    """Parses a command line as the program does, and runs nothing; raises click.UsageError."""
    if isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            raise click.UsageError(f"there is no command {words[0]!r}")
        parse(words[1:], command.commands[words[0]])
    else:
        command.make_context(command.name, list(words))


def changed(source: str, diff: str) -> str:
    """A source after a diff whose hunks are set apart by empty lines."""
    for hunk in re.split(r"\n\s*\n", diff.strip("\n")):
        lines = hunk.splitlines()
        before, after = (
            "\n".join(line[1:] for line in lines if line.startswith((mark, " "))) + "\n" for mark in ("-", "+")
        )
        if source.count(before) != 1:
            raise ValueError(f"{before!r} must be there once, not {source.count(before)} times")
        source = source.replace(before, after)
    return source


def stages(document: str) -> list[Stage]:
    found, sources = [], dict[str, str]()
    for given in GIVEN.finditer(read(document)):
        name = given["file"]
        sources[name] = given["text"] if given["kind"] == "python" else changed(sources[name], given["text"])
        elsewhere = (given["dtype"], float(given["scale"]), given["there"]) if given["there"] else None
        found.append(Stage(document, name, sources[name], given["verdict"], elsewhere))
    return found


def layer_of(source: str) -> type[torch.nn.Module]:
    names: dict[str, object] = {"__name__": "given"}
    exec(compile(source, "given.py", "exec"), names)
    (layer,) = (
        each
        for each in names.values()
        if isinstance(each, type) and issubclass(each, torch.nn.Module) and each.__module__ == "given"
    )
    return layer


def check(stage: Stage, **options: Any) -> ConsistencyReport:
    return check_consistency(layer_of(stage.source), d_model=64, num_heads=4, **options)


def without_numbers(text: str) -> str:
    return re.sub(r"[\d.]+(?:e\+\d+)?", "#", " ".join(text.split()))


STAGES = [stage for name in WALKS for stage in stages(f"docs/{name}")]
CHECKED = [stage for stage in STAGES if stage.verdict]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_that_is_shown_parses(document: str) -> None:
    shown = list(commands(read(document)))
    assert len(shown) >= 3
    for words in shown:
        parse(words)


def test_the_page_is_started_by_its_file_and_with_its_option() -> None:
    shown = [found for document in DOCUMENTS for found in PAGE.finditer(read(document))]
    assert len(shown) >= 3
    for found in shown:
        assert (ROOT / found["file"]).is_file()
        assert shlex.split(found["words"] or "")[::2] in ([], [OPTION])


def test_the_walk_throughs_use_every_command_of_the_job() -> None:
    told = {words[0] for document in DOCUMENTS[1:] for words in commands(read(document))}
    assert told >= {"check", "sweep", "crossover", "laws", "profile", "compare", "report", "repeat", "export"}


@pytest.mark.parametrize(
    "line", ["sweep --sequence-len 64", "sweeps", "crossover", "runs rename a b", "compare baseline.csv"]
)
def test_a_command_that_does_not_parse_is_found(line: str) -> None:
    (words,) = commands(f"```sh\n.venv/bin/python -m profiling {line}  # what for\n```\n")
    with pytest.raises(click.UsageError):
        parse(words)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_to_a_file(document: str) -> None:
    links = [link for link in LINK.findall(read(document)) if "://" not in link]
    assert links
    for link in links:
        assert ((ROOT / document).parent / link.partition("#")[0]).is_file(), link


def test_the_readme_leads_to_every_walk_through() -> None:
    assert set(LINK.findall(read("README.md"))) >= {f"docs/{name}" for name in WALKS}


@pytest.mark.parametrize("name", WALKS)
def test_every_walk_through_gives_its_files_and_nothing_of_the_machine(name: str) -> None:
    given = stages(f"docs/{name}")
    assert len(given) >= 1
    for stage in given:
        compile(stage.source, stage.file, "exec")
    text = read(f"docs/{name}")
    assert len(re.findall(r"^```(?:python|diff)$", text, re.MULTILINE)) == len(given), "a file without its verdict"
    assert not re.search(r"(?<![\w.~])/(?:tmp|home|work|opt|root|usr)\b", text)


def test_a_change_that_does_not_fit_its_file_is_found() -> None:
    assert changed("a\nb\nc\n", " a\n-b\n+d\n") == "a\nd\nc\n"
    with pytest.raises(ValueError, match="must be there once, not 0 times"):
        changed("a\nb\nc\n", "-e\n+d\n")


@pytest.mark.parametrize("stage", CHECKED, ids=str)
def test_the_check_says_of_each_layer_what_the_text_says(stage: Stage) -> None:
    report = check(stage)
    assert report.verdict == stage.verdict, str(report)
    told = " ".join(read(stage.document).split())
    for finding in report.diagnosis:
        assert f"-> {finding.sentence}" in told, "the output pasted is not what the program says now"


@pytest.mark.parametrize("stage", [stage for stage in CHECKED if stage.elsewhere], ids=str)
def test_the_check_says_at_another_dtype_what_the_text_says(stage: Stage) -> None:
    assert stage.elsewhere is not None
    dtype, scale, verdict = stage.elsewhere
    report = check(stage, dtype=getattr(torch, dtype), input_scale=scale)
    assert report.verdict == verdict, str(report)
    # How many elements overflow may differ from processor to processor.
    told = without_numbers(read(stage.document))
    assert all(f"-> {without_numbers(finding.sentence)}" in told for finding in report.diagnosis)
