"""`traceql()` gives rows of a statement: spans that a search matches, or samples of a metrics query.

    traceql('{ status = error }')             one row per matched span, with the root of its trace
    traceql('{} | rate() by (name)', '1m')    one row per series and step, as promql() has them

Spans stand once for each span set that they are in: `by()` makes several of one trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
from anyio.to_thread import run_sync

from lakerunner_query.coordinator import languages
from lakerunner_query.coordinator.engine import Engine
from lakerunner_query.coordinator.traceql import FoundTraces, series_of
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.gotext.durations import duration_text
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.plan.traceql import TraceMetricsRequest, TraceSearchRequest
from lakerunner_query.protocol.traces import FoundTrace, Named, TypedValue
from lakerunner_query.protocol.units import Missing
from lakerunner_query.traceql.lang.ast import Attribute, Intrinsic, Pipeline, Query, Scope, Select
from lakerunner_query.traceql.lang.parser import parse_cached
from lakerunner_query.traceql.lang.printer import print_query
from lakerunner_query.traceql.series import Series

MOST_SPANS = 1_000_000
"""Rows of one `traceql()`; the API holds them at once."""
TEXTS = pa.map_(pa.string(), pa.string())
US = pa.timestamp("us")
SERVICE, NAME = Attribute("service.name", Scope.RESOURCE), Intrinsic("name")
SPANS = pa.schema(
    [
        ("timestamp", US), ("tsns", pa.int64()), ("trace_id", pa.string()), ("span_id", pa.string()),
        ("name", pa.string()), ("duration_ns", pa.int64()), ("root_service_name", pa.string()),
        ("root_name", pa.string()), ("trace_tsns", pa.int64()), ("trace_duration_ns", pa.int64()),
        ("span_set", pa.int64()), ("attributes", TEXTS), ("set_attributes", TEXTS),
    ]
)  # fmt: skip
Row = tuple[object, ...]


def is_search(text: str) -> bool:
    return isinstance(parse_cached(text).body, Pipeline)


async def find_spans(engine: Engine, text: str, request: TraceSearchRequest) -> tuple[pa.Table, FoundTraces]:
    """Return the matched spans of all traces that overlap the range."""
    most = engine.limits.max_rows
    asked = replace(request, limit=most, spans_per_set=0)
    prepared = await engine.prepare(languages.TRACE_SEARCH, print_query(_with_names(text)), asked)
    found = FoundTraces(limit=most)
    spans = 0
    async with aclosing(engine.run(prepared, found)) as pieces:
        async for fresh in pieces:
            spans += sum(one.matched for trace in fresh for one in trace.sets)
            if spans > MOST_SPANS:
                raise LimitExceededError(
                    f"traceql() has more than {MOST_SPANS} spans: match fewer, or bound timestamp"
                )
    found.missing.update(prepared.missing)
    if len(found.traces) >= most:
        raise LimitExceededError(f"traceql() has {most} traces or more: match fewer, or bound timestamp")
    return await run_sync(spans_table, found.traces), found


def _with_names(text: str) -> Query:
    """Add the names of spans and services to what a search shows; that changes nothing else."""
    query = parse_cached(text)
    stages = query.body.stages if isinstance(query.body, Pipeline) else ()
    return replace(query, body=Pipeline((*stages, Select((NAME, SERVICE)))))


def spans_table(traces: Sequence[FoundTrace]) -> pa.Table:
    columns = list(zip(*_rows(traces), strict=True)) or [()] * len(SPANS)
    arrays = [pa.array(list(each), kind.type) for each, kind in zip(columns, SPANS, strict=True)]
    return pa.table(arrays, schema=SPANS)


def _rows(traces: Sequence[FoundTrace]) -> Iterator[Row]:
    for trace in traces:
        facts = (trace.root_service, trace.root_name, trace.start_ns, trace.end_ns - trace.start_ns)
        for number, one in enumerate(trace.sets):
            about_set = texts_of(one.attributes)
            for span in one.spans:
                yield (
                    span.start_ns // 1000, span.start_ns, trace.trace_id, span.span_id, span.name,
                    span.duration_ns, *facts, number, texts_of(span.attributes), about_set,
                )  # fmt: skip


def texts_of(named: Named) -> list[tuple[str, str]]:
    """Return values as texts by name; of a name in two scopes the last one, which is the span's."""
    return list({name: text_of(value) for name, value in named}.items())


def text_of(value: TypedValue) -> str:
    """Write a value as TraceQL's answers show it; a list is its JSON.

    >>> text_of(TypedValue("duration", 1_500_000_000)), text_of(TypedValue("bool", True))
    ('1.5s', 'true')
    """
    found = value.value
    if isinstance(found, tuple | list):
        return msgspec.json.encode(found).decode()
    if found is None:
        return "nil"
    if isinstance(found, bool):
        return "true" if found else "false"
    if value.type == "duration" and isinstance(found, int):
        return duration_text(found)
    return format_float(found) if isinstance(found, float) else str(found)


async def find_samples(
    engine: Engine, text: str, request: TraceMetricsRequest, schema: pa.Schema
) -> tuple[pa.Table, dict[str, Missing]]:
    """Return the samples of a metrics query; steps without a value have none."""
    prepared = await engine.prepare(languages.TRACE_METRICS, text, request)
    found = await engine.collect(prepared)
    table = await run_sync(samples_table, series_of(prepared, found), request, schema)
    return table, dict(found.missing)


def samples_table(series: Sequence[Series], request: TraceMetricsRequest, schema: pa.Schema) -> pa.Table:
    times = (np.arange(request.steps) * request.step_ns + request.start_ns) // 1000
    kept = [np.flatnonzero(~np.isnan(one.values)) for one in series]
    if not any(map(len, kept)):
        return schema.empty_table()
    owners = pa.array(np.repeat(np.arange(len(series)), [len(each) for each in kept]))
    moments = pa.array(np.concatenate([times[each] for each in kept])).cast(US)
    values = np.concatenate([one.values[each] for one, each in zip(series, kept, strict=True)])
    labels = [
        texts_of(tuple((name, TypedValue(kind, value)) for name, kind, value in one.labels))  # type: ignore[arg-type]
        for one in series
    ]
    columns = {
        "timestamp": moments,
        "value": pa.array(values),
        "labels": pa.array(labels, TEXTS).take(owners),
    }
    absent = pa.nulls(len(owners), pa.string())
    return pa.table([columns.get(name, absent) for name in schema.names], schema=schema)
