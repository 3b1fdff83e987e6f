"""Row groups without a row of the answer are found before DuckDB reads any.

    WHERE service_name = 'api' AND message LIKE '%declined%' AND trace_id = '4bf9…'
          on label sets: 2 of 60 streams                       statistics and bloom filters of the stored id
          |··####··|###·····|   the row groups that have them, and of those the ones that may hold the id

Conditions on labels alone are run by DuckDB itself on the label sets of the segments: they mean there what
they mean on rows. Conditions that might answer differently when run twice are left to the scan.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from lakerunner_query.lakeql.tables import LakeTable
from lakerunner_query.protocol.units import TableUnit
from lakerunner_query.worker.metrics.row_groups import UNREADABLE
from lakerunner_query.worker.metrics.series_table import SeriesTable
from lakerunner_query.worker.parquet.column_chunks import may_hold
from lakerunner_query.worker.shared.lru import ByteLru
from lakerunner_query.worker.tables.columns import IDS, identifier, label_of, literal
from lakerunner_query.worker.tables.functions import ROWS
from lakerunner_query.worker.tables.labels import relation_of
from lakerunner_query.worker.tables.segments import NS_PER_MS, OpenTable, TimeBounds, id_column
from resources.arrays import Flags, Int64s
from resources.duckdb import DuckSession
from resources.lake.series import NAME_LABEL

MOST_BLOOMS = 8
"""Up to so many ids are looked up in the bloom filters of row groups."""
SERIES = "lake_series"
SIMPLE = frozenset({
    "COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "OPERATOR", "FUNCTION", "CAST", "BETWEEN", "CASE",
    "COLLATE", "LAMBDA",
})  # fmt: skip
"""Classes of expressions that look at one row."""


@dataclass(frozen=True, slots=True)
class LabelConditions:
    """Conditions of a statement that label sets decide."""

    sql: str
    """Statement that returns the places of matching series."""
    columns: tuple[str, ...]
    """Logical columns that it reads."""


class ConditionFinder:
    """Splits off the conditions of statements on labels."""

    def __init__(self, session: DuckSession) -> None:
        self._session = session
        self._found: ByteLru[tuple[str, str, frozenset[str]], LabelConditions | None] = ByteLru(1024)
        with session.cursor() as cursor:
            names = cursor.execute(
                "SELECT lower(function_name) FROM duckdb_functions() GROUP BY ALL "
                "HAVING bool_and(function_type = 'scalar' AND stability = 'CONSISTENT')"
            ).fetchall()
        self._functions = frozenset(name for (name,) in names)

    def of(self, table: LakeTable, unit: TableUnit) -> LabelConditions | None:
        """Return the conditions; None where there are none."""
        names = frozenset(one.name.lower() for one in unit.columns if label_of(table, one.name) is not None)
        key = table.name, unit.sql, names
        if names and key not in self._found:
            with self._session.cursor() as cursor:
                self._found.put(key, self._find(cursor, unit.sql, names))
        return self._found.get(key)

    def _find(
        self, cursor: duckdb.DuckDBPyConnection, sql: str, names: frozenset[str]
    ) -> LabelConditions | None:
        node = _parse(cursor, sql)["statements"][0]["node"]
        source = node.get("from_table") or {}
        is_plain = node["type"] == "SELECT_NODE" and source.get("type") == "BASE_TABLE"
        if not is_plain or source["column_name_alias"] or source["sample"] or _sources(node) != 1:
            return None
        owner = source["alias"] or ROWS
        columns: set[str] = set()
        found = []
        for condition in _conjuncts(node["where_clause"]):
            read = self._labels_in(condition, names, owner.lower())
            if read:
                found.append(condition)
                columns |= read
        if not found:
            return None
        made = _parse(cursor, f"SELECT place FROM {ROWS} AS {identifier(owner)} WHERE true")  # noqa: S608
        both = {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "children": found}
        made["statements"][0]["node"]["where_clause"] = found[0] if len(found) == 1 else both
        ((text,),) = cursor.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(made)]).fetchall()
        return LabelConditions(text, tuple(sorted(columns)))

    def _labels_in(self, condition: dict[str, Any], names: frozenset[str], owner: str) -> set[str]:
        """Return the columns of a condition on labels alone; empty for all others."""
        found: set[str] = set()
        for node in _expressions(condition):
            if node["class"] not in SIMPLE:
                return set()
            if node["class"] == "FUNCTION" and node["function_name"].lower() not in self._functions:
                return set()
            if node["class"] == "COLUMN_REF":
                *qualifier, name = [one.lower() for one in node["column_names"]]
                if qualifier not in ([], [owner]) or name not in names:
                    return set()
                found.add(name)
        return found


def _parse(cursor: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    ((text,),) = cursor.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    found: dict[str, Any] = json.loads(text)
    return found


def _sources(value: object) -> int:
    """Count tables that a statement reads: `rows` twice may be read with other conditions."""
    if isinstance(value, dict):
        return (value.get("type") == "BASE_TABLE") + sum(map(_sources, value.values()))
    return sum(map(_sources, value)) if isinstance(value, list) else 0


def _conjuncts(where: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if where is not None and where["type"] == "CONJUNCTION_AND":
        for child in where["children"]:
            yield from _conjuncts(child)
    elif where is not None:
        yield where


def _expressions(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "class" in value:
            yield value
        for each in value.values():
            yield from _expressions(each)
    elif isinstance(value, list):
        for each in value:
            yield from _expressions(each)


def matching_series(
    table: LakeTable,
    unit: TableUnit,
    conditions: LabelConditions | None,
    series: Iterable[SeriesTable],
    session: DuckSession,
) -> dict[int, Flags]:
    """Flag the series of tables that meet all conditions on labels, by `id` of the table."""
    tables = list({id(one): one for one in series}.values())
    found = {id(one): np.ones(one.count, np.bool_) for one in tables}
    keys = [one for one in unit.keys if label_of(table, one.column) is not None]
    if not tables or (conditions is None and not keys):
        return found
    names = {*(conditions.columns if conditions else ()), *(one.column.lower() for one in keys)}
    labels: dict[str, str] = {}
    selected = ["place"]
    for name in sorted(names):
        label = label_of(table, name) or ""
        column = labels.setdefault(label, f"l{len(labels)}")
        value = f"coalesce({column}, '')" if label == NAME_LABEL else column  # as it is stored without one
        selected.append(f"{value} AS {identifier(name)}")
    in_keys = [
        f"{identifier(one.column)} IN ({', '.join(map(literal, one.values)) or 'NULL'})" for one in keys
    ]
    source = f"SELECT {', '.join(selected)} FROM {SERIES}"  # noqa: S608 - names are quoted
    source = f"SELECT * FROM ({source}) WHERE {' AND '.join(in_keys) or 'true'}"  # noqa: S608
    wanted = conditions.sql if conditions else f"SELECT place FROM {ROWS}"  # noqa: S608
    whole = relation_of(table, labels, [(one, np.arange(one.count)) for one in tables])
    whole = whole.append_column("place", pa.array(np.arange(whole.num_rows)))
    with session.cursor() as cursor:
        cursor.register(SERIES, whole)
        try:
            places = cursor.sql(f"WITH {ROWS} AS ({source}) {wanted}").to_arrow_table().column(0).to_numpy()
        except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException):
            return found  # of a series that may have no row within the bounds: the scan tells
    flags = np.zeros(whole.num_rows, np.bool_)
    flags[places] = True
    ends = np.cumsum([one.count for one in tables])[:-1]
    return dict(zip(found, np.split(flags, ends), strict=True))


def groups_of_series(
    table: LakeTable, one: OpenTable, series: SeriesTable, chosen: Flags, times: TimeBounds
) -> Flags:
    """Flag row groups that may have a row of these streams or series within the bounds."""
    first_ms, last_ms = (times.first, times.last) if times.is_ms else (
        times.first // NS_PER_MS, times.last // NS_PER_MS
    )  # fmt: skip
    places = np.flatnonzero(chosen & (series.first_ms <= last_ms) & (series.last_ms >= first_ms))
    if table.in_milliseconds:
        return _groups_of_rows(one.footer.layout.starts, series, places)
    ids = np.sort(series.tid[places])
    if one.footer.streams is not None:
        return one.footer.streams.with_any(ids)
    bounds = one.footer.bounds(id_column(table))
    found: Flags = np.searchsorted(ids, bounds[:, 0], "left") < np.searchsorted(ids, bounds[:, 1], "right")
    return found


def _groups_of_rows(starts: Int64s, series: SeriesTable, places: Int64s) -> Flags:
    """Flag row groups in which one of these series has rows: they lie behind each other in the file."""
    begin = series.row[places]
    first = np.searchsorted(starts, begin, "right") - 1
    last = np.searchsorted(starts, begin + series.rows[places], "left") - 1
    steps = np.zeros(len(starts), np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, last + 1, -1)
    found: Flags = np.cumsum(steps)[:-1] > 0
    return found


def groups_near_ids(
    one: OpenTable, column: str, ids: Sequence[bytes], flags: Flags
) -> dict[int, list[bytes]]:
    """Return row groups whose statistics allow for some of these ids, with those ids."""
    places = one.footer.layout.places.get(column, ())
    found: dict[int, list[bytes]] = {}
    for number in np.flatnonzero(flags).tolist():
        facts = (
            one.footer.layout.metadata.row_group(number).column(places[0]).statistics
            if len(places) == 1
            else None
        )
        possible = list(ids)
        if facts is not None and facts.has_min_max:
            possible = [each for each in ids if facts.min <= each <= facts.max]
        if possible:
            found[number] = possible
    return found


def bloom_offset(one: OpenTable, column: str, number: int) -> int | None:
    """Return the place of a row group's bloom filter; None where it has none."""
    places = one.footer.layout.places.get(column, ())
    if len(places) != 1:
        return None
    offset: int | None = one.footer.layout.metadata.row_group(number).column(places[0]).bloom_filter_offset
    return offset


