"""`SchemaReader` tells the columns of a logical table: fixed ones, labels and attributes.

    as it was sent              kinds in the segments     column
    http.route (record)         string                    attr_http_route    VARCHAR
    http.status, http_status    int                       attr_http_status   BIGINT
    job, JOB (labels)                                     JOB                VARCHAR

A name means the same in any segments, so that parts of a question agree: keys that become one name share a
column, the first that has a value counts, and so do labels that differ in case. Labels with the name of a
fixed column or a prefix of attributes are reached as `labels['…']` only. No rows are read.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.lakeql.tables import BIGINT, BLOB, DOUBLE, INTEGER, TABLES, TEXT, TEXTS, TIME, LakeTable
from lakerunner_query.protocol.units import SchemaUnit, UnitReport
from lakerunner_query.worker.tables.columns import BOOLEAN
from lakerunner_query.worker.tables.segments import PREFIXES, TableOpener, flat_name, precedence
from resources.duckdb import Cancellation
from resources.lake.segment_file import MappedColumn
from resources.lake.series import NAME_LABEL

ARROW = {
    TEXT: pa.string(), TIME: pa.timestamp("us"), BIGINT: pa.int64(), INTEGER: pa.int32(),
    DOUBLE: pa.float64(), BOOLEAN: pa.bool_(), TEXTS: pa.map_(pa.string(), pa.string()), BLOB: pa.binary(),
}  # fmt: skip
"""Arrow types of the answer by DuckDB's types."""
KINDS = {"int": BIGINT, "double": DOUBLE, "bool": BOOLEAN}
"""Types of attributes by OTLP kind; all others are text."""
NO_KIND = "empty"
ORIGINAL = b"original"
"""Metadata of a field: the key of an attribute, the first of several, or the name of a label."""


class SchemaReader:
    """Answers units for the columns of tables."""

    def __init__(self, opener: TableOpener) -> None:
        self._opener = opener

    def run(self, unit: SchemaUnit, cancellation: Cancellation) -> tuple[pa.Table, UnitReport]:
        """Return an empty table with the columns."""
        table = TABLES.get(unit.table)
        if table is None:
            raise InvalidRequestError(f"no table {unit.table}: expected one of {', '.join(TABLES)}")
        attributes: dict[MappedColumn, None] = {}
        with self._opener.open_unit(cancellation) as reader:
            known = set()
            for _, footer in reader.footers(unit.segments):
                if footer.attributes not in known:  # nearly always those of the segment before
                    known.add(footer.attributes)
                    attributes |= dict.fromkeys(footer.attributes)
            sets = {id(found.sets): found.sets for found in reader.labels(table, unit.segments).values()}
            labels = {name for one in sets.values() for name in one.names}
            report = reader.reader.report()
        return schema_of(table, labels, attributes).empty_table(), report


def schema_of(table: LakeTable, labels: Iterable[str], attributes: Iterable[MappedColumn]) -> pa.Schema:
    """Return the columns of a table with these labels and attributes."""
    fixed = {one.name: pa.field(one.name, ARROW[one.type]) for one in table.columns}
    by_name: dict[str, list[MappedColumn]] = {}
    for one in sorted(attributes, key=precedence):
        by_name.setdefault(flat_name(one.scope, one.key), []).append(one)
    found = {
        name: _field(name, type_of(one.kind for one in columns), columns[0].key)
        for name, columns in by_name.items() if name not in fixed
    }  # fmt: skip
    prefixes, seen = tuple(PREFIXES.values()), set(fixed)
    for name in sorted(labels):
        folded = name.lower()
        is_hidden = folded.startswith(prefixes) or (table.in_milliseconds and name == NAME_LABEL)
        if folded not in seen and not is_hidden:
            seen.add(folded)
            found[name] = _field(name, TEXT, name)
    return pa.schema([*fixed.values(), *(found[name] for name in sorted(found))])


def _field(name: str, kind: str, original: str) -> pa.Field:
    return pa.field(name, ARROW[kind], metadata={ORIGINAL: original.encode()})


def type_of(kinds: Iterable[str]) -> str:
    """Return the type of an attribute: its kind's, where all segments agree.

    >>> type_of({"int"}), type_of({"int", "empty"}), type_of({"int", "double"}), type_of({"kvlist"})
    ('BIGINT', 'BIGINT', 'VARCHAR', 'VARCHAR')
    """
    found = set(kinds) - {NO_KIND}
    return KINDS.get(next(iter(found)), TEXT) if len(found) == 1 else TEXT
