from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from real_faults import do_without

from profiling import environment
from profiling.cli import main
from profiling.environment import (
    commit,
    cpu_name,
    host_environment,
    nvidia_driver,
    os_name,
    own_version,
    speed_variables,
    usable_threads,
)
from profiling.memory_estimate import free_memory_mib
from profiling.runs import own_start, read_run
from profiling.table import load_measurements


def test_the_environment_names_the_machine_and_the_python() -> None:
    told = host_environment()
    assert told["python_version"] == platform.python_version()
    assert isinstance(told["memory_mib"], int)
    assert told["memory_mib"] > 100
    assert isinstance(told["num_threads"], int)
    assert told["cpu_name"] == cpu_name() != ""
    assert told["os"] == os_name() != ""
    assert told["mha_bench_version"] == own_version()


def test_the_environment_is_json_and_names_neither_host_nor_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.platform, "node", lambda: "host-of-a-person")
    monkeypatch.setenv("TORCH_HOME", "/home/a-person/.cache")
    monkeypatch.setenv("USER", "a-person")
    text = json.dumps(host_environment())
    assert "a-person" not in text
    assert str(environment.ROOT) not in text


def test_variables_that_change_speed_are_kept_with_their_values_and_others_are_not() -> None:
    planted = {
        "OMP_NUM_THREADS": "3",
        "KMP_AFFINITY": "granularity=fine,compact,1,0",
        "MKL_NUM_THREADS": "5",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "CUDA_VISIBLE_DEVICES": "0,2",
        "NVIDIA_TF32_OVERRIDE": "0",
        "MALLOC_ARENA_MAX": "7",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }
    others = {"USER": "a-person", "HOME": "/home/a-person", "MY_OMP_NUM_THREADS": "11", "OMP_": "x", "PATH": "/bin"}
    assert speed_variables(planted | others) == dict(sorted(planted.items()))


@pytest.mark.parametrize("value", ["/home/a-person/cache", "C:\\Users\\a-person", "~/cache", "a-person@host"])
def test_of_a_variable_with_a_path_only_that_it_is_set_is_kept(value: str) -> None:
    assert speed_variables({"TORCHINDUCTOR_CACHE_DIR": value}) == {"TORCHINDUCTOR_CACHE_DIR": "(a path)"}


@pytest.mark.parametrize("name", ["TORCH_HUB_TOKEN", "CUDA_API_KEY", "MKL_SECRET_X", "KMP_PASSWORD"])
def test_a_variable_that_sounds_like_a_secret_is_left_out(name: str) -> None:
    assert speed_variables({name: "7", "OMP_NUM_THREADS": "3"}) == {"OMP_NUM_THREADS": "3"}


def test_libraries_put_before_all_others_are_kept_by_name_without_their_folders() -> None:
    planted = {"LD_PRELOAD": "/home/a-person/lib/libjemalloc.so.2:libother.so /opt/x/libiomp5.so"}
    assert speed_variables(planted) == {"LD_PRELOAD": "libjemalloc.so.2 libother.so libiomp5.so"}
    assert speed_variables({"LD_PRELOAD": ""}) == {}


def test_a_variable_without_end_is_cut() -> None:
    assert speed_variables({"OMP_PLACES": "3" * 5000}) == {"OMP_PLACES": "3" * 200}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n", "535.104.05"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version: 12.2.0\n",
            "570.86.15",
        ),
        ("GCC version:  gcc version 12.2.0 (Debian)\n", None),
        ("", None),
    ],
)
def test_nvidias_driver_is_read_off_the_kernels_own_words(tmp_path: Path, text: str, version: str | None) -> None:
    (tmp_path / "version").write_text(text, encoding="utf-8")
    assert nvidia_driver(tmp_path / "version") == version


def test_without_nvidias_driver_there_is_none(tmp_path: Path) -> None:
    assert nvidia_driver(tmp_path / "none") is None


def test_the_system_is_named_even_where_it_does_not_name_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> dict[str, str]:
        raise OSError("planted")

    monkeypatch.setattr(environment.platform, "system", lambda: "Plan9")
    monkeypatch.setattr(environment.platform, "version", lambda: "7")
    monkeypatch.setattr(environment.platform, "freedesktop_os_release", nameless)
    assert os_name() == "Plan9 7"
    monkeypatch.setattr(environment.platform, "freedesktop_os_release", lambda: {"PRETTY_NAME": "Made-up Linux 3"})
    assert os_name() == "Made-up Linux 3"
    monkeypatch.setattr(environment.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(environment.platform, "mac_ver", lambda: ("15.3", ("", "", ""), "arm64"))
    assert os_name() == "macOS 15.3"


def test_a_system_without_affinity_tells_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda _: {2, 3, 7}, raising=False)
    assert usable_threads() == 3
    monkeypatch.delattr(environment.os, "sched_getaffinity")
    assert usable_threads() is None


