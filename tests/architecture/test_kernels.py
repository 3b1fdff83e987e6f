"""Kernels stand in modules of their own, so that an edit recompiles only the kernels that depend on it."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources import kernel_cache

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("lakerunner_assets", "lakerunner_query", "resources")
ROOMS = ("lakerunner_query/logql/kernels",)
"""Folders of kernels alone; elsewhere kernels stand in files named `*_kernels.py`."""
SHARED = {"resources/arrays.py", "resources/kernel.py"}
CONSTANTS = {"lakerunner_query/windows/functions.py"}
"""Modules of constants and types that kernels share."""
DECORATORS = {"kernel", "scanner", "inlined"}


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _kernels_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            names = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
            if names & DECORATORS:
                yield node.name


SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
KERNEL_MODULES = [path for path in SOURCES if any(_kernels_in(path))]


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _is_named_as_kernels(path: str) -> bool:
    return path.endswith("_kernels.py") or str(Path(path).parent) in ROOMS


@pytest.mark.parametrize("path", KERNEL_MODULES, ids=short)
def test_kernels_stand_in_modules_named_so(path: Path) -> None:
    assert _is_named_as_kernels(short(path)), list(_kernels_in(path))


@pytest.mark.parametrize("path", KERNEL_MODULES, ids=short)
def test_kernels_import_kernels_arrays_and_constants_alone(path: Path) -> None:
    sources = {short(each) for each in kernel_cache.closure(_module(path))}
    others = {each for each in sources - SHARED - CONSTANTS if not _is_named_as_kernels(each)}
    assert not others, "move what is needed of these into a kernel module or a list of constants"


@pytest.mark.parametrize("path", sorted(CONSTANTS))
def test_constants_import_nothing_of_ours(path: str) -> None:
    assert kernel_cache.closure(_module(ROOT / path)) == {ROOT / path}


def test_the_pattern_for_imports_finds_what_the_parser_finds() -> None:
    for path in SOURCES:
        found = set(kernel_cache._imported(path.read_text()))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
                assert {node.module, *(f"{node.module}.{each.name}" for each in node.names)} <= found, path
            elif isinstance(node, ast.Import):
                assert not any(each.name.split(".")[0] in PACKAGES for each in node.names), path


def test_an_edit_moves_only_the_kernels_that_depend_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = "lakerunner_query.windows.sums_kernels"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(kernel_cache, "_ROOT", tmp_path)
    modules = [_module(path) for path in KERNEL_MODULES]
    before = {module: kernel_cache.cache_folder(module) for module in modules}
    source = tmp_path.joinpath(*edited.split(".")).with_suffix(".py")
    source.write_text(source.read_text() + "\nEDITED = 1\n")
    kernel_cache._imports.cache_clear()
    moved = {module for module in modules if kernel_cache.cache_folder(module) != before[module]}
    dependents = {module for module in modules if source in kernel_cache.closure(module)}
    assert moved == dependents
    assert edited in moved
    assert len(moved) < len(modules) / 4


def test_other_edits_leave_everything_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(kernel_cache, "_ROOT", tmp_path)
    before = kernel_cache._mark()
    source = tmp_path / "lakerunner_query" / "windows" / "samples.py"
    source.write_text(source.read_text() + "\nEDITED = 1\n")
    kernel_cache._imports.cache_clear()
    assert kernel_cache._mark() == before
    source = tmp_path / "lakerunner_query" / "windows" / "sums_kernels.py"
    source.write_text(source.read_text() + "\nEDITED = 1\n")
    kernel_cache._imports.cache_clear()
    assert kernel_cache._mark() != before
