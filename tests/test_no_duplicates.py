"""No helper is written twice: two functions of the program with the same body are one that should be shared."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for name in ("mha", "profiling", "dashboard")
    for path in sorted((ROOT / name).rglob("*.py"))
}
# Of a body as its tree is written out: what is shorter hands on to something else, and is no helper.
SHORTEST = 400
WHERE_JSON_IS_PRINTED = "profiling/commands/json_answer.py"


def bodies(source: str) -> Iterator[tuple[str, str]]:
    """The functions of a source: name, and body without docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield node.name, ast.dump(ast.Module(body, []))


def written_twice(sources: Iterable[tuple[str, str]]) -> list[list[str]]:
    places = defaultdict(list)
    for path, source in sources:
        for name, body in bodies(source):
            if len(body) >= SHORTEST:
                places[body].append(f"{path}: {name}")
    return [each for each in places.values() if len(each) > 1]


def prints_json_itself(source: str) -> bool:
    """Whether it calls `click.echo(json.dumps(…))`, which lets NaN through that is no JSON."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return any(
        ast.unparse(call.func) == "click.echo"
        and any(ast.unparse(each).startswith("json.dumps(") for each in call.args)
        for call in calls
    )


def test_no_function_is_written_twice() -> None:
    assert written_twice(SOURCES.items()) == []


def test_every_json_answer_is_printed_in_one_way() -> None:
    assert [path for path, source in SOURCES.items() if prints_json_itself(source)] == [WHERE_JSON_IS_PRINTED]


def test_the_scan_catches_a_helper_written_twice() -> None:
    body = "    try:\n        return path.read_text(encoding='utf-8', errors='replace').strip()\n    except OSError:\n"
    one, other = f"def _text(path):\n{body}        return ''", f"def said(path):\n    'Doc.'\n{body}        return ''"
    assert written_twice([("a.py", one), ("b.py", other)]) == [["a.py: _text", "b.py: said"]]
    assert written_twice([("a.py", one), ("b.py", other.replace("return ''", "return None"))]) == []
