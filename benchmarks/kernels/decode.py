"""Kernels of decoding against libraries: `python -m benchmarks.kernels.decode`.

Each line is the best of several rounds on one core. Libraries that do less than the kernel (protobuf parses
and makes no columns, pyarrow.csv rejects no row alone) are named all the same: they are the nearest thing.
"""

from __future__ import annotations

import io
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue

from benchmarks.decode_logs import protobuf_walk, request_bytes
from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode import log_line_kernels as log_lines
from lakerunner_assets.decode import slice_kernels as slices
from lakerunner_assets.decode.any_value import render_texts
from lakerunner_assets.decode.foreign.csv import csv_windows, read_header
from lakerunner_assets.decode.foreign.hex_kernels import hex_ids
from lakerunner_assets.decode.foreign.time_kernels import parse_times
from lakerunner_assets.decode.json.lines import scan_lines
from lakerunner_assets.decode.json.otlp import requests
from lakerunner_assets.decode.otlp import logs, metrics, traces
from lakerunner_assets.decode.otlp.metric_distributions import distribution_columns
from lakerunner_assets.decode.payload import payload_of
from lakerunner_assets.decode.push.loki_push import scan_push
from lakerunner_assets.decode.push.remote_write import scan_series
from lakerunner_assets.decode.push.remote_write_histograms import read_histograms
from lakerunner_assets.decode.push.remote_write_labels import series_labels
from lakerunner_assets.decode.text import string_buffers
from resources.lake.layout import Signal
from resources.lake.streams import canonical, labels_to_text, stream_id
from resources.proto.loki import PushRequest
from resources.proto.prometheus import WriteRequest

ROWS = 100_000
MESSAGES = 5_000
ROUNDS = 5
Case = tuple[str, Callable[[], object], Callable[[], object]]
"""Name, kernel, library."""


def cases() -> Iterator[Case]:
    chance = np.random.default_rng(7)
    yield from _protobuf()
    yield from _pushes()
    yield from _slices(chance)
    yield from _fields(chance)
    yield from _texts()
    yield from _json()
    yield from _foreign(chance)


def _protobuf() -> Iterator[Case]:
    data = request_bytes(MESSAGES)
    view = np.frombuffer(data, np.uint8)
    end = len(view)
    yield (
        "scan_logs | protobuf, touching every field",
        lambda: logs.scan_slice(view, 0, end),
        lambda: protobuf_walk(data),
    )
    points = _metrics()
    seen = np.frombuffer(points, np.uint8)
    yield (
        "scan_metrics | protobuf, time and value",
        lambda: metrics.scan_slice(seen, 0, len(seen)),
        lambda: [
            (point.time_unix_nano, point.as_int)
            for group in ExportMetricsServiceRequest.FromString(points).resource_metrics
            for metric in group.scope_metrics[0].metrics
            for point in metric.sum.data_points
        ],
    )
    spans = _spans()
    traced = np.frombuffer(spans, np.uint8)
    yield (
        "scan_traces | protobuf, ids, name and times",
        lambda: traces.scan_slice(traced, 0, len(traced)),
        lambda: [
            (span.trace_id, span.span_id, span.name, span.start_time_unix_nano, span.end_time_unix_nano)
            for span in ExportTraceServiceRequest.FromString(spans).resource_spans[0].scope_spans[0].spans
        ],
    )
    yield from _distributions()
    listed = ArrayValue()
    for number in range(6):
        listed.values.add(string_value=f"item {number}")
        listed.values.add(int_value=number)
    raw = listed.SerializeToString()
    many = np.frombuffer(raw * MESSAGES, np.uint8)
    places = fields.Spans(np.arange(MESSAGES) * len(raw), np.full(MESSAGES, len(raw), np.int32))

    def as_json() -> list[str]:
        found = (ArrayValue.FromString(raw) for _ in range(MESSAGES))
        return [json.dumps([_plain(value) for value in each.values]) for each in found]

    yield "any_value | protobuf and json.dumps", lambda: render_texts(many, fields.ARRAY, places), as_json


def _plain(value: Any) -> object:
    return getattr(value, value.WhichOneof("value"))


