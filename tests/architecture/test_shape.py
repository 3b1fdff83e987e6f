"""What a reader may rely on: the tree in the README, one reader of the environment, small public surfaces."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "lakerunner_assets",
    "lakerunner_query",
    "lakerunner_ingress",
    "lakerunner_sampling",
    "lakerunner_cli",
    "resources",
    "sensors",
    "migrations",
)
MODULES = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_tree_in_the_readme_is_the_tree_on_disk() -> None:
    block = re.search(r"<!-- tree -->\n```\w*\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block, "README.md has no <!-- tree --> block"
    told = {line.split()[0].rstrip("/") for line in block.group(1).splitlines() if line.strip()}
    hidden = {".venv", ".git", ".lakerunner"}
    tracked = {line.split("/")[0] for line in _tracked()} - hidden
    folders_and_named = {name for name in tracked if (ROOT / name).is_dir() and not name.startswith(".")}
    assert folders_and_named <= told, f"not in the README's tree: {sorted(folders_and_named - told)}"
    missing = sorted(name for name in told if not (ROOT / name).exists())
    assert not missing, f"in the README's tree and not on disk: {missing}"


def _tracked() -> list[str]:
    import subprocess

    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_only_settings_reads_the_environment(path: Path) -> None:
    if short(path) == "resources/settings.py":
        return
    tree = ast.parse(path.read_text())
    reads = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in {("os", "environ"), ("os", "getenv"), ("os", "putenv")}
    ]
    reads += [
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "os"
    ]
    assert not reads, f"{short(path)} reads the environment at lines {reads}"


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{short(path)} has no docstring"


def test_no_package_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "helpers", "common", "manager", "base", "misc"}
    found = [short(path) for path in MODULES if drawers & set(path.with_suffix("").parts[len(ROOT.parts) :])]
    assert not found
