"""A person's own layers: those named where the program was started, `-- --layer my_attention.py:MyAttention`.

They are never typed into the page, which would let whoever reaches it run any file on this machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from profiling.layers import EXAMPLE, LayerFile, find_layer, is_layer, source_files
from profiling.workload import GridError

OPTION = "--layer"
# What the page can check without any layer of one's own.
BUILT_IN = ("custom", "custom-fused")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layers:
    """The registered layers, as given, and a sentence for each argument that names none."""

    specs: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()

    def unregistered(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those among some names, say of a link, that mean a layer of one's own which is not registered here."""
        return tuple(name for name in names if is_layer(name) and name not in self.specs)


def parse(arguments: Sequence[str]) -> Layers:
    """The layers that the program's arguments name; a bad one costs itself and nothing else."""
    specs: dict[LayerFile, str] = {}
    complaints: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        option, has_value, value = word.partition("=")
        if option != OPTION:
            complaints.append(f"{word!r} is no argument of this page; it takes {OPTION} {EXAMPLE}")
            continue
        if not has_value:
            value = rest.pop(0) if rest else ""
        try:
            found = find_layer(value)
        except GridError as error:
            complaints.append(f"{OPTION}: {error}")
        else:
            specs.setdefault(found, value)
    return Layers(specs=tuple(specs.values()), complaints=tuple(complaints))


def stamp(contender: str) -> tuple[tuple[int, int], ...]:
    """Changes when the file of one's own layer does, or one that it imports; never for a built-in contender."""
    try:
        files = source_files(find_layer(contender).path) if is_layer(contender) else []
        return tuple((found.st_mtime_ns, found.st_size) for found in (file.stat() for file in files))
    except (GridError, OSError):
        return ()