def _metrics() -> bytes:
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    for number in range(MESSAGES // 100):
        metric = scope.metrics.add(name=f"http.requests.{number}", unit="1")
        for point in range(100):
            sent = metric.sum.data_points.add(time_unix_nano=1_768_392_000_000_000_000 + point, as_int=point)
            for key in ("method", "route", "status"):
                sent.attributes.add(key=key).value.string_value = f"{key}-{point % 20}"
    return bytes(request.SerializeToString())


def _distributions() -> Iterator[Case]:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="latency")
    bounds = [float(bound) for bound in range(20)]
    for number in range(MESSAGES):
        metric.histogram.data_points.add(
            time_unix_nano=number + 1, count=21, sum=2.5, explicit_bounds=bounds, bucket_counts=[1] * 21
        )
    data = request.SerializeToString()
    view = np.frombuffer(data, np.uint8)
    scanned = metrics.scan_slice(view, 0, len(view))

    def ours() -> object:
        points = scanned.metric_of_point
        kinds = scanned.kind_of_point()
        return dict(distribution_columns(view, scanned.spans, points, scanned.metrics, kinds, Counter()))

    def parsed() -> object:
        found = ExportMetricsServiceRequest.FromString(data).resource_metrics[0].scope_metrics[0].metrics[0]
        return pa.array([list(point.bucket_counts) for point in found.histogram.data_points])

    yield "scan_distributions | protobuf and pa.array", ours, parsed


def _spans() -> bytes:
    chance = random.Random(7)
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(MESSAGES):
        span = scope.spans.add(
            trace_id=chance.randbytes(16),
            span_id=chance.randbytes(8),
            name=f"GET /{number % 40}",
            start_time_unix_nano=1_768_392_000_000_000_000 + number,
            end_time_unix_nano=1_768_392_000_000_900_000 + number,
        )
        for key in ("http.method", "http.route", "peer"):
            span.attributes.add(key=key).value.string_value = f"{key}-{number % 20}"
        event = span.events.add(name="retry", time_unix_nano=1_768_392_000_000_000_001 + number)
        event.attributes.add(key="attempt").value.int_value = 2
    return bytes(request.SerializeToString())


