"""Raw columns of foreign metric rows to the decoded table of data points.

A *long* row names its metric:                      a *wide* row is one point per numeric column:

    {"name": "mem", "value": 7, "host": "a"}        {"ts": 1767323045, "host": "a", "cpu": 0.5, "mem": 7}
      mem{host="a"} 7                                 cpu{host="a"} 0.5    mem{host="a"} 7

Labels are the members of the labels column (an object, a map, or a JSON object as text) and every other
column, under the names they have; the labels column wins where both have a name. Which columns of a wide row
are numeric is told from their type; the names of the `value` role count besides (CSV has only text, so its
first rows are looked at). A point whose value is not a number is rejected alone. The position of a point is
its row's ordinal; the second, third… point of a wide row is 2^40 further each, so that all are different.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.foreign.attributes import flat_columns
from lakerunner_assets.decode.foreign.log_rows import UNREADABLE_TIME
from lakerunner_assets.decode.foreign.mapping import Fields, fields_of
from lakerunner_assets.decode.foreign.metric_labels import label_columns, series_of
from lakerunner_assets.decode.foreign.metric_points import Refusals, points_of
from lakerunner_assets.decode.foreign.metric_types import type_columns
from lakerunner_assets.decode.foreign.numbers import Numbers
from lakerunner_assets.decode.foreign.times import role_times
from lakerunner_assets.decode.foreign.values import coded, role_text
from lakerunner_assets.decode.json.lines import RawRows
from lakerunner_assets.decode.otlp.owners import assemble, nullable
from lakerunner_assets.decode.result import Decoded, DecodeOptions, Place
from resources.arrays import Int64s

WIDE_STEP = 1 << 40
FIRST_NS = -9_214_646_400_000 * 1_000_000
"""The earliest moment of a sample, whole milliseconds that nanoseconds can say: for the quarantine."""


def metric_table(rows: RawRows, place: Place, options: DecodeOptions) -> Decoded:
    """The data points of one window."""
    notes: Counter[str] = Counter(rows.notes)
    fields = fields_of(rows, "metrics", options.fields)
    time, start = role_times(fields, "timestamp"), role_times(fields, "start")
    refusals = Refusals(rows.line_of_row + place.first_position)
    points = points_of(fields, refusals)
    row = points.row
    ns = np.where(time.known, time.ns, place.arrival_ns)[row]
    early = ns < FIRST_NS
    if early.any():
        notes["time_before_1678"] += int(early.sum())
        ns = np.where(early, FIRST_NS, ns)
    milliseconds = ns // 1_000_000
    columns = {
        "chq_object": pa.array(np.full(len(row), place.object_id, np.int64)),
        "chq_position": pa.array((rows.line_of_row + place.first_position)[row] + points.place * WIDE_STEP),
        "metric_name": points.name,
        "chq_timestamp": pa.array(milliseconds),
        "chq_tsns": nullable(ns, ns == milliseconds * 1_000_000),
        **_values(points.numbers),
        **type_columns(fields, row),
        "chq_start_tsns": nullable(start.ns[row], ~start.known[row]),
        "metric_unit": _unit(fields).take(pa.array(row)),
    }
    for note, where in ((UNREADABLE_TIME, time.unreadable), ("time_from_arrival", ~time.known)):
        if where[row].any():
            notes[note] += int(where[row].sum())
    labels = label_columns(fields)
    series = series_of(labels, row, points.name, rows.count)
    columns |= series.columns()
    taken = pa.array(row)
    spread = [(key, column.take(taken)) for key, column in labels.attributes]
    overflow = rows.overflow if rows.overflow is None else rows.overflow.take(taken)
    flat = flat_columns(spread, overflow, len(row), notes)
    return Decoded(
        assemble(columns, flat),
        rows.rejected + refusals.count,
        dict(notes),
        first_rejected=rows.first_rejected or refusals.first(),
        streams=dict(zip(series.ids, series.labels, strict=True)),
    )


def _values(numbers: Numbers) -> dict[str, pa.Array]:
    """The double, and the integer where the double is not exactly equal to it."""
    double = numbers.double
    inexact = numbers.is_int & ((np.abs(double) >= 2.0**63) | (_as_integer(double) != numbers.integer))
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(numbers.is_int.astype(np.int32)), pa.array(["double", "int"])
    )
    return {
        "chq_value": pa.array(double),
        "chq_value_int": nullable(numbers.integer, ~inexact),
        "chq_value_kind": kinds,
    }


def _as_integer(double: np.ndarray) -> Int64s:
    return np.where(np.abs(double) < 2.0**63, double, 0.0).astype(np.int64)


def _unit(fields: Fields) -> pa.DictionaryArray:
    return coded(role_text(fields, "unit")[0])
