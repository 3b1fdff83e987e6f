"""The questions: what dashboards and alerts ask."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.promql.corpus import DAY_MS, END_MS, HOUR_MS, Scale
from benchmarks.promql.lake import BARE, ROLLED

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Shape:
    """One question; `loose` where VictoriaMetrics' functions mean something else on purpose."""

    name: str
    query: str
    start_ms: int
    end_ms: int
    step_ms: int = 0
    org: str = BARE
    for_victoria: bool = True


def shapes(scale: Scale) -> tuple[Shape, ...]:
    """Those that there is data for."""
    day = max(END_MS - DAY_MS, scale.start_ms) + HOUR_MS
    week = scale.start_ms + HOUR_MS
    rate = "sum by (job) (rate(http_requests_total[5m]))"
    errors = "sum by (job) (rate(http_errors_total[5m]))"
    buckets = "sum by (le, job) (rate(latency_seconds_bucket[5m]))"
    twenty = 'instance=~"host-1[0-9]|host-20[0-9]"'
    long = 5 * MINUTE_MS
    found = [
        Shape("instant", rate, END_MS, END_MS),
        Shape("regex_20", f"rate(http_requests_total{{{twenty}}}[5m])", day, END_MS, MINUTE_MS),
        Shape("rate_by", rate, day, END_MS, MINUTE_MS),
        Shape("ratio", f"{errors} / {rate}", day, END_MS, MINUTE_MS),
        Shape("topk", "topk(5, rate(http_requests_total[5m]))", day, END_MS, MINUTE_MS),
        Shape("classic", f"histogram_quantile(0.9, {buckets})", day, END_MS, MINUTE_MS),
        Shape(
            "native", "histogram_quantile(0.9, sum by (job) (rate(latency_native[5m])))", day, END_MS,
            MINUTE_MS, for_victoria=False,
        ),
        Shape("increase_1h", "sum by (job) (increase(http_requests_total[1h]))", day, END_MS, MINUTE_MS),
        Shape("rate_by_rolled", rate, day, END_MS, MINUTE_MS, ROLLED),
    ]  # fmt: skip
    if scale.hours > 24:
        found += [
            Shape("week", rate, week, END_MS, long),
            Shape("week_rolled", rate, week, END_MS, long, ROLLED),
        ]
    if scale.many:
        many = max(END_MS - scale.many_hours * HOUR_MS, scale.start_ms) + HOUR_MS
        found += [
            Shape("many_instant", "sum by (job) (rate(rpc_requests_total[5m]))", END_MS, END_MS),
            Shape("many", "sum by (job) (rate(rpc_requests_total[5m]))", many, END_MS, MINUTE_MS),
        ]
    return tuple(found)
