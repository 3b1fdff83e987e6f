"""Decoded metrics tables made by hand: a few points of every kind, and as many samples as a test wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.segments.metric_columns import OPTIONAL, REQUIRED
from resources.lake import streams

START_MS = 1_768_392_000_000
STALE = 0x7FF0000000000002
"""Bits of Prometheus' stale marker."""
OTHER_NAN = 0xFFF8_0000_DEAD_BEEF

Row = Mapping[str, Any]
INSTANCE = Attribute("record", "instance", "string")


def double(bits: int) -> float:
    """Not through Python's struct: a platform may quieten a signalling NaN on its way."""
    return float(np.array([bits], np.uint64).view(np.float64)[0])


def row(position: int, labels: Mapping[str, str], ms: int, value: float | None, **more: Any) -> Row:
    canonical = streams.canonical(labels)
    return {
        "metric_name": labels["__name__"],
        "chq_tid": streams.stream_id(canonical),
        "chq_series": streams.labels_to_text(canonical),
        "chq_timestamp": START_MS + ms,
        "chq_value": value,
        "chq_metric_type": "gauge",
        "chq_object": 1,
        "chq_position": position,
        "instance": labels.get("instance"),
        **more,
    }


def table(rows: Sequence[Row]) -> pa.Table:
    """Only the columns that some row has; text as dictionaries, as decoders make it."""
    arrays, schema = [], []
    for name, kind in (REQUIRED | OPTIONAL).items():
        if any(name in each for each in rows):
            cells = [each.get(name) for each in rows]
            array = doubles(cells) if kind == pa.float64() else pa.array(cells, kind)
            arrays.append(array.dictionary_encode() if kind == pa.string() else array)
            schema.append(pa.field(name, arrays[-1].type))
    arrays.append(pa.array([each["instance"] for each in rows], pa.string()))
    schema.append(INSTANCE.field("attr_instance", pa.string()))
    return pa.Table.from_arrays(arrays, schema=pa.schema(schema))


def doubles(cells: Sequence[float | None]) -> pa.Array:
    """Bit by bit as given."""
    values = np.array([0.0 if cell is None else cell for cell in cells], np.float64)
    return pa.array(values, mask=np.array([cell is None for cell in cells]), from_pandas=False)


def plain(cell: Any) -> Any:
    """Doubles as their bits, so that comparing them compares everything."""
    if isinstance(cell, float):
        return ("bits", int(np.array([cell]).view(np.uint64)[0]))
    if isinstance(cell, dict):
        return {name: plain(inner) for name, inner in cell.items()}
    return [plain(inner) for inner in cell] if isinstance(cell, list) else cell


def by_id(found: pa.Table) -> dict[tuple[int, int], dict[str, Any]]:
    """Rows by row id, without what is null; doubles as bits, straight from the buffers."""
    rows: list[dict[str, Any]] = [{} for _ in range(found.num_rows)]
    for name in found.column_names:
        column = found.column(name).combine_chunks()
        cells = column.to_pylist()
        if pa.types.is_floating(column.type):
            bits = np.frombuffer(column.buffers()[1], np.uint64)[column.offset :]
            cells = [None if c is None else ("bits", int(b)) for c, b in zip(cells, bits, strict=False)]
        for target, cell in zip(rows, cells, strict=True):
            if cell is not None:
                target[name] = plain(cell)
    return {(each["chq_object"], each["chq_position"]): each for each in rows}


def every_kind() -> list[Row]:
    """Points of every type, with everything a point may have."""
    latency = {"__name__": "latency", "instance": "a"}
    exemplars = [
        {"tsns": 5, "value": 0.25, "value_int": None, "trace_id": b"t" * 16, "span_id": b"s" * 8,
         "attributes": [("k", "v")]},
        {"tsns": 6, "value": None, "value_int": 2**60 + 1, "trace_id": None, "span_id": None,
         "attributes": []},
    ]  # fmt: skip
    histogram = {
        "chq_metric_type": "histogram",
        "metric_temporality": "cumulative",
        "chq_hist_count": 6,
        "chq_hist_sum": 1.5,
        "chq_hist_min": 0.0,
        "chq_hist_max": 1.0,
        "chq_hist_bounds": [0.1, 0.5, 1.0],
        "chq_hist_counts": [1, 2, 3, 0],
        "chq_exemplars": exemplars,
        "metric_metadata": [("origin", "x")],
    }
    native = {
        "chq_metric_type": "exponential_histogram",
        "chq_hist_count_float": 2.5,
        "chq_hist_sum": double(STALE),
        "chq_hist_schema": -53,
        "chq_hist_zero_count": 2**62,
        "chq_hist_zero_threshold": 1e-128,
        "chq_hist_positive_offset": -7,
        "chq_hist_positive_counts": [0, 5],
        "chq_hist_negative_counts_float": [0.5],
        "chq_hist_reset_hint": 3,
    }
    summary = {
        "chq_metric_type": "summary",
        "chq_summary_quantiles": [{"quantile": 0.5, "value": 1.0}, {"quantile": 0.9, "value": double(STALE)}],
    }
    return [
        row(0, latency, 0, None, **histogram),
        row(1, latency, 15_000, double(STALE), chq_metric_type="histogram"),
        row(2, {"__name__": "native"}, 0, None, **native),
        row(3, {"__name__": "rpc", "instance": "b"}, 0, None, **summary),
        row(4, {"__name__": "big"}, 0, 2.0**63, chq_value_int=2**63 - 1, chq_value_kind="int"),
        row(5, {"__name__": "big"}, 1, -0.0, chq_tsns=(START_MS + 1) * 1_000_000 + 999_999, chq_flags=1,
            metric_is_monotonic=True, chq_start_tsns=7, metric_unit="s", metric_description="d",
            metric_original_name="b.i.g", scope_name="lib", chq_scope_dropped_attributes=2),
    ]  # fmt: skip


def samples(
    values: Mapping[str, np.ndarray], step_ms: int = 15_000, object_id: int = 1, name: str = "m"
) -> pa.Table:
    """One series per entry, scrape by scrape."""
    count = len(next(iter(values.values())))
    rows = len(values) * count
    label_sets = [streams.canonical({"__name__": name, "instance": each}) for each in values]
    codes = np.tile(np.arange(len(values), dtype=np.int32), count)

    def coded(texts: list[str], of_row: np.ndarray) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(of_row.astype(np.int32)), pa.array(texts))

    columns = {
        "metric_name": coded([name], np.zeros(rows)),
        "chq_tid": pa.array(np.array([streams.stream_id(labels) for labels in label_sets])[codes]),
        "chq_series": coded([streams.labels_to_text(labels) for labels in label_sets], codes),
        "chq_timestamp": pa.array(START_MS + np.repeat(np.arange(count) * step_ms, len(values))),
        "chq_value": pa.array(np.stack(list(values.values()), axis=1).ravel(), from_pandas=False),
        "chq_metric_type": coded(["gauge"], np.zeros(rows)),
        "chq_object": pa.array(np.full(rows, object_id)),
        "chq_position": pa.array(np.arange(rows)),
    }
    return pa.table(columns).append_column(
        INSTANCE.field("attr_instance", pa.dictionary(pa.int32(), pa.string())), coded(list(values), codes)
    )
