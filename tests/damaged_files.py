"""A good run, and what can befall its files: bytes, lines and cells that are cut, flipped, added, moved or repeated."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from made_up_runs import lost_row, make_row, make_run

from profiling.run_writer import RunWriter

FILES = ("run.json", "measurements.csv", "samples.csv")
# What damage, an editor or a spreadsheet puts where it should not be.
PIECES = (
    *(
        b'"',
        b'""',
        b",",
        b";",
        b"\n",
        b"\r\n",
        b"\r",
        b"\0",
        b"\t",
        b"\\",
        b"'",
        b"=",
        b"-",
        b".",
        b"\xff",
        b"\xed\xa0\x80",
    ),
    *(b"nan", b"inf", b"1e999", b"-1", b"0", b"9" * 30, b"9" * 5000, b"{", b"}", b"[", b"]", b":", b"true", b"null"),
    *(b"\xef\xbb\xbf", "\u202e".encode(), b"custom", b"official", b"ok", b"oom", b"1,5", b" ", b"x" * 3000),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.5, 10**18, 10**400, -(10**400), 1e308, 5e-324, float("nan"), float("inf")),
    *(
        "",
        "x" * 5000,
        "\ud800",
        "\0",
        "../..",
        "nonsense",
        "=1+1",
        "running",
        "2026-13-45",
        "0001-01-01",
        "auto",
        "cuda:0",
    ),
    *([], [[]], [None], ["custom"], [["custom"]], [10**400], {}, {"": None}, {"measured": 3}, [0] * 5000),
)


def good_run(folder: Path) -> Path:
    """Writes a run of two points, two contenders and two replicates, with samples; one of its rows has no numbers."""
    ceilings = {"matmul_gflop_per_s": {"float32": 97.0}, "copy_gb_per_s": 11.0, "measured": [{"measured_at": "then"}]}
    environment = {**make_run().environment, "ceilings": ceilings, "heap_pinned": True}
    writer = RunWriter(folder, make_run(environment=environment))
    for replicate in (1, 2):
        for point in (1, 2):
            place = {"replicate": replicate, "point": point}
            rows = [make_row("custom", **place, achieved_gflop_per_s=3.0), make_row("official", **place)]
            if place == {"replicate": 2, "point": 1}:
                rows[0] = lost_row("custom", "oom", "out of memory: 3 GiB asked for", **place)
            measured = [row["contender"] for row in rows if row["status"] == "ok"]
            writer.append_samples(
                {"run_id": "made-up", **place, "contender": name, "round": number, "latency_ms": 1.0 + number / 7}
                for name in measured
                for number in range(1, 6)
            )
            writer.append_measurements(rows)
    return folder


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes after a few accidents."""
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 40))
        match draw(st.sampled_from(["cut", "flip", "insert", "delete", "repeat", "replace"])):
            case "cut":
                data = data[:where]
            case "flip" if where < len(data):
                data = data[:where] + bytes([data[where] ^ 1 << draw(st.integers(0, 7))]) + data[where + 1 :]
            case "insert":
                data = data[:where] + draw(st.sampled_from(PIECES) | st.binary(max_size=5)) + data[where:]
            case "delete":
                data = data[:where] + data[where + length :]
            case "repeat":
                data = data[:where] + data[where : where + 10 * length] + data[where:]
            case _:
                data = data[:where] + draw(st.sampled_from(PIECES)) + data[where + length :]
    return data


@st.composite
def edited_json(draw: st.DrawFn, text: str) -> str:
    """The JSON text after someone has given a few of its fields other values, taken some away, and added one."""
    values = json.loads(text)
    for _ in range(draw(st.integers(1, 3))):
        holder: Any = values
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(holder[key], dict | list) and draw(st.booleans()):
                holder = holder[key]
                continue
            if draw(st.integers(0, 4)) == 0:
                del holder[key]
            else:
                holder[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
            break
        if isinstance(holder, dict) and draw(st.integers(0, 9)) == 0:
            holder["added"] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return json.dumps(values)


@st.composite
def edited_lines(draw: st.DrawFn, text: str) -> tuple[str, frozenset[int]]:
    """A table's text after accidents within a few of its lines, and which lines those are, from 0 for the header."""
    lines = text.splitlines()
    hit = draw(st.sets(st.integers(1, len(lines) - 1), min_size=1, max_size=3))
    for number in hit:
        line = lines[number].encode()
        if draw(st.booleans()):
            cells = lines[number].split(",")
            for _ in range(draw(st.integers(1, 3))):
                piece = draw(st.sampled_from(PIECES)).decode(errors="replace")
                cells[draw(st.integers(0, len(cells) - 1))] = piece
            line = ",".join(cells).encode()
        else:
            line = draw(damaged(line))
        lines[number] = line.replace(b"\n", b"").decode(errors="replace")
    return "\n".join(lines) + "\n", frozenset(hit)
