"""Random records, rules over them, and questions that the rules may answer, or nearly.

Questions are made from a rule: narrowed, shuffled, wrapped, and every so often changed so that the rule must
not serve them. Nothing here knows the guards.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from lakerunner_query.rules.documents import LINE_BYTES, DerivedMetric
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.query.lake import BASE, Line

HOURS = 2
LABELS = ("service_name", "k8s_namespace_name", "tier", "region", "status", "zone")
MATCHERS = (
    'service_name=~".+"', 'service_name="web"', 'service_name=~"web|db"', 'k8s_namespace_name="shop"',
    'service_name!=""', 'service_name!="db"',
)  # fmt: skip
PIPELINES = (
    "", '|= "a"', '!= "b"', '|= "a" != "b"', '|~ "a|b"', "| json", "| json | status >= 404",
    '| json | region!=""', '| json | region=~"e.*|us" | status > 200', '| tier="gold"',
    '| json | tier!=""',
    '|= "a" | json | status == 500', "| json | label_format zone=region", "| json | drop region",
    '| json | __error__=""', '| json region="region", status="status"',
    '| json | status >= 404 or tier="gold"',
    "| json | keep service_name, region, status", '| json | line_format "{{.region}}" |= "e"',
)  # fmt: skip
VALUES = ("", "", LINE_BYTES, "took", "duration(took)")
EXTRAS = (
    '| region="eu"', '| tier=~"gold|silver"', '| service_name="web"', '| status!="500"', '| tier=""',
    '|= "c"', '| status > 404', '| zone!~"e.*"',
)  # fmt: skip
RECORDS = (
    'sum by (service_name) (count_over_time({service_name=~".+"} |~ "c|e" [2m]))',
    'topk(2, sum by (service_name, tier) (rate({service_name="web"} [5m])))',
    'count_over_time({service_name="db"} | json | keep region [1m])',
    'max by (service_name) (max_over_time({service_name=~".+"} |= "a" | json | unwrap status [5m]))',
    'sum(count_over_time({service_name="nobody"}[1m])) or vector(3)',
)
"""Parts that no rule serves, or seldom."""
RANGES = ("10s", "30s", "1m", "5m", "20m", "1h", "15s", "10s500ms")
OFFSETS = ("", "", "", " offset 10s", " offset 5m", " offset 1h", " offset 7s", " offset -1m")
OF_LINES = ("count_over_time", "rate", "bytes_over_time", "bytes_rate")
OF_NUMBERS = (
    "sum_over_time", "rate", "avg_over_time", "min_over_time", "max_over_time", "stddev_over_time",
    "quantile_over_time",
)  # fmt: skip


@dataclass(frozen=True)
class Question:
    text: str
    start_ns: int
    end_ns: int
    step_ns: int


def lines(rng: random.Random, count: int, hour: int | None = None, *, clean: bool = True) -> list[Line]:
    """Return lines of JSON; some fields are missing, empty or of another type, a few lines are broken."""
    found: list[Line] = []
    for _ in range(count):
        low = (rng.randrange(HOURS) if hour is None else hour) * HOUR_NS
        at = low + rng.choice((rng.randrange(1, HOUR_NS), rng.randrange(1, 360) * 10 * SECOND_NS, HOUR_NS))
        parts = [f'"status":{rng.choice(("200", "404", "500", _quoted("500")))}']
        if rng.random() < 0.8:
            parts.append(f'"region":"{rng.choice(("eu", "us", "east") if clean else ("eu", "us", ""))}"')
        if rng.random() < 0.6:
            took = rng.choice(("0.5", "3", "1e3", "-2", "12.25")) if clean else rng.choice(("1", "x", "2s"))
            parts.append(f'"took":{_quoted(took)}')
        parts.append(f'"m":"{rng.choice("abc")}{rng.choice("abc")}"')
        rng.shuffle(parts)
        text = "{" + ",".join(parts) + "}"
        if not clean and rng.random() < 0.02:
            text = text[:-3]
        attributes: dict[str, object] = {}
        if rng.random() < 0.7:
            attributes["tier"] = rng.choice(("gold", "silver") if clean else ("gold", "", 7))
        resource: dict[str, object] = {"k8s.namespace.name": "shop"} if rng.random() < 0.6 else {}
        if rng.random() < 0.1:
            attributes["k8s.namespace.name"] = "shop"  # of the record alone: no label of the stream
        service = rng.choice(("web", "db", "web", ""))
        found.append(Line(at, text, service, attributes=attributes, resource=resource))
    return sorted(found, key=lambda one: one.at)


def _quoted(text: str) -> str:
    return f'"{text}"'


def rule(rng: random.Random, number: int) -> DerivedMetric:
    matchers = rng.sample(MATCHERS, rng.choice((1, 1, 1, 2)))
    if not any("!=" not in one for one in matchers):
        matchers.append(MATCHERS[0])
    pipeline, value = rng.choice(PIPELINES), rng.choice(VALUES)
    if value not in {"", LINE_BYTES} and "json" not in pipeline:
        pipeline = f"{pipeline} | json"
    keep = rng.sample(LABELS, rng.randrange(1, 5))
    select = f"{{{', '.join(matchers)}}} {pipeline}".strip()
    return DerivedMetric(f"rule_{number}", Signal.LOGS, select, tuple(keep), value)


def question(rng: random.Random, rules: Sequence[DerivedMetric]) -> Question:
    expr = leaf(rng, rng.choice(rules))
    if rng.random() < 0.35:
        expr = _around(rng, expr, rules)
    step = rng.choice((10, 20, 60, 300, 600, 600, 15)) * SECOND_NS
    first = rng.randrange(0, 720) * 10 * SECOND_NS + (
        rng.choice((1, SECOND_NS)) if rng.random() < 0.03 else 0
    )
    if rng.random() < 0.3:
        return Question(expr, BASE + first, BASE + first, 0)
    last = first + step * rng.randrange(1, 30)
    return Question(expr, BASE + first, BASE + last, step)


def leaf(rng: random.Random, metric: DerivedMetric) -> str:
    selector = _narrowed(rng, metric.select)
    if rng.random() < 0.3:
        selector += " " + rng.choice(EXTRAS)
    ranged = f"[{rng.choice(RANGES[:6] if rng.random() < 0.92 else RANGES)}]"
    offset = rng.choice(OFFSETS[:6] if rng.random() < 0.92 else OFFSETS)
    known = list(metric.keep)
    by = rng.sample(known, rng.randrange(0, len(known) + 1))
    if rng.random() < 0.05:
        by.append(rng.choice(LABELS))
    grouping = f" {'without' if rng.random() < 0.02 else 'by'} ({', '.join(dict.fromkeys(by))})"
    if metric.value in {"", LINE_BYTES} or rng.random() < 0.05:
        likely = OF_LINES[2:] if metric.value == LINE_BYTES else OF_LINES[:2]
        op = rng.choice(likely if rng.random() < 0.9 else OF_LINES)
        inner = f"{op}({selector} {ranged}{offset})"
        return inner if rng.random() < 0.02 else f"sum{grouping} ({inner})"
    value = metric.value if rng.random() < 0.95 else "status"
    behind = ' | __error__=""' if rng.random() < 0.3 else ""
    op = rng.choice(OF_NUMBERS[:5] if rng.random() < 0.95 else OF_NUMBERS)
    parameter = "0.5, " if op == "quantile_over_time" else ""
    inner = f"{op}({parameter}{selector} | unwrap {value}{behind} {ranged}{offset})"
    if op in {"sum_over_time", "rate"}:
        return f"sum{grouping} ({inner})"
    if op in {"min_over_time", "max_over_time"} and rng.random() < 0.4:
        return f"{op[:3]}{grouping} ({inner})"
    return f"{inner}{grouping}"


def _narrowed(rng: random.Random, select: str) -> str:
    """Return another text of a selection: of the same rows, or of some of them."""
    matchers, _, pipeline = select[1:].partition("}")
    parts = [one.strip() for one in matchers.split(", ")]
    if rng.random() < 0.3:
        parts.append(rng.choice((*MATCHERS, 'region="eu"', 'tier="gold"', 'k8s_namespace_name=~"sh.*"')))
    if rng.random() < 0.04:
        parts = [rng.choice(MATCHERS[:4])]
    rng.shuffle(parts)
    if rng.random() < 0.04:
        pipeline = rng.choice(PIPELINES)
    return f"{{{','.join(dict.fromkeys(parts))}}} {pipeline.strip()}"


def _around(rng: random.Random, expr: str, rules: Sequence[DerivedMetric]) -> str:
    other = leaf(rng, rng.choice(rules)) if rng.random() < 0.5 else expr
    if rng.random() < 0.4:
        other = rng.choice(RECORDS)
    number = rng.choice(("2", "0.5", "-1", "0", "1e-7"))
    return rng.choice(
        (
            f"{expr} * {number}", f"{number} - {expr}", f"{expr} > {number}", f"{expr} >= bool {number}",
            f"-2 ^ {expr}", f"{expr} / {other}", f"{expr} or {other}", f"{expr} unless {other}",
            f"{expr} + {other}", f"sum({expr})", f"max by (service_name) ({expr})", f"avg({expr})",
            f"count without (region) ({expr})", f"topk(1, {expr})", f"sort({expr})", f"{expr} or vector(0)",
            f"{expr} % {number} == 0", f"sum({expr}) / on () sum({other})", f"stddev({expr})",
            f'label_replace({expr}, "x", "$1", "service_name", "(.*)")',
            f"{other} / ignoring (region) {expr}", f"{other} * on (service_name) group_left {expr}",
            f"bottomk(2, {expr}) or {other}", f"topk(2, {expr} + on (service_name) {other})",
            f"sort_desc({other} or {expr})", f"{expr} and on (region) topk(1, {other})",
            f"topk by (service_name) (1, {expr}) > bool {other}", f"approx_topk(2, {expr})",
            f"max({other}) unless sum({expr} > {number})",
        )
    )  # fmt: skip
