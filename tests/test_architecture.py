"""The arrows: dashboard → profiling → mha → torch, and torch in the measuring child only."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("mha", "profiling", "dashboard")
# What pulls torch in, or is torch.
TORCH = ("torch", "mha", "profiling.measuring")
# Who may draw: the charts, and the report that is made of them.
DRAWERS = ("profiling/charts/", "profiling/report/")
PRINTERS = {
    "mha/__main__.py",
    "profiling/commands/check.py",
    "profiling/commands/compare.py",
    "profiling/commands/devices.py",
    "profiling/commands/export.py",
    "profiling/commands/json_answer.py",
    "profiling/commands/laws.py",
    "profiling/commands/crossover.py",
    "profiling/commands/fits.py",
    "profiling/commands/profile.py",
    "profiling/commands/repeat.py",
    "profiling/commands/report.py",
    "profiling/commands/runs.py",
    "profiling/commands/version.py",
    "profiling/commands/waiting.py",
    "profiling/doctor/command.py",
    "profiling/exits.py",
    "profiling/progress.py",
    "profiling/self_test/command.py",
}


def imports(source: str, module: str) -> Iterator[tuple[str, str]]:
    """The modules that a source imports, wherever in it: (name, the function it is imported in or '').

    `from a import b` counts as `a` and as `a.b`, since `b` may be a module. Imports for type checkers do not run.
    """
    package = module.rpartition(".")[0]

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for child in node.orelse:
                yield from visit(child, function)
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, function) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            yield base, function
            yield from ((f"{base}.{alias.name}", function) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value), function
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    yield from visit(ast.parse(source), "")


def lies_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def violations(path: str, source: str) -> list[str]:
    """What in a file (its path from the root) breaks an arrow."""
    module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    if path.endswith("__init__.py"):
        module += ".__init__"
    found = []
    for name, function in imports(source, module):
        if path.startswith("mha/reading/"):  # what a layer is made of, not whether it is right
            is_wrong = lies_in(name, ("mha", "profiling", "dashboard")) and not lies_in(name, ("mha.reading",))
        elif path.startswith("mha/"):
            is_wrong = lies_in(name, ("profiling", "dashboard"))
        elif path.startswith("profiling/measuring/"):
            is_wrong = lies_in(name, ("dashboard",))
        elif path.startswith("profiling/"):
            # Which program serves a child is the command line's to say, in the command that starts it.
            is_child = path == "profiling/cli.py" and function == "child" and lies_in(name, ("profiling.measuring",))
            is_wrong = lies_in(name, ("dashboard", "streamlit", *TORCH)) and not is_child
            if not path.startswith(DRAWERS):  # measuring needs no picture
                is_wrong |= lies_in(name, ("plotly", "profiling.charts"))
        elif path.startswith("dashboard/"):
            is_wrong = lies_in(name, TORCH)
        else:
            is_wrong = False
        if is_wrong:
            found.append(f"{path} imports {name}")
    if path not in PRINTERS and path.startswith(("mha/", "profiling/")):
        found += [f"{path} prints" for _ in prints(source)]
    return found


def prints(source: str) -> Iterator[ast.Call]:
    """The calls in a source that print."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "print",
            "click.echo",
            "click.secho",
            "sys.stdout.write",
            "sys.stderr.write",
            "rich.print",
        ):
            yield node


