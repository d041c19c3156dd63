from __future__ import annotations

from pathlib import Path

import pytest
import torch

from profiling.child_process import PINNED_HEAP, MeasuringChild, can_pin_heap
from profiling.measuring import torch_environment as module
from profiling.measuring.torch_environment import (
    accelerator_blas,
    allocator,
    cpu_blas,
    cuda_facts,
    is_heap_pinned,
    onednn_version,
    openmp_version,
    told,
    torch_environment,
)

CONFIG = """PyTorch built with:
  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64 architecture applications
  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80afa71049cd69a3df32adcccb623b12cd7baa22)
  - OpenMP 201511 (a.k.a. OpenMP 4.5)
  - CPU capability usage: AVX512
  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release, LAPACK_INFO=mkl, TORCH_VERSION=2.13.0, USE_MKL=ON,
"""
ON_ARM = "  - Build settings: BLAS_INFO=open, BUILD_TYPE=Release, LAPACK_INFO=open,\n"


def test_the_libraries_behind_products_are_read_off_torchs_build() -> None:
    assert cpu_blas(CONFIG, "AVX512") == "MKL 2024.2, oneDNN 3.12.0, AVX512"
    assert onednn_version(CONFIG) == "3.12.0"
    assert openmp_version(CONFIG) == "4.5"


@pytest.mark.parametrize(
    ("config", "capability", "text"),
    [
        (ON_ARM, "DEFAULT", "OpenBLAS, DEFAULT"),
        ("BLAS_INFO=accelerate,", None, "Accelerate"),
        ("BLAS_INFO=nvpl, Math Kernel Library Version 1.2", None, "nvpl"),
        ("BLAS_INFO=mkl,", None, "MKL"),
        ("", "AVX2", "AVX2"),
        ("", None, None),
    ],
)
def test_a_build_that_tells_less_is_told_with_less(config: str, capability: str | None, text: str | None) -> None:
    assert cpu_blas(config, capability) == text
    assert onednn_version(config) is None
    assert openmp_version(config) is None


def test_torch_here_tells_what_it_computes_with() -> None:
    facts = torch_environment("cpu")
    assert facts["torch_interop_threads"] == torch.get_num_interop_threads()
    assert facts["cpu_capability"] == torch.backends.cpu.get_cpu_capability()
    assert facts["cpu_capability"] in facts["blas"]
    assert facts["matmul_precision"] in ("highest", "high", "medium")
    assert facts["torch_commit"] == torch.version.git_version[:12]
    assert (facts["cudnn_version"], facts["compute_capability"]) == (None, None)


def test_settings_that_change_the_numbers_are_told_as_they_are() -> None:
    torch.set_float32_matmul_precision("medium")
    torch.use_deterministic_algorithms(True)
    try:
        facts = torch_environment("cpu")
        assert (facts["matmul_precision"], facts["deterministic"]) == ("medium", True)
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)
    assert torch_environment("cpu")["deterministic"] is False


@pytest.mark.parametrize("error", [AttributeError, AssertionError, RuntimeError, NotImplementedError])
def test_what_torch_refuses_to_tell_is_none(error: type[Exception]) -> None:
    def refuse() -> None:
        raise error("planted")

    assert told(refuse) is None
    assert told(lambda: 7) == 7


def test_a_bug_in_asking_is_not_taken_for_a_refusal() -> None:
    with pytest.raises(ZeroDivisionError):
        told(lambda: 1 / 0)


def test_cuda_tells_its_versions_and_the_devices_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.9")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: {"cuda:1": (9, 0)}[device])
    assert cuda_facts("cuda:1") == {
        "cuda_version": "12.9",
        "hip_version": torch.version.hip,
        "cudnn_version": 91002,
        "compute_capability": "9.0",
    }
    assert accelerator_blas("cuda:1") == "cuBLAS, CUDA 12.9"
    assert torch_environment("cuda:1")["blas"] == "cuBLAS, CUDA 12.9"
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert accelerator_blas("cuda:1") == "hipBLAS, ROCm 6.2"
    assert accelerator_blas("mps") == "Metal Performance Shaders"
    assert accelerator_blas("xpu:0") is None


def test_a_cuda_that_is_not_there_tells_nothing_and_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(torch.cuda, "get_device_capability", refuse)
    assert cuda_facts("cuda:0")["compute_capability"] is None


MAPS = "7f00-7f01 r-xp 00000000 08:01 17  /usr/lib/x86_64-linux-gnu/libc.so.6\n7f02-7f03 r-xp 0 0:0 19  {}\n"


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("/usr/lib/libjemalloc.so.2", "jemalloc"),
        ("/opt/lib/libtcmalloc_minimal.so.4", "tcmalloc"),
        ("/opt/lib/libmimalloc.so.2.1", "mimalloc"),
    ],
)
def test_an_allocator_put_before_libcs_is_found_among_the_loaded_libraries(
    tmp_path: Path, library: str, name: str
) -> None:
    (tmp_path / "maps").write_text(MAPS.format(library), encoding="utf-8")
    assert allocator(tmp_path / "maps") == name
    assert not is_heap_pinned(PINNED_HEAP, name)


@pytest.mark.parametrize("library", ["/usr/lib/libm.so.6", "/home/jemalloc/libm.so.6", "[heap]"])
def test_without_one_the_allocator_is_libcs(tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.platform, "libc_ver", lambda: ("glibc", "2.36"))
    (tmp_path / "maps").write_text(MAPS.format(library), encoding="utf-8")
    assert allocator(tmp_path / "maps") == "glibc 2.36"
    monkeypatch.setattr(module.platform, "libc_ver", lambda: ("", ""))
    assert allocator(tmp_path / "none") is None


def test_a_heap_is_pinned_only_where_all_of_it_is_asked_for_and_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "can_pin_heap", lambda: True)
    assert is_heap_pinned(PINNED_HEAP, "glibc 2.36")
    assert not is_heap_pinned(PINNED_HEAP | {"MALLOC_MMAP_MAX_": "7"}, "glibc 2.36")
    assert not is_heap_pinned({}, "glibc 2.36")
    assert not is_heap_pinned(PINNED_HEAP, None)
    monkeypatch.setattr(module, "can_pin_heap", lambda: False)
    assert not is_heap_pinned(PINNED_HEAP, "glibc 2.36")


@pytest.mark.parametrize("heap", ["pinned", "as-is"])
def test_a_measuring_child_tells_the_heap_that_it_really_has(heap: str) -> None:
    with MeasuringChild(heap=heap) as child:
        answer = child.ask({"request": "environment", "device": "cpu"}, limit_s=120)
    assert answer["torch"]["heap_pinned"] is (heap == "pinned" and can_pin_heap())
