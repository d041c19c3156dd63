"""Layers of one's own, `path/to/file.py:Name`: parsed, found and hashed without running them. No torch.

A contender may be run through torch.compile, `compiled:path/to/file.py:Name`: its file is that of the layer within.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import keyword
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from profiling.quoted import quoted
from profiling.wording import is_formula
from profiling.workload import GridError

EXAMPLE = "my_attention.py:MyAttention"
# Before the name of any contender: the same layer, run through torch.compile.
COMPILED = "compiled:"
# A folder that holds an environment holds thousands of files that are no part of the layer.
_FOREIGN_FOLDERS = {"site-packages", "dist-packages"}
_MAX_SOURCE_FILES = 500
# What the marker between a sweep and its child has room for.
_MAX_NAME_BYTES = 400


@dataclasses.dataclass(frozen=True)
class LayerFile:
    """A class, factory or instance in a file: its absolute path, and the name in it, dotted where it lies deeper."""

    path: Path
    name: str

    @property
    def spec(self) -> str:
        """The two as one text that means the same from any folder."""
        return f"{self.path}:{self.name}"

    @classmethod
    def from_spec(cls, spec: str) -> LayerFile:
        """The layer that an absolute `spec` names; its file need not be there."""
        path, _, name = spec.rpartition(":")
        return cls(Path(path), name)


def is_compiled(contender: str) -> bool:
    """Whether a contender is run through torch.compile."""
    return contender.startswith(COMPILED)


def inner_of(contender: str) -> str:
    """The contender that a compiled one compiles; any other is itself."""
    return contender.removeprefix(COMPILED)


def is_layer(contender: str) -> bool:
    """Whether a contender's name is meant as a file rather than as a name of ours, compiled or not."""
    name = inner_of(contender)
    if is_compiled(name):  # compiled twice: no contender at all
        return False
    return ":" in name or name.lower().endswith(".py") or "/" in name or os.sep in name


def split_layer(text: str) -> tuple[str, str]:
    """The file and the name in `file.py:Name`, as they were given; the last colon separates them.

    Raises:
        GridError: it is no such text.
    """
    text = inner_of(text)
    if " ".join(text.split()) != text or not text.isprintable():
        raise GridError(f"a layer's path must be plain text without line breaks or runs of blanks, not {quoted(text)}")
    path, colon, name = text.rpartition(":")
    if text.lower().endswith(".py") or (colon and not name):
        path = text.removesuffix(":")
        raise GridError(f"a layer needs a name in its file, as in {EXAMPLE}: write {path}:NAME, not {quoted(text)}")
    if not path.lower().endswith(".py"):
        raise GridError(f"a layer must be a Python file and a name in it, as in {EXAMPLE}, not {quoted(text)}")
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")):
        raise GridError(f"{quoted(name)} in {quoted(text)} cannot be the name of a class, a factory or a layer")
    return path, name


def can_be_named(text: str) -> bool:
    """Whether a command line takes a text for a layer, whether or not its file is there."""
    try:
        split_layer(text)
    except GridError:
        return False
    return not is_formula(inner_of(text)) and len(text.encode(errors="replace")) <= _MAX_NAME_BYTES


def find_layer(text: str) -> LayerFile:
    """The layer that a text means here: a relative path starts from the working folder.

    Raises:
        GridError: the text names no layer, or there is no such file.
    """
    given, name = split_layer(text)
    # Here, and not where a text is split: a run that was measured under such a name is still read.
    if is_formula(given):
        raise GridError(
            f"a layer's path must not begin with {given[0]}, which a spreadsheet takes for a formula: "
            f"write ./{inner_of(text)}, not {quoted(text)}"
        )
    if len(text.encode()) > _MAX_NAME_BYTES:
        raise GridError(
            f"a layer's path must be at most {_MAX_NAME_BYTES} bytes long, give a relative one: {quoted(text)}"
        )
    try:
        path = Path(os.path.abspath(Path(given).expanduser()))
    except (OSError, RuntimeError) as error:  # the working folder is gone; `~` of nobody
        raise GridError(f"the file {given} cannot be found: {error}") from None
    if not os.path.isfile(path):  # Path.is_file raises where a folder above must not be looked into
        raise GridError(f"there is no file {given}" + ("" if Path(given).is_absolute() else f" in {Path.cwd()}"))
    return LayerFile(path, name)


def source_hash(path: Path) -> str:
    """A hash of a layer's file and of the files beside it that it imports, directly or not.

    Raises:
        GridError: the file cannot be read.
    """
    return hash_of_source(path, read_source_files(path))


def read_source_files(path: Path) -> dict[Path, bytes]:
    """A layer's file, and those beside it that it imports, each as it is now; itself first.

    Raises:
        GridError: one of them cannot be read.
    """
    try:
        return {file: file.read_bytes() for file in source_files(path)}
    except OSError as error:
        raise GridError(f"{path} cannot be read: {error.strerror or error}") from None


def hash_of_source(path: Path, contents: Mapping[Path, bytes]) -> str:
    """The hash of what `read_source_files` gave for the layer's file `path`."""
    digest = hashlib.sha256()
    for file, data in contents.items():
        digest.update(f"{os.path.relpath(file, path.parent)}\0".encode("utf-8", "surrogateescape"))
        digest.update(data)
    return digest.hexdigest()[:16]


def source_files(path: Path) -> list[Path]:
    """A layer's file, and those beside it or in its package that it imports, as its text tells; sorted, itself first.

    What it imports by other means than an `import` statement is not found.
    """
    roots = tuple(dict.fromkeys((path.parent, package_root(path))))
    found, todo = {path}, [path]
    while todo and len(found) < _MAX_SOURCE_FILES:
        file = todo.pop()
        stat = file.stat()
        for module in _imported_names(file, stat.st_mtime_ns, stat.st_size):
            new = set(_files_of(module, file, roots)) - found
            found |= new
            todo += sorted(new)
    return [path, *sorted(found - {path})]


def package_root(path: Path) -> Path:
    """The folder that the top-level package of a file lies in; the file's own folder where it is in no package."""
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


@functools.lru_cache(maxsize=1024)
def _imported_names(file: Path, mtime_ns: int, size: int) -> tuple[str, ...]:
    """What a file imports: `a.b`, or `..a.b` with a dot for each level; a file that is no Python imports nothing."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names += [base, *(f"{base}{'.' if node.module else ''}{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(names))


def _files_of(module: str, importer: Path, roots: tuple[Path, ...]) -> Iterator[Path]:
    """The files that an import runs, of those under the roots."""
    level = len(module) - len(module.lstrip("."))
    parts = [part for part in module.lstrip(".").split(".") if part]
    if level > len(importer.parents):
        return
    for root in (importer.parents[level - 1],) if level else roots:
        for count in range(0 if level else 1, len(parts) + 1):
            place = root.joinpath(*parts[:count])
            files = (place / "__init__.py", *((place.with_name(f"{place.name}.py"),) if count else ()))
            yield from (file for file in files if file.is_file() and not _FOREIGN_FOLDERS.intersection(file.parts))