def test_a_folder_that_nobody_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise environment.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(environment.importlib.metadata, "version", unknown)
    assert own_version() is None


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_the_commit_says_whether_files_differ_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    assert commit() is None, "no repository"
    git(tmp_path, "init", "-q")
    assert commit() is None, "no commit yet"
    (tmp_path / "file").write_text("one", encoding="utf-8")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    clean = commit()
    assert clean is not None
    assert len(clean) == 12
    (tmp_path / "new").write_text("untracked", encoding="utf-8")
    assert commit() == clean
    (tmp_path / "file").write_text("two", encoding="utf-8")
    assert commit() == clean + "-dirty"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit() is None


# -- a machine that lacks much, for real ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """No git and no compiler on the path, a home that cannot be written, a proxy that reaches nothing, plain ASCII."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "home").mkdir(mode=0o555)
    return {
        "PATH": "",
        # Root may write anywhere but into a folder that cannot be.
        "HOME": str(folder / "home") if os.getuid() else "/proc/nowhere",
        "LANG": "C",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "TMPDIR": str(folder),
        "MHA_BENCH_RESULTS": str(folder / "results"),
    }


def run(environment: dict[str, str], *arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    program = ["-c", code] if code else ["-m", "profiling"]
    # The processor's first core alone, where that can be asked for.
    one_core = (lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})) if sys.platform == "linux" else None
    return subprocess.run(
        [sys.executable, *program, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=120,
        check=False,
        env=environment,
        preexec_fn=one_core,
    )


@pytest.mark.soak
def test_a_sweep_needs_neither_git_nor_a_home_nor_a_second_core(bare: dict[str, str]) -> None:
    point = ["--batch-size", "3", "--seq-len", "5", "--num-heads", "2", "--d-model", "14", "--device", "cpu"]
    how = ["--contenders", "custom,compiled:custom", "--time-budget", "0.02", "--quiet-wait", "0"]
    done = run(bare, "sweep", *point, *how)
    assert (done.returncode, done.stderr) == (0, "")
    (folder,) = Path(bare["MHA_BENCH_RESULTS"]).iterdir()
    found = read_run(folder)
    assert (found.state, found.threads, found.environment["commit"]) == ("finished", 1, None)
    status = {row["contender"]: row["status"] for row in load_measurements(folder).to_dict("records")}
    assert status == {"custom": "ok", "compiled:custom": "unavailable", "official": "ok"}
    left = {path.name for path in Path(bare["TMPDIR"]).iterdir()}
    assert left == {"home", "results", f"mha-bench-{os.getuid()}"}, "nothing is left but locks"


def test_a_check_needs_none_of_them_either(bare: dict[str, str]) -> None:
    done = run(bare, "check", "--d-model", "14", "--num-heads", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("PASS  custom\n")


@pytest.mark.soak
def test_the_page_is_drawn_without_them_too(bare: dict[str, str]) -> None:
    code = (
        "from streamlit.testing.v1 import AppTest\n"
        f"app = AppTest.from_file({str(environment.ROOT / 'dashboard' / 'app.py')!r}, default_timeout=60).run()\n"
        "assert not app.exception, app.exception\n"
        "assert not app.button(key='run_sweep').disabled\n"
    )
    done = run(bare, code=code)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_nobody_installed_still_says_which_program_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "own_version", lambda: None)
    done = CliRunner().invoke(main, ["--version"])
    assert (done.exit_code, done.stdout) == (0, "mha-bench, version unknown: nobody has installed this folder\n")


def test_a_system_whose_counters_cannot_be_read_is_told_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(*_: object, **__: object) -> int:
        raise FileNotFoundError(2, "No such file or directory", "/proc/meminfo")

    for name in ("virtual_memory", "cpu_count", "Process"):
        monkeypatch.setattr(psutil, name, hidden)
    told = host_environment()
    assert (told["memory_mib"], told["num_cores"], told["num_threads"]) == (None, None, None)
    assert told["python_version"] == platform.python_version()
    assert own_start() == 0.0
    monkeypatch.setattr("profiling.memory_estimate.memory_room_mib", lambda: None)
    assert free_memory_mib() is None
    monkeypatch.setattr("profiling.memory_estimate.memory_room_mib", lambda: 7.0)
    assert free_memory_mib() == 7.0


@pytest.mark.soak
def test_a_sweep_runs_where_the_system_hides_its_counters(tmp_path: Path) -> None:
    hide = ["unshare", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*hide, "mount -t tmpfs none /proc"], check=False).returncode:
        do_without("nothing can be mounted here; the twin above runs everywhere")
    point = "--batch-size 3 --seq-len 5 --num-heads 2 --d-model 14 --device cpu --contenders official"
    sweep = f"{sys.executable} -m profiling sweep {point} --time-budget 0.02 --out {tmp_path / 'run'}"
    done = subprocess.run(
        [*hide, f"mount -t tmpfs none /proc && {sweep}"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert load_measurements(tmp_path / "run")["status"].tolist() == ["ok"]
