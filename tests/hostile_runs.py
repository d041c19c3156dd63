"""A run in which every text tries to be more than text: markup of every language that stands behind the page."""

from __future__ import annotations

import json
from pathlib import Path

from dashboard_samples import make_run

from profiling.runs import RUN_FILE
from profiling.settings import SweepSettings
from profiling.workload import Grid

# Nothing of it may be fetched, run or taken for markup; `ELSEWHERE` is a host that no test may ask for anything.
ELSEWHERE = "elsewhere.example"
HOSTILE = (
    f"<img src=http://{ELSEWHERE}/i.png onerror=window.hit=1>",
    f"<script>window.hit=2;fetch('http://{ELSEWHERE}/s')</script>",
    f"<b>bold</b><a href='http://{ELSEWHERE}/a'>there</a><br>&lt;i&gt;",
    f"![i](http://{ELSEWHERE}/m.png) [a](javascript:window.hit=3) <http://{ELSEWHERE}/auto>",
    "$$x^2$$ $y$ \\(z\\) ${window.hit=4} %{y} {{x}}",
    ":material/delete: :red[alarm] :smile: :streamlit: :blue-badge[b] ~~gone~~ **strong** `code` ``two``",
    "# title\n\n- list\n\n    indented | cell | cell\n|---|---|\n> quote\n====\n1. one",
    "reads \u202eback\u2066wards\u2069 \x07\x00 \u200b",
    "=HYPERLINK(1) -> <- -- &amp; &#x3c;i&#x3e;",
    "long" * 2_500,
)
ALL = " ".join(HOSTILE)


def hostile_run(folder: Path) -> None:
    """Writes a run whose names, reasons, warnings and environment are hostile; every point but two is measured."""
    grid = Grid(batch_size=(2,), seq_len=(5, 7, 11), num_heads=(1, 3), d_model=15, device="cpu")
    # Layers whose files are called so: a file's name is a line of printable letters. Two share a name, so that both
    # are told by their files.
    own = tuple(f"{_file_name(text)}:{name}" for text, name in zip(HOSTILE, "ABCDAAAEFG", strict=True))
    settings = SweepSettings(contenders=("custom", *own), layers={each: f"/somewhere/{each}" for each in own})
    text = dict.fromkeys(("warnings", "kernel", "stop_reason", "fast_path_reason", "source_hash", "measured_at"), ALL)
    changes = {(point, name): text for point in range(1, 5) for name in settings.contenders}
    changes |= {(2, own[0]): {**text, "check_verdict": ALL}}
    changes |= {(5, name): {"status": "error", "status_reason": ALL} for name in settings.contenders}
    changes |= {(6, name): {"status": "oom", "status_reason": each} for name, each in zip(own, HOSTILE, strict=False)}
    environment = dict.fromkeys(("torch_version", "device_name", "python_version", "platform", "commit", "blas"), ALL)
    make_run(
        folder,
        grid=grid,
        settings=settings,
        changes=changes,
        num_rounds=7,
        state="stopped",
        state_reason=ALL,
        environment=environment,
        sources=dict.fromkeys(own, ALL),
    )
    # What no program of ours writes, an editor may.
    path = folder / RUN_FILE
    values = json.loads(path.read_text(encoding="utf-8"))
    values["progress"]["label"] = ALL
    values["environment"]["device_name"] = "half a letter \ud83d, " + ALL
    path.write_text(json.dumps(values), encoding="utf-8")


def _file_name(text: str) -> str:
    line = " ".join("".join(letter for letter in text if letter.isprintable() or letter.isspace()).split())
    return line.encode()[:300].decode(errors="ignore").strip() + ".py"
