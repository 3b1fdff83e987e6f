"""Rules are frozen values, whatever file they came from.

materialize:                                  DerivedMetric("shop_errors", Signal.LOGS, …)
- metric: shop_errors
  from: logs
  select: '{namespace="shop"} |= "error"'

groups:                                       RuleGroup("shop", (AlertRule("ManyErrors", …),))
- name: shop
  rules:
  - alert: ManyErrors
    expr: rate(shop_errors[5m]) > 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from resources.lake.layout import Signal


class RuleLanguage(StrEnum):
    """Language of the expressions of a group."""

    PROMQL = "promql"
    LOGQL = "logql"
    TRACEQL = "traceql"
    LAKEQL = "lakeql"


@dataclass(frozen=True, slots=True)
class RecordingRule:
    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)
    line: int = field(default=0, compare=False)
    """Line of the file, from 1; 0 where there is no file."""


@dataclass(frozen=True, slots=True)
class AlertRule:
    alert: str
    expr: str
    for_ms: int = 0
    keep_firing_for_ms: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    line: int = field(default=0, compare=False)


Rule = RecordingRule | AlertRule


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated in order, at the same times."""

    name: str
    rules: tuple[Rule, ...]
    language: RuleLanguage = RuleLanguage.PROMQL
    interval_ms: int = 0
    """Milliseconds between evaluations; 0: the default of the server."""
    query_offset_ms: int | None = None
    limit: int = 0
    """Most series or alerts of one rule; 0: any number."""
    labels: Mapping[str, str] = field(default_factory=dict)
    line: int = field(default=0, compare=False)


class Form(StrEnum):
    """Statistic of the events of ten seconds that one series of a derived metric holds."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


LINE_BYTES = "line_bytes()"
"""Value of a derived metric that measures the bytes of log lines."""
SAMPLE = "sample"
"""Value of a derived metric that takes the values of samples as they were sent."""
INCREASE = "increase"
"""Value of a derived metric that takes what a counter grew by since the sample before, resets included."""


@dataclass(frozen=True, slots=True)
class DerivedMetric:
    """Metric that is derived from the events of a signal, in buckets of ten seconds."""

    metric: str
    source: Signal
    select: str
    """Selector: LogQL without aggregation, a TraceQL spanset, or a PromQL selector."""
    keep: tuple[str, ...] = ()
    """Labels that the series keep; all others are summed away."""
    value: str = ""
    """Number of each event, as behind LogQL's `unwrap`; empty: events are counted."""
    since_ns: int | None = None
    """Start of the first hour that is derived without a back-fill; None: the hour in which it was added."""
    line: int = field(default=0, compare=False)

    @property
    def series(self) -> Mapping[Form, str]:
        """Metric names by form: `m` counts events, or is the sum of a value beside `m_count` and others."""
        if not self.value:
            return {Form.COUNT: self.metric}
        return {
            Form.SUM: self.metric,
            Form.COUNT: f"{self.metric}_count",
            Form.MIN: f"{self.metric}_min",
            Form.MAX: f"{self.metric}_max",
        }
