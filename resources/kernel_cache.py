"""Compiled kernels are kept in one folder for each state of their sources.

Numba looks only at the file of the outermost kernel when it decides whether a compiled one is stale, so an
edited inner kernel could be answered from an old one. The folder's name therefore hashes the sources of a
kernel's module and of every module of ours that it imports, directly or not. Nothing heavy is imported here:
starting processes ask `is_warm`, and `python -m resources.kernel_cache` compiles everything.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from resources.settings import Settings

WARM_UPS = ("lakerunner_assets.warmup", "lakerunner_query.warmup")
"""Commands that use every kernel between them."""

_MARK = "complete"
_DECORATOR = re.compile(r"^@(?:kernel|scanner|inlined)$", re.MULTILINE)
_ROOT = Path(__file__).resolve().parents[1]
_NO_KERNELS = {Path(__file__).resolve(), _ROOT / "resources" / "settings.py"}
_IMPORT = re.compile(
    r"^\s*from ((?:lakerunner_assets|lakerunner_query|resources)(?:\.\w++)*+) import (\([^)]*\)|[^\n]*)",
    re.MULTILINE,
)
_NAME = re.compile(r"(?:^|[(,\s])(\w+)(?: as \w+)?")


def cache_folder(module: str) -> Path:
    """Return the folder for exactly these sources in this place (numba also looks at their path)."""
    return _folder_of(closure(module))


def is_warm() -> bool:
    """Test whether the warm-ups ran for every kernel in its present state."""
    return _mark().is_file()


def warm_up(environment: Mapping[str, str] | None = None) -> float:
    """Run all warm-ups side by side, mark them as done, and return the seconds they took.

    Each command compiles kernels of its own, so none is compiled twice.
    """
    started = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-m", module], env=environment) for module in WARM_UPS]
    try:
        for module, process in zip(WARM_UPS, running, strict=True):
            if process.wait() != 0:
                raise subprocess.CalledProcessError(process.returncode, f"python -m {module}")
    finally:
        for process in running:
            process.terminate()
    mark = _mark()
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    return time.monotonic() - started


def closure(module: str) -> set[Path]:
    """Return the files of a module and of all that it imports from us."""
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        path = _path(waiting.pop())
        if path is not None and path not in found and path not in _NO_KERNELS:
            found.add(path)
            waiting.extend(_imports(path))
    return found


def _mark() -> Path:
    """Return a file beside the kernels, named by all that define any; other edits do not matter."""
    modules = {path for module in WARM_UPS for path in closure(module)}
    kernels = {path for path in modules if _DECORATOR.search(path.read_text())}
    sources = {path for each in kernels for path in closure(_module(each))}
    return _folder_of(sources) / _MARK


def _folder_of(sources: set[Path]) -> Path:
    digest = hashlib.sha256(str(_ROOT).encode())
    for source in sorted(sources):
        digest.update(source.read_bytes())
    return _base() / digest.hexdigest()[:16]


@cache
def _base() -> Path:
    return Settings.load().download_dir.expanduser() / "kernels"


@cache
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(_imported(path.read_text()))


def _imported(text: str) -> Iterator[str]:
    """Yield modules named in `from … import …`; a name may be a module itself.

    A pattern reads the sources ten times faster than `ast`, and every process that has kernels waits for it.
    """
    for package, names in _IMPORT.findall(text):
        yield package
        yield from (f"{package}.{name}" for name in _NAME.findall(names))


def _module(path: Path) -> str:
    return ".".join(path.relative_to(_ROOT).with_suffix("").parts)


def _path(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


if __name__ == "__main__":
    print(f"all kernels compiled in {warm_up():.1f} s")
