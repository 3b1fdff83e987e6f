"""Where compiled kernels are kept, and whether they are; imports nothing heavy, so that starting can ask.

Every state of the sources has a folder of its own: numba looks only at the file of the outermost kernel when
it decides whether a kept one is stale, so an edited inner kernel could else be answered from an old one.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from resources.settings import Settings

MARK = "complete"


def cache_folder() -> Path:
    """The folder for exactly these sources in this place (numba also looks at their path)."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256(str(package).encode())
    for source in sorted(
        path for folder in ("decode", "segments") for path in (package / folder).glob("*.py")
    ):
        digest.update(source.read_bytes())
    return Settings.load().download_dir.expanduser() / "kernels" / digest.hexdigest()[:16]


def is_warm() -> bool:
    """Whether every kernel of these sources was compiled before."""
    return (cache_folder() / MARK).is_file()
