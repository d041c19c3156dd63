from __future__ import annotations

from pathlib import Path

import pytest
from own_layers import write_layer

from profiling.layers import LayerFile, find_layer, is_layer, package_root, source_files, source_hash, split_layer
from profiling.workload import GridError


@pytest.mark.parametrize(
    ("text", "path", "name"),
    [
        ("mine.py:Mine", "mine.py", "Mine"),
        ("a folder/mine.py:Outer.Inner", "a folder/mine.py", "Outer.Inner"),
        ("C:\\code\\mine.py:Mine", "C:\\code\\mine.py", "Mine"),
        ("odd:name.PY:make", "odd:name.PY", "make"),
        ("compiled:mine.py:Mine", "mine.py", "Mine"),
        ("compiled:C:\\code\\mine.py:Outer.Inner", "C:\\code\\mine.py", "Outer.Inner"),
    ],
)
def test_the_last_colon_separates_file_and_name(text: str, path: str, name: str) -> None:
    assert split_layer(text) == (path, name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mine.py", "a layer needs a name in its file, as in my_attention.py:MyAttention: write mine.py:NAME, not"),
        ("mine.py:", "write mine.py:NAME, not 'mine.py:'"),
        ("C:\\code\\mine.py", "write C:\\code\\mine.py:NAME, not"),
        ("mine.txt:Mine", "a layer must be a Python file and a name in it"),
        ("package.mine:Mine", "a layer must be a Python file and a name in it"),
        ("mine.py:2nd", "'2nd' in 'mine.py:2nd' cannot be the name of a class"),
        ("mine.py:Mine()", "'Mine()' in 'mine.py:Mine()' cannot be the name of a class"),
        ("mine.py:class", "'class' in 'mine.py:class' cannot be the name"),
        ("mine.py:A..B", "cannot be the name of a class"),
        ("mi\nne.py:Mine", "without line breaks or runs of blanks"),
        ("mi  ne.py:Mine", "without line breaks or runs of blanks"),
        ("mi\udc80ne.py:Mine", "must be plain text"),
    ],
)
def test_what_names_no_layer_is_refused_in_a_sentence(text: str, words: str) -> None:
    with pytest.raises(GridError) as caught:
        split_layer(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *[("custom", False), ("official-fused", False), ("mine", False), ("compiled:custom", False)],
        *[("mine.py", True), ("a/b", True), ("a:b", True), ("compiled:mine.py:Mine", True), ("compiled:a/b", True)],
        *[("compiled:", False), ("compiled:compiled:custom", False), ("compiled:compiled:mine.py:Mine", False)],
    ],
)
def test_a_layer_of_ones_own_is_told_from_a_name_of_ours(name: str, is_one: bool) -> None:
    assert is_layer(name) == is_one


def test_a_relative_path_starts_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_layer(tmp_path / "sub")
    monkeypatch.chdir(tmp_path)
    assert find_layer("sub/../sub/mine.py:Right") == LayerFile(path, "Right")
    monkeypatch.chdir("/")
    assert find_layer(f"{path}:Right").spec == f"{path}:Right"
    assert find_layer(f"compiled:{path}:Right").spec == f"{path}:Right"
    with pytest.raises(GridError, match=r"^there is no file mine\.py in /$"):
        find_layer("mine.py:Right")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "odd.py").mkdir()
    with pytest.raises(GridError, match="there is no file"):
        find_layer(f"{tmp_path}/odd.py:X")


def test_a_name_too_long_for_the_marker_is_refused(tmp_path: Path) -> None:
    path = write_layer(tmp_path / ("x" * 200) / ("y" * 200))
    with pytest.raises(GridError, match="must be at most 400 bytes long, give a relative one"):
        find_layer(f"{path}:Right")


def test_the_spec_of_a_layer_survives_any_folder(tmp_path: Path) -> None:
    file = LayerFile(tmp_path / "two  blanks" / "mine.py", "Outer.Inner")
    assert LayerFile.from_spec(file.spec) == file


# -- the hash of a source ---------------------------------------------------------------------------------------------


def test_the_hash_is_that_of_the_text_not_of_the_place(tmp_path: Path) -> None:
    first, second = write_layer(tmp_path / "a"), write_layer(tmp_path / "b")
    assert source_hash(first) == source_hash(second)
    write_layer(tmp_path / "b", text="x = 1")
    assert source_hash(first) != source_hash(second)


def test_the_hash_covers_what_the_file_imports_from_its_folder_directly_or_not(tmp_path: Path) -> None:
    text = "import os, torch, near\nfrom parts import deep\ndef late():\n    import lazy\n"
    mine = write_layer(tmp_path, text=text)
    for name, its in (("near.py", "import far"), ("far.py", "import near"), ("lazy.py", ""), ("other.py", "")):
        write_layer(tmp_path, name, its)
    for name in ("__init__.py", "deep.py", "unused.py"):
        write_layer(tmp_path / "parts", name, "")
    assert source_files(mine) == [
        mine,
        *(tmp_path / name for name in ("far.py", "lazy.py", "near.py", "parts/__init__.py", "parts/deep.py")),
    ]
    before = source_hash(mine)
    write_layer(tmp_path, "other.py", "# not imported")
    assert source_hash(mine) == before
    write_layer(tmp_path, "far.py", "import near  # edited")
    assert source_hash(mine) != before


def test_a_file_in_a_package_is_hashed_with_what_it_imports_relatively(tmp_path: Path) -> None:
    for folder in (tmp_path / "pkg", tmp_path / "pkg" / "sub"):
        write_layer(folder, "__init__.py", "")
    mine = write_layer(
        tmp_path / "pkg" / "sub", text="from . import near\nfrom ..far import thing\nimport pkg.absolute"
    )
    near = write_layer(tmp_path / "pkg" / "sub", "near.py", "")
    far = write_layer(tmp_path / "pkg", "far.py", "")
    absolute = write_layer(tmp_path / "pkg", "absolute.py", "")
    assert package_root(mine) == tmp_path
    assert {near, far, absolute} <= set(source_files(mine))


def test_installed_packages_are_no_part_of_the_source(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    mine = write_layer(folder, text="import near")
    write_layer(folder, "near.py", "")
    assert source_files(mine) == [mine]


@pytest.mark.parametrize("text", ["def broken(:", "x = '\0'", "from ....... import above"])
def test_a_source_that_is_no_python_has_a_hash_all_the_same(tmp_path: Path, text: str) -> None:
    assert len(source_hash(write_layer(tmp_path, text=text))) == 16


def test_a_source_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(GridError, match=r"none\.py cannot be read: No such file"):
        source_hash(tmp_path / "none.py")
