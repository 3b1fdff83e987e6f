"""The data points in foreign rows: one of a row that names its metric, else one per numeric column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.foreign.mapping import Fields, Mask, valid
from lakerunner_assets.decode.foreign.numbers import Numbers, joined_numbers, no_numbers, read_numbers
from lakerunner_assets.decode.foreign.values import coded, role_text
from resources.arrays import Int64s


@dataclass(frozen=True, slots=True)
class Points:
    """Data points, ascending by row, then by place in the row."""

    row: Int64s
    place: Int64s
    name: pa.DictionaryArray
    numbers: Numbers


class Refusals:
    """Points that have no usable value, and why the first has none."""

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
    name = coded(role_text(fields, "metric_name")[0])
    codes = name.indices.fill_null(len(name.dictionary)).to_numpy()
    named = np.array([*(bool(word) for word in name.dictionary.to_pylist()), False], np.bool_)[codes]
    parts = [_long_points(fields, name, named, refusals)]
    if not named.all():
        parts += _wide_points(fields, ~named, refusals)
    filled = [part for part in parts if len(part.row)]
    if len(filled) <= 1:
        return filled[0] if filled else parts[0]
    order = np.lexsort((_joined(filled, "place"), _joined(filled, "row")))
    names = pa.chunked_array([part.name for part in filled]).unify_dictionaries().combine_chunks()
    numbers = joined_numbers([part.numbers for part in filled]).take(order)
    return Points(
        _joined(filled, "row")[order],
        _joined(filled, "place")[order],
        names.take(pa.array(order)),
        numbers,
    )


def _joined(parts: list[Points], name: str) -> Int64s:
    return np.concatenate([getattr(part, name) for part in parts])


def _long_points(fields: Fields, name: pa.DictionaryArray, named: Mask, refusals: Refusals) -> Points:
    """A point per row that names its metric: the first of its values that is a number."""
    best = no_numbers(fields.count)
    unread = None
    for key, column in fields.candidates("value"):
        found = read_numbers(key[1], column)
        chosen = found.known & named & ~best.known
        best = best.replaced(found, chosen)
        fields.take(key, chosen)
        unread = column if unread is None else unread
    refusals.add(named & ~best.known, "value is not a number:", unread)
    rows = np.flatnonzero(named & best.known)
    taken = name.take(pa.array(rows))
    return Points(rows, np.zeros(len(rows), np.int64), taken, best.take(rows))


def _wide_points(fields: Fields, wide: Mask, refusals: Refusals) -> list[Points]:
    """A point per number in rows that name no metric, called after its column."""
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
