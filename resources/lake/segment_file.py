"""The Parquet footer of a segment describes it in key-value metadata.

Writers build it here and readers parse it here, so that there is one spelling. Original attribute names
live in the label map: a physical column name is only good within its own segment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import pyarrow.parquet as pq

from resources.lake.columns import (
    CHQ_FINGERPRINT,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_SEGMENT,
    CHQ_TID,
    CHQ_TIMESTAMP,
    CHQ_TSNS,
)

FORMAT_VERSION = 1
LOG_SORT_VERSION = 1
LOG_SORT_ORDER = ("slot_5m", "service_name", CHQ_FINGERPRINT, CHQ_TSNS, CHQ_OBJECT, CHQ_POSITION)
SPAN_SORT_VERSION = 1
SPAN_SORT_ORDER = ("span_trace_id", "span_start_ns", CHQ_OBJECT, CHQ_POSITION)
METRIC_SORT_VERSION = 1
METRIC_SORT_ORDER = (
    "metric_name", CHQ_TID, "labels", CHQ_TIMESTAMP, CHQ_TSNS, CHQ_OBJECT, CHQ_POSITION,
)  # fmt: skip

OVERFLOW_COLUMNS = {"resource": "resource_overflow", "scope": "scope_overflow", "record": "attr_overflow"}
"""map<string,string> by original key: attributes beyond the column limit, and repeated keys of one record."""

_FACTS = CHQ_SEGMENT.encode()
_LABEL_MAP = b"label_name_map"


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """A flat column and its attribute."""

    column: str
    scope: str
    """One of resource, scope and record (log record, data point or span)."""
    key: str
    """Key as the producer spelled it."""
    kind: str
    """Kind of OTLP value: string, bool, int, double, bytes (base64), array, kvlist (JSON), empty."""


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """Identity, order, bounds and blocks of a segment."""

    segment_id: str
    org: str
    collector: str
    dataset: str
    hour_ns: int
    generation: int
    format_version: int
    sort_version: int
    sort_order: tuple[str, ...]
    source_objects: tuple[int, ...]
    rows: int
    min_ns: int
    max_ns: int
    series_offset: int
    series_length: int
    bloom_offset: int
    bloom_length: int


def file_metadata(facts: SegmentFacts, columns: Iterable[MappedColumn]) -> dict[bytes, bytes]:
    """Build the key-value metadata of the footer."""
    return {
        _FACTS: json.dumps(asdict(facts), separators=(",", ":")).encode(),
        _LABEL_MAP: json.dumps([asdict(column) for column in columns], separators=(",", ":")).encode(),
    }


def read_label_map(metadata: pq.FileMetaData | Mapping[bytes, bytes]) -> tuple[MappedColumn, ...]:
    """Read the flat columns of a segment."""
    return tuple(MappedColumn(**entry) for entry in json.loads(_value(metadata, _LABEL_MAP)))


def read_facts(metadata: pq.FileMetaData | Mapping[bytes, bytes]) -> SegmentFacts:
    raw = json.loads(_value(metadata, _FACTS))
    raw["sort_order"] = tuple(raw["sort_order"])
    raw["source_objects"] = tuple(raw["source_objects"])
    return SegmentFacts(**raw)


def _value(metadata: pq.FileMetaData | Mapping[bytes, bytes], key: bytes) -> bytes:
    pairs = metadata if isinstance(metadata, Mapping) else metadata.metadata or {}
    value: bytes | None = pairs.get(key)
    if value is None:
        raise ValueError(f"not a segment of ours: the Parquet footer has no {key.decode()!r}")
    return value
