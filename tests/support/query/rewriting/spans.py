"""A small lake of spans with rules, random spans, and questions in TraceQL that rules may answer, or nearly.

Attributes are missing, are texts or numbers; spans are sent twice, late, and lie at the edges of hours.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakerunner_query.coordinator.languages import TRACE_METRICS
from lakerunner_query.coordinator.traceql import rewrite_metrics, series_of
from lakerunner_query.errors import QueryError
from lakerunner_query.plan.rewrite import Guards
from lakerunner_query.plan.rewrite_traceql import GUARDS, label_name
from lakerunner_query.plan.traceql import TraceMetricsRequest
from lakerunner_query.rules.documents import DerivedMetric, Form
from lakerunner_query.traceql.lang.parser import parse_field
from lakerunner_query.traceql.lang.printer import field_text
from lakerunner_query.vectors.vector import Labels
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.cooking_lake import HOUR, lake_in
from tests.support.query.rewriting.lake import BUCKET_NS, ORG, Answer, RuledLake
from tests.support.query.rewriting.random_logs import Question
from tests.support.query.signals_lake import put

HOURS = 2
FIELDS = ("name", "status", "kind", "resource.service.name", "span.route", "span.code", ".zone")
CONDITIONS = (
    "status = error", "kind = server", 'name = "GET /"', 'resource.service.name = "web"',
    'span.route != "/a"',
    "span.code >= 404", 'span.route =~ "/.*"', "duration > 1s", "span.route != nil", ".zone = `eu`",
    'resource.service.name = "web" || status = error', '"/a" = span.route', "kind != client",
    "status != ok",
)  # fmt: skip
VALUES = ("", "", "duration", "span.size")
FUNCTIONS = ("sum_over_time", "min_over_time", "max_over_time", "avg_over_time")


RECORDS = (
    "{ } | quantile_over_time(duration, 0.9)",
    "{ kind = server } >> { } | rate()",
    "{ span.code > 300 } | count_over_time() by (name)",
    "{ } | max_over_time(duration) by (resource.service.name)",
)
"""Functions that no rule serves, or seldom."""


class SpanLake(RuledLake):
    """Spans, and questions in TraceQL."""

    signal = Signal.TRACES

    def __init__(self, folder: Path) -> None:
        self.lake = lake_in(folder)
        self.sent = 0
        super().__init__(folder, folder / "lake", self.lake.index)

    def write(self, request: ExportTraceServiceRequest, hour: int) -> None:
        self.sent += 1
        self.lake.arrive(f"spans-{self.sent}", request.SerializeToString(), hour, signal=Signal.TRACES)
        self.lake.cook(Signal.TRACES)

    def ask(
        self,
        text: str,
        start_ns: int,
        end_ns: int,
        step_ns: int = 0,
        *,
        rewrite: bool = True,
        guards: Guards | None = None,
        exemplars: int = 0,
    ) -> Answer:
        language = replace(TRACE_METRICS, rewrite=partial(rewrite_metrics, guards=guards or GUARDS))
        steps = (end_ns - start_ns) // step_ns + 1
        request = TraceMetricsRequest(ORG, start_ns, step_ns, steps, exemplars, rewrite=rewrite)

        async def asked() -> Answer:
            prepared = await self.engine.prepare(language, text, request)
            rewritten = prepared.rewritten
            served = rewritten.served if rewritten is not None else 0
            lines = () if rewritten is None else tuple(rewritten.lines())
            try:
                found = await self.engine.collect(prepared)
            except QueryError as error:
                return Answer({}, str(error).partition("\n")[0], served, lines)
            assert not found.missing, found.missing
            times = [(start_ns + n * step_ns) / SECOND_NS for n in range(steps)]
            points: dict[Any, list[tuple[float, float]]] = {
                one.labels: list(zip(times, one.values.tolist(), strict=True))
                for one in series_of(prepared, found)
            }
            if exemplars:
                count = sum(len(group.exemplars) for each in found.functions for group in each.values())
                points["exemplars"] = [(0.0, float(min(count, exemplars)))]
            return Answer(points, "", served, lines)

        return self._runner.run(asked())

    def bucket_query(self, metric: DerivedMetric, form: Form) -> str:
        by = f" by ({', '.join(metric.keep)})" if metric.keep else ""
        if form is Form.COUNT:
            select = metric.select
            if metric.value:
                least = "0s" if metric.value == "duration" else "-1000000"
                select = f"{select} | {{ {metric.value} >= {least} }}"
            return f"{select} | count_over_time(){by}"
        return f"{metric.select} | {form.value}_over_time({metric.value}){by}"

    def _series(self, metric: DerivedMetric, hour: int) -> dict[Labels, list[tuple[int, float]]] | None:
        found: dict[Labels, list[tuple[int, float]]] = {}
        fields = {field_text(one): one for one in map(parse_field, metric.keep)}
        for form, name in metric.series.items():
            query = self.bucket_query(metric, form)
            answer = self.ask(query, hour + BUCKET_NS, hour + HOUR_NS, BUCKET_NS, rewrite=False)
            if answer.error:
                return None
            for typed, points in answer.points.items():
                labels = {"__name__": name}
                for text, kind, value in typed:
                    if text in fields and kind != "nil":
                        if kind not in {"string", "status", "kind"} or not value:
                            return None
                        labels[label_name(fields[text])] = str(value)
                known = [(round(at * 1000), value) for at, value in points if value == value]  # noqa: PLR0124
                if form is Form.COUNT:
                    known = [(at, value) for at, value in known if value]
                found[tuple(sorted(labels.items()))] = known
        return found


def spans(rng: random.Random, count: int, hour: int, *, clean: bool = True) -> ExportTraceServiceRequest:
    """Return spans that begin in an hour of the lake, some at its very end, some of them twice."""
    request = ExportTraceServiceRequest()
    for _ in range(count):
        group = request.resource_spans.add()
        put(group.resource, "service.name", rng.choice(("web", "db", "pay")))
        put(group.resource, "zone", rng.choice(("eu", "us")), 0.5, rng)
        span = group.scope_spans.add().spans.add()
        span.trace_id, span.span_id = rng.randbytes(16), rng.randbytes(8)
        span.name, span.kind = rng.choice(("GET /", "PUT /", "run")), rng.randrange(1, 4)
        span.status.code = rng.choice((0, 0, 1, 2))
        put(span, "route", rng.choice(("/a", "/b", "/c") if clean else ("/a", "", 7)), 0.8, rng)
        put(span, "code", rng.choice((200, 404, 500)), 0.7, rng)
        put(span, "size", rng.choice((1, 2.5, -3, 700)), 0.6, rng)
        put(span, "zone", rng.choice(("eu", "asia")), 0.3, rng)
        at = rng.choice((rng.randrange(1, HOUR_NS), rng.randrange(1, 361) * 10 * SECOND_NS))
        span.start_time_unix_nano = HOUR + hour * HOUR_NS + at
        span.end_time_unix_nano = span.start_time_unix_nano + rng.randrange(1, 4 * SECOND_NS)
        if rng.random() < 0.1:
            request.resource_spans.add().CopyFrom(group)
    return request


def rule(rng: random.Random, number: int) -> DerivedMetric:
    chosen = rng.sample(CONDITIONS, rng.choice((0, 1, 1, 2)))
    keep = rng.sample(FIELDS[:5] + FIELDS[6:], rng.randrange(1, 4))
    return DerivedMetric(
        f"rule_{number}", Signal.TRACES, _filter(rng, chosen), tuple(keep), rng.choice(VALUES)
    )


def _filter(rng: random.Random, conditions: Sequence[str]) -> str:
    """Write conditions as one filter or as several."""
    parts = [f"({one})" if "||" in one else one for one in conditions]
    if len(parts) > 1 and rng.random() < 0.3:
        return f"{{ {parts[0]} }} | {{ {' && '.join(parts[1:])} }}"
    return f"{{ {' && '.join(parts)} }}"


def question(rng: random.Random, rules: Sequence[DerivedMetric]) -> Question:
    text = _function(rng, rng.choice(rules))
    if rng.random() < 0.3:
        other = _function(rng, rng.choice(rules)) if rng.random() < 0.5 else text
        if rng.random() < 0.4:
            other = rng.choice(RECORDS)
        text = rng.choice(
            (
                f"({text}) / ({other})",
                f"({text}) * 2",
                f"{text} | topk(2)",
                f"{text} > 1",
                f"({text}) + ({other})",
                f"({other}) / ({text})",
                f"({text} | bottomk(1)) - ({other})",
                f"({other}) * ({text}) / ({text})",
            )
        )
    step = rng.choice((10, 30, 60, 300, 600, 600, 15)) * SECOND_NS
    first = HOUR + rng.randrange(0, 700) * 10 * SECOND_NS + (SECOND_NS if rng.random() < 0.03 else 0)
    return Question(text, first, first + step * rng.randrange(0, 20), step)


def _function(rng: random.Random, metric: DerivedMetric) -> str:
    select = metric.select
    parts = [one.strip() for one in select.replace("} | {", "&&").strip("{} ").split("&&") if one.strip()]
    if rng.random() < 0.4:
        parts.append(rng.choice(CONDITIONS))
    if rng.random() < 0.05:
        parts = [rng.choice(CONDITIONS)]
    rng.shuffle(parts)
    select = _filter(rng, [one.strip("()") for one in parts])
    if rng.random() < 0.03:
        select = f"{select} >> {{ }}"
    by = rng.sample(metric.keep, rng.randrange(0, len(metric.keep) + 1))
    if rng.random() < 0.05:
        by.append(rng.choice(FIELDS))
    grouping = f" by ({', '.join(dict.fromkeys(by))})" if by else ""
    value = metric.value if rng.random() < 0.93 else rng.choice(VALUES)
    if not value:
        return f"{select} | {rng.choice(('rate', 'count_over_time'))}(){grouping}"
    if rng.random() < 0.03:
        return f"{select} | quantile_over_time({value}, 0.5){grouping}"
    return f"{select} | {rng.choice(FUNCTIONS)}({value}){grouping}"
