"""Tagged events: the shape of answers that CardinalHQ's `lakerunner-cli` reads.

    {"type":"result","data":{"timestamp":1767225600000,"timestamp_ns":1767225600000000007,
                             "tags":{"message":"...","level":"ERROR","service":"web","service_name":"web"}}}
    {"type":"done"}

The client asks for any tag in a selector, `{service="web", level="ERROR"}`. A tag that no stream has as a
label becomes a filter behind the selector, and `service` and `level` get the names that they have here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
from litestar import Request

from lakerunner_query.errors import ParseError
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse_cached
from lakerunner_query.logql.lang.printer import log_query_text, selector_text
from lakerunner_query.serving import Failure
from lakerunner_query.syntax import Matcher, MatchOp

CLIENT = "lakerunner-cli/"
"""Beginning of the `User-Agent` of the client that this shape is for."""
SHAPE_HEADER = "x-lakerunner-shape"
TAGS = "tags"
CHUNK_ROWS = 500
COLUMNS = ("tsns", "line", "labels", "metadata", "parsed")
NS_PER_MS = 1_000_000
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]|^(?=[0-9])")
SERVICE, LEVEL = "service_name", "detected_level"
NAMES_HERE = {"service": SERVICE, "resource_service_name": SERVICE, "level": LEVEL, "log_level": LEVEL}
"""Names of the client's tags in this lake, unless streams have labels called so."""
EVERY_STREAM = Matcher(SERVICE, MatchOp.REGEX, ".+")
BASE = frozenset({"message", "level", "service", SERVICE, "k8s_pod_name"})
"""Tags that are there whatever `fields` says: the client's own columns."""
DONE = b'data: {"type":"done"}\n\n'
"""End of the stream, to the byte: the client takes any other for a row."""
HEARTBEAT = b": heartbeat\n\n"


def wants_tags(request: Request[Any, Any, Any]) -> bool:
    """Tell whether the caller reads tagged events: it says so, or is the client."""
    headers = request.headers
    return headers.get(SHAPE_HEADER, "").lower() == TAGS or headers.get("user-agent", "").startswith(CLIENT)


def name_here(tag: str, stream_labels: Collection[str]) -> str:
    """
    >>> name_here("level", []), name_here("level", ["level"]), name_here("trace_id", [])
    ('detected_level', 'level', 'trace_id')
    """
    return tag if tag in stream_labels else NAMES_HERE.get(tag, tag)


def translated(text: str, stream_labels: Collection[str]) -> str:
    """Move matchers that no stream can satisfy behind the selector.

    >>> translated('{service=~".+", level="ERROR"} |= "x"', ["service_name"])
    '{service_name=~".+"} | detected_level=~"(?i)ERROR" |= "x"'
    """
    query = parse_cached(text)
    if not isinstance(query, LogQuery):
        return text
    kept: list[Matcher] = []
    moved: list[Matcher] = []
    for matcher in query.matchers:
        named = replace(matcher, name=name_here(matcher.name, stream_labels))
        (kept if named.name in {SERVICE, *stream_labels} else moved).append(named)
    if not moved:
        return log_query_text(replace(query, matchers=tuple(kept)))
    selector = tuple(kept) if any(map(_demands, kept)) else (*kept, EVERY_STREAM)
    pipeline = log_query_text(replace(query, matchers=selector)).removeprefix(selector_text(selector))
    return selector_text(selector) + "".join(map(_filter, moved)) + pipeline


def _demands(matcher: Matcher) -> bool:
    """Tell whether a matcher alone makes a selector, as the language demands."""
    return not matcher.op.is_negative and matcher.value not in {"", ".*"}


def _filter(matcher: Matcher) -> str:
    """Write a condition on a label; levels are compared without regard to case."""
    op, value = matcher.op, matcher.value
    if matcher.name == LEVEL:
        value = "(?i)" + (value if op.is_regex else re.escape(value))
        op = MatchOp.NOT_REGEX if op.is_negative else MatchOp.REGEX
    return f" | {matcher.name}{op}{LOGQL.quote(value)}"


def values_query(tag: str, text: str, stream_labels: Collection[str], range_s: int) -> str:
    """Write the query whose series name the values of a tag that is no label of streams."""
    lines = translated(text or selector_text((EVERY_STREAM,)), stream_labels)
    query = parse_cached(lines)
    if not isinstance(query, LogQuery):
        raise ParseError("only a query for log lines selects the lines whose tags are listed")
    return f"sum by ({plain(tag)}) (count_over_time({lines} [{max(range_s, 1)}s]))"


def plain(tag: str) -> str:
    """Return the name of a label as queries write it.

    >>> plain("k8s.pod.name"), plain("a) or vector(1")
    ('k8s_pod_name', 'a__or_vector_1')
    """
    return _NO_NAME.sub("_", tag)


def value_events(values: Collection[str]) -> bytes:
    """Render the values of one tag."""
    encode = msgspec.json.Encoder().encode
    events = [b"data: " + encode({"type": "result", "data": {"value": each}}) + b"\n\n" for each in values]
    return b"".join(events) + DONE


def failure_event(failure: Failure) -> bytes:
    """Render an error that came after the first byte so that the client prints it as a line."""
    tags = {"level": "ERROR", "message": failure.message}
    data = {"status": failure.status, "code": failure.code, "message": failure.message, "tags": tags}
    return b"data: " + msgspec.json.encode({"type": "error", "data": data}) + b"\n\n"


def row_events(rows: pa.Table, fields: Collection[str]) -> list[bytes]:
    """Render one event per row, several to a chunk of bytes; `fields` narrows the tags."""
    events = list(_row_events(rows, BASE.union(fields) if fields else None))
    return [b"".join(events[at : at + CHUNK_ROWS]) for at in range(0, len(events), CHUNK_ROWS)]


def _row_events(rows: pa.Table, wanted: Collection[str] | None) -> Iterator[bytes]:
    encode, decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(dict[str, str]).decode
    for tsns, line, *objects in zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True):
        labels, metadata, parsed = map(decode, objects)
        tags = metadata | parsed | labels | {"message": line}
        tags.setdefault("service", tags.get(SERVICE, ""))
        tags.setdefault("level", tags.get(LEVEL, "").upper())
        if wanted is not None:
            tags = {name: value for name, value in tags.items() if name in wanted}
        times = b'"timestamp":%d,"timestamp_ns":%d' % (tsns // NS_PER_MS, tsns)
        yield b'data: {"type":"result","data":{' + times + b',"tags":' + encode(tags) + b"}}\n\n"
