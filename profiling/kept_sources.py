"""The sources of what a run measured, kept in its folder by their hash, to be shown, compared and measured again.

`sources/<hash>/` holds the files as they were read, and `source.json` says which of them is the layer's own. For layers
of one's own, `recipes.json` beside it says how each was built, called and given its weights. Nothing in there is ever
imported by this program. Whatever is read is held to its hash, so that only what was measured is told for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from profiling.columns import MEASUREMENT_COLUMNS
from profiling.layers import LayerFile
from profiling.run_fields import require_shallow
from profiling.runs import MEASUREMENTS_FILE, RunError, read_rows, step_of
from profiling.safe_files import sync_folder, write_aside
from profiling.sources import NoSource, Source, source_now
from profiling.workload import GridError, Workload

SOURCES_DIR = "sources"
SOURCE_FILE, RECIPES_FILE = "source.json", "recipes.json"
# A layer with all that it imports is tens of kilobytes.
MAX_SOURCE_BYTES = 2 * 2**20
MAX_FILES = 500
MAX_JSON_BYTES = 4 * 2**20
_HASH = re.compile(r"[0-9a-f]{16}")


@dataclasses.dataclass(frozen=True)
class MeasuredSource:
    """A source that rows of a run came from.

    Attributes:
        hash: as the rows have it.
        contenders: whose rows.
        num_rows: how many, over all replicates.
        points: of the grid, in order.
        first_measured_at: the end of the first of those measurements, UTC; None where no row tells.
        source: the files; None where they were not kept.
        reason: why they are not there; empty where they are.
    """

    hash: str
    contenders: tuple[str, ...]
    num_rows: int
    points: tuple[int, ...]
    first_measured_at: str | None
    source: Source | None
    reason: str


# -- writing ----------------------------------------------------------------------------------------------------------


def keep_source(folder: Path, source: Source) -> bool:
    """Keeps a source in a run's folder; whether it is there then. Too large, or a folder that takes none: it is not."""
    place = folder / SOURCES_DIR / source.hash
    if place.is_dir():
        return True
    if len(source.files) > MAX_FILES or sum(map(len, source.files.values())) > MAX_SOURCE_BYTES:
        return False
    if place.parent.is_symlink() or not all(map(_is_plain, source.files)):
        return False
    aside = place.parent / f".{source.hash}.{os.getpid()}.tmp"
    try:
        aside.mkdir(parents=True, exist_ok=True)
        for name, data in source.files.items():
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            (aside / name).write_bytes(data)
        about = {"main": source.main, "root": source.root, "files": list(source.files)}
        (aside / SOURCE_FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        for file in aside.rglob("*"):
            if file.is_file():
                _sync(file)
        aside.rename(place)
        sync_folder(place.parent)
    except OSError:  # the rows do without; a disk that is full is told by them
        shutil.rmtree(aside, ignore_errors=True)
    return place.is_dir()


def keep_layer(folder: Path, layer: LayerFile, hash_: str | None) -> bool:
    """Keeps the source of a layer of one's own where it still is the one of that hash."""
    if hash_ is None or (folder / SOURCES_DIR / hash_).is_dir():
        return hash_ is not None
    with contextlib.suppress(GridError):
        source = Source.of_layer(layer.path)
        return source.hash == hash_ and keep_source(folder, source)
    return False


def keep_recipe(folder: Path, hash_: str, key: str, recipe: Mapping[str, Any]) -> None:
    """Keeps how a layer of a kept source was built, called and given its weights, under what it depends on."""
    path = folder / SOURCES_DIR / hash_ / RECIPES_FILE
    if not path.parent.is_dir() or path.parent.is_symlink() or path.parent.parent.is_symlink():
        return
    kept = read_recipes(folder, hash_)
    text = json.dumps(kept | {key: dict(recipe)}, ensure_ascii=False)
    if key not in kept and len(text) < MAX_JSON_BYTES:
        with contextlib.suppress(RunError):  # as above
            write_aside(path, text + "\n")


def recipe_key(layer: LayerFile, workload: Workload) -> str:
    """What a recipe is kept under: the layer's name, and those facts of a workload that it hangs on."""
    sizes = f"{layer.name}, heads {workload.num_heads}, d_model {workload.d_model}, seq_len {workload.seq_len}"
    return sizes + (", bias" if workload.bias else "") + (", causal" if workload.causal else "")


# -- reading ----------------------------------------------------------------------------------------------------------


def read_source(folder: Path, hash_: str) -> Source:
    """A source that was kept in a run's folder.

    Raises:
        NoSource: there is none, or it is not what was measured; the message says why.
    """
    place = _place(folder, hash_)
    about = _read_json(place / SOURCE_FILE)
    names, main, root = about.get("files"), about.get("main"), about.get("root")
    if not isinstance(names, list) or not 0 < len(names) <= MAX_FILES or not all(map(_is_plain, names)):
        raise NoSource(f"{place / SOURCE_FILE} names no files that can be read")
    if main != names[0] or not isinstance(root, str) or not (root == "." or _is_plain(root)):
        raise NoSource(f"{place / SOURCE_FILE} does not say which file is the layer's own")
    files: dict[str, bytes] = {}
    for name in names:
        files[name] = _read_inside(place, name, MAX_SOURCE_BYTES - sum(map(len, files.values())))
    source = Source(hash_, main, root, files)
    if not source.is_whole:
        raise NoSource(f"what is kept as source {hash_} is not what was measured: it was edited")
    return source


def read_recipes(folder: Path, hash_: str) -> dict[str, Any]:
    """What `keep_recipe` has kept beside a source; nothing where that cannot be read."""
    try:
        return _read_json(_place(folder, hash_) / RECIPES_FILE)
    except NoSource:
        return {}


def find_source(folder: Path, hash_: str, layer: LayerFile | None) -> Source:
    """The source of a row: as its run has kept it, or as the layer's file, or our own, still is.

    Args:
        folder: of the run.
        hash_: the row's.
        layer: where a layer of one's own lay when it was measured; None for one of ours.

    Raises:
        NoSource: it is nowhere any more.
    """
    try:
        return read_source(folder, hash_)
    except NoSource as error:
        now = source_now(layer)
        if now is not None and now.hash == hash_:
            return now
        place = "the one in this checkout" if layer is None else str(layer.path)
        raise NoSource(f"{error}; and {place} is another by now, or gone") from None


def measured_sources(folder: Path) -> list[MeasuredSource]:
    """The sources that the rows of a run came from, in the order in which each was measured first.

    Raises:
        RunError: the run's rows cannot be read.
    """
    rows: dict[str, list[dict[str, str]]] = {}
    for row in read_rows(folder / MEASUREMENTS_FILE, MEASUREMENT_COLUMNS):
        if row["source_hash"] and row["status"] != "invalid" and step_of(row) is not None:
            rows.setdefault(row["source_hash"], []).append(row)
    found = []
    for hash_, its in rows.items():
        source, reason = None, ""
        try:
            source = read_source(folder, hash_)
        except NoSource as error:
            reason = str(error)
        times = sorted(row["measured_at"] for row in its if row["measured_at"])
        found.append(
            MeasuredSource(
                hash=hash_,
                contenders=tuple(dict.fromkeys(row["contender"] for row in its)),
                num_rows=len(its),
                points=tuple(sorted({int(row["point"]) for row in its})),
                first_measured_at=times[0] if times else None,
                source=source,
                reason=reason,
            )
        )
    return sorted(found, key=lambda one: one.first_measured_at or "~")


# -- steps ------------------------------------------------------------------------------------------------------------


def _place(folder: Path, hash_: str) -> Path:
    if not _HASH.fullmatch(hash_):
        raise NoSource("the row has no hash of a source that could be looked for")
    place = folder / SOURCES_DIR / hash_
    if not place.is_dir():
        raise NoSource(f"the run has not kept source {hash_}")
    return place


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(_read_inside(path.parent, path.name, MAX_JSON_BYTES))
        require_shallow(values)
    except (ValueError, RecursionError, TypeError) as error:
        raise NoSource(f"{path} cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise NoSource(f"{path} cannot be read: it holds no object")
    return values


def _read_inside(place: Path, name: str, max_bytes: int) -> bytes:
    """The content of a file below `<run>/sources/<hash>`, which no link leads out of."""
    path = place / name
    run = place.parent.parent
    try:
        inside = os.path.join(os.path.realpath(run), SOURCES_DIR, place.name, *PurePosixPath(name).parts)
        found = os.lstat(path)
        if os.path.realpath(path) != inside or not stat.S_ISREG(found.st_mode):
            raise NoSource(f"{path} is no file of the run's own")
        if found.st_size > max_bytes:
            raise NoSource(f"{path} is larger than any source that is kept")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise NoSource(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _is_plain(name: object) -> bool:
    """Whether a text is a path that stays in its folder, on any system."""
    if not isinstance(name, str) or not name or len(name) > 1000 or set(name) & set("\\:\0\n\r"):
        return False
    return not name.startswith("/") and all(part not in ("", ".", "..") for part in name.split("/"))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
