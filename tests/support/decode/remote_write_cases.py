"""Remote write in tests: strategies, an object as the receivers write it, what protobuf reads in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from lakerunner_assets.decode.dispatch import DecodedSlice, Place, Request
from lakerunner_assets.decode.payload import payload_of
from lakerunner_assets.decode.push.remote_write import decode_remote_write
from resources.lake import streams
from resources.lake.options import DecodeOptions
from resources.proto.prometheus import WriteRequest

MARK = b"\xc2\xa9\x07\x17prometheus.WriteRequest"
STALE = 0x7FF0000000000002
START_MS = 1_768_392_000_000
LAST_MS, FIRST_MS = (2**63 - 1) // 1_000_000, -9_214_646_400_000


def decode(
    data: bytes, *, slice_bytes: int = 1 << 24, object_id: int = 1, first_position: int = 0
) -> list[DecodedSlice]:
    request = Request("o", Place(object_id, first_position, 1), DecodeOptions(), slice_bytes)
    return list(decode_remote_write(payload_of(data), request))


def write_object(*requests: Any) -> bytes:
    return MARK + b"".join(request.SerializeToString() for request in requests)


def double(bits: int) -> float:
    return float(np.array([bits], np.uint64).view(np.float64)[0])


def bits_of(value: float) -> int:
    return int(np.array([value], np.float64).view(np.uint64)[0])


def add_series(request: Any, labels: dict[str, str], *samples: tuple[float, int]) -> Any:
    series = request.timeseries.add()
    for name, value in labels.items():
        series.labels.add(name=name, value=value)
    for value, ms in samples:
        series.samples.add(value=value, timestamp=ms)
    return series


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.sampled_from(["__name__", "job", "le", "a", "b.c", "\u00e9"]) | TEXT
PAIRS = st.lists(st.tuples(NAMES, TEXT | st.sampled_from(["x", 'say "hi"', "tab\t"])), max_size=4)
METRICS = st.sampled_from(["up", "rpc_total", "rpc_bucket", "rpc_sum", "\u00fcber"])
TIMES = st.sampled_from([0, START_MS, -1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
BITS = st.sampled_from([STALE, 0x7FF8000000000001, 1 << 63]) | st.integers(0, 2**64 - 1)
DOUBLES = BITS.map(double)
SINT32 = st.integers(-(2**31), 2**31 - 1) | st.integers(-20, 20)
UINT64 = st.integers(0, 2**64 - 1) | st.integers(0, 9)
COUNTS = st.floats(0, 1e6) | DOUBLES


@st.composite
def histograms(draw: st.DrawFn) -> dict[str, Any]:
    """Mostly ones that make sense."""
    floats = draw(st.booleans())
    schema = draw(st.sampled_from([0, 3, 8, -4, -53]) | SINT32)
    found: dict[str, Any] = {
        "sum": draw(DOUBLES), "schema": schema, "zero_threshold": draw(DOUBLES),
        "reset_hint": draw(st.integers(0, 4)), "timestamp": draw(TIMES),
    }  # fmt: skip
    kind = "float" if floats else "int"
    for name in ("count", "zero_count"):
        if draw(st.booleans()):
            found[f"{name}_{kind}"] = draw(DOUBLES if floats else UINT64)
    for side in ("positive", "negative"):
        spans = draw(
            st.lists(
                st.tuples(st.integers(0, 9), st.integers(0, 4))
                | st.tuples(SINT32, st.integers(0, 2**32 - 1)),
                max_size=3,
            )
        )
        width = sum(length for _, length in spans)
        if width > 50 or draw(st.integers(0, 9)) == 0:
            width = draw(st.integers(0, 3))
        found[f"{side}_spans"] = spans
        if floats:
            found[f"{side}_counts"] = draw(st.lists(COUNTS, min_size=width, max_size=width))
        else:
            deltas = st.lists(st.integers(0, 5) | st.integers(-3, 3), min_size=width, max_size=width)
            found[f"{side}_deltas"] = draw(deltas)
    if schema == -53 or draw(st.integers(0, 5)) == 0:
        found["custom_values"] = draw(st.lists(DOUBLES, max_size=12))
    return found


@st.composite
def requests(draw: st.DrawFn) -> Any:
    request = WriteRequest()
    for _ in range(draw(st.integers(0, 4))):
        series = request.timeseries.add()
        if draw(st.integers(0, 9)):
            series.labels.add(name="__name__", value=draw(METRICS))
        for name, value in draw(PAIRS):
            series.labels.add(name=name, value=value)
        for value, ms in draw(st.lists(st.tuples(DOUBLES, TIMES), max_size=3)):
            series.samples.add(value=value, timestamp=ms)
        for pairs, value, ms in draw(st.lists(st.tuples(PAIRS, DOUBLES, TIMES), max_size=2)):
            exemplar = series.exemplars.add(value=value, timestamp=ms)
            for name, text in pairs:
                exemplar.labels.add(name=name, value=text)
        for each in draw(st.lists(histograms(), max_size=2)):
            add_histogram(series, each)
    for _ in range(draw(st.integers(0, 2))):
        request.metadata.add(
            type=draw(st.integers(0, 8)),
            metric_family_name=draw(st.sampled_from(["up", "rpc", "rpc_total"])),
            help=draw(TEXT),
            unit=draw(TEXT),
        )
    return request


def add_histogram(series: Any, parts: dict[str, Any]) -> None:
    plain = {name: value for name, value in parts.items() if not name.endswith("_spans")}
    histogram = series.histograms.add(**plain)
    for name in ("positive_spans", "negative_spans"):
        for offset, length in parts.get(name, ()):
            getattr(histogram, name).add(offset=offset, length=length)


def expected_points(data: bytes) -> Iterator[dict[str, Any] | None]:
    """Every point in order as protobuf reads it, None for those to be rejected; doubles as bits."""
    request = WriteRequest.FromString(data)
    metadata = {each.metric_family_name: each for each in request.metadata}
    for series in request.timeseries:
        labels = _labels(series.labels)
        times = [sample.timestamp for sample in series.samples] + [
            each.timestamp for each in series.histograms
        ]
        own: list[list[Any]] = [[] for _ in times] or [[each] for each in series.exemplars]
        for exemplar in series.exemplars if times else ():
            own[_place(times, exemplar.timestamp)].append(exemplar)
        points: list[Any] = [*series.samples, *series.histograms] or [None] * len(own)
        for point, exemplars in zip(points, own, strict=True):
            yield _row(point, exemplars, labels, metadata) if labels is not None else None


def _place(times: list[int], wanted: int) -> int:
    """Binary search for the first that is not before, as if times ascended."""
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if times[middle] < wanted else (low, middle)
    return low


def _labels(sent: Any) -> dict[str, str] | None:
    labels: dict[str, str] = {}
    for label in sent:
        if labels.setdefault(label.name, label.value) != label.value:
            return None
    return labels if labels.get("__name__") and not labels.get("") else None


def _row(point: Any, exemplars: list[Any], labels: dict[str, str], metadata: dict[str, Any]) -> Any:
    name = labels["__name__"]
    canonical = streams.canonical(labels)
    row: dict[str, Any] = {
        "metric_name": name,
        "chq_series": streams.labels_to_text(canonical),
        "chq_tid": streams.stream_id(canonical),
        "labels": {key: value for key, value in labels.items() if value and key != "__name__"},
    }
    family = _family(name, metadata)
    kind = (
        "unknown",
        "sum",
        "gauge",
        "histogram",
        "gaugehistogram",
        "summary",
        "info",
        "stateset",
        "unknown",
    )[family.type if family else 0]
    if family and family.unit:
        row["metric_unit"] = family.unit
    if family and family.help:
        row["metric_description"] = family.help
    if exemplars:
        row["chq_exemplars"] = [_exemplar(each) for each in exemplars]
    time = (point or exemplars[0]).timestamp
    row["chq_timestamp"] = min(max(time, FIRST_MS), LAST_MS)
    if hasattr(point, "schema"):
        gauge = point.reset_hint == 3 or kind == "gaugehistogram"
        row["chq_metric_type"] = "gaugehistogram" if gauge else "exponential_histogram"
        if not gauge:
            row["metric_temporality"] = "cumulative"
        laid_out = _histogram(point)
        return None if laid_out is None else row | laid_out
    row["chq_metric_type"] = kind
    if kind == "sum":
        row |= {"metric_temporality": "cumulative", "metric_is_monotonic": True}
    if point is not None:
        row |= {"chq_value": ("bits", bits_of(point.value)), "chq_value_kind": "double"}
    return row


def _family(name: str, metadata: dict[str, Any]) -> Any:
    if name in metadata:
        return metadata[name]
    suffixes = {
        1: ("total", "created"),
        3: ("bucket", "sum", "count", "created"),
        4: ("bucket", "gsum", "gcount"),
        5: ("sum", "count", "created"),
        6: ("info",),
    }
    base, _, suffix = name.rpartition("_")
    family = metadata.get(base)
    return family if family is not None and suffix in suffixes.get(family.type, ()) else None


def _exemplar(sent: Any) -> dict[str, Any]:
    time = min(max(sent.timestamp, FIRST_MS), LAST_MS)
    rest = [(label.name, label.value) for label in sent.labels]
    ids: dict[str, bytes] = {}
    for name, width in (("trace_id", 16), ("span_id", 8)):
        for pair in rest:
            if pair[0] == name and len(pair[1]) == 2 * width and set(pair[1]) <= set("0123456789abcdef"):
                raw = bytes.fromhex(pair[1])
                if any(raw):
                    ids[name] = raw
                    rest.remove(pair)
                    break
    found: dict[str, Any] = {"tsns": time * 1_000_000, "value": ("bits", bits_of(sent.value)), **ids}
    return found | ({"attributes": rest} if rest else {})


def _histogram(sent: Any) -> dict[str, Any] | None:
    kind = "float" if sent.HasField("count_float") else "int" if sent.HasField("count_int") else None
    if kind is None:
        kind = "float" if sent.positive_counts or sent.negative_counts else "int"
    zero = (
        "float" if sent.HasField("zero_count_float") else "int" if sent.HasField("zero_count_int") else kind
    )
    row: dict[str, Any] = {
        "chq_hist_sum": ("bits", bits_of(sent.sum)),
        "chq_hist_schema": sent.schema,
        "chq_hist_zero_threshold": ("bits", bits_of(sent.zero_threshold)),
        "chq_hist_reset_hint": sent.reset_hint,
    }
    for name, which in (("count", kind), ("zero_count", zero)):
        value = getattr(sent, f"{name}_{which}")
        row[f"chq_hist_{name}" + ("_float" if which == "float" else "")] = (
            ("bits", bits_of(value)) if which == "float" else value - (1 << 64 if value >= 1 << 63 else 0)
        )
    if bits_of(sent.sum) == STALE:
        row["chq_value"] = ("bits", STALE)
    if sent.schema == -53 or sent.custom_values:
        row["chq_hist_bounds"] = [("bits", bits_of(value)) for value in sent.custom_values]
    for side in ("positive", "negative"):
        buckets = _buckets(sent, side, kind)
        if buckets is None:
            return None
        row |= buckets
    return row


def _buckets(sent: Any, side: str, kind: str) -> dict[str, Any] | None:
    spans, deltas, floats = (getattr(sent, f"{side}_{what}") for what in ("spans", "deltas", "counts"))
    counts = list(floats) if kind == "float" else list(accumulate(deltas))
    gaps = [span.offset for span in spans[1:]]
    width = sum(span.length for span in spans) + sum(gaps)
    first = spans[0].offset if spans else 0
    custom = sent.schema == -53
    impossible = (
        (deltas if kind == "float" else floats)
        or sum(span.length for span in spans) != len(counts)
        or min(gaps, default=0) < 0
        or any(count < 0 for count in counts)
        or width > 10_000
        or (spans and custom and not 0 <= first <= len(sent.custom_values) + 1 - width)
        or abs(first) > 2**31 - 10_002
    )
    if impossible or not spans:
        return None if impossible else {}
    whole: list[Any] = []
    remaining = iter(counts)
    for gap, span in zip([0, *gaps], spans, strict=True):
        whole += [0] * gap + [next(remaining) for _ in range(span.length)]
    name = f"chq_hist_{side}_counts" + ("_float" if kind == "float" else "")
    cells = [("bits", bits_of(float(each))) for each in whole] if kind == "float" else whole
    return {f"chq_hist_{side}_offset": first if custom else first - 1, name: cells}


def found_points(tables: list[pa.Table]) -> dict[int, dict[str, Any]]:
    """Decoded rows by position in the same words: without nulls, doubles as bits, flat columns as labels."""
    found: dict[int, dict[str, Any]] = {}
    for table in tables:
        rows: list[dict[str, Any]] = [{"labels": {}} for _ in range(table.num_rows)]
        for field, column in zip(table.schema, table.columns, strict=True):
            key = (field.metadata or {}).get(b"chq_key")
            for row, cell in zip(rows, cells(column.combine_chunks()), strict=True):
                if cell is not None and key is not None:
                    row["labels"][key.decode()] = cell
                elif cell is not None:
                    row[field.name] = cell
        found |= {row.pop("chq_position"): row for row in rows}
    return found


def cells(column: pa.Array) -> list[Any]:
    """Values without Python's floats in between: those may quieten a NaN."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_floating(column.type):
        raw = np.frombuffer(column.buffers()[1] or b"", np.uint64)[
            column.offset : column.offset + len(column)
        ]
        return [
            ("bits", int(b)) if ok else None for b, ok in zip(raw, column.is_valid().to_pylist(), strict=True)
        ]
    if pa.types.is_map(column.type):
        return [None if each is None else list(each) for each in column.to_pylist()]
    if pa.types.is_list(column.type):
        inner = cells(column.values)
        bounds = column.offsets.to_pylist()
        valid = column.is_valid().to_pylist()
        return [inner[bounds[i] : bounds[i + 1]] if valid[i] else None for i in range(len(column))]
    if pa.types.is_struct(column.type):
        parts = {field.name: cells(column.field(field.name)) for field in column.type}
        return [
            {name: part[i] for name, part in parts.items() if part[i] is not None} for i in range(len(column))
        ]
    return list(column.to_pylist())


assert math.isnan(double(STALE))
