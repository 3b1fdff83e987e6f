"""A small lake with rules: records of two hours, series that rules derive from them, and questions both ways.

The series are those of the definition, bucket by bucket: what a query of ten seconds says of the records. An
hour in which that query fails, or in which a kept label is there but empty, is not eligible.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from lakerunner_assets.materialized.rules import rules_origin
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.engine import Engine, Limits
from lakerunner_query.coordinator.languages import LOG_SAMPLES
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.logql_samples import LogSamplesRequest, rewrite_log_samples
from lakerunner_query.coordinator.merge import SampleResult
from lakerunner_query.coordinator.rules import RuleCache
from lakerunner_query.errors import QueryError
from lakerunner_query.fairness import Admission
from lakerunner_query.plan.rewrite import COST, Guards
from lakerunner_query.plan.rewrite_logql import GUARDS
from lakerunner_query.rules.catalog import derived_of, put_of
from lakerunner_query.rules.documents import LINE_BYTES, DerivedMetric, Form
from lakerunner_query.vectors.vector import Labels
from resources.index.memory import MemoryIndex
from resources.index.rule_types import RuleHour
from resources.index.types import BatchKind, BatchPlan, BuiltPartition, Publication, Segment, SegmentQuery
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal, hourly_segment_key
from resources.lake.signals import MATERIALIZED_MS
from resources.lake.timecut import HOUR_NS, SECOND_NS
from resources.settings import Settings
from tests.golden.lake_source import sample_table
from tests.golden.memory_source import Sample
from tests.support.cooking_lake import Lake as CookedLake
from tests.support.materialized.rules import derive_rules
from tests.support.query.in_process import InProcess
from tests.support.query.lake import Lake

ORG = "acme"
BUCKET_NS = 10 * SECOND_NS
NS_PER_MS = 1_000_000
Points = dict[Labels, list[tuple[float, float]]]
LOGQL_FORMS: Mapping[Form, str] = {
    Form.COUNT: "count_over_time",
    Form.SUM: "sum_over_time",
    Form.MIN: "min_over_time",
    Form.MAX: "max_over_time",
}


@dataclass(frozen=True)
class Answer:
    """Points by series, or the error that the query ended with."""

    points: Points
    error: str = ""
    served: int = 0
    """Steps that derived metrics answered."""
    lines: tuple[str, ...] = ()
    """Lines of EXPLAIN about rewriting."""

    def differs(self, other: Answer) -> str:
        """Return the first difference; sums may differ in the last digits."""
        if self.error != other.error:
            return f"{self.error or 'an answer'} instead of {other.error or 'an answer'}"
        if self.points.keys() != other.points.keys():
            return f"series {sorted(self.points)} instead of {sorted(other.points)}"
        for labels, points in self.points.items():
            expected = other.points[labels]
            if [t for t, _ in points] != [t for t, _ in expected]:
                return f"{labels}: times {points} instead of {expected}"
            for (at, found), (_, wanted) in zip(points, expected, strict=True):
                if not _is_close(found, wanted):
                    return f"{labels} at {at}: {found} instead of {wanted}"
        return ""


def _is_close(found: float, wanted: float) -> bool:
    if found == wanted or (math.isnan(found) and math.isnan(wanted)):
        return True
    return abs(found - wanted) <= 1e-12 * max(abs(found), abs(wanted), 1e-3)


def points_of(found: SampleResult) -> Points:
    return {
        one.labels: [
            (at, float(text))
            for at, text in msgspec.json.decode(b"[" + one.floats + b"]", type=list[tuple[float, str]])
        ]
        for one in found.series
    }


class RuledLake:
    """Records of one signal and the rules of one organisation."""

    signal: Signal
    most_series = 10_000
    """Series that a rule may have in an hour."""

    def __init__(self, folder: Path, lake: Path, index: MemoryIndex) -> None:
        self.index, self.lake_folder = index, lake
        self._serial = itertools.count(1)
        self.workers = InProcess(lake, folder / "scratch")
        self.rules = RuleCache(self.index, good_s=0.0)
        self.engine = Engine(
            Locator(cast("Any", self.index)),
            cast("Dispatcher", self.workers),
            Admission(4),
            Limits(60.0, max_rows=1000),
            self.rules,
        )
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self.rules.close()
        self._runner.close()

    def put(self, *metrics: DerivedMetric) -> None:
        """Let these be the rules."""
        self.index.change_rules(ORG, [put_of(metric) for metric in metrics], None)

    @property
    def metrics(self) -> list[DerivedMetric]:
        return [derived_of(stored) for stored in self.index.rules(ORG).rules]

    def derive_as_product(self) -> None:
        """Derive every hour as the product does."""
        folder = self.lake_folder.parent
        settings = Settings(
            data_dir=folder, lake_url=f"file://{self.lake_folder}", derived_max_series=self.most_series
        )
        hours = sorted(p.start_ns for p in self.index.partitions(ORG, self.signal, AS_SENT))
        cooked = CookedLake(folder, settings, self.index)
        derive_rules(cooked, self.signal, hours, force=True)

    def derive(self, hours: Iterable[int] | None = None) -> None:
        """Derive what is due, or these hours, by all rules."""
        sent = {p.start_ns: p.sent_version for p in self.index.partitions(ORG, self.signal, AS_SENT)}
        for hour in sorted(sent) if hours is None else hours:
            rows: list[tuple[Labels, Sample]] = []
            outcomes: list[RuleHour] = []
            for stored in self.index.rules(ORG).rules:
                metric = derived_of(stored)
                series = self._series(metric, hour) if metric.source is self.signal else {}
                rows += [
                    (labels, Sample(at, value))
                    for labels, each in (series or {}).items()
                    for at, value in each
                ]
                outcomes.append(
                    RuleHour(hour, stored.rule_id, stored.version, sent[hour], series is not None, len(rows))
                )
            self._publish(hour, rows, tuple(outcomes), sent[hour])

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
        """Ask in the language of the signal, with these guards."""
        raise NotImplementedError

    def bucket_query(self, metric: DerivedMetric, form: Form) -> str:
        """Return the query that defines a form of a derived metric, bucket by bucket."""
        raise NotImplementedError

    def _series(self, metric: DerivedMetric, hour: int) -> dict[Labels, list[tuple[int, float]]] | None:
        """Return the samples of a rule in an hour; None where it must not stand for the records."""
        found: dict[Labels, list[tuple[int, float]]] = {}
        for form, name in metric.series.items():
            answer = self.ask(
                self.bucket_query(metric, form), hour + BUCKET_NS, hour + HOUR_NS, BUCKET_NS, rewrite=False
            )
            if answer.error:
                return None
            for labels, points in answer.points.items():
                if any(not value for _, value in labels) or any(not math.isfinite(v) for _, v in points):
                    return None
                named = tuple(sorted({**dict(labels), "__name__": name}.items()))
                found[named] = [(round(at * 1000), value) for at, value in points]
        return found

    def _publish(
        self, hour: int, rows: Sequence[tuple[Labels, Sample]], outcomes: tuple[RuleHour, ...], version: int
    ) -> None:
        index = self.index
        old = [
            one.segment_id
            for one in index.snapshot(
                (SegmentQuery(ORG, "metrics", AS_SENT, hour, hour + HOUR_NS),)
            ).segments[0]
            if one.origin and one.hour_ns == hour
        ]
        known = {p.start_ns: p for p in index.partitions(ORG, self.signal, MATERIALIZED_MS)}
        built = BuiltPartition(hour, known[hour].version if hour in known else 0, {hour: version})
        claim = index.create_claimed(BatchPlan(BatchKind.MATERIALIZE, ORG, "all", Signal.METRICS, hour))
        segments = (self._segment(hour, rows),) if rows else ()
        index.publish(
            Publication(
                claim, segments, retire=tuple(old), hours=(hour,), materialized=(self.signal, built),
                rule_hours=outcomes,
            )
        )  # fmt: skip

    def _segment(self, hour: int, rows: Sequence[tuple[Labels, Sample]]) -> Segment:
        segment_id = f"{next(self._serial):032x}"[::-1]
        key = hourly_segment_key(ORG, "all", "metrics", hour, segment_id)
        path = self.lake_folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        identity = SegmentIdentity(ORG, "all", "metrics", hour, segment_id)
        written = write_metric_segment([sample_table(rows)], path, identity)
        return Segment(
            segment_id=segment_id, key=key, org=ORG, collector="all", signal=Signal.METRICS,
            dataset="metrics", frequency_ms=AS_SENT, hour_ns=hour, width_ns=HOUR_NS, min_ns=written.min_ns,
            max_ns=written.max_ns, rows=written.rows, bytes=written.bytes, level=0,
            origin=rules_origin(self.signal),
            format_version=written.format_version, sort_version=written.sort_version, terms=written.terms,
            label_names=written.label_names, metric_names=written.metric_names,
            series_offset=written.series_offset, series_length=written.series_length,
            bloom_offset=written.bloom_offset, bloom_length=written.bloom_length,
        )  # fmt: skip


class RuleLake(RuledLake):
    """Log records, and questions in LogQL."""

    signal = Signal.LOGS

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
        language = replace(LOG_SAMPLES, rewrite=partial(rewrite_log_samples, guards=guards or GUARDS))
        request = LogSamplesRequest(ORG, start_ns, end_ns, step_ns, rewrite=rewrite)

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
        """Return the LogQL that defines a form of a derived metric, bucket by bucket."""
        by = f"by ({', '.join(metric.keep)})"
        if not metric.value or (form is Form.COUNT and metric.value == LINE_BYTES):
            return f"sum {by} (count_over_time({metric.select} [10s]))"
        if metric.value == LINE_BYTES:  # extremes of sizes are not asked for in LogQL
            return f"sum {by} (bytes_over_time({metric.select} [10s]))"
        if form is Form.COUNT:
            label = metric.value.rpartition("(")[2].rstrip(")")
            return f'sum {by} (count_over_time({metric.select} | {label}!="" [10s]))'
        outer = "sum" if form is Form.SUM else form.value
        return f"{outer} {by} ({LOGQL_FORMS[form]}({metric.select} | unwrap {metric.value} [10s]))"


def without(name: str, guards: Guards = GUARDS) -> Guards:
    return tuple(one for one in guards if one.name != name)


UNPRICED = without(COST.name)
"""Guards of tests: in a small lake the footers outweigh the records."""
