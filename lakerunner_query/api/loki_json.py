"""Rows as Loki's JSON: streams of equal labels, structured metadata merged in, nanoseconds as strings.

Streams come in the order of their label text, values in the direction of the query. A metadata name that is
already a stream label gets Loki's suffix `_extracted`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from lakerunner_query.api.loki_statistics import statistics
from lakerunner_query.execute.merge import Collected

CATEGORIZE = "categorize-labels"


@dataclass(frozen=True, slots=True)
class _Stream:
    order: str
    json: bytes
    values: list[bytes]


def streams_json(
    tables: Sequence[pa.Table],
    collected: Collected,
    seconds: float,
    warnings: Sequence[str],
    categorize: bool,
) -> bytes:
    """The whole body of a successful `query_range` on logs."""
    streams = sorted(_streams(tables, categorize), key=lambda stream: stream.order)
    rendered = b",".join(
        b'{"stream":' + stream.json + b',"values":[' + b",".join(stream.values) + b"]}" for stream in streams
    )
    flags = b'"encodingFlags":["categorize-labels"],' if categorize else b""
    said = b'"warnings":' + msgspec.json.encode(list(warnings)) + b"," if warnings else b""
    stats = msgspec.json.encode(statistics(collected, seconds))
    head = b'{"status":"success",' + said + b'"data":{"resultType":"streams",' + flags
    return head + b'"result":[' + rendered + b'],"stats":' + stats + b"}}"


def _streams(tables: Sequence[pa.Table], categorize: bool) -> Collection[_Stream]:
    """Rows are one stream when labels and metadata add up to the same, whichever of the two a name is in."""
    found: dict[tuple[str, str], _Stream] = {}
    by_json: dict[bytes, _Stream] = {}
    encode = msgspec.json.Encoder().encode
    for table in tables:
        columns = (table[name].to_pylist() for name in ("tsns", "labels", "line", "metadata"))
        for tsns, labels, line, metadata in zip(*columns, strict=True):
            key = (labels, metadata)
            if key not in found:
                merged = _merged(labels, metadata)
                found[key] = by_json.setdefault(merged.json, merged)
            third = _categories(metadata) if categorize else b""
            found[key].values.append(f'["{tsns}",'.encode() + encode(line) + third + b"]")
    return by_json.values()


def _categories(metadata: str) -> bytes:
    """The third element of a value under `categorize-labels`."""
    return b",{}" if metadata == "{}" else f',{{"structuredMetadata":{metadata}}}'.encode()


def _merged(labels: str, metadata: str) -> _Stream:
    own: dict[str, str] = msgspec.json.decode(labels)
    extra: dict[str, str] = msgspec.json.decode(metadata)
    merged = {f"{name}_extracted" if name in own else name: value for name, value in extra.items()} | own
    ordered = dict(sorted(merged.items()))
    order = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in ordered.items())
    return _Stream(order, msgspec.json.encode(ordered), [])
