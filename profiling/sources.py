"""What a contender is made of: the files of its source, as they were read in one go, with the hash that rows have.

Nothing in them is ever imported here.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from profiling.environment import ROOT
from profiling.layers import LayerFile, hash_of_source, package_root, read_source_files, source_hash
from profiling.workload import GridError

# What our own layers consist of; torch's own are told by torch's version.
OURS = ("mha/attention.py", "mha/projections.py")


class NoSource(Exception):
    """A source that a run does not have, or not as it was measured; the message says why."""


@dataclasses.dataclass(frozen=True)
class Source:
    """The files of one contender, as they were read in one go.

    Attributes:
        hash: as rows have it in `source_hash`.
        main: the name of the layer's own file.
        root: the folder that the layer's top-level package lies in, `.` for that of all files.
        files: name → content, the layer's own first. A name is a path in one folder, with slashes.
    """

    hash: str
    main: str
    root: str
    files: Mapping[str, bytes]

    @classmethod
    def of_layer(cls, path: Path) -> Source:
        """That of a layer of one's own, as it is now.

        Raises:
            GridError: it cannot be read.
        """
        contents = read_source_files(path)
        root = package_root(path)
        top = Path(os.path.commonpath([root, *(file.parent for file in contents)]))
        names = {file.relative_to(top).as_posix(): data for file, data in contents.items()}
        return cls(hash_of_source(path, contents), next(iter(names)), root.relative_to(top).as_posix(), names)

    @classmethod
    def of_ours(cls) -> Source:
        """That of our own layers in this checkout."""
        files = {name: (ROOT / name).read_bytes() for name in OURS}
        return cls(_hash_of_contents(files), OURS[0], ".", files)

    @property
    def texts(self) -> dict[str, str]:
        """Name → text; what is no text in it is replaced."""
        return {name: data.decode("utf-8", "replace") for name, data in self.files.items()}

    @property
    def is_whole(self) -> bool:
        """Whether the files still are those that the hash was made of, for a layer of one's own or of ours."""
        return self.hash in (*_hashes_of_names(self.main, self.files), _hash_of_contents(self.files))


def source_diff(before: Source, after: Source) -> str:
    """The difference of two sources as a unified diff, file by file; empty where they are the same."""
    lines: list[str] = []
    for name in dict.fromkeys([*before.files, *after.files]):
        old, new = (source.texts.get(name) for source in (before, after))
        lines += difflib.unified_diff(
            [] if old is None else old.splitlines(),
            [] if new is None else new.splitlines(),
            "/dev/null" if old is None else f"{before.hash}/{name}",
            "/dev/null" if new is None else f"{after.hash}/{name}",
            lineterm="",
        )
    return "".join(f"{line}\n" for line in lines)


def is_unchanged(layer: LayerFile, hash_: str | None) -> bool:
    """Whether a layer's file, with what it imports, still is the one of that hash."""
    try:
        return source_hash(layer.path) == hash_
    except GridError:
        return False


def source_now(layer: LayerFile | None) -> Source | None:
    """The source of a layer as it is now, of ours for None; None where it cannot be read."""
    try:
        if layer is None:
            return Source.of_ours()
        # A run's own word for where a layer lay may be anyone's: only what a layer can be is looked at.
        is_file = layer.path.suffix.lower() == ".py" and stat.S_ISREG(os.stat(layer.path).st_mode)
        return Source.of_layer(layer.path) if is_file else None
    except (GridError, OSError, ValueError):
        return None


def _hashes_of_names(main: str, files: Mapping[str, bytes]) -> list[str]:
    """As `layers.hash_of_source` gives it; for both ways in which systems separate folders."""
    folder = str(PurePosixPath(main).parent)
    found = []
    for separator in "/\\":
        digest = hashlib.sha256()
        for name, data in files.items():
            beside = os.path.relpath(name, folder).replace(os.sep, separator)
            digest.update(f"{beside}\0".encode("utf-8", "surrogateescape"))
            digest.update(data)
        found.append(digest.hexdigest()[:16])
    return found


def _hash_of_contents(files: Mapping[str, bytes]) -> str:
    """As `measuring.contenders.known.source_hash` gives it for layers of ours."""
    return hashlib.sha256(b"".join(files.values())).hexdigest()[:16]
