"""What to take away from a check or a profile: the test that guards a layer, and the command that repeats it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from profiling.charts.names import file_of, name_of
from profiling.layers import is_layer
from profiling.settings import OFFICIAL
from profiling.workload import Workload

BUILT_IN_CLASSES = {"custom": "MultiHeadAttention", "custom-fused": "FusedMultiHeadAttention"}
# What `check` and `check_consistency` take when they are told nothing.
_DEFAULTS = {"batch_size": 2, "seq_len": 8, "dtype": "float32", "device": "cpu"}
_LINE_LENGTH = 100


def pytest_source(contender: str, workload: Workload, *, batch_first: bool = True) -> str:
    """A whole test file that fails where the layer no longer passes the check at this shape."""
    layer = name_of(contender) if is_layer(contender) else BUILT_IN_CLASSES[contender]
    arguments = [f"d_model={workload.d_model}", f"num_heads={workload.num_heads}"]
    for name in ("batch_size", "seq_len"):
        if getattr(workload, name) != _DEFAULTS[name]:
            arguments.append(f"{name}={getattr(workload, name)}")
    if workload.dtype != _DEFAULTS["dtype"]:
        arguments.append(f"dtype=torch.{workload.dtype}")
    if workload.causal:
        arguments.append("causal=True")
    if workload.device != _DEFAULTS["device"]:
        arguments.append(f'device="{workload.device}"')
    if not batch_first:
        arguments.append("batch_first=False")
    test = f"def test_{_snake_case(layer)}_is_right():\n{_call(layer, arguments)}"
    return "\n\n\n".join([_imports(contender, layer, needs_torch=workload.dtype != _DEFAULTS["dtype"]), test])


def check_arguments(contender: str, workload: Workload, *, batch_first: bool = True) -> list[str]:
    """The command line that makes this check, after `python -m profiling`."""
    words = ["check", contender, "--d-model", str(workload.d_model), "--num-heads", str(workload.num_heads)]
    for name in ("batch_size", "seq_len", "dtype"):
        if getattr(workload, name) != _DEFAULTS[name]:
            words += [f"--{name.replace('_', '-')}", str(getattr(workload, name))]
    if workload.causal:
        words.append("--causal")
    if workload.device != _DEFAULTS["device"]:
        words += ["--device", workload.device]
    if not batch_first:
        words.append("--no-batch-first")
    return words


def profile_arguments(
    workload: Workload, contenders: Sequence[str], *, reference: str, heap: str, threads: int | None
) -> list[str]:
    """The command line that profiles two contenders, after `python -m profiling`.

    Args:
        workload: at which point.
        contenders: the two; a layer of one's own beside its reference need not name that.
        reference: what layers of one's own are compared with.
        heap: as in a sweep.
        threads: of the workload; None leaves them to torch.
    """
    own = [name for name in contenders if is_layer(name)]
    others = [name for name in contenders if not is_layer(name)]
    stands_alone = len(own) == 1 and others == [reference]
    words = ["profile"]
    if others and not stands_alone:
        words += ["--contenders", ",".join(others)]
    for name in own:
        words += ["--contender", name]
    if own and reference != OFFICIAL[0]:
        words += ["--reference", reference]
    for name in ("batch_size", "seq_len", "num_heads", "d_model"):
        words += [f"--{name.replace('_', '-')}", str(getattr(workload, name))]
    words += ["--dtype", workload.dtype, "--mode", workload.mode]
    for name in ("bias", "causal"):
        words += [f"--{name}", "yes"] if getattr(workload, name) else []
    words += ["--device", workload.device, *([] if threads is None else ["--threads", str(threads)])]
    return [*words, "--seed", str(workload.seed), "--heap", heap]


def command(arguments: Sequence[str]) -> str:
    """A command line to copy into a shell."""
    return shlex.join(["python", "-m", "profiling", *arguments])


def _imports(contender: str, layer: str, *, needs_torch: bool) -> str:
    torch = "import torch\n" if needs_torch else ""
    if not is_layer(contender):
        return f"{torch}from mha import {layer}, check_consistency"
    ours = f"{torch}from mha import check_consistency"
    path, outer = file_of(contender), layer.partition(".")[0]
    module = Path(path).stem
    if module.isidentifier():
        return f"{ours}\nfrom {module} import {outer}"
    # A file that no import statement can name.
    return f'import runpy\n\n{ours}\n\n{outer} = runpy.run_path({path!r})["{outer}"]'


def _call(layer: str, arguments: list[str]) -> str:
    line = f"    check_consistency({', '.join([layer, *arguments])}).raise_for_verdict()"
    if len(line) <= _LINE_LENGTH:
        return line
    inner = "".join(f"        {argument},\n" for argument in [layer, *arguments])
    return f"    check_consistency(\n{inner}    ).raise_for_verdict()"


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|\.", "_", name).lower()
