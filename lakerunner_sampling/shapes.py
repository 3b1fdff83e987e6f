"""A table shape reads the columns of its files as the canonical span relation, in DuckDB SQL.

    files of any shape  →  SELECT … AS trace_id, … AS start_ns, …, … AS "span:http.route"

`Wanted` names the columns that a query needs, so that the SQL names no others. An attribute that is asked for
by key becomes a column of text, null where it is absent; where the table has a column of its own for the key,
that is read, which costs an eighth of a look into the map.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.spec import AbstractFileSystem

from resources.lake.segment_file import OVERFLOW_COLUMNS, MappedColumn, read_label_map


class ShapeError(ValueError):
    """The table lacks a column that its shape must have."""


class Scope(StrEnum):
    SPAN = "span"
    RESOURCE = "resource"
    SCOPE = "scope"


@dataclass(frozen=True, slots=True, order=True)
class Attribute:
    """An attribute of spans, of their resource or of their scope, by its original key."""

    scope: Scope
    key: str

    @property
    def column(self) -> str:
        """Name of its column in the relation."""
        return f"{self.scope.value}:{self.key}"


_EVENTS = "STRUCT(time_ns BIGINT, name VARCHAR, attributes MAP(VARCHAR, VARCHAR))[]"
_LINKS = "STRUCT(trace_id BLOB, span_id BLOB, trace_state VARCHAR, attributes MAP(VARCHAR, VARCHAR))[]"
_MAP = "MAP(VARCHAR, VARCHAR)"
SPAN_COLUMNS: Mapping[str, str] = {
    "trace_id": "BLOB", "span_id": "BLOB", "parent_span_id": "BLOB",
    "start_ns": "BIGINT", "end_ns": "BIGINT",
    "service_name": "VARCHAR", "name": "VARCHAR", "kind": "INTEGER",
    "status_code": "INTEGER", "status_message": "VARCHAR", "trace_state": "VARCHAR", "flags": "BIGINT",
    "attributes": _MAP, "resource_attributes": _MAP, "scope_name": "VARCHAR", "scope_version": "VARCHAR",
    "events": _EVENTS, "links": _LINKS, "size": "BIGINT",
}  # fmt: skip
"""Columns of the span relation, with their types in DuckDB; `size` is an estimate of the bytes as OTLP."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Columns that a query reads of the relation."""

    columns: frozenset[str] = frozenset(SPAN_COLUMNS)
    attributes: tuple[Attribute, ...] = ()

    def __post_init__(self) -> None:
        unknown = sorted(self.columns - set(SPAN_COLUMNS))
        if unknown:
            raise ValueError(f"no columns of spans: {', '.join(unknown)}")


EVERYTHING = Wanted()


class SpanShape(Protocol):
    """A table shape."""

    name: str

    def prepare(self, files: Sequence[str], folder: Path) -> Sequence[str]:
        """Return files that `relation` can read: decoded ones in `folder` where the table holds raw bytes."""

    def relation(self, files: Sequence[str], schema: pa.Schema, wanted: Wanted = EVERYTHING) -> str:
        """Return a SELECT over prepared files."""
