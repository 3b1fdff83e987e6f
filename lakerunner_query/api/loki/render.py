"""Rows, samples and errors are rendered as Loki does it.

Rows are streams of equal labels, structured metadata merged in, nanoseconds as strings; samples are finished
text and only put together. Streams come in the order of their label text, values in the direction of the
query. A metadata name that is already a stream label gets Loki's suffix `_extracted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from litestar import HttpMethod, MediaType, Request, Response

from lakerunner_query.api.prometheus.render import metric
from lakerunner_query.api.shared.requests import RequestFields, missing_warnings
from lakerunner_query.coordinator.merge import RowMerge, SampleResult
from lakerunner_query.errors import SegmentsMissingError
from lakerunner_query.protocol.answers import Kind
from lakerunner_query.protocol.units import Missing
from lakerunner_query.serving import Failure, respond_plain

JSON = "application/json; charset=UTF-8"
METHODS = [HttpMethod.GET, HttpMethod.POST]
PARTIAL_HEADER = "X-Lakerunner-Partial"
REFUSE_PARTIAL = frozenset({"false", "0"})
ERROR_STATUSES = {422: 400}
"""Exceeded limits, which Loki answers like any other bad request."""


def reply(
    fields: RequestFields, data: bytes, missing: Mapping[str, Missing], warnings: Sequence[str] = ()
) -> Response[bytes]:
    """Answer in Loki's envelope."""
    texts = [*warnings, *missing_warnings(missing)]
    field = b'"warnings":' + msgspec.json.encode(texts) + b"," if texts else b""
    return bare(fields, b'{"status":"success",' + field + b'"data":' + data + b"}", missing)


def bare(fields: RequestFields, body: bytes, missing: Mapping[str, Missing]) -> Response[bytes]:
    """Answer with the body as it is; `partial_response=false` refuses an answer with gaps."""
    if missing and fields.text("partial_response").lower() in REFUSE_PARTIAL:
        raise SegmentsMissingError(missing_warnings(missing)[0])
    headers = {PARTIAL_HEADER: "true"} if missing else {}
    return Response(body, media_type=JSON, headers=headers)


