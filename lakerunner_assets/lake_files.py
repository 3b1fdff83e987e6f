"""Segments travel between the lake and a worker's disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lakerunner_assets.segments.readback import verify_segment
from resources.objects.client import ObjectStore
from resources.objects.errors import AlreadyExistsError


def fetch_segments(lake: ObjectStore, keys: Sequence[str], folder: Path) -> list[Path]:
    """Fetch each segment to a file, in order; segments never change, so no version is checked."""
    paths: list[Path] = []
    for number, key in enumerate(keys):
        path = folder / f"source-{number}.parquet"
        lake.fetch_to(key, path)
        paths.append(path)
    return paths


def put_segment(lake: ObjectStore, key: str, path: Path) -> None:
    """Read the segment back, then create it; a repeated attempt must have written the same bytes."""
    verify_segment(path)
    try:
        lake.put_new(key, path)
    except AlreadyExistsError:
        if lake.get_bytes(key) != path.read_bytes():
            raise
