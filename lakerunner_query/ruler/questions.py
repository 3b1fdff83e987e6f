"""Rules ask the engine of their language at one time, and take whole answers only.

A partial answer is an error: an alert must not end because a segment could not be read. A PromQL expression
over series that rules of the same group made is evaluated here, over those and what the lake has of them; its
other parts are asked as queries of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from lakerunner_query.coordinator.core import QueryCore
from lakerunner_query.coordinator.lakeql_traces import texts_of
from lakerunner_query.coordinator.languages import LOG_SAMPLES, PROMQL, TRACE_METRICS
from lakerunner_query.coordinator.logql_samples import LogSamplesRequest
from lakerunner_query.coordinator.merge import SampleResult
from lakerunner_query.coordinator.promql import LOOKBACK_MS, PromQLRequest
from lakerunner_query.coordinator.traceql import series_of
from lakerunner_query.errors import EvaluationError, SegmentsMissingError
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.plan.lakeql import LakeQLRequest
from lakerunner_query.plan.promql import Reads, reads
from lakerunner_query.plan.traceql import TraceMetricsRequest
from lakerunner_query.promql.context import KnownVector, Options
from lakerunner_query.promql.evaluate import combine_results, evaluate
from lakerunner_query.promql.lang.ast import Expr, Matrix, Selector, Subquery, Type, children, walk
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.check import type_of
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.parser import parse_cached
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.protocol.traces import TypedValue
from lakerunner_query.protocol.units import Missing
from lakerunner_query.ruler.recent import MixedSource, RecentSamples
from lakerunner_query.rules.documents import RuleLanguage
from lakerunner_query.rules.evaluation import Sample
from lakerunner_query.traceql.series import LabelSet
from lakerunner_query.vectors.vector import Labels, Scalar, Steps, Vector

NS_PER_MS = 1_000_000
VALUE = "value"
"""Column of a LakeQL answer that holds the number; the others are labels."""
MOST_ROWS = 10_000
_FLOATS = msgspec.json.Decoder(list[tuple[float, str]])
_HISTOGRAMS = msgspec.json.Decoder(list[tuple[float, dict[str, Any]]])


@dataclass(frozen=True, slots=True)
class Asker:
    """Context of a question: its organisation, language and time, and how long it may take."""

    org: str
    language: RuleLanguage
    at_ms: int
    window_ms: int
    """Time before `at_ms` whose spans, and rows, count in languages without ranges."""
    timeout_s: float


class Questions:
    """Asks the engines of one process."""

    def __init__(self, core: QueryCore) -> None:
        self._core = core
        self._ask = {
            RuleLanguage.PROMQL: self._promql,
            RuleLanguage.LOGQL: self._logql,
            RuleLanguage.TRACEQL: self._traceql,
            RuleLanguage.LAKEQL: self._lakeql,
        }

    async def ask(self, asker: Asker, expr: str, recent: RecentSamples) -> list[Sample]:
        """Return the whole answer at one time, or raise what is wrong."""
        return await self._ask[asker.language](asker, expr, recent)

    async def ask_all(self, asker: Asker, expr: str, count: int) -> list[list[Sample]]:
        """Return the answers at `count` times, `window_ms` apart, from the lake alone."""
        if can_ask_all(asker.language, expr):
            ask = {RuleLanguage.PROMQL: self._metrics_at, RuleLanguage.LOGQL: self._lines_at}
            return _by_time(await ask[asker.language](asker, expr, count), asker, count)
        times = (asker.at_ms + n * asker.window_ms for n in range(count))
        return [await self.ask(replace(asker, at_ms=at), expr, RecentSamples()) for at in times]

    async def _metrics_at(self, asker: Asker, text: str, count: int) -> SampleResult:
        last_ms = asker.at_ms + (count - 1) * asker.window_ms
        request = PromQLRequest(asker.org, asker.at_ms, last_ms, asker.window_ms, timeout_s=asker.timeout_s)
        engine = self._core.engine
        found = await engine.collect(await engine.prepare(PROMQL, text, request))
        _whole(found.missing)
        return found

    async def _lines_at(self, asker: Asker, text: str, count: int) -> SampleResult:
        first_ns, step_ns = asker.at_ms * NS_PER_MS, asker.window_ms * NS_PER_MS
        last_ns = first_ns + (count - 1) * step_ns
        request = LogSamplesRequest(asker.org, first_ns, last_ns, step_ns, timeout_s=asker.timeout_s)
        engine = self._core.engine
        found = await engine.collect(await engine.prepare(LOG_SAMPLES, text, request, first_ns))
        _whole(found.missing)
        return found

    async def _promql(self, asker: Asker, text: str, recent: RecentSamples) -> list[Sample]:
        limits = self._core.engine.limits
        expr = bind(parse_cached(text, Features.from_flags(limits.features)), asker.at_ms, asker.at_ms, 0)
        if not _touches(expr, recent):
            return _samples_of(await self._metrics(asker, text))
        known = {
            id(part): KnownVector(_vector(_samples_of(await self._metrics(asker, to_text(part)))))
            for part in _foreign_parts(expr, recent)
        }
        steps = Steps(asker.at_ms, 0, 1)
        options = Options(default_subquery_step_ms=limits.default_subquery_step_ms)
        lake = {}
        for read in _own_reads(expr, recent, steps, options):
            lake[read.matchers, read.from_ms, read.to_ms] = await self._stored(asker, read)
        found = evaluate(expr, steps, MixedSource(recent, lake), options, known)
        value = combine_results([found]).value
        if isinstance(value, Scalar):
            return [Sample((), float(value.values[0]))]
        if not isinstance(value, Vector):
            raise EvaluationError("rule result is not a vector or scalar")
        return list(_rows(value))

    async def _metrics(self, asker: Asker, text: str, at_ms: int | None = None) -> SampleResult:
        at = asker.at_ms if at_ms is None else at_ms
        request = PromQLRequest(asker.org, at, at, timeout_s=asker.timeout_s)
        engine = self._core.engine
        found = await engine.collect(await engine.prepare(PROMQL, text, request))
        _whole(found.missing)
        return found

    async def _stored(self, asker: Asker, read: Reads) -> dict[Labels, dict[int, float]]:
        """Return what the lake has of a selector."""
        window = Matrix(Selector("", read.matchers), read.to_ms - read.from_ms)
        found = await self._metrics(asker, to_text(window), read.to_ms)
        if any(one.histograms for one in found.series):
            raise EvaluationError(f"{to_text(window)}: native histograms beside series of the group's rules")
        return {
            one.labels: {
                round(at * 1000): float(value) for at, value in _FLOATS.decode(b"[" + one.floats + b"]")
            }
            for one in found.series
        }

    async def _logql(self, asker: Asker, text: str, _: RecentSamples) -> list[Sample]:
        at_ns = asker.at_ms * NS_PER_MS
        request = LogSamplesRequest(asker.org, at_ns, at_ns, timeout_s=asker.timeout_s)
        engine = self._core.engine
        found = await engine.collect(await engine.prepare(LOG_SAMPLES, text, request, at_ns))
        _whole(found.missing)
        return _samples_of(found)

    async def _traceql(self, asker: Asker, text: str, _: RecentSamples) -> list[Sample]:
        at_ns, window_ns = asker.at_ms * NS_PER_MS, asker.window_ms * NS_PER_MS
        request = TraceMetricsRequest(asker.org, at_ns, window_ns, 1, timeout_s=asker.timeout_s)
        engine = self._core.engine
        prepared = await engine.prepare(TRACE_METRICS, text, request, at_ns)
        found = await engine.collect(prepared)
        _whole(found.missing)
        return [
            Sample(_text_labels(one.labels), float(one.values[0]))
            for one in series_of(prepared, found)
            if not np.isnan(one.values[0])
        ]

    async def _lakeql(self, asker: Asker, text: str, _: RecentSamples) -> list[Sample]:
        at_ns = asker.at_ms * NS_PER_MS
        request = LakeQLRequest(
            asker.org, at_ns - asker.window_ms * NS_PER_MS, at_ns, asker.timeout_s, max_rows=MOST_ROWS,
            now_ns=at_ns, engine="local",
        )  # fmt: skip
        rows: list[Sample] = []
        async with await self._core.lakeql.open(text, request) as answer:
            async for batch in answer.batches():
                rows += _sql_rows(batch)
            _whole(answer.missing)
        return rows


def _whole(missing: dict[str, Missing]) -> None:
    if missing:
        first = next(iter(missing.values()))
        raise SegmentsMissingError(
            f"the answer lacks {len(missing)} segments, so that no alert can be judged by it: {first.reason}"
        )


def _samples_of(found: SampleResult) -> list[Sample]:
    if found.kind not in {"vector", "scalar"}:
        raise EvaluationError(f"rule result is not a vector or scalar, but a {found.kind}")
    if found.kind == "scalar":
        return [Sample((), float(msgspec.json.decode(found.series[0].floats, type=tuple[float, str])[1]))]
    return [Sample(one.labels, _value(one.floats, one.histograms)) for one in found.series]


def can_ask_all(language: RuleLanguage, text: str) -> bool:
    """Tell whether one query for a range says what queries at each of its times say."""
    if language is RuleLanguage.PROMQL:
        expr = parse_cached(text)
        return bind(expr, 0, 0, 0) == bind(expr, 1, 2, 1)
    return language is RuleLanguage.LOGQL


def _by_time(found: SampleResult, asker: Asker, count: int) -> list[list[Sample]]:
    answers: list[list[Sample]] = [[] for _ in range(count)]

    def add(at_s: float, sample: Sample) -> None:
        answers[(round(at_s * 1000) - asker.at_ms) // asker.window_ms].append(sample)

    for one in found.series:
        labels = () if found.kind == "scalar" else one.labels
        for at_s, text in _FLOATS.decode(b"[" + one.floats + b"]"):
            add(at_s, Sample(labels, float(text)))
        for at_s, shown in _HISTOGRAMS.decode(b"[" + one.histograms + b"]"):
            add(at_s, Sample(labels, _histogram(shown)))
    return answers


def _histogram(shown: dict[str, Any]) -> Histogram:
    """Return all of a histogram that templates show."""
    return Histogram(count=float(shown["count"]), sum=float(shown["sum"]))


def _value(floats: bytes, histograms: bytes) -> float | Histogram:
    if floats:
        return float(_FLOATS.decode(b"[" + floats + b"]")[-1][1])
    shown = _HISTOGRAMS.decode(b"[" + histograms + b"]")[-1][1]
    return _histogram(shown)


def _text_labels(labels: LabelSet) -> Labels:
    named = tuple((name, TypedValue(kind, value)) for name, kind, value in labels)  # type: ignore[arg-type]
    return tuple(sorted((name, text) for name, text in texts_of(named) if text))


def _sql_rows(batch: pa.RecordBatch) -> Iterator[Sample]:
    names = batch.schema.names
    if VALUE not in names:
        raise EvaluationError(f"the statement of a rule needs a column {VALUE!r}, found {', '.join(names)}")
    for row in batch.to_pylist():
        number = row.pop(VALUE)
        if number is not None:
            labels = tuple(sorted((name, str(text)) for name, text in row.items() if text not in {None, ""}))
            yield Sample(labels, float(number))


def _selectors(expr: Expr) -> Iterator[Selector]:
    return (one for one in walk(expr) if isinstance(one, Selector))


def _touches(expr: Expr, recent: RecentSamples) -> bool:
    return any(recent.touches(one.matchers) for one in _selectors(expr))


def _foreign_parts(expr: Expr, recent: RecentSamples) -> Iterator[Expr]:
    """Yield the largest parts that select nothing of the group."""
    if not any(True for _ in _selectors(expr)):
        return
    if type_of(expr) is Type.VECTOR and not _touches(expr, recent):
        yield expr
        return
    if isinstance(expr, Subquery):
        if any(not recent.touches(one.matchers) for one in _selectors(expr)):
            raise EvaluationError(
                f"{to_text(expr)}: a subquery over series of the group's own rules and others; "
                "record the others by a rule of their own"
            )
        return
    for child in children(expr):
        yield from _foreign_parts(child, recent)


def _own_reads(expr: Expr, recent: RecentSamples, steps: Steps, options: Options) -> Iterator[Reads]:
    for read in reads(expr, steps, LOOKBACK_MS, options.default_subquery_step_ms):
        if recent.touches(read.matchers):
            yield read


def _vector(samples: Sequence[Sample]) -> Vector:
    if any(isinstance(one.value, Histogram) for one in samples):
        raise EvaluationError("native histograms beside series of the group's own rules")
    values = np.array([[one.value] for one in samples], np.float64).reshape(len(samples), 1)
    return Vector([one.labels for one in samples], values, np.ones(values.shape, np.bool_))


def _rows(vector: Vector) -> Iterator[Sample]:
    for labels, value, is_there in zip(vector.labels, vector.values, vector.present, strict=True):
        if is_there[0]:
            yield Sample(labels, float(value[0]))
