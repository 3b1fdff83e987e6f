"""Key-values become flat columns, one per key and value kind.

Keys are coded by their bytes, a counting sort brings each column's values side by side, and kernels write
Arrow buffers. Keys beyond the column limit and repeats of a key within one owner go to a map column, so that
nothing is dropped. Resource attributes that name a stream (a short list, as Loki's for OTLP) are read once
per distinct resource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.any_value import render_values, take_values, texts
from lakerunner_assets.decode.field_kernels import (
    ARRAY,
    BOOL,
    BYTES,
    DOUBLE,
    EMPTY,
    INT,
    KINDS,
    KVLIST,
    STRING,
    Attributes,
    Spans,
    Values,
)
from lakerunner_assets.decode.naming import MAX_COLUMNS, Attribute
from lakerunner_assets.decode.slice_kernels import distinct, group_by_code, take_spans
from lakerunner_assets.decode.text import column_at, scatter, scatter_codes, strings
from resources.arrays import Bytes, Int32s, Int64s
from resources.lake.streams import UNKNOWN_SERVICE, Labels, canonical, labels_to_text, stream_id

REPEATED = "repeated_attribute_keys"
OVERFLOWN = "attributes_in_overflow"
_KINDS = len(KINDS)


@dataclass(frozen=True, slots=True)
class AttributeColumns:
    """Columns over the owners (records, resources or scopes), and the overflow map or None."""

    columns: dict[Attribute, pa.Array]
    overflow: pa.MapArray | None


def attribute_columns(
    data: Bytes,
    attributes: Attributes,
    owner_count: int,
    scope: str,
    notes: Counter[str],
    max_columns: int = MAX_COLUMNS,
) -> AttributeColumns:
    """Build flat columns of the attributes of `owner_count` owners."""
    if len(attributes.owner) == 0:
        return AttributeColumns({}, None)
    key_codes, key_spans = distinct(data, attributes.key)
    codes = key_codes * np.int32(_KINDS) + attributes.values.kind
    counts = np.bincount(codes, minlength=len(key_spans.start) * _KINDS)
    used = np.flatnonzero(counts)
    kept = _most_frequent(used, counts, max_columns, key_spans, data)
    order, bounds = group_by_code(codes, counts)
    spilled = [order[bounds[code] : bounds[code + 1]] for code in np.setdiff1d(used, kept)]
    keys = strings(data, key_spans, notes).to_pylist()
    columns: dict[Attribute, pa.Array] = {}
    for code in kept.tolist():
        chosen = order[bounds[code] : bounds[code + 1]]
        attribute = Attribute(scope, keys[code // _KINDS], KINDS[code % _KINDS])
        if attribute in columns:  # two broken keys that became equal when their UTF-8 was repaired
            spilled.append(chosen)
            continue
        rows, values, repeated = take_attributes(attributes, chosen)
        if repeated:
            again = np.concatenate(([False], rows[1:] == rows[:-1]))
            notes[REPEATED] += int(repeated)
            spilled.append(chosen[again])
            rows, values, _ = take_attributes(attributes, chosen[~again])
        columns[attribute] = _column(data, code % _KINDS, values, rows, owner_count, notes)
    return AttributeColumns(columns, _overflow(data, attributes, spilled, owner_count, notes))


def _most_frequent(used: Int64s, counts: Int64s, limit: int, keys: Spans, data: Bytes) -> Int64s:
    if len(used) <= limit:
        return used
    raw = data.tobytes  # names decide ties, so that the choice does not depend on the order of keys
    whole = raw()

    def rank(code: int) -> tuple[int, bytes, int]:
        start, length = int(keys.start[code // _KINDS]), int(keys.length[code // _KINDS])
        return -int(counts[code]), whole[start : start + length], code % _KINDS

    return np.array(sorted(sorted(used.tolist(), key=rank)[:limit]), np.int64)


def take_attributes(attributes: Attributes, chosen: Int64s) -> tuple[Int64s, Values, int]:
    """Take the owners and values at ascending indices; count the repeats of an owner."""
    owners = attributes.owner[chosen].astype(np.int64)
    repeated = int((owners[1:] == owners[:-1]).sum())
    return owners, take_values(attributes.values, chosen), repeated


def _column(
    data: Bytes, kind: int, values: Values, rows: Int64s, count: int, notes: Counter[str]
) -> pa.Array:
    if kind == STRING:
        return column_at(data, Spans(values.value, values.length), rows, count, notes)
    if kind == INT:
        return scatter(values.value, rows, count)
    if kind == DOUBLE:
        return scatter(values.value.view(np.float64), rows, count)
    if kind == BOOL:
        return scatter(values.value != 0, rows, count)
    if kind in {ARRAY, KVLIST, BYTES}:
        codes, rendered = render_values(data, kind, Spans(values.value, values.length), notes)
        return pa.DictionaryArray.from_arrays(scatter_codes(codes, rows, count), rendered)
    assert kind == EMPTY  # noqa: S101  (the scan knows no other kind)
    return pa.DictionaryArray.from_arrays(
        scatter_codes(np.zeros(len(rows), np.int32), rows, count), pa.array([""])
    )


def _overflow(
    data: Bytes, attributes: Attributes, spilled: list[Int64s], owner_count: int, notes: Counter[str]
) -> pa.MapArray | None:
    if not spilled:
        return None
    chosen = np.sort(np.concatenate(spilled))
    notes[OVERFLOWN] += len(chosen)
    keys = strings(data, take_spans(attributes.key, chosen), notes)
    values = texts(data, take_values(attributes.values, chosen), notes)
    per_owner = np.bincount(attributes.owner[chosen], minlength=owner_count)
    offsets = np.zeros(owner_count + 1, np.int32)
    np.cumsum(per_owner, out=offsets[1:])
    return pa.MapArray.from_arrays(pa.array(offsets, mask=_null_offsets(per_owner)), keys, values)


def _null_offsets(per_owner: Int64s) -> np.ndarray:
    """Mark owners without overflow as null instead of an empty map."""
    return np.concatenate((per_owner == 0, [False]))


def take_columns(columns: AttributeColumns, owners: Int32s) -> Iterator[tuple[Attribute | None, pa.Array]]:
    """Spread the columns of the owners over their rows; None marks the overflow map.

    Text becomes a dictionary array with one entry per owner: a million rows of twenty resources cost twenty.
    """
    indices = pa.array(owners)
    for attribute, column in columns.columns.items():
        yield attribute, spread(column, indices)
    if columns.overflow is not None:
        yield None, columns.overflow.take(indices)


def spread(column: pa.Array, indices: pa.Array) -> pa.Array:
    """Return `column[indices]`, as a dictionary array when it is text."""
    if pa.types.is_string(column.type):
        return column.dictionary_encode().take(indices)
    return column.take(indices)


@dataclass(frozen=True, slots=True)
class ResourceStreams:
    """Stream of every resource: an index into the distinct label sets and their ids."""

    of_resource: Int32s
    labels: tuple[Labels, ...]
    ids: tuple[int, ...]


def resource_streams(
    resources: AttributeColumns, count: int, index_attributes: Sequence[str]
) -> ResourceStreams:
    """Name the streams of `count` resources by their index attributes."""
    values: list[dict[str, str]] = [{} for _ in range(count)]
    for attribute, column in resources.columns.items():
        if attribute.key in index_attributes:
            name = attribute.key.replace(".", "_")
            for labels, value in zip(values, column.to_pylist(), strict=True):
                if value is not None:
                    labels.setdefault(name, _text(value))
    codes: dict[Labels, int] = {}
    of_resource = [codes.setdefault(_labels(found), len(codes)) for found in values]
    return ResourceStreams(
        np.array(of_resource, np.int32), tuple(codes), tuple(stream_id(labels) for labels in codes)
    )


def stream_columns(streams: ResourceStreams, resource_of_row: Int32s) -> tuple[pa.Array, pa.DictionaryArray]:
    """Return the stream ids and the stream labels of every row."""
    codes = streams.of_resource[resource_of_row] if len(resource_of_row) else resource_of_row
    ids = np.array(streams.ids or (0,), np.int64)[codes]
    texts = pa.array([labels_to_text(labels) for labels in streams.labels], pa.string())
    return pa.array(ids), pa.DictionaryArray.from_arrays(pa.array(codes), texts)


def _labels(found: Mapping[str, str]) -> Labels:
    return canonical({**found, "service_name": found.get("service_name") or UNKNOWN_SERVICE})


def _text(value: object) -> str:
    """Return OTel's string form of a value that is not text."""
    return str(value).lower() if isinstance(value, bool) else str(value)
