"""Relations of a statement that no scan brings: `promql()`, `logql()`, `traceql()`, and the catalogue.

    promql('rate(m[5m])', '1m')    timestamp, value, labels, metric_name, histogram       one row per sample
    logql('{app="a"} | json')      timestamp, tsns, message, labels, metadata, parsed     one row per line
    traceql('{ status = error }')  one row per matched span; of a metrics query one per sample

A query for samples is evaluated at whole multiples of its step within the interval of the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
from sqlglot import exp

from lakerunner_query.coordinator import languages
from lakerunner_query.coordinator.engine import MAX_STEPS, Engine
from lakerunner_query.coordinator.lakeql_traces import SPANS, find_samples, find_spans, is_search
from lakerunner_query.coordinator.logql_lines import is_log_query, read_rows
from lakerunner_query.coordinator.logql_samples import LogSamplesRequest
from lakerunner_query.coordinator.merge import SampleResult
from lakerunner_query.coordinator.names import SeriesRequest
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.errors import InvalidRequestError, QueryError
from lakerunner_query.gotext.durations import go_nanoseconds
from lakerunner_query.lakeql.macros import DIALECT
from lakerunner_query.lakeql.statement import is_sql
from lakerunner_query.lakeql.tables import TABLES
from lakerunner_query.lakeql.views import RELATIONS, VIEWS
from lakerunner_query.logql.lang.parser import parse_cached as parse_logql
from lakerunner_query.plan.lakeql import FunctionRead, LakeQLRequest
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.plan.traceql import TraceMetricsRequest, TraceSearchRequest
from lakerunner_query.protocol.answers import MetricFact
from lakerunner_query.protocol.units import Missing
from lakerunner_query.traceql.lang.parser import parse_cached as parse_traceql
from lakerunner_query.vectors.vector import NAME, Labels
from resources.lake.frequency import AS_SENT
from resources.lake.timecut import SECOND_NS

NS_PER_MS = 1_000_000
POINTS = 250
"""Steps of a query that names none, about."""
TEXTS = pa.map_(pa.string(), pa.string())
SAMPLES = pa.schema(
    [
        ("timestamp", pa.timestamp("us")),
        ("value", pa.float64()),
        ("labels", TEXTS),
        ("metric_name", pa.string()),
        ("histogram", pa.string()),
    ]
)
"""A native histogram is the JSON of Prometheus' API, and has no value."""
LINES = pa.schema(
    [
        ("timestamp", pa.timestamp("us")), ("tsns", pa.int64()), ("message", pa.string()),
        ("labels", TEXTS), ("metadata", TEXTS), ("parsed", TEXTS),
    ]
)  # fmt: skip
COLUMNS = pa.schema(
    [
        ("table_catalog", pa.string()), ("table_schema", pa.string()), ("table_name", pa.string()),
        ("column_name", pa.string()), ("ordinal_position", pa.int64()), ("is_nullable", pa.string()),
        ("data_type", pa.string()), ("comment", pa.string()),
    ]
)  # fmt: skip
LISTED_TABLES = pa.schema(
    [
        ("table_catalog", pa.string()), ("table_schema", pa.string()), ("table_name", pa.string()),
        ("table_type", pa.string()), ("comment", pa.string()),
    ]
)  # fmt: skip
SEMANTICS = pa.schema(
    [
        ("table_name", pa.string()), ("metric_name", pa.string()), ("type", pa.string()),
        ("unit", pa.string()), ("description", pa.string()), ("temporality", pa.string()),
        ("rows", pa.int64()), ("rejected", pa.int64()), ("quarantined", pa.int64()),
        ("parked_objects", pa.int64()), ("reason", pa.string()),
    ]
)  # fmt: skip
"""A row for each metric, and one for each table with what ingestion took and could not keep."""
_LOSSES = ("rows", "rejected", "quarantined", "parked_objects", "reason")
CATALOG, SCHEMA = "lakerunner", "public"


@dataclass(slots=True)
class Source:
    table: pa.Table
    missing: dict[str, Missing] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


def columns_of(read: FunctionRead) -> pa.Schema:
    """Return the columns of a table function."""
    if read.language == "traceql":
        return SPANS if is_search(read.text) else SAMPLES
    return LINES if read.language == "logql" and is_log_query(read.text) else SAMPLES


