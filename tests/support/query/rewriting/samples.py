"""A small lake of samples with rules, and random questions in PromQL that the rules may answer, or nearly."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lakerunner_query.coordinator.languages import PROMQL
from lakerunner_query.coordinator.promql import PromQLRequest, rewrite_samples
from lakerunner_query.errors import QueryError
from lakerunner_query.plan.rewrite import Guards
from lakerunner_query.plan.rewrite_promql import GUARDS
from lakerunner_query.rules.documents import SAMPLE, DerivedMetric, Form
from lakerunner_query.vectors.vector import Labels
from resources.index.memory import MemoryIndex
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.query.lake import BASE, Lake
from tests.support.query.metric_lake import labels, write_samples
from tests.support.query.rewriting.lake import NS_PER_MS, ORG, Answer, RuledLake, points_of
from tests.support.query.rewriting.random_logs import Question

HOURS = 2
HOUR_MS = HOUR_NS // NS_PER_MS
MATCHERS = ('job="api"', 'job=~"api|db"', 'job!=""', 'pod!="p1"', 'zone=""', 'zone=~"e.+"', 'pod=~"p[12]"')
KEEP = ("job", "pod", "zone")
WINDOWS: Mapping[Form, str] = {
    Form.SUM: "sum", Form.COUNT: "count", Form.MIN: "min", Form.MAX: "max",
}  # fmt: skip


RECORDS = (
    "load", "sum by (job) (rate(temp[5m]))", "max by (pod) (load)", "avg_over_time(temp{job='db'}[2m])",
    "sum by (job, pod) (last_over_time(load[1h:5m]))",
)  # fmt: skip
"""Parts that no rule serves."""


class SampleLake(RuledLake):
    """Samples, and questions in PromQL."""

    signal = Signal.METRICS

    def __init__(self, folder: Path) -> None:
        index = MemoryIndex()
        self.lake = Lake(folder / "lake", index)
        index.create_organisation(ORG)
        super().__init__(folder, folder / "lake", index)

    def ask(
        self,
        text: str,
        start_ns: int,
        end_ns: int,
        step_ns: int = 0,
        *,
        rewrite: bool = True,
        guards: Guards | None = None,
    ) -> Answer:
        language = replace(PROMQL, rewrite=partial(rewrite_samples, guards=guards or GUARDS))
        times = start_ns // NS_PER_MS, end_ns // NS_PER_MS, step_ns // NS_PER_MS
        request = PromQLRequest(ORG, *times, rewrite=rewrite)

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
            return Answer(points_of(found), "", served, lines)

        return self._runner.run(asked())

    def bucket_query(self, metric: DerivedMetric, form: Form) -> str:
        op = WINDOWS[form]
        outer = "sum" if form is Form.COUNT else op
        return f"{outer} by ({', '.join(metric.keep)}) ({op}_over_time({metric.select}[10s]))"


def samples(rng: random.Random, count: int, hour: int) -> Mapping[Labels, Sequence[tuple[int, float]]]:
    """Return samples of an hour by series, at whole buckets, between, and at the very end."""
    found: dict[Labels, dict[int, float]] = {}
    for _ in range(count):
        others = {"job": rng.choice(("api", "db")), "pod": rng.choice(("p1", "p2", "p3"))}
        if rng.random() < 0.5:
            others["zone"] = rng.choice(("eu", "us"))
        at = rng.choice((rng.randrange(1, HOUR_MS), rng.randrange(1, 361) * 10_000)) + hour * HOUR_MS
        value = rng.choice((1.0, 0.25, -3.0, 1e3, rng.random()))
        found.setdefault(labels(rng.choice(("load", "temp")), **others), {})[at] = value
    return {series: sorted(points.items()) for series, points in found.items()}


def rule(rng: random.Random, number: int) -> DerivedMetric:
    select = _selector(rng.choice(("load", "temp")), rng.sample(MATCHERS, rng.choice((0, 0, 1, 1, 2))))
    keep = tuple(rng.sample(KEEP, rng.randrange(0, 4)))
    return DerivedMetric(f"rule_{number}", Signal.METRICS, select, keep, rng.choice((SAMPLE, SAMPLE, "")))


def _selector(name: str, matchers: Sequence[str]) -> str:
    return f"{name}{{{','.join(dict.fromkeys(matchers))}}}" if matchers else name


def question(rng: random.Random, rules: Sequence[DerivedMetric]) -> Question:
    text = _leaf(rng, rng.choice(rules))
    if rng.random() < 0.4:
        other = _leaf(rng, rng.choice(rules)) if rng.random() < 0.6 else rng.choice(RECORDS)
        text = rng.choice(
            (
                f"{text} * 2", f"-{text} ^ 2", f"{text} / {other}", f"{text} or {other}", f"abs({text}) > 1",
                f"topk(1, {text})", f"sort({text})", f"max without (pod) ({text})", f"absent({text})",
                f"{text} + on () group_left () sum({other})", f"{text} unless on (job) {other}",
                f"{text} - scalar({other})", f"max_over_time({text}[2m:1m])", f"{text} + load",
                f"label_replace({text}, 'x', '$1', 'job', '(.*)')", f"quantile(0.5, {text})",
                f"label_join({text}, 'x', '-', 'job', 'pod')", f"{other} / ignoring (zone) group_left {text}",
                f"topk(1, {other}) + on () group_left sum({text})", f"({text}) >= bool scalar({other})",
                f"count_values('v', {text}) or {other}", f"clamp({text} - {other}, 0, 5)",
                f"{other} and on (job) {text} unless {text} > 3", f"limitk(1, {text}) or {other}",
            )
        )  # fmt: skip
    step = rng.choice((10, 30, 60, 300, 600, 15)) * SECOND_NS
    first = BASE + rng.randrange(0, 720) * 10 * SECOND_NS + (SECOND_NS if rng.random() < 0.03 else 0)
    if rng.random() < 0.3:
        return Question(text, first, first, 0)
    return Question(text, first, first + step * rng.randrange(1, 20), step)


def _leaf(rng: random.Random, metric: DerivedMetric) -> str:
    name, _, inner = metric.select.partition("{")
    matchers = [one for one in inner.rstrip("}").split(",") if one]
    if rng.random() < 0.4:
        matchers.append(rng.choice(MATCHERS))
    if rng.random() < 0.05:
        matchers = matchers[1:]
    rng.shuffle(matchers)
    known = list(metric.keep)
    by = rng.sample(known, rng.randrange(0, len(known) + 1))
    if rng.random() < 0.05:
        by.append(rng.choice(KEEP))
    grouping = f" {'without' if rng.random() < 0.03 else 'by'} ({', '.join(dict.fromkeys(by))}) "
    op = rng.choice(("sum", "count", "min", "max") if metric.value else ("count", "count", "sum"))
    outer = "sum" if op == "count" else op
    if rng.random() < 0.03:
        outer = rng.choice(("avg", "stddev", "count"))
    offset = rng.choice(("", "", "", " offset 1m", " offset 1h", " offset 7s", " @ 1767230000"))
    ranged = rng.choice(("10s", "1m", "5m", "5m", "20m", "1h", "15s"))
    return f"{outer}{grouping}({op}_over_time({_selector(name, matchers)}[{ranged}]{offset}))"


def write(lake: SampleLake, rng: random.Random, count: int, hour: int) -> None:
    write_samples(lake.lake, ORG, samples(rng, count, hour))
