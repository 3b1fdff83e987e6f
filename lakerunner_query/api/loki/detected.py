"""The endpoints of Loki that detect labels, fields and patterns of lines.

    {"took":"5ms","user":{"id":7}}   ->   took  duration  json  ["took"]
    status=200 path=/                     user_id  int  json  ["user","id"]
                                          status   int  logfmt

Fields are those of a sample, the newest lines of the query: `line_limit` of them, counted in the header
`X-Lakerunner-Sampled-Lines`. A line that is an object is read as JSON, any other as logfmt, by the stages of
a query, so that a field has the name that a query gives it. Patterns count every line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from litestar import Request, Response, get, route

from lakerunner_query.api.loki.names import question
from lakerunner_query.api.loki.params import limit, log_query_text, query_text, selector, step_ns, time_range
from lakerunner_query.api.loki.render import JSON, METHODS, bare, reply
from lakerunner_query.api.shared.auth import caller
from lakerunner_query.api.shared.requests import RequestFields, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.languages import LOG_LINES, PATTERNS, STREAM_VALUES
from lakerunner_query.coordinator.logql_lines import read_rows
from lakerunner_query.coordinator.merge import RowMerge
from lakerunner_query.coordinator.names import Listing, StreamsRequest
from lakerunner_query.errors import InvalidRequestError, LimitExceededError
from lakerunner_query.gotext import conversions
from lakerunner_query.logql.frame import Category, Column, LogFrame, of_texts
from lakerunner_query.logql.lang.ast import SPECIAL, Json, Logfmt, LogQuery, Pattern, Regexp, Stage, Unpack
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.pipeline import Demand, apply
from lakerunner_query.logql.stages.extract import nested_name
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.serving import unless_gone
from resources.lake.timecut import SECOND_NS

MAX_PATTERNS = 300
MAX_SAMPLES = 1_000_000
"""Samples of an answer: patterns times steps."""


@route("/patterns", http_method=METHODS, status_code=200, media_type=JSON)
async def patterns(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List patterns of lines, the most frequent first."""
    fields = await read_fields(request)
    start, end = time_range(fields, time.time_ns(), services.settings.query_default_window_s)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    step = max(SECOND_NS, step_ns(fields, start, end) // SECOND_NS * SECOND_NS)
    selected = (selector(query_text(fields)),)
    most = limit(fields, MAX_PATTERNS)
    wanted = StreamsRequest(caller(request.state).org, start, end, selected, most, step_ns=step)
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.engine.ask(PATTERNS, wanted))
        watch.end(partial=bool(found.missing))
    data = await asyncio.to_thread(patterns_json, found, wanted)
    return reply(fields, data, found.missing)


