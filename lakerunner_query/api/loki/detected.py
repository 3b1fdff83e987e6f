"""Fields of sampled lines: what structured metadata, JSON and logfmt hold, and what the values look like.

    {"took":"5ms","user":{"id":7}}   ->   took  duration  json  ["took"]
    status=200 path=/                     user_id  int  json  ["user","id"]
                                          status   int  logfmt

The lines go through the same stages as those of a query, so that a field is called what a query calls it.
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
from lakerunner_query.coordinator.merge import Collected
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

# << Of which shapes lines are, and how many of each when, as Loki's API tells it.
# <<
# << Every line counts; the text of a pattern is made from one line of it. The most frequent patterns are
# << told, of
# << which the least are left out where there are more than `limit`.

MOST = 300
MOST_SAMPLES = 1_000_000
"""Of an answer: patterns times steps."""


@route("/patterns", http_method=METHODS, status_code=200, media_type=JSON)
async def patterns(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Patterns of lines, the most frequent first."""
    asked = await read_fields(request)
    start, end = time_range(asked, time.time_ns(), services.settings.query_default_window_s)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    step = max(SECOND_NS, step_ns(asked, start, end) // SECOND_NS * SECOND_NS)
    selected = (selector(query_text(asked)),)
    most = limit(asked, MOST)
    wanted = StreamsRequest(caller(request.state).org, start, end, selected, most, step_ns=step)
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.engine.ask(PATTERNS, wanted))
        watch.ended(partial=bool(found.missing))
    data = await asyncio.to_thread(patterns_json, found, wanted)
    return reply(asked, data, found.missing)


def patterns_json(found: Listing, wanted: StreamsRequest) -> bytes:
    """A number at every step, also where there is none."""
    step, most = wanted.step_ns, wanted.limit
    buckets = range(wanted.start_ns // step, -(-wanted.end_ns // step))
    ordered = sorted(found.patterns.items(), key=lambda one: (-one[1].total(), one[0]))[:most]
    if len(ordered) * len(buckets) > MOST_SAMPLES:
        raise LimitExceededError(
            f"the answer has more than {MOST_SAMPLES} samples: use a larger step, or a smaller limit"
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
            found.setdefault(reduce(nested_name, path, ""), path)
    return found


def _leaves(value: object, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _leaves(below, (*at, key))
    elif at:
        yield at


# << Which labels tell streams apart, and which fields lines hold, as Loki's API tells them.
# <<
# << Labels come from stream tables. Fields are those of a sample: the newest lines of the query,
# << `line_limit` of
# << them, of which the header `X-Lakerunner-Sampled-Lines` says how many there were; a line that is an
# << object is
# << read as JSON, any other as logfmt.

MOST_FIELDS = 1000
SAMPLE = 100
MAX_SAMPLE = 5000
SAMPLED = "X-Lakerunner-Sampled-Lines"


@route("/detected_labels", http_method=METHODS, status_code=200, media_type=JSON)
async def detected_labels(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Stream labels and how many values each has."""
    asked = await read_fields(request)
    wanted = question(asked, caller(request.state).org, *asked.all("query"))
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.engine.ask(STREAM_VALUES, wanted))
        watch.ended(partial=bool(found.missing))
    listed = [{"label": name, "cardinality": len(values)} for name, values in sorted(found.values.items())]
    return bare(asked, msgspec.json.encode({"detectedLabels": listed}), found.missing)


@route("/detected_fields", http_method=METHODS, status_code=200, media_type=JSON)
async def detected_fields(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Fields of structured metadata and of lines, with their types."""
    asked = await read_fields(request)
    most = limit(asked, MOST_FIELDS)
    fields, collected = await _fields(request, services, asked)
    told = [field.told() for field in fields[:most]]
    return _sampled(asked, {"fields": told, "limit": most}, collected)


@get("/detected_field/{name:str}/values", media_type=JSON)
async def detected_field_values(
    name: str, request: Request[Any, Any, Any], services: Services
) -> Response[bytes]:
    """Values of one of those fields."""
    asked = await read_fields(request)
    most = limit(asked, MOST_FIELDS)
    fields, collected = await _fields(request, services, asked)
    values = next((field.values for field in fields if field.label == name), [])
    return _sampled(asked, {"limit": most, "values": values[:most]}, collected)


async def _fields(
    request: Request[Any, Any, Any], services: Services, asked: RequestFields
) -> tuple[list[Field], Collected]:
    now = time.time_ns()
    start, end = time_range(asked, now, services.settings.query_default_window_s)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    within = LogLinesRequest(caller(request.state).org, start, end, _sample(asked))
    with services.watch("loki") as watch:
        rows, collected = await unless_gone(request, _rows(services, log_query_text(asked), within))
        watch.finished(collected)
    return await asyncio.to_thread(fields_of, rows, asked.text("query"), now), collected


async def _rows(services: Services, text: str, within: LogLinesRequest) -> tuple[pa.Table, Collected]:
    return await read_rows(services.engine, await services.engine.prepare(LOG_LINES, text, within))


def _sample(asked: RequestFields) -> int:
    lines = limit(RequestFields({"limit": asked.text("line_limit")}, ()), SAMPLE)
    if lines > MAX_SAMPLE:
        raise InvalidRequestError(f"line_limit must not be greater than {MAX_SAMPLE}")
    return lines


def _sampled(asked: RequestFields, told: dict[str, object], collected: Collected) -> Response[bytes]:
    response = bare(asked, msgspec.json.encode(told), collected.missing)
    response.headers[SAMPLED] = str(collected.rows)
    return response