async def read_function(engine: Engine, read: FunctionRead, request: LakeQLRequest, now_ns: int) -> Source:
    """Evaluate the query of a table function with its own engine."""
    start_ns, end_ns = read.start_ns, min(read.end_ns, max(now_ns, read.start_ns))
    if read.language == "logql" and is_log_query(read.text):
        return await _lines(engine, read, request, start_ns, end_ns)
    if read.language == "traceql" and is_search(read.text):
        searched = TraceSearchRequest(request.org, start_ns, end_ns, timeout_s=request.timeout_s)
        table, traces = await find_spans(engine, read.text, searched)
        return Source(table, dict(traces.missing))
    step_ns = _step_ns(read.step, end_ns - start_ns)
    first, last = -(-start_ns // step_ns) * step_ns, end_ns // step_ns * step_ns
    if last < first:
        return Source(SAMPLES.empty_table())
    if (last - first) // step_ns > MAX_STEPS:
        raise InvalidRequestError(
            f"{read.language}() has more than {MAX_STEPS} steps: use a larger one, or bound timestamp"
        )
    if read.language == "traceql":
        steps = (last - first) // step_ns + 1
        counted = TraceMetricsRequest(request.org, first, step_ns, steps, timeout_s=request.timeout_s)
        return Source(*await find_samples(engine, read.text, counted, SAMPLES))
    if read.language == "promql":
        asked = PromQLRequest(
            request.org,
            first // NS_PER_MS,
            last // NS_PER_MS,
            step_ns // NS_PER_MS,
            timeout_s=request.timeout_s,
        )
        found = await engine.collect(await engine.prepare(languages.PROMQL, read.text, asked, now_ns))
    else:
        repeated_ns = step_ns if first < last else 0  # some functions are for a single time only
        wanted = LogSamplesRequest(request.org, first, last, repeated_ns, request.timeout_s)
        found = await engine.collect(await engine.prepare(languages.LOG_SAMPLES, read.text, wanted, now_ns))
    notices = [note.render(read.text) for note in found.annotations]
    return Source(samples_table(found), dict(found.missing), notices)


async def _lines(
    engine: Engine, read: FunctionRead, request: LakeQLRequest, start_ns: int, end_ns: int
) -> Source:
    limit = engine.limits.max_rows
    asked = LogLinesRequest(
        request.org, start_ns, end_ns + 1, limit, reverse=False, distinct=True, timeout_s=request.timeout_s
    )
    query = await engine.prepare(languages.LOG_LINES, read.text, asked)
    rows, merge = await read_rows(engine, query)
    if rows.num_rows >= limit:
        raise InvalidRequestError(f"logql() has {limit} lines or more: filter more, or bound timestamp")
    times = pa.array(rows["tsns"].to_numpy() // 1000).cast(pa.timestamp("us"))
    maps = [_maps(rows[name].cast(pa.string())) for name in ("labels", "metadata", "parsed")]
    table = pa.table([times, rows["tsns"], rows["line"], *maps], schema=LINES)
    return Source(table, dict(merge.missing))


_FLOATS = msgspec.json.Decoder(list[tuple[float, str]])
_HISTOGRAMS = msgspec.json.Decoder(list[tuple[float, msgspec.Raw]])


def samples_table(found: SampleResult) -> pa.Table:
    """Turn series of rendered samples into rows, numbers before histograms."""
    times, values, histograms, counts = list[float](), list[float | None](), list[str | None](), list[int]()
    for one in found.series:
        floats = _FLOATS.decode(b"[" + one.floats + b"]")
        others = _HISTOGRAMS.decode(b"[" + one.histograms + b"]")
        times += [at for at, _ in (*floats, *others)]
        values += [float(text) for _, text in floats] + [None] * len(others)
        histograms += [None] * len(floats) + [bytes(raw).decode() for _, raw in others]
        counts.append(len(floats) + len(others))
    if not times:
        return SAMPLES.empty_table()
    sets = [one.labels for one in found.series]
    numbers = pa.array(np.repeat(np.arange(len(counts)), counts))
    labels = pa.array([[pair for pair in one if pair[0] != NAME] for one in sets], TEXTS).take(numbers)
    names = pa.array([_name(one) for one in sets], pa.string()).take(numbers)
    moments = pa.array(np.round(np.array(times) * 1e6).astype(np.int64)).cast(pa.timestamp("us"))
    shown = [moments, pa.array(values, pa.float64()), labels, names, pa.array(histograms, pa.string())]
    return pa.table(shown, schema=SAMPLES)


def _name(labels: Labels) -> str | None:
    return next((value for name, value in labels if name == NAME), None)


def _maps(texts: pa.ChunkedArray) -> pa.Array:
    """Turn JSON objects into maps, each distinct one once."""
    coded = texts.combine_chunks().dictionary_encode()
    sets = [
        list(msgspec.json.decode(text or "{}", type=dict[str, str]).items())
        for text in coded.dictionary.to_pylist()
    ]
    return pa.array(sets, TEXTS).take(coded.indices)


def _step_ns(text: str, width_ns: int) -> int:
    """Return the step, or one that gives some hundred points."""
    if not text:
        return max(SECOND_NS, -(-width_ns // POINTS // SECOND_NS) * SECOND_NS)
    found = go_nanoseconds(text)
    if found is None or found < NS_PER_MS:
        raise InvalidRequestError(f"the step {text!r} is no duration such as '30s', '1m' or '1h'")
    return found // NS_PER_MS * NS_PER_MS


def catalogue(name: str, types: Mapping[str, Mapping[str, str]]) -> pa.Table:
    """Return a relation about the tables; `types` are columns by table, as workers told them."""
    if name == "information_schema.tables":
        rows = [
            (CATALOG, SCHEMA, one.name, "VIEW" if one.name in VIEWS else "BASE TABLE", one.meaning)
            for one in RELATIONS.values()
        ]
        return _table(rows, LISTED_TABLES)
    columns = []
    for table in RELATIONS.values():
        meanings = {one.name: one.meaning for one in table.columns}
        known = types.get(table.name) or {one.name: one.type for one in table.columns}
        for place, (column, kind) in enumerate(known.items(), 1):
            meaning = meanings.get(column, "attribute or label as sent")
            columns.append((CATALOG, SCHEMA, table.name, column, place, "YES", kind, meaning))
    return _table(columns, COLUMNS)


async def read_semantics(engine: Engine, request: LakeQLRequest) -> pa.Table:
    """Return `table_semantics` for the interval of the request."""
    end_ns = request.end_ns or request.now_ns
    start_ns = request.start_ns or end_ns - request.window_s * SECOND_NS
    asked = SeriesRequest(
        request.org, start_ns // NS_PER_MS, end_ns // NS_PER_MS, timeout_s=request.timeout_s
    )
    facts = (await engine.ask(languages.METADATA, asked)).facts
    return semantics(facts, await engine.ingest_losses(request.org, start_ns, end_ns))


def semantics(facts: Sequence[MetricFact], losses: Sequence[Mapping[str, object]]) -> pa.Table:
    """Put what is known of metrics below what ingestion took of each signal and could not keep."""
    tables = {one.signal.value: one.name for one in TABLES.values() if one.frequency_ms == AS_SENT}
    blank = (None,) * len(_LOSSES)
    rows: list[tuple[object, ...]] = [
        (
            tables[str(one["signal"])],
            *[None] * 5,
            *(one[name] or None if name == "reason" else one[name] for name in _LOSSES),
        )
        for one in losses
    ]
    rows += [
        ("metrics", one.name, one.type, one.unit, one.description, one.temporality or None, *blank)
        for one in facts
    ]
    return _table(rows, SEMANTICS)


def _table(rows: Iterable[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(list(each), one.type) for each, one in zip(columns, schema, strict=True)], schema=schema
    )


def arrow_type(kind: pa.DataType) -> str:
    """Return DuckDB's name of a column's type here."""
    names = {
        pa.timestamp("us"): "TIMESTAMP", pa.float64(): "DOUBLE", pa.int64(): "BIGINT", pa.string(): "VARCHAR",
        TEXTS: "MAP(VARCHAR, VARCHAR)",
    }  # fmt: skip
    return names[kind]


def as_sql(text: str) -> str:
    """Turn PromQL, LogQL or TraceQL into a statement."""
    if is_sql(text) or not text.strip():
        return text
    name = "logql" if _is_logql(text) else "promql"
    if name == "logql" and not _parses(parse_logql, text) and _parses(parse_traceql, text):
        name = "traceql"
    return f"SELECT * FROM {name}({exp.Literal.string(text).sql(DIALECT)})"


def _is_logql(text: str) -> bool:
    """Tell LogQL from PromQL: what both read is LogQL, unless it names a metric."""
    if "{" not in text or "__name__" in text:
        return False
    return _parses(parse_logql, text) or text.lstrip().startswith("{")


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except QueryError:
        return False
    return True