def patterns_json(found: Listing, wanted: StreamsRequest) -> bytes:
    """Render a number at every step; leave out the least frequent patterns beyond the limit."""
    step, most = wanted.step_ns, wanted.limit
    buckets = range(wanted.start_ns // step, -(-wanted.end_ns // step))
    ordered = sorted(found.patterns.items(), key=lambda one: (-one[1].total(), one[0]))[:most]
    if len(ordered) * len(buckets) > MAX_SAMPLES:
        raise LimitExceededError(
            f"the answer has more than {MAX_SAMPLES} samples: use a larger step, or a smaller limit"
        )
    return msgspec.json.encode(
        [
            {
                "pattern": text,
                "level": level,
                "samples": [[bucket * step // SECOND_NS, counts[bucket]] for bucket in buckets],
            }
            for (text, level), counts in ordered
        ]
    )


PARSERS: dict[type, str] = {
    Json: "json", Logfmt: "logfmt", Regexp: "regexp", Pattern: "pattern", Unpack: "unpack",
}  # fmt: skip
_BOOLEANS = frozenset({"1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"})
EVERYTHING = Demand(None)


@dataclass(frozen=True, slots=True)
class Field:
    """A field that lines have in common."""

    label: str
    values: list[str]
    """Distinct values, in the order of the lines."""
    parsers: tuple[str, ...] | None
    """Stages that make the field in a query; None: it is metadata."""
    path: tuple[str, ...] = ()
    """Keys that lead to it in a JSON object."""

    def as_json(self) -> dict[str, object]:
        rendered: dict[str, object] = {
            "label": self.label,
            "type": type_of(self.values[0]),
            "cardinality": len(self.values),
            "parsers": None if self.parsers is None else list(self.parsers),
        }
        return rendered | ({"jsonPath": list(self.path)} if self.path else {})


def fields_of(rows: pa.Table, text: str, now_ns: int) -> list[Field]:
    """Detect fields of all rows, by name; parsers are the query's own stages where it has any."""
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
    shown = (one for one in found if one.values and one.label not in SPECIAL)
    return sorted(shown, key=lambda one: one.label)


def type_of(value: str) -> str:
    """Return the type as which a value can be compared.

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
    """Make label columns out of one JSON object per row."""
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
    """Return distinct values in the order in which rows have them."""
    codes, first = np.unique(column.codes, return_index=True)
    ordered = codes[np.argsort(first)]
    values = column.values.to_pylist()
    return [values[code] for code in ordered.tolist() if code >= 0]


def _paths(lines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the path in the objects that each label comes from."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lines:
        try:
            paths = list(_leaves(msgspec.json.decode(line), ()))
        except (msgspec.DecodeError, RecursionError):
            continue  # the stage notes it in `__error__`
        for path in paths:
            found.setdefault(reduce(nested_name, path, ""), path)
    return found


def _leaves(value: object, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _leaves(below, (*at, key))
    elif at:
        yield at


MAX_FIELDS = 1000
SAMPLE = 100
MAX_SAMPLE = 5000
SAMPLED = "X-Lakerunner-Sampled-Lines"


@route("/detected_labels", http_method=METHODS, status_code=200, media_type=JSON)
async def detected_labels(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List stream labels with the number of their values."""
    fields = await read_fields(request)
    wanted = question(fields, caller(request.state).org, *fields.all("query"))
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.engine.ask(STREAM_VALUES, wanted))
        watch.end(partial=bool(found.missing))
    listed = [{"label": name, "cardinality": len(values)} for name, values in sorted(found.values.items())]
    return bare(fields, msgspec.json.encode({"detectedLabels": listed}), found.missing)


@route("/detected_fields", http_method=METHODS, status_code=200, media_type=JSON)
async def detected_fields(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List fields of structured metadata and of lines, with their types."""
    fields = await read_fields(request)
    most = limit(fields, MAX_FIELDS)
    listed, collected = await _fields(request, services, fields)
    rendered = [field.as_json() for field in listed[:most]]
    return _reply_sampled(fields, {"fields": rendered, "limit": most}, collected)


@get("/detected_field/{name:str}/values", media_type=JSON)
async def detected_field_values(
    name: str, request: Request[Any, Any, Any], services: Services
) -> Response[bytes]:
    """List the values of one detected field."""
    fields = await read_fields(request)
    most = limit(fields, MAX_FIELDS)
    listed, collected = await _fields(request, services, fields)
    values = next((field.values for field in listed if field.label == name), [])
    return _reply_sampled(fields, {"limit": most, "values": values[:most]}, collected)


async def _fields(
    request: Request[Any, Any, Any], services: Services, fields: RequestFields
) -> tuple[list[Field], RowMerge]:
    now = time.time_ns()
    start, end = time_range(fields, now, services.settings.query_default_window_s)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    within = LogLinesRequest(caller(request.state).org, start, end, _sample(fields))
    with services.watch("loki") as watch:
        rows, collected = await unless_gone(request, _rows(services, log_query_text(fields), within))
        watch.finish(collected)
    return await asyncio.to_thread(fields_of, rows, fields.text("query"), now), collected


async def _rows(services: Services, text: str, within: LogLinesRequest) -> tuple[pa.Table, RowMerge]:
    return await read_rows(services.engine, await services.engine.prepare(LOG_LINES, text, within))


def _sample(fields: RequestFields) -> int:
    lines = limit(RequestFields({"limit": fields.text("line_limit")}, ()), SAMPLE)
    if lines > MAX_SAMPLE:
        raise InvalidRequestError(f"line_limit must not be greater than {MAX_SAMPLE}")
    return lines


def _reply_sampled(fields: RequestFields, data: dict[str, object], collected: RowMerge) -> Response[bytes]:
    response = bare(fields, msgspec.json.encode(data), collected.missing)
    response.headers[SAMPLED] = str(collected.rows)
    return response
