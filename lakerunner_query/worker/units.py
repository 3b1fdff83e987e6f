"""A reader process answers units; `UNITS` has one row per type of unit.

A row names the reader that answers the unit, and the encoder of the answer. Answers to metric queries are
kept for whoever asks the same again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from lakerunner_query.errors import InvalidRequestError, LimitExceededError, WorkFailedError
from lakerunner_query.protocol.answers import (
    MetricAnswer,
    SamplesAnswer,
    ShardAnswer,
    encode_facts,
    encode_metric_answer,
    encode_patterns_answer,
    encode_samples_answer,
    encode_series_answer,
    encode_shard_answer,
    encode_streams_answer,
)
from lakerunner_query.protocol.tables import encode_answer, encode_table_answer
from lakerunner_query.protocol.traces import TraceAnswer, TraceMetricsAnswer, TraceSearchAnswer, encode_traces
from lakerunner_query.protocol.units import (
    ExemplarUnit,
    LogMetricUnit,
    LogUnit,
    MetadataUnit,
    MetricUnit,
    PatternsUnit,
    SamplesUnit,
    SchemaUnit,
    SeriesUnit,
    ShardUnit,
    SpanTagsUnit,
    StreamsUnit,
    TableUnit,
    TraceMetricsUnit,
    TraceSearchUnit,
    TraceUnit,
    Unit,
    UnitReport,
)
from lakerunner_query.worker.logs.lines import LineScanner
from lakerunner_query.worker.logs.patterns import PatternReader
from lakerunner_query.worker.logs.samples import LogSampleScanner
from lakerunner_query.worker.logs.segment_opener import SegmentOpener
from lakerunner_query.worker.logs.stream_listing import StreamLister
from lakerunner_query.worker.metrics.exemplars import ExemplarReader
from lakerunner_query.worker.metrics.names_and_metadata import MetadataReader, SeriesLister
from lakerunner_query.worker.metrics.promql_units import MetricScanner
from lakerunner_query.worker.metrics.remote_read import SampleReader
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.lru import ByteLru
from lakerunner_query.worker.spans.metrics import TraceMetricsScanner
from lakerunner_query.worker.spans.otlp import TraceReader
from lakerunner_query.worker.spans.search import TraceScanner
from lakerunner_query.worker.spans.tags import SpanTagReader
from lakerunner_query.worker.tables.scan import TableScanner
from lakerunner_query.worker.tables.schema import SchemaReader
from resources.duckdb import Cancellation, DuckSession

CacheableUnit = MetricUnit | ShardUnit | LogMetricUnit
LARGEST_SHARE = 4
"""An answer of more than this part of the budget would push out all the others."""
Counts = Mapping[str, int]
"""Increments of the worker's counters, by series."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of one worker process, shared by all units."""

    log_lines: LineScanner
    log_samples: LogSampleScanner
    metrics: MetricScanner
    series: SeriesLister
    streams: StreamLister
    patterns: PatternReader
    metadata: MetadataReader
    exemplars: ExemplarReader
    samples: SampleReader
    tables: TableScanner
    schemas: SchemaReader
    traces: TraceScanner
    whole_traces: TraceReader
    span_tags: SpanTagReader
    trace_metrics: TraceMetricsScanner

    @classmethod
    def of(cls, logs: SegmentOpener, metrics: MetricOpener, session: DuckSession) -> Readers:
        tables = TableScanner(metrics, session)
        return cls(
            log_lines=LineScanner(logs, session),
            log_samples=LogSampleScanner(logs, session),
            metrics=MetricScanner(metrics),
            series=SeriesLister(metrics),
            streams=StreamLister(logs),
            patterns=PatternReader(logs, session),
            metadata=MetadataReader(metrics),
            exemplars=ExemplarReader(metrics),
            samples=SampleReader(metrics),
            tables=tables,
            schemas=SchemaReader(tables.opener),
            traces=TraceScanner(tables.opener),
            whole_traces=TraceReader(tables.opener),
            span_tags=SpanTagReader(tables.opener),
            trace_metrics=TraceMetricsScanner(tables.opener),
        )


@dataclass(frozen=True, slots=True)
class UnitHandler:
    """Functions that answer a kind of unit, encode the answer, and count it."""

    run: Callable[[Readers, Any, Cancellation], Any]
    encode: Callable[[Any], bytes]
    count: Callable[[Any, Any], Counts]


def _encode_lines(answer: tuple[pa.Table, UnitReport]) -> bytes:
    return encode_answer(*answer)


def _encode_table(answer: tuple[pa.Table, UnitReport]) -> bytes:
    return encode_table_answer(*answer)


def _count_nothing(_unit: Unit, _answer: object) -> Counts:
    return {}


def _count_lines(_unit: LogUnit, answer: tuple[pa.Table, UnitReport]) -> Counts:
    rows, report = answer
    return {
        "lakerunner_worker_rows_total": rows.num_rows,
        "lakerunner_worker_bytes_considered_total": report.bytes_considered,
        "lakerunner_worker_bytes_fetched_total": report.bytes_fetched,
    }


def _count_table(_unit: TableUnit, answer: tuple[pa.Table, UnitReport]) -> Counts:
    report = answer[1]
    return {
        "lakerunner_worker_rows_total": report.rows_considered,
        "lakerunner_worker_bytes_considered_total": report.bytes_considered,
        "lakerunner_worker_bytes_fetched_total": report.bytes_fetched,
    }


def _count_samples(unit: CacheableUnit, answer: MetricAnswer | ShardAnswer) -> Counts:
    report = UnitReport() if _merges_shards(unit) else answer.report  # shards have counted their reads
    return {
        "lakerunner_worker_samples_total": report.rows_considered,
        "lakerunner_worker_bytes_fetched_total": report.bytes_fetched,
    }


