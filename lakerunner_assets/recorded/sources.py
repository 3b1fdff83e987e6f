"""Recording rules read segments on this machine through the engines of queries.

    sources = open_sources(metrics, logs, folder)
    sources.ask(group, rule, steps)        samples at each step

How far back rules read, through the rules that they read, decides which hours an hour is recorded from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lakerunner_assets.recorded.evaluate import NS_PER_MS, WithMade, steps_of
from lakerunner_query.errors import QueryError
from lakerunner_query.logql.lang.ast import LogQuery, SampleExpr
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.logql.metrics.evaluate import evaluate as evaluate_logs
from lakerunner_query.plan.logql_samples import log_reads
from lakerunner_query.plan.promql import reads
from lakerunner_query.promql.context import Options
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse_cached
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.rules.chains import in_order, names_read
from lakerunner_query.rules.documents import RecordingRule, RuleGroup, RuleLanguage
from lakerunner_query.rules.evaluation import Answer, RuleError
from lakerunner_query.rules.memory_engine import answers, answers_of
from lakerunner_query.rules.memory_source import MemorySource
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Steps
from lakerunner_query.worker.logs.samples import LakeLogSource, UnreadableSegments
from lakerunner_query.worker.logs.segment_opener import ScanResources, SegmentOpener
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.metrics.selections import SelectorLimits
from lakerunner_query.worker.shared.segment_file import SegmentsInPlace
from resources.duckdb import Cancellation, DuckLimits, DuckSession
from resources.lake.timecut import HOUR_NS

CACHE_BYTES = 64 << 20
MEMORY_MB = 512
"""Memory of DuckDB in a task."""
MOST_SERIES, MOST_SAMPLES = 1_000_000, 50_000_000
"""Bounds of what one selector of a rule reads at once."""
LANGUAGES = frozenset({RuleLanguage.PROMQL, RuleLanguage.LOGQL})
"""Languages whose recording rules are recorded."""
_OPTIONS = Options()


class SegmentUnreadableError(ValueError):
    """A segment that the hour is recorded from cannot be read."""


class _SameForAll(dict[tuple[Matcher, ...], Sequence[SegmentRef]]):
    """Segments of the hours that are read, whatever is selected from them."""

    def __init__(self, segments: Sequence[SegmentRef]) -> None:
        super().__init__()
        self._segments = segments

    def __missing__(self, matchers: tuple[Matcher, ...]) -> Sequence[SegmentRef]:
        return self._segments


@dataclass(frozen=True, slots=True)
class Sources:
    """Engines over the segments of a task."""

    metrics: LakeSource
    logs: LakeLogSource
    made: MemorySource = field(default_factory=MemorySource)

    def ask(self, group: RuleGroup, rule: RecordingRule, steps: Steps) -> Iterator[Answer]:
        if group.language is RuleLanguage.PROMQL:
            return answers(rule.expr, steps, WithMade(self.metrics, self.made), _OPTIONS)
        if group.language is RuleLanguage.LOGQL:
            return self._ask_logs(rule, steps)
        raise RuleError(f"recording rules in {group.language.value} are not recorded")

    def _ask_logs(self, rule: RecordingRule, steps: Steps) -> Iterator[Answer]:
        times = LogSteps(steps.start_ms * NS_PER_MS, steps.step_ms * NS_PER_MS, steps.count)
        yield from answers_of(evaluate_logs(_log_expr(rule.expr), times, self.logs).value, steps.count)


@contextmanager
def open_sources(
    metrics: Sequence[SegmentRef], logs: Sequence[SegmentRef], folder: Path, end_ns: int
) -> Iterator[Sources]:
    """Open segments that lie in the folder; at the end, complain about those that could not be read."""
    place = SegmentsInPlace(folder)
    session = DuckSession(DuckLimits(MEMORY_MB, 1, folder / "spill", (folder,)))
    opener = MetricOpener(place, CACHE_BYTES)
    try:
        with opener.open_unit(Cancellation()) as reader:
            limits = SelectorLimits(MOST_SERIES, MOST_SAMPLES)
            samples = LakeSource(reader, metrics, opener.interner.numbers(), limits=limits)
            resources = ScanResources(SegmentOpener(place), session, Cancellation())
            lines = LakeLogSource(_SameForAll(logs), resources, UnreadableSegments(), end_ns)
            yield Sources(samples, lines)
            for missing in (*reader.report().missing, *lines.report().missing):
                raise SegmentUnreadableError(f"segment {missing.segment_id}: {missing.reason}")
    finally:
        session.close()


def _log_expr(text: str) -> SampleExpr:
    expr = parse_expr(text)
    if isinstance(expr, LogQuery):
        raise RuleError(f"{text}: expected a metric query over logs")
    return expr


def reach_ns(groups: Sequence[RuleGroup], default_ms: int) -> int:
    """Return how far before an hour samples and lines are read that its recorded metrics depend on.

    A rule that reads a recorded metric depends on all that this one was recorded from: reaches of a chain
    add up.
    """
    found: dict[str, int] = {}
    for group in in_order(groups):
        for rule in group.rules:
            if isinstance(rule, RecordingRule) and group.language in LANGUAGES:
                is_promql = group.language is RuleLanguage.PROMQL
                read = names_read(rule.expr, list(found)) if is_promql else []
                reach = _reach_of(group, rule, default_ms) + max((found[name] for name in read), default=0)
                found[rule.record] = max(reach, found.get(rule.record, 0))
    return max(found.values(), default=0)


def _reach_of(group: RuleGroup, rule: RecordingRule, default_ms: int) -> int:
    try:
        return max(0, -_first_read(group, rule, steps_of(group, 0, default_ms)))
    except QueryError:
        return 0  # the rule fails when it is evaluated, and says why


def _first_read(group: RuleGroup, rule: RecordingRule, steps: Steps) -> int:
    """Return the first time that is read for the hour that begins at 0."""
    if group.language is RuleLanguage.LOGQL:
        times = LogSteps(steps.start_ms * NS_PER_MS, steps.step_ms * NS_PER_MS, steps.count)
        return min((each.from_ns for each in log_reads(_log_expr(rule.expr), times)), default=0)
    expr = bind(parse_cached(rule.expr), steps.start_ms, steps.start_ms, 0)
    found = reads(expr, steps, _OPTIONS.lookback_ms, _OPTIONS.default_subquery_step_ms)
    return min((each.from_ms - each.before_ms for each in found), default=0) * NS_PER_MS


def hours_back(reach: int) -> int:
    """Return how many hours before its own an hour reads.

    >>> hours_back(0), hours_back(1), hours_back(HOUR_NS)
    (0, 1, 1)
    """
    return -(-reach // HOUR_NS)
