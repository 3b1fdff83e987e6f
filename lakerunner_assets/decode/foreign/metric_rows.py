"""Foreign rows become data points: one if the row names its metric, else one per numeric column.

A *long* row names its metric:                      a *wide* row is one point per numeric column:

    {"name": "mem", "value": 7, "host": "a"}        {"ts": 1767323045, "host": "a", "cpu": 0.5, "mem": 7}
      mem{host="a"} 7                                 cpu{host="a"} 0.5    mem{host="a"} 7

Labels are the members of the labels column (an object, a map, or a JSON object as text) and every other
column, under the names they have; the labels column wins where both have a name. Numeric columns of a wide
row are those of a numeric type and those named by the `value` role (CSV has only text, so its first rows are
looked at). A point whose value is not a number is rejected alone. The position of a point is its row's
ordinal; the second, third… point of a wide row is 2^40 further each, so that all are different.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.dispatch import DecodedSlice, Place
from lakerunner_assets.decode.foreign.attributes import flat_columns
from lakerunner_assets.decode.foreign.log_rows import TIME_FROM_ARRIVAL, TIME_FROM_DATE, UNREADABLE_TIME
from lakerunner_assets.decode.foreign.mapping import Fields, Mask, fields_of, valid
from lakerunner_assets.decode.foreign.metric_labels import label_columns, series_of
from lakerunner_assets.decode.foreign.numbers import Numbers, join_numbers, no_numbers, read_numbers
from lakerunner_assets.decode.foreign.times import role_times
from lakerunner_assets.decode.foreign.values import role_text, text_of, with_dictionary
from lakerunner_assets.decode.json.lines import RawRows
from lakerunner_assets.decode.otlp.owners import assemble, nullable
from resources.arrays import Int64s
from resources.lake.columns import (
    CHQ_METRIC_TYPE,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_START_TSNS,
    CHQ_TIMESTAMP,
    CHQ_TSNS,
    CHQ_VALUE,
    CHQ_VALUE_INT,
    CHQ_VALUE_KIND,
)
from resources.lake.options import DecodeOptions

_TYPES = {
    "gauge": "gauge",
    "counter": "sum",
    "sum": "sum",
    **dict.fromkeys(
        ("histogram", "exponential_histogram", "gaugehistogram", "summary", "info", "stateset", "unknown",
         "untyped"), "unknown",
    ),
}  # fmt: skip
"""Metric types of rows with a single number; the word for another type is kept in `metric_metadata`."""


def type_columns(fields: Fields, row: Int64s) -> dict[str, pa.Array]:
    """Return type, temporality and monotonicity; a word that names no type stays a label."""
    words: list[str] = []
    codes = np.zeros(fields.count, np.int32)  # 0: none
    for key, column in fields.candidates("metric_type"):
        texts = with_dictionary(text_of(key[1], column))
        found = [word.strip().lower() for word in texts.dictionary.to_pylist()]
        code_of = np.array(
            [len(words) + i + 1 if w in _TYPES else 0 for i, w in enumerate(found)] + [0], np.int32
        )
        chosen = np.where(codes == 0, code_of[texts.indices.fill_null(len(found)).to_numpy()], 0)
        fields.take(key, chosen > 0)
        codes = np.where(chosen > 0, chosen, codes)
        words += found
    indices = pa.array(codes[row])

    def spread(values: list[object], kind: pa.DataType) -> pa.Array:
        return pa.array([None, *values], kind).take(indices)

    types = pa.array(["unknown", *(_TYPES.get(word, "unknown") for word in words)]).dictionary_encode()
    counters = ["cumulative" if word == "counter" else None for word in words]
    found_types = {
        CHQ_METRIC_TYPE: types.take(indices),
        "metric_temporality": pa.array([None, *counters], pa.string()).dictionary_encode().take(indices),
        "metric_is_monotonic": spread([True if word == "counter" else None for word in words], pa.bool_()),
    }
    odd: list[object] = [
        [("type", word)] if _TYPES.get(word) == "unknown" and word != "unknown" else None for word in words
    ]
    if any(odd):
        found_types["metric_metadata"] = spread(odd, pa.map_(pa.string(), pa.string()))
    return found_types


@dataclass(frozen=True, slots=True)
class Points:
    """Data points, ascending by row, then by place in the row."""

    row: Int64s
    place: Int64s
    name: pa.DictionaryArray
    numbers: Numbers


class Refusals:
    """Points without a usable value, and the reason of the first."""

    def __init__(self, positions: Int64s) -> None:
        self._positions = positions
        self._found: list[tuple[int, str]] = []
        self.count = 0

    def add(self, rows: Mask, what: str, values: pa.Array | None = None) -> None:
        if rows.any():
            row = int(np.argmax(rows))
            text = "" if values is None else f" {str(values[row].as_py())[:40]!r}"
            self.count += int(rows.sum())
            self._found.append((row, f"{what}{text}"))

    def first(self) -> str:
        if not self._found:
            return ""
        row, reason = min(self._found)
        return f"row {self._positions[row]}: {reason}"


def points_of(fields: Fields, refusals: Refusals) -> Points:
    name = with_dictionary(role_text(fields, "metric_name")[0])
    codes = name.indices.fill_null(len(name.dictionary)).to_numpy()
    named = np.array([*(bool(word) for word in name.dictionary.to_pylist()), False], np.bool_)[codes]
    parts = [_long_points(fields, name, named, refusals)]
    if not named.all():
        parts += _wide_points(fields, ~named, refusals)
    filled = [part for part in parts if len(part.row)]
    if len(filled) <= 1:
        return filled[0] if filled else parts[0]
    order = np.lexsort((_join(filled, "place"), _join(filled, "row")))
    names = pa.chunked_array([part.name for part in filled]).unify_dictionaries().combine_chunks()
    numbers = join_numbers([part.numbers for part in filled]).take(order)
    return Points(
        _join(filled, "row")[order],
        _join(filled, "place")[order],
        names.take(pa.array(order)),
        numbers,
    )


def _join(parts: list[Points], name: str) -> Int64s:
    return np.concatenate([getattr(part, name) for part in parts])


def _long_points(fields: Fields, name: pa.DictionaryArray, named: Mask, refusals: Refusals) -> Points:
    """Make a point per row that names its metric: the first of its values that is a number."""
    best = no_numbers(fields.count)
    unread = None
    for key, column in fields.candidates("value"):
        found = read_numbers(key[1], column)
        chosen = found.known & named & ~best.known
        best = best.merge(found, chosen)
        fields.take(key, chosen)
        unread = column if unread is None else unread
    refusals.add(named & ~best.known, "value is not a number:", unread)
    rows = np.flatnonzero(named & best.known)
    taken = name.take(pa.array(rows))
    return Points(rows, np.zeros(len(rows), np.int64), taken, best.take(rows))


def _wide_points(fields: Fields, wide: Mask, refusals: Refusals) -> list[Points]:
    """Make a point per number in rows that name no metric, named after its column."""
    in_roles = {key for keys in fields.roles.values() for key in keys}
    numeric = [key for key in fields.rows.columns if key[1] in {"int", "double"} and key not in in_roles]
    parts: list[Points] = []
    place = np.zeros(fields.count, np.int64)
    for key in sorted([*fields.roles["value"], *numeric]):
        column = fields.rows.columns[key]
        found = read_numbers(key[1], column)
        good = wide & found.known
        fields.take(key, good)
        bad = wide & valid(column) & ~found.known
        refusals.add(bad, f"column {key[0]!r} is not a number:", column)
        rows = np.flatnonzero(good)
        name = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), pa.array([key[0]]))
        parts.append(Points(rows, place[rows], name, found.take(rows)))
        place += good | bad
    refusals.add(wide & (place == 0), "no metric name and no numeric column")
    return parts


WIDE_STEP = 1 << 40
FIRST_NS = -9_214_646_400_000 * 1_000_000
"""Earliest time of a sample, whole milliseconds in 64-bit nanoseconds: for the quarantine."""


def metric_table(rows: RawRows, place: Place, options: DecodeOptions) -> DecodedSlice:
    """Decode the data points of one window."""
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
        CHQ_OBJECT: pa.array(np.full(len(row), place.object_id, np.int64)),
        CHQ_POSITION: pa.array((rows.line_of_row + place.first_position)[row] + points.place * WIDE_STEP),
        "metric_name": points.name,
        CHQ_TIMESTAMP: pa.array(milliseconds),
        CHQ_TSNS: nullable(ns, ns == milliseconds * 1_000_000),
        **_values(points.numbers),
        **type_columns(fields, row),
        CHQ_START_TSNS: nullable(start.ns[row], ~start.known[row]),
        "metric_unit": _unit(fields).take(pa.array(row)),
    }
    odd_times = (
        (UNREADABLE_TIME, time.unreadable),
        (TIME_FROM_DATE, time.from_date),
        (TIME_FROM_ARRIVAL, ~time.known),
    )
    for note, where in odd_times:
        if where[row].any():
            notes[note] += int(where[row].sum())
    labels = label_columns(fields)
    series = series_of(labels, row, points.name, rows.count)
    columns |= series.columns()
    taken = pa.array(row)
    spread = [(key, column.take(taken)) for key, column in labels.attributes]
    overflow = rows.overflow if rows.overflow is None else rows.overflow.take(taken)
    flat = flat_columns(spread, overflow, len(row), notes)
    return DecodedSlice(
        assemble(columns, flat),
        rows.rejected + refusals.count,
        dict(notes),
        first_rejected=rows.first_rejected or refusals.first(),
        streams=dict(zip(series.ids, series.labels, strict=True)),
        roles=fields.used(),
    )


def _values(numbers: Numbers) -> dict[str, pa.Array]:
    """Return the double, and the integer where the double is not exactly equal to it."""
    double = numbers.double
    inexact = numbers.is_int & ((np.abs(double) >= 2.0**63) | (_as_integer(double) != numbers.integer))
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(numbers.is_int.astype(np.int32)), pa.array(["double", "int"])
    )
    return {
        CHQ_VALUE: pa.array(double),
        CHQ_VALUE_INT: nullable(numbers.integer, ~inexact),
        CHQ_VALUE_KIND: kinds,
    }


def _as_integer(double: np.ndarray) -> Int64s:
    return np.where(np.abs(double) < 2.0**63, double, 0.0).astype(np.int64)


def _unit(fields: Fields) -> pa.DictionaryArray:
    return with_dictionary(role_text(fields, "unit")[0])
