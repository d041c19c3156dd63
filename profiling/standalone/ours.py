"""Our layers as text for a script: of their source only what a call needs, without what is there for other users."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

CLASSES = {"custom": "MultiHeadAttention", "custom-fused": "FusedMultiHeadAttention"}
# What runs when a layer is made and when it is called; from there other methods are reached.
_ROOTS = frozenset({"__init__", "forward"})


def layer_text(contender: str, texts: Iterable[str]) -> str:
    """The class of one of our layers with all that it uses of ours, in an order in which Python can run it.

    Args:
        contender: `custom` or `custom-fused`.
        texts: those of the files that the classes are in; no name may stand at the top of two of them.

    Raises:
        ValueError: there is no such class in the texts, or they are no Python.
    """
    found = {name: definition for text in texts for name, definition in _definitions(text)}
    if CLASSES[contender] not in found:
        raise ValueError(f"the kept source has no class {CLASSES[contender]}")
    reached = _reached(CLASSES[contender], found)
    seen: set[str] = set()
    wanted: list[str] = []

    def want(name: str) -> None:
        seen.add(name)
        for used in found[name].used(reached):
            if used in found and used not in seen:
                want(used)
        wanted.append(name)

    want(CLASSES[contender])
    return "\n\n".join(found[name].text(reached) for name in wanted)


class _Definition:
    """A class, a function or a constant at the top of a file."""

    def __init__(self, lines: list[str], node: ast.stmt) -> None:
        self._lines, self.node = lines, node

    @property
    def methods(self) -> dict[str, ast.FunctionDef]:
        body = self.node.body if isinstance(self.node, ast.ClassDef) else []
        return {part.name: part for part in body if isinstance(part, ast.FunctionDef)}

    def used(self, reached: frozenset[str]) -> Iterator[str]:
        """The names that it uses, of a class in those methods and in what it is derived from."""
        bases = self.node.bases if isinstance(self.node, ast.ClassDef) else []
        for part in (*bases, *self._kept(reached)):
            yield from (each.id for each in ast.walk(part) if isinstance(each, ast.Name))

    def text(self, reached: frozenset[str]) -> str:
        """Its lines as they stand, comments too, without docstrings; of a class with those methods alone."""
        parts = [self._lines_of(part) for part in self._kept(reached)]
        if not isinstance(self.node, ast.ClassDef):
            return parts[0] + "\n"
        bases = ", ".join(ast.unparse(base) for base in self.node.bases)
        return f"class {self.node.name}({bases}):\n" + "\n\n".join(parts) + "\n"

    def _kept(self, reached: frozenset[str]) -> list[ast.stmt]:
        if not isinstance(self.node, ast.ClassDef):
            return [self.node]
        is_kept = {id(part): name in reached for name, part in self.methods.items()}
        return [part for part in self.node.body if is_kept.get(id(part), not _is_docstring(part))]

    def _lines_of(self, node: ast.stmt) -> str:
        begin = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        doc = node.body[0] if isinstance(node, ast.FunctionDef) and _is_docstring(node.body[0]) else None
        skipped = range(doc.lineno, (doc.end_lineno or 0) + 1) if doc else range(0)
        numbers = (number for number in range(begin, (node.end_lineno or 0) + 1) if number not in skipped)
        return "\n".join(self._lines[number - 1] for number in numbers)


def _definitions(text: str) -> Iterator[tuple[str, _Definition]]:
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, _Definition(lines, node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, _Definition(lines, node)


def _reached(name: str, found: Mapping[str, _Definition]) -> frozenset[str]:
    """The methods, of a class and of those that it is derived from, that making and calling it comes to."""
    family, todo = [], [name]
    while todo:
        family.append(found[todo.pop()])
        node = family[-1].node
        bases = node.bases if isinstance(node, ast.ClassDef) else []
        todo += [base.id for base in bases if isinstance(base, ast.Name) and base.id in found]
    reached: frozenset[str] = frozenset()
    new = _ROOTS
    while new:
        reached |= new
        methods = [member.methods[each] for member in family for each in new if each in member.methods]
        used = {each.attr for method in methods for each in ast.walk(method) if isinstance(each, ast.Attribute)}
        new = frozenset(each for each in used if any(each in member.methods for member in family)) - reached
    return reached


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