def _pushes() -> Iterator[Case]:
    push = PushRequest()
    for stream in range(20):
        sent = push.streams.add(labels=f'{{app="shop", pod="p-{stream}"}}')
        for number in range(MESSAGES // 20):
            entry = sent.entries.add(line=f"GET /u/{number} took {number % 97}ms")
            entry.timestamp.seconds = 1_768_392_000 + number
            entry.structured_metadata.add(name="trace", value=f"t{number}")
    data = push.SerializeToString()
    view = np.frombuffer(data, np.uint8)
    yield (
        "loki_push | protobuf, time and line",
        lambda: scan_push(view),
        lambda: [
            (entry.timestamp.seconds, entry.line)
            for stream in PushRequest.FromString(data).streams
            for entry in stream.entries
        ],
    )
    written = WriteRequest()
    for number in range(MESSAGES):
        series = written.timeseries.add()
        for name, value in _labels(number).items():
            series.labels.add(name=name, value=value)
        series.samples.add(value=1.5, timestamp=1_768_392_000_000)
    body = written.SerializeToString()
    seen = np.frombuffer(body, np.uint8)
    yield (
        "remote_write | protobuf, labels, time and value",
        lambda: scan_series(seen),
        lambda: [
            ([(each.name, each.value) for each in series.labels], series.samples[0].timestamp)
            for series in WriteRequest.FromString(body).timeseries
        ],
    )
    scanned = scan_series(seen)

    def named() -> object:
        found = [canonical(_labels(number)) for number in range(MESSAGES)]
        return [(labels_to_text(labels), stream_id(labels)) for labels in found]

    yield "remote_write_label | canonical, json, xxhash", lambda: series_labels(scanned, Counter()), named
    yield from _histograms()


def _labels(number: int) -> dict[str, str]:
    return {"__name__": "http_requests_total", "instance": f"i-{number}", "job": "web", "zone": "a"}


def _histograms() -> Iterator[Case]:
    request = WriteRequest()
    for number in range(MESSAGES):
        sent = request.timeseries.add().histograms.add(count_int=30, sum=1.5, schema=3, timestamp=number)
        for _ in range(3):
            sent.positive_spans.add(offset=2, length=4)
        sent.positive_deltas.extend([1, 2, -1, 1, 0, 1, -1, 1, 0, 0, 1, -1])
    data = request.SerializeToString()
    view = np.frombuffer(data, np.uint8)
    points = scan_series(view).points

    def laid_out() -> object:
        found = []
        for series in WriteRequest.FromString(data).timeseries:
            counts: list[int] = []
            sent = series.histograms[0]
            deltas = iter(sent.positive_deltas)
            value = 0
            for index, span in enumerate(sent.positive_spans):
                counts.extend([0] * span.offset if index else [])
                for _ in range(span.length):
                    value += next(deltas)
                    counts.append(value)
            found.append(counts)
        return found

    def ours() -> object:
        return dict(read_histograms(view, points).columns(Counter()))

    yield "remote_write_histogram | protobuf and lists", ours, laid_out


def _slices(chance: np.random.Generator) -> Iterator[Case]:
    keys = pa.array([f"http.request.key_{number % 8}" for number in range(ROWS)])
    unique = pa.array([f"request-{number:016x}" for number in chance.integers(0, 1 << 62, ROWS)])
    for name, column in (("keys of records", keys), ("all different", unique)):
        data, places = _places(column)
        yield (
            f"code_slices, {name} | dictionary_encode, of an array",
            lambda data=data, places=places: slices.distinct(data, places),  # type: ignore[misc]
            column.dictionary_encode,
        )
    data, places = _places(unique)
    rows, raw = np.arange(ROWS), data.tobytes()
    bounds = list(zip(places.start.tolist(), (places.start + places.length).tolist(), strict=True))
    yield (
        "gather | pa.array of Python slices",
        lambda: slices.gather(data, places, rows, ROWS),
        lambda: pa.array([raw[start:end] for start, end in bounds], pa.binary()),
    )
    codes = chance.integers(0, 24, 8 * ROWS).astype(np.int32)
    counts = np.bincount(codes, minlength=24)
    small = codes.astype(np.int16)
    yield (
        "group_by_code | numpy.argsort stable",
        lambda: slices.group_by_code(codes, counts),
        lambda: np.argsort(small, kind="stable"),
    )


def _places(column: pa.Array) -> tuple[npt.NDArray[np.uint8], fields.Spans]:
    offsets, data = string_buffers(column)
    return data, fields.Spans(offsets[:-1].astype(np.int64), np.diff(offsets))


def _fields(chance: np.random.Generator) -> Iterator[Case]:
    rows = chance.integers(0, 1000, (ROWS, 16)).astype(np.int64)
    yield "by_column | asfortranarray", lambda: fields.by_column(rows), lambda: np.asfortranarray(rows)
    pairs = chance.integers(0, 8, (8 * ROWS, 6)).astype(np.int64)
    narrow = (np.int32, np.int64, np.int32, np.uint8, np.int64, np.int32)

    def by_numpy() -> object:
        return [pairs[:, at].astype(kind) for at, kind in enumerate(narrow)]

    yield "attributes_of | numpy columns", lambda: fields.attributes_of(pairs), by_numpy
    raw = chance.integers(0, 256, 16 * ROWS, np.uint8)
    ids = fields.Spans(np.arange(ROWS) * 16, np.full(ROWS, 16, np.int32))

    def gathered() -> object:
        found = raw[ids.start[:, None] + np.arange(16)]
        return found, ~found.any(axis=1)

    yield "copy_ids | numpy take", lambda: fields.copy_ids(raw, ids, 16), gathered


def _texts() -> Iterator[Case]:
    verbs = ("GET", "error in")
    lines = pa.array([f"{verbs[n % 2]} /u/{n} from 10.0.0.1:80 took {n % 97}ms" for n in range(ROWS)])
    offsets, text = string_buffers(lines)
    yield (
        "log_line masks | pc.replace_substring_regex",
        lambda: log_lines.mask_lines(offsets, text, log_lines.CLASSES),
        lambda: pc.replace_substring_regex(lines, r"\d+", "*"),
    )
    words = [rf"(?i)\b{word}\b" for word in log_lines.LEVEL_WORDS]
    codes, every = np.zeros(ROWS, np.int32), np.arange(ROWS)
    yield (
        "log_line levels | pc.match_substring_regex, 9 words",
        lambda: log_lines.levels_of_lines(offsets, text, every, log_lines.PACKED_LEVEL_WORDS, codes),
        lambda: [pc.match_substring_regex(lines, word) for word in words],
    )


def _json() -> Iterator[Case]:
    request = ExportLogsServiceRequest.FromString(request_bytes(MESSAGES // 5))
    text = re.sub(r"\n\s*", "", json_format.MessageToJson(request)).encode()
    for message in ("traceId", "spanId"):  # protobuf writes bytes as base64, OTLP in hexadecimal
        text = re.sub(rf'"{message}": ?"[^"]*"'.encode(), f'"{message}":""'.encode(), text)
    yield (
        "transcode | json_format.Parse and SerializeToString",
        lambda: list(requests(payload_of(text), Signal.LOGS, 1 << 30, Counter())),
        lambda: json_format.Parse(text, ExportLogsServiceRequest()).SerializeToString(),
    )
    lines = b"".join(json.dumps(_record(number)).encode() + b"\n" for number in range(ROWS))
    yield (
        "json lines | json.loads",
        lambda: scan_lines(lines, 0),
        lambda: [json.loads(line) for line in lines.splitlines()],
    )
    options = pyarrow.json.ReadOptions(use_threads=False, block_size=1 << 26)
    yield (
        "json lines | pyarrow.json, fails on the first odd line",
        lambda: scan_lines(lines, 0),
        lambda: pyarrow.json.read_json(io.BytesIO(lines), read_options=options),
    )


def _record(number: int) -> dict[str, object]:
    time_text = f"2026-01-02T03:04:{number % 60:02}Z"
    return {"time": time_text, "msg": f"GET /u/{number}", "http": {"status": 200}, "ms": number % 97}


def _foreign(chance: np.random.Generator) -> Iterator[Case]:
    ids = pa.array([chance.bytes(16).hex() for _ in range(ROWS)])
    offsets, text = string_buffers(ids)
    yield (
        "hex | bytes.fromhex",
        lambda: hex_ids(offsets, text, 16),
        lambda: [bytes.fromhex(each) for each in ids.to_pylist()],
    )
    times = pa.array([f"2026-01-02T03:{n % 60:02}:05.{n:06}Z" for n in range(ROWS)])
    bounds, letters = string_buffers(times)
    yield (
        "time | Arrow's cast, of one spelling only",
        lambda: parse_times(bounds, letters),
        lambda: times.cast(pa.timestamp("ns", "UTC")),
    )
    rows = "".join(f'2026-01-02T03:04:05Z,info,"GET /u/{n}, ok",svc-{n % 12},{n % 97}\n' for n in range(ROWS))
    table = f"time,level,message,service,ms\n{rows}".encode()
    payload = payload_of(table)
    header = read_header(payload)
    read = pyarrow.csv.ReadOptions(use_threads=False, block_size=1 << 24)
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(header.names, pa.string()))
    yield (
        "csv | pyarrow.csv, other answers for broken rows",
        lambda: list(csv_windows(payload, header, 1 << 24)),
        lambda: pyarrow.csv.read_csv(
            io.BytesIO(table), read_options=read, parse_options=parse, convert_options=convert
        ),
    )


def milliseconds(call: Callable[[], object]) -> float:
    """Best processor time of some rounds; the first, which may compile, is not counted."""
    call()
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        call()
        best = min(best, time.process_time() - started)
    return best * 1000


def main() -> None:
    pa.set_cpu_count(1)
    print(f"{'kernel | library':56} {'kernel ms':>10} {'library ms':>11} {'ratio':>7}")
    for name, ours, library in cases():
        mine, theirs = milliseconds(ours), milliseconds(library)
        print(f"{name:56} {mine:10.2f} {theirs:11.2f} {theirs / mine:7.1f}", flush=True)


if __name__ == "__main__":
    main()
