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

from benchmarks.ingest.corpus import START_NS
from lakerunner_assets.decode.dispatch import Place, Request, decode
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_assets.signals import SIGNALS
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions

if TYPE_CHECKING:
    import pyarrow as pa

SLICE_BYTES = 128 << 20
OBJECT_BYTES = 8 << 30


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
    identity = SegmentIdentity("bench", "c", spec.dataset, START_NS, "0" * 32)
    return spec.write(tables, path, identity)


def cook(signal: Signal, objects: Sequence[bytes], folder: Path, name: str = "object.binpb") -> Cooked:
    """Everything from the raw bytes to one finished segment."""
    written = write(signal, decoded(signal, objects, name), folder / "segment.parquet")
    return Cooked(written.rows, written.bytes, written.row_groups)


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    before = _cpu_seconds()
    work()
    return _cpu_seconds() - before


def _cpu_seconds() -> float:
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)
