"""Differences between signals that receivers, the index, the pipeline and commands share.

What only the pipeline needs to know of a signal stands in `lakerunner_assets/signals`. No other module asks
which signal it works on.
"""

from __future__ import annotations

from dataclasses import dataclass

from resources.lake.frequency import ROLLUPS, Rollup, rollup_of
from resources.lake.layout import Signal
from resources.lake.retention import RAW, SEGMENTS, TIERS
from resources.lake.timecut import MINUTE_NS

MATERIALIZED_MS = 1
"""Frequency of the partitions that say which hours of a signal have metrics derived from them.

No tier has it: metrics are derived from metrics, too, whose rollups of ten seconds are partitions already.
"""
MATERIALIZED_DATASET = "materialized"
RECORDED_MS = 2
"""Frequency of the partitions of metrics that say which hours were recorded; no tier has it, either."""
RECORDED_DATASET = "recorded"
MARGIN_NS = 5 * MINUTE_NS
"""Margin of traces, whose requests over the end of an hour are paired from both sides, and of metrics, whose
counters are compared with the sample before."""


@dataclass(frozen=True, slots=True)
class FirstQuery:
    """A query that shows somebody the records that they just brought."""

    path: str
    query: str
    """Text in which `HOURS` stands for the number of hours."""
    start: str
    """Parameter of the first time; empty: there is none."""
    end: str


@dataclass(frozen=True, slots=True)
class SignalFacts:
    """One row of the table."""

    dataset: str
    """Dataset of its cooked segments."""
    rollups: tuple[Rollup, ...]
    """Rollups that are built from it."""
    tiers: tuple[str, ...]
    """Tiers that have a retention of their own."""
    has_preset: bool
    """True if metrics are derived from it without any rule."""
    recorded_by: str
    """Language of recording rules that read it; empty: none do."""
    margin_ns: int
    """Time before an hour whose records it is derived from, too."""
    margin_behind_ns: int
    """The same behind the hour."""
    has_samples: bool
    """True if records are samples of series: segments have a series table and scaled values."""
    otlp_request: str
    """OTLP request in the schema of the JSON transcoder."""
    otlp_root: str
    """Message of which an OTLP request is a list."""
    first_query: FirstQuery | None
    """None where no API answers queries yet."""


FACTS: dict[Signal, SignalFacts] = {
    Signal.LOGS: SignalFacts(
        dataset="logs",
        rollups=(),
        tiers=(RAW, SEGMENTS),
        has_preset=False,
        recorded_by="logql",
        margin_ns=0,
        margin_behind_ns=0,
        has_samples=False,
        otlp_request="LogsRequest",
        otlp_root="ResourceLogs",
        first_query=FirstQuery("/loki/api/v1/query_range", '{service_name=~".+"}', "start", "end"),
    ),
    Signal.METRICS: SignalFacts(
        dataset="metrics",
        rollups=ROLLUPS,
        tiers=TIERS,
        has_preset=False,
        recorded_by="promql",
        margin_ns=MARGIN_NS,
        margin_behind_ns=0,
        has_samples=True,
        otlp_request="MetricsRequest",
        otlp_root="ResourceMetrics",
        first_query=FirstQuery(
            "/prometheus/api/v1/query", 'last_over_time({__name__!=""}[HOURSh])', "", "time"
        ),
    ),
    Signal.TRACES: SignalFacts(
        dataset="traces",
        rollups=(),
        tiers=(RAW, SEGMENTS),
        has_preset=True,
        recorded_by="",
        margin_ns=MARGIN_NS,
        margin_behind_ns=MARGIN_NS,
        has_samples=False,
        otlp_request="TraceRequest",
        otlp_root="ResourceSpans",
        first_query=None,
    ),
}


def dataset_of(frequency_ms: int) -> str:
    """Return the dataset of a partition that is built from others."""
    made = {MATERIALIZED_MS: MATERIALIZED_DATASET, RECORDED_MS: RECORDED_DATASET}
    return made.get(frequency_ms) or rollup_of(frequency_ms).dataset
