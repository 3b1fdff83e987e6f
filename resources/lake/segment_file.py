"""The Parquet footer of a segment describes it in key-value metadata.

Writers build it here and readers parse it here, so that there is one spelling. Original attribute names
live in the label map: a physical column name is only good within its own segment.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow.parquet as pq

from resources.arrays import Bytes, Flags, Int64s
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
_BLOCKS = ("series_offset", "series_length", "bloom_offset", "bloom_length")
_BLOCK_DIGITS = 14
"""Width of their numbers in the footer, which is encoded before they are known."""
_LABEL_MAP = b"label_name_map"
_GROUP_STREAMS = b"row_group_streams"
MOST_STREAM_BYTES = 256 * 1024
"""Longest list of the streams of row groups: with more streams, statistics alone choose row groups."""


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
    return {_FACTS: _encode_facts(facts), **label_map_metadata(columns)}


def label_map_metadata(columns: Iterable[MappedColumn]) -> dict[bytes, bytes]:
    """Build the entry of the footer that names the flat columns."""
    return {_LABEL_MAP: json.dumps([asdict(column) for column in columns], separators=(",", ":")).encode()}


def place_blocks(footer: bytes, before: SegmentFacts, after: SegmentFacts) -> bytes:
    """Replace the places of the blocks in an encoded footer; its length stays."""
    old, new = _encode_facts(before), _encode_facts(after)
    if footer.count(old) != 1 or len(old) != len(new):
        raise ValueError(f"a footer in which the facts of {after.segment_id} cannot be replaced")
    return footer.replace(old, new)


def _encode_facts(facts: SegmentFacts) -> bytes:
    plain = {name: value for name, value in asdict(facts).items() if name not in _BLOCKS}
    places = ",".join(f'"{name}":{getattr(facts, name):>{_BLOCK_DIGITS}}' for name in _BLOCKS)
    return (json.dumps(plain, separators=(",", ":"))[:-1] + "," + places + "}").encode()


def read_label_map(metadata: pq.FileMetaData | Mapping[bytes, bytes]) -> tuple[MappedColumn, ...]:
    """Read the flat columns of a segment."""
    return tuple(MappedColumn(**entry) for entry in json.loads(_value(metadata, _LABEL_MAP)))


@dataclass(frozen=True, slots=True)
class GroupStreams:
    """Streams of a log segment, and which of them have rows in which row group."""

    ids: Int64s
    """Sorted ids of all streams."""
    bits: Bytes
    """Row groups by streams, eight streams to a byte."""

    def with_any(self, ids: Int64s) -> Flags:
        """Flag row groups that have rows of one of these streams."""
        wanted = np.packbits(np.isin(self.ids, ids))
        found: Flags = np.logical_or.reduce(self.bits & wanted, axis=1).astype(np.bool_)
        return found


def group_streams_metadata(groups: Sequence[Int64s]) -> dict[bytes, bytes]:
    """Build the entry of the footer that lists the distinct stream ids of each row group; none for a few.

    Rows are sorted by service and not by stream: the least and the greatest id of a row group say little.
    """
    ids = np.unique(np.concatenate(groups)) if len(groups) > 1 else np.zeros(0, np.int64)
    if not len(ids) or 8 * len(ids) + len(groups) * len(ids) // 8 > MOST_STREAM_BYTES:
        return {}
    bits = np.packbits(np.array([np.isin(ids, each) for each in groups]), axis=1)
    raw = np.array([len(groups), len(ids)], "<i8").tobytes() + ids.astype("<i8").tobytes() + bits.tobytes()
    return {_GROUP_STREAMS: b64encode(raw)}


def read_group_streams(metadata: pq.FileMetaData) -> GroupStreams | None:
    """Read the streams of row groups; None in a segment that does not list them."""
    text = (metadata.metadata or {}).get(_GROUP_STREAMS)
    if text is None:
        return None
    raw = b64decode(text, validate=True)
    groups, count = np.frombuffer(raw, "<i8", 2).tolist()
    if groups != metadata.num_row_groups:
        raise ValueError(f"streams of {groups} row groups in a file of {metadata.num_row_groups}")
    ids = np.frombuffer(raw, "<i8", count, 16)
    return GroupStreams(ids, np.frombuffer(raw, np.uint8, -1, 16 + 8 * count).reshape(groups, -1))


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
