"""Fields of sampled lines: what structured metadata, JSON and logfmt hold, and what the values look like.

    {"took":"5ms","user":{"id":7}}   ->   took  duration  json  ["took"]
    status=200 path=/                     user_id  int  json  ["user","id"]
                                          status   int  logfmt

The lines go through the same stages as those of a query, so that a field is called what a query calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.gotext import conversions
from lakerunner_query.logql.frame import SPECIAL, Category, Column, LogFrame, of_texts
from lakerunner_query.logql.lang.ast import Json, Logfmt, LogQuery, Pattern, Regexp, Stage, Unpack
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.pipeline import Demand, apply
from lakerunner_query.logql.stages.extract import joined

PARSERS: dict[type, str] = {
    Json: "json", Logfmt: "logfmt", Regexp: "regexp", Pattern: "pattern", Unpack: "unpack",
}  # fmt: skip
_BOOLEANS = frozenset({"1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"})
EVERYTHING = Demand(None)


@dataclass(frozen=True, slots=True)
class Field:
    label: str
    values: list[str]
    """Distinct, in the order of the lines."""
    parsers: tuple[str, ...] | None
    """What a query needs to have the field; None: it is metadata."""
    path: tuple[str, ...] = ()
    """Where it lies in an object."""

    def told(self) -> dict[str, object]:
        told: dict[str, object] = {
            "label": self.label,
            "type": type_of(self.values[0]),
            "cardinality": len(self.values),
            "parsers": None if self.parsers is None else list(self.parsers),
        }
        return told | ({"jsonPath": list(self.path)} if self.path else {})


def fields_of(rows: pa.Table, text: str, now_ns: int) -> list[Field]:
    """Fields of all rows, by name; what the query's own stages made has their names as parsers."""
    if not rows.num_rows:
        return []
    query = parse_expr(text)
    used = tuple(dict.fromkeys(_parsers(query.stages))) if isinstance(query, LogQuery) else ()
    streams = _columns(rows["labels"], Category.STREAM)
    metadata = _columns(rows["metadata"], Category.METADATA)
    found = [Field(name, values_of(column), None) for name, column in metadata.items()]
    if used:
        made = _columns(rows["parsed"], Category.PARSED)
        found += [Field(name, values_of(column), used) for name, column in made.items()]
    else:
        found += _parsed(rows, streams | metadata, now_ns)
    kept = (one for one in found if one.values and one.label not in SPECIAL)
    return sorted(kept, key=lambda one: one.label)


def type_of(value: str) -> str:
    """What a value can be compared as.

    >>> [type_of(text) for text in ("7", "7.5", "true", "1m30s", "7KB", "GET")]
    ['int', 'float', 'boolean', 'duration', 'bytes', 'string']
    """
    return next((name for name, reads in _TYPES if _is(reads, value)), "string")


def _integer(text: str) -> None:
    if not text.removeprefix("-").removeprefix("+").isascii() or not text.lstrip("+-").isdigit():
        raise ValueError(text)


def _boolean(text: str) -> None:
    if text not in _BOOLEANS:
        raise ValueError(text)


_TYPES: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("int", _integer),
    ("float", conversions.number),
    ("boolean", _boolean),
    ("duration", conversions.duration_ns),
    ("bytes", conversions.size),
)


def _is(reads: Callable[[str], object], value: str) -> bool:
    try:
        reads(value)
    except ValueError:
        return False
    return True


def _parsers(stages: Sequence[Stage]) -> Iterator[str]:
    return (PARSERS[type(stage)] for stage in stages if type(stage) in PARSERS)


def _columns(objects: pa.ChunkedArray, category: Category) -> dict[str, Column]:
    """Label columns out of one JSON object per row."""
    rows: list[dict[str, str]] = [msgspec.json.decode(text) for text in objects.to_pylist()]
    names = sorted({name for row in rows for name in row})
    return {
        name: of_texts(pa.array([row.get(name) for row in rows], pa.string()), category) for name in names
    }


def _parsed(rows: pa.Table, known: dict[str, Column], now_ns: int) -> list[Field]:
    lines = rows["line"].combine_chunks()
    frame = LogFrame(rows["tsns"].to_numpy(), lines, known)
    is_object = pc.starts_with(pc.utf8_ltrim_whitespace(lines), "{").to_numpy(zero_copy_only=False)
    objects = apply(frame.keep(is_object), (Json(),), EVERYTHING, now_ns)
    pairs = apply(frame.keep(~is_object), (Logfmt(),), EVERYTHING, now_ns)
    paths = _paths(objects.line.to_pylist())
    found: dict[str, Field] = {}
    for parser, parsed in (("json", objects), ("logfmt", pairs)):
        for name in parsed.labels.keys() - known.keys():
            before = found.get(name, Field(name, [], ()))
            values = list(dict.fromkeys([*before.values, *values_of(parsed.labels[name])]))
            path = paths.get(name.removesuffix("_extracted"), ()) if parser == "json" else before.path
            found[name] = Field(name, values, (*(before.parsers or ()), parser), path)
    return [field for field in found.values() if field.values]


def values_of(column: Column) -> list[str]:
    """Those that some row has, the first ones first."""
    codes, first = np.unique(column.codes, return_index=True)
    ordered = codes[np.argsort(first)]
    values = column.values.to_pylist()
    return [values[code] for code in ordered.tolist() if code >= 0]


def _paths(lines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Where in the objects each label comes from."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lines:
        try:
            paths = list(_leaves(msgspec.json.decode(line), ()))
        except (msgspec.DecodeError, RecursionError):
            continue  # the stage told it in `__error__`
        for path in paths:
            found.setdefault(reduce(joined, path, ""), path)
    return found


def _leaves(value: object, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _leaves(below, (*at, key))
    elif at:
        yield at