def respond_like_loki(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Answer an exception with its bare message as text."""
    plain = respond_plain(request, error)
    if not isinstance(plain.content, Failure):
        return plain
    failure = plain.content
    status = ERROR_STATUSES.get(failure.status, failure.status)
    return Response(failure.message, status_code=status, media_type=MediaType.TEXT, headers=plain.headers)


def statistics(collected: RowMerge, seconds: float) -> dict[str, object]:
    """Render the statistics that Grafana and `logcli --stats` show; unknown ones are zero."""
    ingester = {"totalReached": 0, "totalChunksMatched": 0, "totalBatches": 0, "totalLinesSent": 0}
    return {
        "summary": _summary(collected, max(seconds, 1e-9)),
        "querier": {"store": _store(collected)},
        "ingester": {**ingester, "store": _store(RowMerge(0))},
        "cache": {},
        "index": {"totalChunks": 0, "postFilterChunks": 0, "shardsDuration": 0},
    }


def _summary(collected: RowMerge, seconds: float) -> dict[str, object]:
    return {
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
    }


def _store(collected: RowMerge) -> dict[str, object]:
    return {
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


FLAGS = "x-loki-response-encoding-flags"
CATEGORIZE = "categorize-labels"
KINDS = ("labels", "metadata", "parsed")
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Stream:
    """Lines of equal labels, rendered."""

    order: str
    json: bytes
    values: list[bytes]

    @property
    def rendered(self) -> bytes:
        return b'{"stream":' + self.json + b',"values":[' + b",".join(self.values) + b"]}"


def streams_json(tables: Sequence[pa.Table], collected: RowMerge, seconds: float, categorize: bool) -> bytes:
    """Render the data of a query for lines."""
    rendered = b",".join(one.rendered for one in streams_of(tables, categorize))
    flags = b'"encodingFlags":["categorize-labels"],' if categorize else b""
    return _data(b'"streams",' + flags + b'"result":[' + rendered + b"]", collected, seconds)


def samples_json(joined: SampleResult, kind: Kind, at_ns: int | None, seconds: float) -> bytes:
    """Render the data of a query for samples; `at_ns` is the time of an instant one."""
    collected = RowMerge(0, rows_considered=joined.rows_considered, segments_opened=joined.segments_opened)
    if kind == "scalar" and at_ns is not None:
        value = joined.series[0].floats.partition(b",")[2]
        return _data(b'"scalar","result":[%d,' % (at_ns // NS_PER_MS) + value, collected, seconds)
    field = b"values" if at_ns is None else b"value"
    rendered = b",".join(
        b'{"metric":' + metric(one.labels) + b',"' + field + b'":' + _points(one.floats, at_ns) + b"}"
        for one in joined.series
    )
    shown = b'"matrix"' if at_ns is None else b'"vector"'
    return _data(shown + b',"result":[' + rendered + b"]", collected, seconds)


def _data(result: bytes, collected: RowMerge, seconds: float) -> bytes:
    stats = msgspec.json.encode(statistics(collected, seconds))
    return b'{"resultType":' + result + b',"stats":' + stats + b"}"


def _points(floats: bytes, at_ns: int | None) -> bytes:
    return b"[" + floats + b"]" if at_ns is None else floats


def streams_of(tables: Sequence[pa.Table], categorize: bool) -> list[Stream]:
    """Group rows into streams of equal labels, whatever a label comes from."""
    found: dict[tuple[str, ...], Stream] = {}
    by_json: dict[bytes, Stream] = {}
    encode = msgspec.json.Encoder().encode
    for table in tables:
        times, lines = table["tsns"].to_pylist(), table["line"].to_pylist()
        for tsns, line, key in zip(times, lines, _label_texts(table), strict=True):
            if key not in found:
                merged = _merged(*key)
                found[key] = by_json.setdefault(merged.json, merged)
            third = _categories(*key[1:]) if categorize else b""
            found[key].values.append(f'["{tsns}",'.encode() + encode(line) + third + b"]")
    return sorted(by_json.values(), key=lambda stream: stream.order)


def runs_of(rows: pa.Table, categorize: bool) -> Iterator[Stream]:
    """Group neighbouring rows of one stream, in the order of the rows, for a tail."""
    encode = msgspec.json.Encoder().encode
    run = Stream("", b"", [])
    before: tuple[str, ...] = ()
    for tsns, line, key in zip(
        rows["tsns"].to_pylist(), rows["line"].to_pylist(), _label_texts(rows), strict=True
    ):
        shown = (key[0], "{}", "{}") if categorize else key
        if shown != before:
            if run.values:
                yield run
            run, before = _merged(*shown), shown
        third = _categories(*key[1:]) if categorize else b""
        run.values.append(f'["{tsns}",'.encode() + encode(line) + third + b"]")
    if run.values:
        yield run


def entry_labels(rows: pa.Table) -> list[dict[str, str]]:
    """Return all labels of each row."""
    known: dict[tuple[str, ...], dict[str, str]] = {}
    keys = list(_label_texts(rows))
    for key in keys:
        if key not in known:
            known[key] = msgspec.json.decode(_merged(*key).json)
    return [known[key] for key in keys]


def _label_texts(table: pa.Table) -> Iterator[tuple[str, ...]]:
    """Return JSON objects by row: stream labels, structured metadata, labels that stages made."""
    return zip(*(table[name].to_pylist() for name in KINDS), strict=True)


def _categories(metadata: str, parsed: str) -> bytes:
    """Render the third element of a value under `categorize-labels`."""
    kinds = {"structuredMetadata": metadata, "parsed": parsed}
    parts = ",".join(f'"{name}":{labels}' for name, labels in kinds.items() if labels != "{}")
    return b",{" + parts.encode() + b"}"


def _merged(labels: str, metadata: str, parsed: str) -> Stream:
    own: dict[str, str] = msgspec.json.decode(labels)
    extra: dict[str, str] = msgspec.json.decode(metadata)
    made: dict[str, str] = msgspec.json.decode(parsed)
    named = {f"{name}_extracted" if name in own else name: value for name, value in extra.items()}
    ordered = dict(sorted((named | made | own).items()))
    order = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in ordered.items())
    return Stream(order, msgspec.json.encode(ordered), [])
