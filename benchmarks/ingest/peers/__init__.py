"""Peers as child processes: binaries from `--peers DIR`, data in a scratch folder, loopback only."""

from __future__ import annotations

from pathlib import Path

DEFAULT_FOLDER = Path("~/.cache/lakerunner/peers").expanduser()


def binary(folder: Path, name: str) -> Path | None:
    """The peer's program in `folder` or its `bin`, None where there is none."""
    for candidate in (folder / name, folder / "bin" / name):
        if candidate.is_file():
            return candidate
    return None
