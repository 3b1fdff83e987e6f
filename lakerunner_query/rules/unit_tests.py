"""Unit tests of rules run over samples in memory, with the verdicts of `promtool test rules`.

    evaluate all groups at start, start + evaluation_interval, … up to the latest eval_time;
    compare firing alerts after the evaluation at or before their eval_time;
    ask the expressions at the end.

Samples of the input exist from their own time on. Floats must be equal; with `fuzzy_compare` the next float
on either side is as good.
"""

from __future__ import annotations

import glob
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lakerunner_query.errors import QueryError
from lakerunner_query.gotext.durations import duration_text
from lakerunner_query.gotext.durations import text as short_duration
from lakerunner_query.gotext.strconv import quote
from lakerunner_query.histogram.model import Histogram, compact
from lakerunner_query.promql.context import Options
from lakerunner_query.promql.evaluate import combine_results, evaluate
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse_cached
from lakerunner_query.promql.series_notation import (
    NotationError,
    SeriesLine,
    histogram_notation,
    read_labels,
    series_line,
)
from lakerunner_query.rules.alert_states import Phase, RuleState
from lakerunner_query.rules.documents import AlertRule, Rule, RuleGroup, RuleLanguage
from lakerunner_query.rules.evaluation import (
    ALERT_NAME,
    Answer,
    Moment,
    Question,
    Sample,
    drive,
    evaluate_rule,
    samples_of,
)
from lakerunner_query.rules.memory_source import MemorySource
from lakerunner_query.rules.rule_files import FileForm, RuleFileError, read_file
from lakerunner_query.rules.unit_test_files import (
    AlertCase,
    ExpectedSample,
    ExprCase,
    TestGroup,
    UnitTestFile,
    UnitTestFileError,
    read_unit_tests,
)
from lakerunner_query.rules.unit_test_texts import (
    ShownAlert,
    ShownSample,
    alerts_difference,
    alerts_failure,
    samples_difference,
    samples_failure,
)
from lakerunner_query.vectors.vector import Labels, Steps


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The outcome of a group of tests."""

    name: str
    failures: tuple[str, ...] = ()


def run_file(
    path: Path, only: Sequence[re.Pattern[str]] = (), shows_diff: bool = False
) -> Iterator[GroupResult]:
    """Run the tests of a file; a file that cannot be read is one result that failed."""
    try:
        file = read_unit_tests(path)
        _check_order(file)
    except (UnitTestFileError, OSError) as error:
        yield GroupResult(str(path), (str(error),))
        return
    try:
        groups = _ordered(file, [group for one in _rule_files(path, file) for group in _groups(one)])
        refusal = ""
    except (RuleFileError, OSError) as error:
        groups, refusal = [], str(error)
    for number, test in enumerate(file.tests):
        if only and not any(pattern.search(test.name) for pattern in only):
            continue
        name = test.name or f"unnamed#{number}"
        failures = (refusal,) if refusal else tuple(_Run(file, test, groups, shows_diff).failures())
        yield GroupResult(name, failures)


def _check_order(file: UnitTestFile) -> None:
    for at, name in enumerate(file.group_eval_order):
        if name in file.group_eval_order[:at]:
            raise UnitTestFileError(f"group name repeated in evaluation order: {name}")


def _rule_files(path: Path, file: UnitTestFile) -> Iterator[Path]:
    for pattern in file.rule_files:
        found = glob.glob(str(path.parent / pattern))  # noqa: PTH207 (absolute patterns are allowed)
        yield from map(Path, sorted(found))


def _groups(path: Path) -> list[RuleGroup]:
    found = read_file(path.read_bytes(), FileForm(is_strict=True)).require(path.name)
    return [group for _, group in found.groups]


def _ordered(file: UnitTestFile, groups: Sequence[RuleGroup]) -> list[RuleGroup]:
    places = {name: place for place, name in enumerate(file.group_eval_order)}
    return sorted(groups, key=lambda group: places.get(group.name, 0))


@dataclass(slots=True)
class _Engine:
    """PromQL over samples in memory."""

    options: Options
    source: MemorySource = field(default_factory=MemorySource)

    def ask(self, question: Question) -> Answer:
        at_ms = question.at_ms
        expr = bind(parse_cached(question.expr), at_ms, at_ms, 0)
        result = combine_results([evaluate(expr, Steps(at_ms, 1, 1), self.source, self.options)])
        return samples_of(result.value)


class _Run:
    """One group of tests while it runs."""

    def __init__(
        self, file: UnitTestFile, test: TestGroup, groups: Sequence[RuleGroup], shows_diff: bool
    ) -> None:
        self._test = test
        self._step_ms = file.evaluation_interval_ms
        self._input_step_ms = test.interval_ms or file.evaluation_interval_ms
        self._is_fuzzy = file.fuzzy_compare
        self._shows_diff = shows_diff
        self._engine = _Engine(Options(default_subquery_step_ms=self._step_ms))
        self._rules = [(group, rule) for group in groups for rule in group.rules]
        self._states = [RuleState() for _ in self._rules]
        self._input: list[SeriesLine] = []
        self._loaded = 0
        """Samples of each series that exist already."""

    def failures(self) -> list[str]:
        try:
            self._input = [series_line(f"{one.series} {one.values}") for one in self._test.input_series]
        except NotationError as error:
            return [str(error)]
        for case in self._test.alert_cases:
            if not case.alert:
                inside = f" (in TestGroup {self._test.name})" if self._test.name else ""
                time = short_duration(case.eval_time_ms)
                return [
                    "an item under alert_rule_test misses required attribute alertname "
                    f"at eval_time {time}{inside}"
                ]
        found: list[str] = []
        waiting = sorted(self._test.alert_cases, key=lambda case: case.eval_time_ms)
        for since_ms in range(0, self._test.last_eval_ms + 1, self._step_ms):
            self._load(since_ms)
            errors = self._evaluate(self._test.start_ms + since_ms)
            if errors:
                return found + errors
            while waiting and waiting[0].eval_time_ms < since_ms + self._step_ms:
                found += self._check_alerts(waiting.pop(0))
        for expr_case in self._test.expr_cases:
            found += self._check_expr(expr_case)
        return found

    def _load(self, since_ms: int) -> None:
        """Add the samples of the input up to now."""
        until = since_ms // self._input_step_ms + 1
        for series in self._input:
            for place in range(self._loaded, min(until, len(series.values))):
                value = series.values[place]
                if not value.is_nothing:
                    at_ms = self._test.start_ms + place * self._input_step_ms
                    number = None if value.is_stale else value.number
                    self._engine.source.append(
                        series.labels, at_ms, number if value.histogram is None else value.histogram
                    )
        self._loaded = until

    def _evaluate(self, at_ms: int) -> list[str]:
        moment = Moment(
            at_ms, external_labels=self._test.external_labels, external_url=self._test.external_url
        )
        errors: list[str] = []
        for place, (group, rule) in enumerate(self._rules):
            steps = evaluate_rule(rule, group, self._states[place], moment)
            outcome = drive(steps, self._engine.ask)
            self._states[place] = outcome.state
            for sample in outcome.samples:
                self._engine.source.append(sample.labels, sample.at_ms, sample.value)
            if outcome.error:
                time = duration_text(at_ms * 10**6)
                errors.append(f"    rule: {_name(rule)}, time: {time}, err: {outcome.error}")
        return errors

    def _check_alerts(self, case: AlertCase) -> list[str]:
        found = sorted(
            ShownAlert(_sorted(alert.labels), _sorted(alert.annotations))
            for (_, rule), state in zip(self._rules, self._states, strict=True)
            if isinstance(rule, AlertRule) and rule.alert == case.alert
            for alert in state.alerts
            if alert.phase is Phase.FIRING
        )
        expected = sorted(
            ShownAlert(_sorted({**one.labels, ALERT_NAME: case.alert}), _sorted(one.annotations))
            for one in case.alerts
        )
        if found == expected:
            return []
        write = alerts_difference if self._shows_diff else alerts_failure
        return [write(self._test.name, case.alert, short_duration(case.eval_time_ms), expected, found)]

    def _check_expr(self, case: ExprCase) -> list[str]:
        time = short_duration(case.eval_time_ms)
        place = f"    expr: {quote(case.expr)}, time: {time}, err: "
        try:
            at_ms = self._test.start_ms + case.eval_time_ms
            answer = self._engine.ask(Question(RuleLanguage.PROMQL, case.expr, at_ms))
            expected = sorted(map(_expected_sample, case.samples), key=lambda one: one.labels)
        except (QueryError, NotationError) as error:
            return [f"{place}{error}"]
        found = sorted(map(_found_sample, answer), key=lambda one: one.labels)
        if len(found) == len(expected) and all(map(self._is_same, expected, found)):
            return []
        write = samples_difference if self._shows_diff else samples_failure
        return [write(case.expr, time, expected, found)]

    def _is_same(self, expected: ShownSample, found: ShownSample) -> bool:
        if expected.labels != found.labels or expected.histogram != found.histogram:
            return False
        one, other = expected.value, found.value
        if one == other:
            return True
        return self._is_fuzzy and other in {math.nextafter(one, -math.inf), math.nextafter(one, math.inf)}


def _name(rule: Rule) -> str:
    return rule.alert if isinstance(rule, AlertRule) else rule.record


def _sorted(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _found_sample(sample: Sample) -> ShownSample:
    if isinstance(sample.value, Histogram):
        return ShownSample(sample.labels, 0.0, histogram_notation(compact(sample.value)))
    return ShownSample(sample.labels, sample.value)


def _expected_sample(sample: ExpectedSample) -> ShownSample:
    try:
        labels, rest = read_labels(sample.labels) if sample.labels.strip() else ((), "")
        histogram = _expected_histogram(sample.histogram) if sample.histogram else ""
    except NotationError as error:
        raise NotationError(f"labels {quote(sample.labels)}: {error}") from error
    if rest.strip():
        raise NotationError(f"labels {quote(sample.labels)}: unexpected {quote(rest.strip())} behind them")
    return ShownSample(labels, 0.0 if histogram else sample.value, histogram)


def _expected_histogram(text: str) -> str:
    values = series_line("{} " + text).values
    if len(values) != 1:
        raise NotationError(f"expected 1 value, got {len(values)}")
    if values[0].histogram is None:
        raise NotationError(f"expected histogram, got {text}")
    return histogram_notation(compact(values[0].histogram))
