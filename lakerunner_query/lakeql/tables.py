"""Logical tables of LakeQL: names, datasets, and the columns that every one of them always has.

A table has more columns than those here: each label of its streams or series by the label's own name, and
each attribute of producers (`attr_*`, `resource_*`, `scope_*`, or its dotted name in quotes). Which there
are depends on the segments; workers tell.

>>> TABLES["logs"].column("message").type
'VARCHAR'
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from resources.lake.columns import CHQ_TIMESTAMP, CHQ_TSNS
from resources.lake.frequency import AS_SENT, CARDINALITY_DATASET, DAY, HOUR, ROLLUPS, rollup_of
from resources.lake.layout import Signal
from resources.lake.signals import FACTS

TEXT, TIME, BIGINT, INTEGER, DOUBLE = "VARCHAR", "TIMESTAMP", "BIGINT", "INTEGER", "DOUBLE"
BLOB = "BLOB"
TEXTS = "MAP(VARCHAR, VARCHAR)"
TIMESTAMP = "timestamp"
"""The column that every table has, and whose bounds decide which segments are read."""


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column that a table has whatever its segments hold."""

    name: str
    type: str
    meaning: str
    term: str = ""
    """Field of the index whose terms prune segments by equality; empty: none does."""


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A logical table, and the segments that it is made of."""

    name: str
    meaning: str
    signal: Signal
    dataset: str
    time_column: str
    """Stored column that `timestamp` is made of."""
    frequency_ms: int
    columns: tuple[LakeColumn, ...]
    has_labels: bool = True
    """True if rows belong to a stream or series, whose labels are columns, too."""

    @property
    def in_milliseconds(self) -> bool:
        """True for samples: their time is in whole milliseconds."""
        return FACTS[self.signal].has_samples

    @property
    def cut_by(self) -> str:
        """Column whose equal values are in one unit of a scan; empty: there is none.

        Units of samples overlap in time where a day has segments of its hours, too.
        """
        return "" if self.in_milliseconds else "tsns"

    def column(self, name: str) -> LakeColumn:
        return next(one for one in self.columns if one.name == name)


_COMMON = (
    LakeColumn(TIMESTAMP, TIME, "event time, UTC, in microseconds"),
    LakeColumn("organization_id", TEXT, "organisation"),
)
_ATTRIBUTES = (
    LakeColumn("labels", TEXTS, "labels of the stream"),
    LakeColumn("attributes", TEXTS, "attributes of the record by original name, as text"),
    LakeColumn("resource_attrs", TEXTS, "attributes of the resource by original name, as text"),
)
_LOGS = (
    *_COMMON,
    LakeColumn("tsns", BIGINT, "event time, ns since 1970"),
    LakeColumn("service_name", TEXT, "service of the stream", term="service_name"),
    LakeColumn("severity", TEXT, "level, normalised: `TRACE`, `DEBUG`, `INFO`, …"),
    LakeColumn("level", TEXT, "the same"),
    LakeColumn("detected_level", TEXT, "level as Loki names it"),
    LakeColumn("severity_number", INTEGER, "as sent"),
    LakeColumn("message", TEXT, "line; a structured body as JSON"),
    LakeColumn("fingerprint", BIGINT, "hash of the line's template"),
    LakeColumn("event_name", TEXT, "as sent"),
    LakeColumn("trace_id", TEXT, "trace of the record, in hex"),
    LakeColumn("span_id", TEXT, "span of the record, in hex"),
    *_ATTRIBUTES,
)
_SAMPLED = (
    *_COMMON,
    LakeColumn("metric_name", TEXT, "the label `__name__`", term="metric_name"),
    LakeColumn("metric_type", TEXT, "`gauge`, `sum`, `histogram`, …"),
    LakeColumn("temporality", TEXT, "`delta`, `cumulative`; of rollups also `mixed`"),
    LakeColumn("tid", BIGINT, "hash of the label set"),
    LakeColumn("service_name", TEXT, "the label of this name"),
)
_LABELS = (LakeColumn("labels", TEXTS, "label set without the name of the metric"),)
_METRICS = (
    *_SAMPLED,
    LakeColumn("value", DOUBLE, "value; null of a histogram or summary"),
    LakeColumn("count", BIGINT, "observations of a histogram or summary"),
    LakeColumn("sum", DOUBLE, "sum of a histogram or summary"),
    LakeColumn("exemplar_trace", TEXT, "trace of the newest exemplar, in hex"),
    *_LABELS,
)
_ROLLED = (
    *_SAMPLED,
    LakeColumn("count", BIGINT, "samples in the bucket, whose end is `timestamp`"),
    LakeColumn("sum", DOUBLE, "sum; of delta temporality the increase"),
    LakeColumn("min", DOUBLE, "least value"),
    LakeColumn("max", DOUBLE, "greatest value"),
    LakeColumn("avg", DOUBLE, "mean"),
    LakeColumn("first", DOUBLE, "first value"),
    LakeColumn("last", DOUBLE, "last value"),
    LakeColumn("p50", DOUBLE, "median, within 1 %"),
    LakeColumn("p95", DOUBLE, "95th percentile, within 1 %"),
    LakeColumn("p99", DOUBLE, "99th percentile, within 1 %"),
    *_LABELS,
)
_COUNTED = (
    *_COMMON,
    LakeColumn("metric_name", TEXT, "name of the metric", term="metric_name"),
    LakeColumn("label", TEXT, "label whose values are counted; empty where the series are"),
    LakeColumn("estimate", DOUBLE, "distinct series or values in the bucket, standard error 1.6 %"),
    LakeColumn("sketch", BLOB, "HyperLogLog sketch of Apache DataSketches (HLL_4, 4,096 registers)"),
)
_SPANS = (
    *_COMMON,
    LakeColumn("tsns", BIGINT, "start, ns since 1970"),
    LakeColumn("end_tsns", BIGINT, "end, ns since 1970"),
    LakeColumn("duration_ns", BIGINT, "end minus start"),
    LakeColumn("service_name", TEXT, "service of the resource", term="service_name"),
    LakeColumn("name", TEXT, "name of the span", term="span_name"),
    LakeColumn("kind", TEXT, "`server`, `client`, `internal`, …", term="span_kind"),
    LakeColumn("status_code", TEXT, "`unset`, `ok`, `error`", term="span_status_code"),
    LakeColumn("status_message", TEXT, "as sent"),
    LakeColumn("trace_id", TEXT, "trace, in hex"),
    LakeColumn("span_id", TEXT, "id, in hex"),
    LakeColumn("parent_span_id", TEXT, "id of the parent, in hex"),
    LakeColumn("trace_state", TEXT, "as sent"),
    *_ATTRIBUTES,
)


def _tables() -> tuple[LakeTable, ...]:
    dataset = {signal: facts.dataset for signal, facts in FACTS.items()}
    return (
        LakeTable("logs", "log records", Signal.LOGS, dataset[Signal.LOGS], CHQ_TSNS, AS_SENT, _LOGS),
        LakeTable(
            "metrics", "samples as sent", Signal.METRICS, dataset[Signal.METRICS], CHQ_TIMESTAMP, AS_SENT,
            _METRICS,
        ),
        LakeTable(
            "spans", "spans of traces", Signal.TRACES, dataset[Signal.TRACES], "span_start_ns", AS_SENT,
            _SPANS,
        ),
        *(
            LakeTable(
                f"metrics_{one.label}", f"samples rolled up to {one.label}", Signal.METRICS, one.dataset,
                CHQ_TIMESTAMP, one.frequency_ms, _ROLLED,
            )
            for one in ROLLUPS
        ),
        *(
            LakeTable(
                f"cardinality_{one.label}", f"series and label values of metrics, counted by {one.label}",
                Signal.METRICS, CARDINALITY_DATASET, CHQ_TIMESTAMP, one.frequency_ms, _COUNTED, False,
            )
            for one in (rollup_of(HOUR), rollup_of(DAY))
        ),
    )  # fmt: skip


class TableColumn(msgspec.Struct, frozen=True):
    """A column of a logical table; the type is one of DuckDB's."""

    name: str
    type: str


class ColumnKeys(msgspec.Struct, frozen=True):
    """Values of a text column, one of which a row must have."""

    column: str
    values: tuple[str, ...]


TABLES: dict[str, LakeTable] = {table.name: table for table in _tables()}
