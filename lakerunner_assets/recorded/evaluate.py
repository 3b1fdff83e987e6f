"""Recording rules are evaluated over the event time of one hour.

    interval 1m, hour 12:00   →   at 12:01, 12:02, … 13:00 the rule is asked of the samples as of then

A rule sees the metrics of rules before it in the same hour, and those of earlier hours from the lake. One
time before the hour is evaluated, too, and not kept: a series that ended there gets its stale marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lakerunner_query.errors import LimitExceededError, QueryError
from lakerunner_query.promql.context import Source, SourceAnswer
from lakerunner_query.rules.alert_states import RuleState
from lakerunner_query.rules.chains import in_order
from lakerunner_query.rules.documents import RecordingRule, RuleGroup
from lakerunner_query.rules.evaluation import Answer, Moment, Question, RecordedSample, drive, evaluate_rule
from lakerunner_query.rules.memory_source import MemorySource
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Labels, Objects, Series, Steps
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from resources.arrays import Flags
from resources.lake.timecut import HOUR_NS

NS_PER_MS = 1_000_000
HOUR_MS = HOUR_NS // NS_PER_MS
Ask = Callable[[RuleGroup, RecordingRule, Steps], Iterator[Answer]]
"""Answers of a rule's expression, one per step."""


@dataclass(frozen=True, slots=True)
class RecordedRule:
    """The result of one rule in one hour."""

    group: str
    record: str
    rows: int = 0
    error: str = ""
    """Reason why nothing was recorded; empty: all went well."""


@dataclass(frozen=True, slots=True)
class RecordedHour:
    samples: tuple[RecordedSample, ...]
    rules: tuple[RecordedRule, ...]


def steps_of(group: RuleGroup, hour_ns: int, default_ms: int) -> Steps:
    """Return the times of a group in `(hour, hour + 1h]`, and the one before them.

    They are multiples of its interval, less its offset; an interval beyond an hour may leave none inside.
    """
    interval_ms = group.interval_ms or default_ms
    offset_ms = group.query_offset_ms or 0
    from_ms = hour_ns // NS_PER_MS
    before = (from_ms + offset_ms) // interval_ms * interval_ms - offset_ms
    return Steps(before, interval_ms, (from_ms + HOUR_MS - before) // interval_ms + 1)


def record_hour(
    groups: Sequence[RuleGroup], hour_ns: int, default_ms: int, made: MemorySource, ask: Ask, most: int
) -> RecordedHour:
    """Evaluate all recording rules of an organisation; `made` is what `ask` sees of this hour's results."""
    samples: list[RecordedSample] = []
    rules: list[RecordedRule] = []
    for group in in_order(groups):
        steps = steps_of(group, hour_ns, default_ms)
        for rule in group.rules:
            if isinstance(rule, RecordingRule):
                found, outcome = _record(group, rule, steps, ask, most - len(samples))
                samples += found
                rules.append(outcome)
                for one in found:
                    made.append(one.labels, one.at_ms, one.value)
    return RecordedHour(tuple(samples), tuple(rules))


def _record(
    group: RuleGroup, rule: RecordingRule, steps: Steps, ask: Ask, most: int
) -> tuple[list[RecordedSample], RecordedRule]:
    """Evaluate one rule; if it fails at any time it records nothing in this hour."""
    found: list[RecordedSample] = []
    state = RuleState()
    here = replace(group, query_offset_ms=0)  # the offset is in the times already
    try:
        for at_ms, answer in zip(steps.times_ms.tolist(), ask(group, rule, steps), strict=True):
            outcome = drive(evaluate_rule(rule, here, state, Moment(at_ms)), partial(_always, answer))
            if outcome.error:
                return [], RecordedRule(group.name, rule.record, error=outcome.error)
            state = outcome.state
            found += outcome.samples if at_ms > steps.start_ms else ()
            if len(found) > most:
                raise LimitExceededError("the recording rules of an hour make too many samples")
    except QueryError as error:
        return [], RecordedRule(group.name, rule.record, error=str(error))
    return found, RecordedRule(group.name, rule.record, len(found))


def _always(answer: Answer, _: Question) -> Answer:
    return answer


@dataclass(frozen=True, slots=True)
class WithMade:
    """Samples of the lake, and behind them those that rules made in this hour."""

    lake: Source
    made: MemorySource

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        old, new = (one.select(matchers, from_ms, to_ms) for one in (self.lake, self.made))
        if not new.count or not old.count:
            return new if not old.count else old
        return _join(old, new)

    def over_windows(
        self,
        function: Function,  # noqa: ARG002 (functions are computed over the samples)
        matchers: Sequence[Matcher],  # noqa: ARG002
        grid: Grid,  # noqa: ARG002
    ) -> SourceAnswer | None:
        return None


def _join(old: Series, new: Series) -> Series:
    """Put the samples of equal series one after the other; those of the second are later."""
    parts: dict[Labels, list[tuple[Series, int]]] = {}
    for series in (old, new):
        for row, labels in enumerate(series.labels):
            parts.setdefault(labels, []).append((series, row))
    ordered = sorted(parts)
    runs = [part for labels in ordered for part in parts[labels]]
    lengths = [
        sum(int(one.offsets[row + 1] - one.offsets[row]) for one, row in parts[key]) for key in ordered
    ]
    deltas = any(one.is_delta is not None for one in (old, new))
    return Series(
        ordered,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate([one.time_ms[_rows(one, row)] for one, row in runs]),
        np.concatenate([one.value[_rows(one, row)] for one, row in runs]),
        _histograms(old, new, runs),
        np.concatenate([_deltas(one)[_rows(one, row)] for one, row in runs]) if deltas else None,
    )


def _length(run: tuple[Series, int]) -> int:
    series, row = run
    return int(series.offsets[row + 1] - series.offsets[row])


def _rows(series: Series, row: int) -> slice:
    return slice(int(series.offsets[row]), int(series.offsets[row + 1]))


def _deltas(series: Series) -> Flags:
    return np.zeros(len(series.time_ms), np.bool_) if series.is_delta is None else series.is_delta


def _histograms(old: Series, new: Series, runs: Sequence[tuple[Series, int]]) -> Objects | None:
    if old.histograms is None and new.histograms is None:
        return None
    cells: list[Objects] = []
    for one, row in runs:
        rows = _rows(one, row)
        own = one.histograms
        cells.append(np.full(rows.stop - rows.start, None, np.object_) if own is None else own[rows])
    return np.concatenate(cells)