def groups_with_ids(one: OpenTable, column: str, ids: Sequence[bytes], flags: Flags) -> Flags:
    """Keep row groups whose statistics and bloom filters allow for one of these ids."""
    found = np.zeros_like(flags)
    for number, possible in groups_near_ids(one, column, ids, flags).items():
        offset = bloom_offset(one, column, number) if len(possible) <= MOST_BLOOMS else None
        found[number] = offset is None or any(_may_hold(one, offset, each) for each in possible)
    return found


def _may_hold(one: OpenTable, offset: int, value: bytes) -> bool:
    try:
        return may_hold(one.file, offset, value)
    except UNREADABLE:
        return True  # reading the rows tells whether the segment is damaged


def id_keys(table: LakeTable, unit: TableUnit) -> Iterator[tuple[str, list[bytes]]]:
    """Yield stored columns of ids, and the ids that rows must have."""
    for keys in unit.keys:
        place = IDS[table.signal].get(keys.column)
        if place is not None:
            yield place[0], ids_of(keys.values, place[1])


def ids_of(values: Sequence[str], width: int) -> list[bytes]:
    """Return the bytes of ids; a text that no id is shown as is left out.

    >>> ids_of(["00ff", "FF00", "x"], 2)
    [b'\\x00\\xff']
    """
    digits = [one for one in values if len(one) == 2 * width and not one.strip("0123456789abcdef")]
    return sorted({bytes.fromhex(one) for one in digits} - {bytes(width)})


def row_ranges(footer_starts: Int64s, flags: Flags) -> list[tuple[int, int]]:
    """Return the first row and the row behind the last of runs of row groups."""
    padded = np.concatenate(([False], flags, [False]))
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return [(first, behind) for first, behind in footer_starts[edges].reshape(-1, 2).tolist()]
