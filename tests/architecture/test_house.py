"""Keeps the house in order: reachable modules, no circles, short files, plain docstrings, short walks."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "lakerunner_assets", "lakerunner_query", "lakerunner_ingress", "lakerunner_sampling", "lakerunner_cli",
    "resources", "sensors",
    "migrations",
)  # fmt: skip
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
SOURCES = {str(path.relative_to(ROOT)): path.read_text() for path in FILES}
TREES = {name: ast.parse(text) for name, text in SOURCES.items()}
MODULES = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in SOURCES}
ENTRIES = {
    "lakerunner_cli.main", "lakerunner_assets.definitions", "lakerunner_assets.warmup",
    "lakerunner_assets.cooked.child", "lakerunner_query.warmup", "lakerunner_query.app",
    "lakerunner_query.worker_app", "lakerunner_query.worker_reader", "lakerunner_ingress.app",
}  # fmt: skip
"""Modules that are started by name."""
ONLY_FOR_TESTS = "resources/index/memory/"
"""The index without a database, held to the same contract as the real one."""
LONGEST_FILE, LONGEST_FUNCTION, SHORTEST_FILE = 450, 60, 40
WORDS_OF_A_FIRST_SENTENCE = 15
NO_SUBJECT = re.compile(r"(Of|What|Whether|How|Which|Where|Whose|Who|Why|When)\b")
WALKS = {"PromQL": 87, "LogQL": 81, "cooking": 63}


def imported(name: str, *, only_top: bool = False) -> set[str]:
    """Modules of ours that a file imports."""
    nodes = TREES[name].body if only_top else ast.walk(TREES[name])
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {MODULES[one] for one in found if one in MODULES} - {name}


def docstrings() -> Iterator[tuple[str, str]]:
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                yield f"{name}:{getattr(node, 'name', '')}", text


def test_every_module_is_reachable() -> None:
    text = "\n".join([*SOURCES.values(), (ROOT / "Makefile").read_text()])
    started = {name for module, name in MODULES.items() if module in ENTRIES}
    # commands of the CLI are imported by name
    waiting = [*started, *(name for name in SOURCES if name.startswith("lakerunner_cli/commands/"))]
    seen: set[str] = set(waiting)
    while waiting:
        for one in imported(waiting.pop()) - seen:
            seen.add(one)
            waiting.append(one)
    named = {name for module, name in MODULES.items() if f'"{module}"' in text}
    lost = [name for name in SOURCES if name not in seen | named and not name.endswith("__init__.py")]
    assert not [name for name in lost if not name.startswith(ONLY_FOR_TESTS)]


def test_modules_do_not_import_each_other_in_circles() -> None:
    edges = {name: imported(name, only_top=True) for name in SOURCES}
    while True:
        leaves = {name for name, targets in edges.items() if not targets & edges.keys()}
        if not leaves:
            break
        edges = {name: targets for name, targets in edges.items() if name not in leaves}
    assert not edges, f"in or behind a circle: {sorted(edges)}"


def test_no_file_is_longer_than_a_thought() -> None:
    lines = {name: text.count("\n") for name, text in SOURCES.items()}
    assert not {name: count for name, count in lines.items() if count > LONGEST_FILE}


def test_no_function_is_longer_than_a_screen() -> None:
    found = [
        f"{name}:{node.name} {node.end_lineno - node.lineno + 1}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert not found


def test_small_files_do_not_live_beside_their_only_reader() -> None:
    readers: dict[str, set[str]] = {name: set() for name in SOURCES}
    for name in SOURCES:
        for target in imported(name):
            readers[target].add(name)
    lone = [
        name
        for name, text in SOURCES.items()
        if text.count("\n") < SHORTEST_FILE
        and not name.endswith("__init__.py")
        and len(readers[name]) == 1
        and Path(next(iter(readers[name]))).parent == Path(name).parent
    ]
    assert not lone


def test_docstrings_begin_with_a_subject_or_a_verb() -> None:
    assert not [where for where, text in docstrings() if NO_SUBJECT.match(text)]


def test_modules_say_what_they_do_in_one_short_sentence() -> None:
    firsts = {
        name: re.split(r"[.:;](?:\s|$)", text, maxsplit=1)[0]
        for name, tree in TREES.items()
        if (text := ast.get_docstring(tree))
    }
    long = {name: first for name, first in firsts.items() if len(first.split()) > WORDS_OF_A_FIRST_SENTENCE}
    assert not long


def _walks() -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.architecture.walks", "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    assert counts.keys() == WALKS.keys()
    return counts


@pytest.mark.slow
def test_a_request_walks_through_few_modules() -> None:
    """The hook also sees what runs beside a slow request, such as pings: the shortest walk counts."""
    shortest = _walks()
    for _ in range(2):
        if all(count <= WALKS[name] for name, count in shortest.items()):
            return
        again = _walks()
        shortest = {name: min(count, again[name]) for name, count in shortest.items()}
    assert not {name: count for name, count in shortest.items() if count > WALKS[name]}
