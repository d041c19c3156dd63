"""Imports a layer of one's own from its file, as `python file.py` would, and tells in one sentence why it cannot.

A process loads one version of a file and keeps to it: what has changed is for a new process to load.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import importlib.machinery
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from mha.reading.building import BuildError
from mha.reading.calling import CallError
from profiling.layers import LayerFile, package_root, source_hash
from profiling.wording import is_formula, one_line
from profiling.workload import GridError

# Packages of ours that a file beside a layer may be called like: its own is meant then.
_OURS = ("mha", "profiling", "dashboard")
_FOREIGN_FOLDERS = {"site-packages", "dist-packages"}
_STDLIB = Path(sysconfig.get_paths()["stdlib"])
_ROOT = Path(__file__).resolve().parents[2]
_PREFIX = "mha_bench_layer_"
_MESSAGE_LENGTH, _NAME_LENGTH = 500, 80

# What was loaded from files beside layers, by the folder that it lies in; and what that put on the path.
_siblings: dict[Path, set[str]] = {}
_entries: list[str] = []
# Layers' files that were another source after they were loaded than before.
_torn: set[Path] = set()


class LayerError(ValueError):
    """A layer of one's own that cannot be loaded; the message is one sentence that names the file and the error."""


def load_layer(spec: str) -> Any:
    """The class, factory or instance that an absolute `spec` names; its file is imported once per process.

    Raises:
        LayerError: the file cannot be imported, or there is no such name in it.
    """
    file = LayerFile.from_spec(spec)
    module = _module(file.path)
    if isinstance(module, LayerError):
        raise LayerError(str(module))
    found: Any = module
    for done, part in enumerate(file.name.split(".")):
        try:
            found = getattr(found, part)
        except AttributeError:
            holder = ".".join([file.path.name, *file.name.split(".")[:done]])
            raise LayerError(f"{holder} has no {part}{_hint(part, found)}") from None
    return found


def loaded_hash(spec: str) -> str | None:
    """The hash of the source that this process loads, or has loaded, for a layer.

    None where it cannot be read, or was edited in the moment in which it was loaded: what ran has no hash then.
    """
    path = LayerFile.from_spec(spec).path
    first = _hash_at_first_sight(path)
    return None if path in _torn else first


@functools.cache
def _hash_at_first_sight(path: Path) -> str | None:
    return _hash_now(path)


def _hash_now(path: Path) -> str | None:
    try:
        return source_hash(path)
    except GridError:
        return None


def words_of(error: BaseException) -> str:
    """What a layer raised, in one line: the error, and the line of a layer's file that it came from."""
    place = "" if isinstance(error, LayerError) else place_of(error)
    words = str(error) if isinstance(error, LayerError) else _said(error)
    told = f"{words} ({place})" if place else words
    # It stands in a row as it is, and a class or a file may be called `=E`.
    return f"raised {told}" if is_formula(told) else told


def place_of(error: BaseException) -> str:
    """`my_attention.py, line 12`: where in a layer's own files an error came from; empty where in none of them."""
    return _place_in(error, list(_siblings))


def message_of(error: BaseException) -> str | None:
    """What an error says, in one line of bounded length, perhaps empty; None where it raises when it is asked."""
    try:
        return one_line(str(error), _MESSAGE_LENGTH)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a person's exception may do anything when it is shown
        return None


# -- importing --------------------------------------------------------------------------------------------------------