def _count_reads(_unit: SamplesUnit, answer: SamplesAnswer) -> Counts:
    return {
        "lakerunner_worker_samples_total": answer.report.rows_considered,
        "lakerunner_worker_bytes_fetched_total": answer.report.bytes_fetched,
    }


def _count_spans(_unit: Unit, answer: TraceSearchAnswer | TraceMetricsAnswer | TraceAnswer) -> Counts:
    return {
        "lakerunner_worker_rows_total": answer.spans_read,
        "lakerunner_worker_bytes_fetched_total": answer.report.bytes_fetched,
    }


UNITS: dict[type[Unit], UnitHandler] = {
    LogUnit: UnitHandler(lambda r, unit, c: r.log_lines.run(unit, c), _encode_lines, _count_lines),
    LogMetricUnit: UnitHandler(
        lambda r, unit, c: r.log_samples.run(unit, c), encode_metric_answer, _count_samples
    ),
    MetricUnit: UnitHandler(lambda r, unit, c: r.metrics.run(unit, c), encode_metric_answer, _count_samples),
    ShardUnit: UnitHandler(lambda r, unit, c: r.metrics.shard(unit, c), encode_shard_answer, _count_samples),
    SeriesUnit: UnitHandler(lambda r, unit, c: r.series.run(unit, c), encode_series_answer, _count_nothing),
    StreamsUnit: UnitHandler(
        lambda r, unit, c: r.streams.run(unit, c), encode_streams_answer, _count_nothing
    ),
    PatternsUnit: UnitHandler(
        lambda r, unit, c: r.patterns.run(unit, c), encode_patterns_answer, _count_nothing
    ),
    MetadataUnit: UnitHandler(lambda r, unit, c: r.metadata.run(unit, c), encode_facts, _count_nothing),
    ExemplarUnit: UnitHandler(lambda r, unit, c: r.exemplars.run(unit, c), encode_facts, _count_nothing),
    SamplesUnit: UnitHandler(lambda r, unit, c: r.samples.run(unit, c), encode_samples_answer, _count_reads),
    TableUnit: UnitHandler(lambda r, unit, c: r.tables.run(unit, c), _encode_table, _count_table),
    SchemaUnit: UnitHandler(lambda r, unit, c: r.schemas.run(unit, c), _encode_table, _count_nothing),
    TraceSearchUnit: UnitHandler(lambda r, unit, c: r.traces.search(unit, c), encode_traces, _count_spans),
    TraceUnit: UnitHandler(lambda r, unit, c: r.whole_traces.run(unit, c), encode_traces, _count_spans),
    SpanTagsUnit: UnitHandler(lambda r, unit, c: r.span_tags.run(unit, c), encode_traces, _count_nothing),
    TraceMetricsUnit: UnitHandler(
        lambda r, unit, c: r.trace_metrics.run(unit, c), encode_traces, _count_spans
    ),
}


class AnswerCache:
    """Encoded answers to units of metric queries, up to `max_bytes`; 0 turns the cache off.

    A unit names everything that its answer depends on, its segments among it, and segments never change. So
    nothing is invalidated when a segment is published: the next query brings another unit.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._answers: ByteLru[CacheableUnit, bytes] = ByteLru(max_bytes, len)

    def get(self, unit: CacheableUnit) -> bytes | None:
        if not self._max_bytes or _merges_shards(unit):
            return None
        return self._answers.get(_key(unit))

    def put(self, unit: CacheableUnit, body: bytes) -> None:
        if not _merges_shards(unit) and len(body) <= self._max_bytes // LARGEST_SHARE:
            self._answers.put(_key(unit), body)


def _merges_shards(unit: CacheableUnit) -> bool:
    """Tell whether the unit brings the answers of others: large, quickly answered, not worth caching."""
    return isinstance(unit, MetricUnit | LogMetricUnit) and bool(unit.given)


def _key(unit: CacheableUnit) -> CacheableUnit:
    """Return the unit without what only chooses its worker."""
    if isinstance(unit, ShardUnit):
        return ShardUnit(msgspec.structs.replace(unit.of, turn=0, affinity=""), unit.number, unit.count)
    return msgspec.structs.replace(unit, turn=0, affinity="")


def answer_unit(
    unit: Unit, readers: Readers, answers: AnswerCache, cancellation: Cancellation
) -> tuple[bytes, Counts]:
    """Return the encoded answer, cached or read now, and what to count of it."""
    handler = UNITS[type(unit)]
    if isinstance(unit, CacheableUnit):
        cached = answers.get(unit)
        if cached is not None:
            return cached, {"lakerunner_worker_answers_remembered_total": 1}
    with _query_errors():
        answer = handler.run(readers, unit, cancellation)
    body = handler.encode(answer)
    if isinstance(unit, CacheableUnit) and not answer.report.missing:
        answers.put(unit, body)
    return body, handler.count(unit, answer)


@contextmanager
def _query_errors() -> Iterator[None]:
    """Turn errors of DuckDB into query errors."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise LimitExceededError(
            "this part of the query needs more memory than a worker has: "
            "lower the limit, or narrow the time range or the stream matchers"
        ) from error
    except duckdb.Error as error:
        raise WorkFailedError(f"the scan failed: {str(error).splitlines()[0]}") from error


_UNIT: msgspec.json.Decoder[Unit] = msgspec.json.Decoder(Unit)
"""Made with the module, by one thread, as those of `protocol.answers` are."""


def decode_unit(body: bytearray) -> Unit:
    try:
        found: Unit = _UNIT.decode(body)
    except msgspec.MsgspecError as error:
        raise InvalidRequestError(f"not a unit of work: {error}") from error
    return found
