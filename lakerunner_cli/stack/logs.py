"""Log files of the components: rotation at start, last lines, following."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from lakerunner_cli.stack.paths import StackPaths

ROTATE_AT_BYTES = 16 * 1024 * 1024
LINE_GUESS = 400
POLL_S = 0.3


def rotate(paths: StackPaths) -> None:
    """Rename a large file to `<name>.log.1`; one old file is kept."""
    for log in paths.logs.glob("*.log"):
        if log.stat().st_size > ROTATE_AT_BYTES:
            log.replace(log.with_suffix(".log.1"))


def names(paths: StackPaths) -> list[str]:
    return sorted(log.stem for log in paths.logs.glob("*.log"))


def last_lines(path: Path, count: int) -> list[str]:
    """Read the last lines from the end, so that a large log costs nothing."""
    if not path.is_file() or count <= 0:
        return []
    with path.open("rb") as log:
        size = log.seek(0, 2)
        log.seek(max(0, size - count * LINE_GUESS))
        return log.read().decode(errors="replace").splitlines()[-count:]


def follow(paths: StackPaths, components: list[str]) -> Iterator[tuple[str, str]]:
    """Yield component and line for ever; a rotated file is read from its new beginning."""
    positions = {name: _size(paths.log(name)) for name in components}
    while True:
        for name in components:
            lines, positions[name] = new_lines(paths.log(name), positions[name])
            yield from ((name, line) for line in lines)
        time.sleep(POLL_S)


def new_lines(path: Path, position: int) -> tuple[list[str], int]:
    """Return complete lines written since `position`, and the position after them."""
    size = _size(path)
    start = position if size >= position else 0
    if size == start:
        return [], start
    with path.open("rb") as log:
        log.seek(start)
        complete, _, _rest = log.read().rpartition(b"\n")
    if not complete:
        return [], start
    return complete.decode(errors="replace").splitlines(), start + len(complete) + 1


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
