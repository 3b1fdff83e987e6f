"""Rows as Loki's JSON: streams of equal labels, structured metadata merged in, nanoseconds as strings.

Streams come in the order of their label text, values in the direction of the query. A metadata name that is
already a stream label gets Loki's suffix `_extracted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from lakerunner_query.execute.merge import Collected

CATEGORIZE = "categorize-labels"


@dataclass(frozen=True, slots=True)
class _Stream:
    order: str
    json: bytes
    values: list[bytes]


def streams_json(
    tables: Sequence[pa.Table], collected: Collected, seconds: float, warnings: Sequence[str], categorize: bool
) -> bytes:
    """The whole body of a successful `query_range` on logs."""
    streams = sorted(_streams(tables, categorize).values(), key=lambda stream: stream.order)
    rendered = b",".join(
        b'{"stream":' + stream.json + b',"values":[' + b",".join(stream.values) + b"]}" for stream in streams
    )
    flags = b'"encodingFlags":["categorize-labels"],' if categorize else b""
    said = b'"warnings":' + msgspec.json.encode(list(warnings)) + b"," if warnings else b""
    stats = msgspec.json.encode(statistics(collected, seconds))
    head = b'{"status":"success",' + said + b'"data":{"resultType":"streams",' + flags
    return head + b'"result":[' + rendered + b'],"stats":' + stats + b"}}"


def _streams(tables: Sequence[pa.Table], categorize: bool) -> dict[tuple[str, str], _Stream]:
    found: dict[tuple[str, str], _Stream] = {}
    encode = msgspec.json.Encoder().encode
    for table in tables:
        columns = (table[name].to_pylist() for name in ("tsns", "labels", "line", "metadata"))
        for tsns, labels, line, metadata in zip(*columns, strict=True):
            key = (labels, metadata)
            if key not in found:
                found[key] = _merged(labels, metadata)
            extra = f',{{"structuredMetadata":{metadata}}}'.encode() if categorize and metadata != "{}" else b""
            if categorize and not extra:
                extra = b",{}"
            found[key].values.append(f'["{tsns}",'.encode() + encode(line) + extra + b"]")
    return found


def _merged(labels: str, metadata: str) -> _Stream:
    own: dict[str, str] = msgspec.json.decode(labels)
    extra: dict[str, str] = msgspec.json.decode(metadata)
    merged = {f"{name}_extracted" if name in own else name: value for name, value in extra.items()} | own
    ordered = dict(sorted(merged.items()))
    order = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in ordered.items())
    return _Stream(order, msgspec.json.encode(ordered), [])


def statistics(collected: Collected, seconds: float) -> dict[str, object]:
    """Loki's statistics object; what has no counterpart here is zero."""
    seconds = max(seconds, 1e-9)
    store = {
        "totalChunksRef": collected.segments_opened + collected.segments_skipped,
        "totalChunksDownloaded": collected.segments_opened,
        "chunksDownloadTime": 0,
        "queryReferencedStructuredMetadata": False,
        "chunk": {
            "headChunkBytes": 0,
            "headChunkLines": 0,
            "decompressedBytes": collected.bytes_considered,
            "decompressedLines": collected.rows_considered,
            "compressedBytes": collected.bytes_considered,
            "totalDuplicates": 0,
        },
    }
    nothing = {**store, "totalChunksRef": 0, "totalChunksDownloaded": 0, "chunk": dict.fromkeys(store["chunk"], 0)}  # type: ignore[call-overload]
    ingester = {"totalReached": 0, "totalChunksMatched": 0, "totalBatches": 0, "totalLinesSent": 0}
    return {
        "summary": {
            "bytesProcessedPerSecond": int(collected.bytes_considered / seconds),
            "linesProcessedPerSecond": int(collected.rows_considered / seconds),
            "totalBytesProcessed": collected.bytes_considered,
            "totalLinesProcessed": collected.rows_considered,
            "execTime": seconds,
            "queueTime": 0,
            "subqueries": 0,
            "totalEntriesReturned": collected.rows,
            "splits": collected.units,
            "shards": 0,
            "totalPostFilterLines": collected.rows,
            "totalStructuredMetadataBytesProcessed": 0,
        },
        "querier": {"store": store},
        "ingester": {**ingester, "store": nothing},
        "cache": {},
        "index": {"totalChunks": 0, "postFilterChunks": 0, "shardsDuration": 0},
    }
