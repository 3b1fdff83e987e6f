"""Where compiled kernels are kept, and whether they are; imports nothing heavy, so that starting can ask.

Every state of a kernel's sources has a folder of its own: numba looks only at the file of the outermost
kernel when it decides whether a kept one is stale, so an edited inner kernel could else be answered from an
old one.
The sources of a kernel are its module and every module of ours that this one imports, directly or not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from resources.settings import Settings

MARK = "complete"
WARMING = "lakerunner_assets.warmup"
"""The module that uses every kernel: its sources are all there are."""

_ROOT = Path(__file__).resolve().parents[1]
_NO_KERNELS = {Path(__file__).resolve(), _ROOT / "resources" / "settings.py"}
_IMPORT = re.compile(
    r"^\s*from ((?:lakerunner_assets|lakerunner_query|resources)(?:\.\w++)*+) import (\([^)]*\)|[^\n]*)",
    re.MULTILINE,
)
_NAME = re.compile(r"(?:^|[(,\s])(\w+)(?: as \w+)?")


def cache_folder(module: str = WARMING) -> Path:
    """The folder for exactly these sources in this place (numba also looks at their path)."""
    digest = hashlib.sha256(str(_ROOT).encode())
    for source in sorted(_closure(module)):
        digest.update(source.read_bytes())
    return _base() / digest.hexdigest()[:16]


def is_warm() -> bool:
    """Whether every kernel of these sources was compiled before."""
    return (cache_folder() / MARK).is_file()


@cache
def _base() -> Path:
    return Settings.load().download_dir.expanduser() / "kernels"


def _closure(module: str) -> set[Path]:
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        path = _path(waiting.pop())
        if path is not None and path not in found and path not in _NO_KERNELS:
            found.add(path)
            waiting.extend(_imports(path))
    return found


@cache
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(_imported(path.read_text()))


def _imported(text: str) -> Iterator[str]:
    """Modules named in `from … import …`; a name may be a module itself."""
    for package, names in _IMPORT.findall(text):
        yield package
        yield from (f"{package}.{name}" for name in _NAME.findall(names))


def _path(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None