SOURCES = sorted(path for package in OURS for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_keeps_to_the_arrows(path: Path) -> None:
    assert violations(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("mha/attention.py", "from profiling.workload import Grid"),
        ("mha/attention.py", "def f():\n    import dashboard.store"),
        ("mha/reading/reader.py", "from mha.checking.trial import Trial"),
        ("mha/reading/reader.py", "from mha.oracle import oracle"),
        ("profiling/table.py", "import torch"),
        ("profiling/table.py", "import torch.nn as nn"),
        ("profiling/table.py", "def f():\n    from mha import oracle"),
        ("profiling/table.py", "from profiling import measuring"),
        ("profiling/table.py", "from .measuring import passes"),
        ("profiling/table.py", "import importlib\nimportlib.import_module('torch')"),
        ("profiling/table.py", "try:\n    import torch\nexcept ImportError:\n    pass"),
        ("profiling/table.py", "if TYPE_CHECKING:\n    import torch\nelse:\n    import torch"),
        ("profiling/sweep.py", "from dashboard import app"),
        ("profiling/sweep.py", "from profiling.charts.formatting import count"),
        ("profiling/table.py", "import plotly.graph_objects"),
        ("profiling/charts/lines.py", "import streamlit"),
        ("profiling/cli.py", "from profiling.measuring.child import main"),
        ("profiling/cli.py", "def sweep():\n    from profiling.measuring.child import main"),
        ("profiling/cli.py", "def child():\n    import torch"),
        ("profiling/measuring/child.py", "import dashboard"),
        ("dashboard/store.py", "from profiling.measuring.latency import warm_up"),
        ("dashboard/views/sweep.py", "from mha import check_consistency"),
        ("dashboard/store.py", "import torch"),
        ("profiling/sweep.py", "print('done')"),
        ("profiling/cli.py", "print('done')"),
        ("profiling/commands/check.py", "def child():\n    from profiling.measuring.child import main"),
        ("profiling/measuring/passes.py", "def f():\n    print('x')"),
        ("mha/oracle.py", "import sys\nsys.stdout.write('x')"),
    ],
)
def test_the_scan_catches_a_planted_violation(path: str, source: str) -> None:
    assert violations(path, source) != []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("mha/attention.py", "import torch\nfrom mha.projections import x\nfrom .oracle import y"),
        ("profiling/table.py", "import pandas\nfrom profiling.runs import Run\nfrom .columns import names"),
        ("profiling/table.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
        ("profiling/measuring/child.py", "import torch, mha\nfrom profiling.measuring import passes"),
        ("profiling/cli.py", "import click\ndef child():\n    from profiling.measuring.child import main"),
        ("profiling/charts/lines.py", "import plotly.graph_objects\nfrom profiling.charts import marks"),
        ("profiling/commands/check.py", "import click\nclick.echo('x')"),
        ("dashboard/store.py", "from profiling.table import load_run\nfrom dashboard import session\nimport streamlit"),
        ("profiling/sweep.py", "torch = 'only a word'\nsaid = 'print(1)'"),
    ],
)
def test_the_scan_lets_through_what_is_right(path: str, source: str) -> None:
    assert violations(path, source) == []


def test_what_was_scanned_is_all_of_it() -> None:
    scanned = {str(path.relative_to(ROOT)) for path in SOURCES}
    assert {"mha/attention.py", "profiling/sweep.py", "profiling/measuring/child.py", "dashboard/app.py"} <= scanned


def loaded_by(*modules: str) -> set[str]:
    code = f"import sys\nfor name in {modules!r}:\n    __import__(name)\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_neither_supervisor_nor_page_loads_torch() -> None:
    supervisor = ("profiling.sweep", "profiling.table", "profiling.live_check", "profiling.cli", "profiling.progress")
    # A page's script runs when it is imported; its modules only define things.
    pages = [
        f"dashboard.{path.stem}"
        for path in sorted((ROOT / "dashboard").glob("*.py"))
        if path.stem not in ("__init__", "app")
    ]
    assert not {"torch", "mha", "profiling.measuring"} & loaded_by(*supervisor, *pages)


def test_the_layer_loads_nothing_of_ours_but_itself() -> None:
    assert {name.partition(".")[0] for name in loaded_by("mha")} & set(OURS) == {"mha"}


def test_the_fresh_interpreter_would_notice_torch() -> None:
    assert "torch" in loaded_by("profiling.measuring.devices")


def test_no_module_of_the_page_hides_a_package() -> None:
    # `streamlit run dashboard/app.py` puts dashboard/ first on the path.
    ours = {path.stem for path in (ROOT / "dashboard").iterdir()} - {"__init__"}
    assert ours.isdisjoint({*OURS, "torch", "pandas", "plotly", "streamlit", "tests"})
    assert ours.isdisjoint(sys.stdlib_module_names)


def test_the_tests_lie_flat() -> None:
    folders = [path for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name in OURS]
    assert folders == [], "tests/mha would hide mha"
    assert not (ROOT / "tests" / "__init__.py").exists()


def test_the_readme_tells_what_each_package_is_for_and_names_none_that_is_not_there() -> None:
    told = (ROOT / "README.md").read_text(encoding="utf-8").partition("## How it is built")[2].partition("\n## ")[0]
    named = set(re.findall(r"`((?:mha|profiling)/\w+)/`", told))
    inits = [path for name in ("mha", "profiling") for path in (ROOT / name).glob("*/__init__.py")]
    assert named == {path.parent.relative_to(ROOT).as_posix() for path in inits}
