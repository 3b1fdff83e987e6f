"""Follows every recipe of `docs/develop` and sees that its toy works.

A block of Python begins with the step it shows: `# file: PATH, after: LINE` inserts below that line,
`# new file: PATH` makes one, and `# run` is what has to work in the end. Edited files lie beside the
product and are imported in place of its own, so that kernels come from the cache.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "develop").glob("add-*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(
    r"# (?:file: (?P<old>\S+), (?P<where>after|before|instead of): (?P<line>.*)|new file: (?P<new>\S+)|run)\n"
)
PATH = re.compile(r"`((?:lakerunner_\w+|resources|sensors|migrations|docs|tests)/[\w./*-]+)`")


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


def edited(page: Path) -> set[str]:
    """Files that the steps of a recipe touch."""
    steps = [STEP.match(block) for block in blocks(page)]
    return {step["old"] or step["new"] for step in steps if step and (step["old"] or step["new"])}


OVERLAY = """
import sys
from importlib.util import spec_from_file_location
from pathlib import Path

class Overlay:
    def find_spec(self, name, path, target=None):
        place = Path({folder!r}).joinpath(*name.split("."))
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                folders = [str(place), str(Path({root!r}).joinpath(*name.split(".")))]
                within = folders if file.name == "__init__.py" else None
                return spec_from_file_location(name, file, submodule_search_locations=within)

sys.meta_path.insert(0, Overlay())
"""


def follow(block: str, overlay: Path) -> None:
    """Do one step in the overlay."""
    step = STEP.match(block)
    assert step, f"a block without a step: {block[:80]}"
    body = block[step.end() :]
    if not (step["old"] or step["new"]):
        run(body, overlay)
        return
    file = overlay / (step["old"] or step["new"])
    file.parent.mkdir(parents=True, exist_ok=True)
    if step["old"]:
        source = file if file.exists() else ROOT / step["old"]
        lines = source.read_text().splitlines(keepends=True)
        places = [number for number, line in enumerate(lines) if line.strip() == step["line"].strip()]
        assert places, f"{step['old']} has no line {step['line']!r}"
        at = places[0] + (step["where"] == "after")
        rest = lines[at + (step["where"] == "instead of") :]
        body = "".join([*lines[:at], body, *rest])
    file.write_text(body)


def run(program: str, overlay: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OVERLAY.format(folder=str(overlay), root=str(ROOT)) + program],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_toy_of_a_recipe_works(page: Path, tmp_path: Path) -> None:
    assert any(block.startswith("# run\n") for block in blocks(page))
    for block in blocks(page):
        follow(block, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_toy_does_not_work_before(page: Path, tmp_path: Path) -> None:
    program = next(block for block in blocks(page) if block.startswith("# run\n"))
    with pytest.raises(AssertionError):
        follow(program, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_recipe_names_every_file_that_it_touches(page: Path) -> None:
    touched, _, _ = page.read_text().partition("\n## ")
    named = set(PATH.findall(touched))
    assert edited(page) <= named
    new = {step["new"] for block in blocks(page) if (step := STEP.match(block)) and step["new"]}
    assert not [name for name in named - new if not list(ROOT.glob(name))]