class _Loader(importlib.machinery.SourceFileLoader):
    """Reads the source each time: bytecode is kept by the second, and an edit may come within one."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)


@functools.cache
def _module(path: Path) -> ModuleType | LayerError:
    """The module of a file, or why there is none."""
    root = package_root(path)
    package = ".".join(path.parent.relative_to(root).parts)
    # No other file has this name, whatever it is called; within its package relative imports find their way.
    digest = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()
    name = _PREFIX + digest[:12] + "".join(letter if letter.isalnum() else "_" for letter in f"_{path.stem}")
    name = f"{package}.{name}" if package else name
    spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = _hash_at_first_sight(path)
    try:
        with _own_world(path, root):
            sys.modules[name] = module  # before it runs: its dataclasses look it up there
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a person's file raises is the answer, also its exit()
        sys.modules.pop(name, None)
        return LayerError(_why_not(path, error))
    finally:
        if _hash_now(path) != before:
            _torn.add(path)
    return module


@contextmanager
def _own_world(path: Path, root: Path) -> Iterator[None]:
    """A file's own folder first on the path, none of another layer's modules, and torch's settings put back after."""
    sys.dont_write_bytecode = True
    folders = list(dict.fromkeys((path.parent, root)))
    for folder in _siblings.keys() - set(folders):
        for name in _siblings[folder]:
            sys.modules.pop(name, None)
        _siblings[folder] = set()
    sys.path[:] = [entry for entry in sys.path if entry not in _entries]
    _entries[:] = [str(folder) for folder in folders]
    sys.path[:0] = _entries
    importlib.invalidate_caches()
    shadowed = [name for name in _OURS if _is_shadowed(name, folders)]
    ours = _take_out(shadowed)
    before, arguments = set(sys.modules), sys.argv
    dtype, threads, has_gradients = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    sys.argv = [str(path)]
    try:
        yield
    finally:
        sys.argv = arguments
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(has_gradients)
        _take_out(shadowed)
        sys.modules.update(ours)
        for folder in folders:
            _siblings[folder] = _siblings.get(folder, set()) | _new_siblings(before, folder)


def _take_out(packages: list[str]) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in packages]
    return {name: sys.modules.pop(name) for name in names}


def _is_shadowed(package: str, folders: list[Path]) -> bool:
    ours = getattr(sys.modules.get(package), "__file__", None)
    files = [place for folder in folders for place in (folder / f"{package}.py", folder / package / "__init__.py")]
    found = next((file for file in files if file.is_file()), None)
    return found is not None and ours is not None and found.resolve() != Path(ours).resolve()


def _new_siblings(before: set[str], folder: Path) -> set[str]:
    new = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if name not in before}
    return {name for name, file in new.items() if file and _PREFIX not in name and _is_theirs(Path(file), [folder])}


def _is_theirs(file: Path, folders: list[Path]) -> bool:
    """Whether a file is part of a layer: below its folder, and neither Python's nor a package's nor ours."""
    is_ours = any(file.is_relative_to(_ROOT / name) for name in _OURS)
    is_foreign = file.is_relative_to(_STDLIB) or bool(_FOREIGN_FOLDERS.intersection(file.parts))
    return any(file.is_relative_to(folder) for folder in folders) and not (is_ours or is_foreign)


# -- words ------------------------------------------------------------------------------------------------------------


def _why_not(path: Path, error: BaseException) -> str:
    if isinstance(error, FileNotFoundError) and not path.exists():
        return f"there is no file {path}"
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{Path(error.filename).name}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    return f"{_place_in(error, [path.parent, package_root(path)]) or path.name}: {_said(error)}"


def _said(error: BaseException) -> str:
    message = message_of(error)
    if isinstance(error, SystemExit):
        return f"called exit({'' if error.code is None else message or ''})"
    if message is None:
        return _kind_of(error)
    text = message or "no message"
    return text if isinstance(error, BuildError | CallError) else f"{_kind_of(error)}: {text}"


def _kind_of(error: BaseException) -> str:
    return one_line(type(error).__name__, _NAME_LENGTH)


def _place_in(error: BaseException, folders: list[Path]) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_theirs(Path(frame.filename), folders):
            return f"{Path(frame.filename).name}, line {frame.lineno}"
    return ""


def _hint(name: str, holder: Any) -> str:
    """What a person may have meant: a name like it, or the layers that are there."""
    names = [each for each in dir(holder) if not each.startswith("_")]
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    layers = [each for each in names if _is_layer_of(getattr(holder, each, None), holder)]
    return f"; it has {', '.join(layers[:8])}" if layers else ""


def _is_layer_of(value: Any, holder: Any) -> bool:
    is_class = isinstance(value, type) and issubclass(value, nn.Module)
    return isinstance(value, nn.Module) or (is_class and value.__module__ == getattr(holder, "__name__", None))
