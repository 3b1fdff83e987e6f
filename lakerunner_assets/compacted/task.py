"""A Spark task fetches sources, merges them, puts the outputs and answers.

A source that is gone or damaged is named in the answer. A lake or a disk that fails is no segment's fault.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from lakerunner_assets.compacted.units import (
    MergeAnswer,
    MergeUnit,
    Output,
    Source,
    decode_unit,
    encode,
    output_key,
    segment_id,
)
from lakerunner_assets.lake_files import put_segment
from lakerunner_assets.segments.merge.request import (
    MergedSegment,
    MergeRequest,
    MergeResult,
    SourceError,
    Window,
)
from lakerunner_assets.task_results import Fault, SegmentAnswer
from resources.objects.client import ObjectStore
from resources.objects.errors import NotFoundError, StoreError
from resources.objects.store import open_store
from resources.settings import Settings, SettingsError


class DamagedError(Exception):
    """One source cannot be read."""

    def __init__(self, source: Source, what: object) -> None:
        super().__init__(f"segment {source.segment_id} ({source.key}): {what}")
        self.source = source


def compact(payload: bytes) -> bytes:
    """Merge one encoded unit and return an encoded answer; Spark calls it."""
    return encode(compact_unit(decode_unit(payload), Settings.load()))


def compact_unit(unit: MergeUnit, settings: Settings) -> MergeAnswer:
    try:
        with tempfile.TemporaryDirectory(prefix="lakerunner-merge-") as folder:
            return _compact(unit, open_store(unit.lake_url, settings), Path(folder))
    except DamagedError as error:
        return MergeAnswer(fault=Fault.OBJECT, error=str(error), damaged=(error.source.segment_id,))
    except (StoreError, SettingsError) as error:
        return MergeAnswer(fault=Fault.STORE, error=str(error))
    except OSError as error:
        if error.errno is None:
            raise  # not from the system: some library's word for bytes it cannot read
        return MergeAnswer(fault=Fault.STORE, error=f"the worker's machine: {error}")


def merge_segments(request: MergeRequest) -> MergeResult:
    from lakerunner_assets.segments.merge.run import merge

    return merge(request)


def _compact(unit: MergeUnit, store: ObjectStore, folder: Path) -> MergeAnswer:
    started = time.monotonic()
    paths = [_fetch(store, source, folder / f"{n:04d}-in") for n, source in enumerate(unit.sources)]
    out = folder / "out"
    out.mkdir()
    try:
        merged = merge_segments(_request(unit, paths, out))
    except SourceError as error:
        raise _blame_segment(unit, paths, error) from error
    outputs = tuple(_put(unit, store, segment) for segment in merged.segments)
    seconds = time.monotonic() - started
    return MergeAnswer(outputs, merged.rows_read, merged.rows_written, merged.duplicates, seconds)


def _fetch(store: ObjectStore, source: Source, path: Path) -> Path:
    try:
        size = store.fetch_to(source.key, path)
    except NotFoundError as error:
        raise DamagedError(source, error) from error
    if size != source.bytes:
        raise DamagedError(source, f"{size} bytes, the index says {source.bytes}")
    return path


def _blame_segment(unit: MergeUnit, paths: list[Path], error: SourceError) -> Exception:
    """Replace the file in the error by its segment, where it names one."""
    for path, source in zip(paths, unit.sources, strict=True):
        if str(error).startswith(f"{path}:"):
            return DamagedError(source, str(error).removeprefix(f"{path}: "))
    return error


def _request(unit: MergeUnit, paths: list[Path], out: Path) -> MergeRequest:
    def name(window: Window, part: int) -> str:
        return segment_id(unit, window, part)

    return MergeRequest(
        kind=unit.kind,
        sources=paths,
        folder=out,
        org=unit.org,
        collector=unit.collector,
        dataset=unit.dataset,
        target=unit.target,
        carve=unit.carve,
        generation=unit.generation,
        target_bytes=unit.target_bytes,
        memory_bytes=unit.memory_bytes,
        name=name,
    )


def _put(unit: MergeUnit, store: ObjectStore, merged: MergedSegment) -> Output:
    name = segment_id(unit, merged.window, merged.part)
    key = output_key(unit, merged.window, name)
    put_segment(store, key, merged.path)
    merged.path.unlink()
    answer = SegmentAnswer(
        unit.batch_id, name, key, unit.collector, unit.dataset, merged.window.start_ns, merged.facts
    )
    return Output(answer, merged.window.width_ns, merged.first_key, merged.last_key)
