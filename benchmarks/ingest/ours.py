"""Our way from raw objects to segments, in this process: the decoders and writers a cook task calls.

Bytes come from memory and segments go to a scratch folder, since object stores are not compared. CPU time is
that of this process and of its children.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.ingest.corpus import HOUR_NS, START_NS
from lakerunner_assets.decode.dispatch import Place, Request, decode
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.segments.merge.request import MergeKind, MergeRequest, Window
from lakerunner_assets.segments.merge.run import merge
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_assets.signals import SIGNALS
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions

if TYPE_CHECKING:
    import pyarrow as pa

SLICE_BYTES = 128 << 20
OBJECT_BYTES = 8 << 30
_ORG, _COLLECTOR, _SEGMENT = "bench", "c", "segment.parquet"


@dataclass(frozen=True, slots=True)
class Cooked:
    """What one pass left."""

    rows: int
    bytes: int
    row_groups: int


def decoded(signal: Signal, objects: Sequence[bytes], name: str) -> list[pa.Table]:
    """Rows of all objects, none of which may be rejected."""
    tables = []
    for number, data in enumerate(objects, 1):
        request = Request(name, Place(number, 0, START_NS + 1), DecodeOptions(), SLICE_BYTES)
        with open_payload(data, OBJECT_BYTES) as payload:
            for part in decode(payload, request, SIGNALS[signal].decoders()):
                if part.rejected:
                    raise ValueError(f"{name}: {part.rejected} records rejected: {part.first_rejected}")
                tables.append(part.table)
    return tables


def write(signal: Signal, tables: Sequence[pa.Table], path: Path) -> WrittenSegment:
    spec = SIGNALS[signal]
    identity = SegmentIdentity(_ORG, _COLLECTOR, spec.dataset, START_NS, "0" * 32)
    return spec.write(tables, path, identity)


def cook(signal: Signal, objects: Sequence[bytes], folder: Path, name: str = "object.binpb") -> Cooked:
    """Everything from the raw bytes to one finished segment."""
    written = write(signal, decoded(signal, objects, name), folder / _SEGMENT)
    return Cooked(written.rows, written.bytes, written.row_groups)


def compacted_logs(folder: Path) -> int:
    """Merge the segment of the last pass as compaction does, and return the bytes of the result."""
    (folder / "compacted").mkdir()
    request = MergeRequest(
        kind=MergeKind.LOGS, sources=[folder / _SEGMENT], folder=folder / "compacted", org=_ORG,
        collector=_COLLECTOR, dataset="logs", target=Window(START_NS, HOUR_NS), carve=(), generation=1,
        target_bytes=OBJECT_BYTES, memory_bytes=SLICE_BYTES, name=lambda _window, part: str(part),
    )  # fmt: skip
    return sum(segment.facts.bytes for segment in merge(request).segments)


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    before = _cpu_seconds()
    work()
    return _cpu_seconds() - before


def _cpu_seconds() -> float:
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)
