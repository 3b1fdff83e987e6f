"""Unit tests of rules run over samples in memory, as `promtool test rules` does.

    evaluate all groups at start, start + evaluation_interval, … up to the latest eval_time;
    compare firing alerts after the evaluation at or before their eval_time;
    ask the expressions at the end.

Samples of the input exist from their own time on. Floats must be equal; with `fuzzy_compare` the next float
on either side is as good.
"""

from __future__ import annotations

import glob
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakerunner_query.errors import QueryError
from lakerunner_query.gotext.durations import duration_text
from lakerunner_query.gotext.durations import text as short_duration
from lakerunner_query.gotext.strconv import quote
from lakerunner_query.histogram.model import Histogram, compact
from lakerunner_query.promql.context import Options
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
    RuleOutcome,
    Sample,
    drive,
    evaluate_rule,
)
from lakerunner_query.rules.memory_engine import MemoryEngine, can_ask_all
from lakerunner_query.rules.memory_source import MemorySource
from lakerunner_query.rules.rule_files import FileForm, RuleFileError, read_file
from lakerunner_query.rules.templates_functions import matches
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


def run_file(path: Path, only: Sequence[str] = (), shows_diff: bool = False) -> Iterator[GroupResult]:
    """Run the tests of a file; `only` are patterns of names. A file that cannot be read has failed."""
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
        if only and not any(matches(pattern, test.name) for pattern in only):
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
        self._engine = MemoryEngine(Options(default_subquery_step_ms=self._step_ms))
        self._rules = [(group, rule) for group in groups for rule in group.rules]
        self._input: list[SeriesLine] = []
        self._last_ms = test.last_eval_ms // self._step_ms * self._step_ms
        """Time since the start of the last evaluation."""
        self._seen: dict[int, list[RuleState]] = {
            case.eval_time_ms // self._step_ms * self._step_ms: [] for case in test.alert_cases
        }
        """States of rules after the evaluations that alerts are compared after, by time since the start."""

    def failures(self) -> list[str]:
        try:
            lines = [series_line(f"{one.series} {one.values}") for one in self._test.input_series]
            self._input = list({one.labels: one for one in lines}.values())  # the last of a series counts
        except NotationError as error:
            return [str(error)]
        if nameless := next((case for case in self._test.alert_cases if not case.alert), None):
            inside = f" (in TestGroup {self._test.name})" if self._test.name else ""
            return [
                "an item under alert_rule_test misses required attribute alertname "
                f"at eval_time {short_duration(nameless.eval_time_ms)}{inside}"
            ]
        errors, until_ms = self._run_all()
        found: list[str] = []
        for case in sorted(self._test.alert_cases, key=lambda case: case.eval_time_ms):
            if case.eval_time_ms < until_ms + self._step_ms:
                found += self._check_alerts(case)
        if errors:
            return found + errors
        for expr_case in self._test.expr_cases:
            found += self._check_expr(expr_case)
        return found

    def _run_all(self) -> tuple[list[str], int]:
        """Evaluate all rules at all times; return errors, and the time of the last evaluation without."""
        # what a rule records behind the time of its evaluation must not be seen before that
        is_in_step = len({group.query_offset_ms or 0 for group, _ in self._rules}) <= 1
        if is_in_step and can_ask_all([rule for _, rule in self._rules]) and self._run_rule_by_rule():
            return [], self._last_ms
        return self._run_step_by_step()

    def _load(self, from_ms: int, to_ms: int) -> None:
        """Add the samples of the input in `(from, to]`, in milliseconds since the start."""
        step_ms = self._input_step_ms
        for series in self._input:
            for place in range(from_ms // step_ms + 1, min(to_ms // step_ms + 1, len(series.values))):
                value = series.values[place]
                if not value.is_nothing:
                    at_ms = self._test.start_ms + place * step_ms
                    number = None if value.is_stale else value.number
                    self._engine.source.append(
                        series.labels, at_ms, number if value.histogram is None else value.histogram
                    )

    def _moment(self, since_ms: int) -> Moment:
        return Moment(
            self._test.start_ms + since_ms,
            external_labels=self._test.external_labels,
            external_url=self._test.external_url,
        )

    def _run_rule_by_rule(self) -> bool:
        """Evaluate each rule at all times; False, and nothing done, if that is not the same."""
        self._load(-1, self._last_ms)
        made = set(self._engine.source.series)
        try:
            done = all(self._run_rule(group, rule, made) for group, rule in self._rules)
        except (QueryError, _TemplateAsksError):
            done = False
        if not done:
            self._engine.source = MemorySource()
            for states in self._seen.values():
                states.clear()
        return done

    def _run_rule(self, group: RuleGroup, rule: Rule, made: set[Labels]) -> bool:
        """Evaluate a rule at all times; `made` are the series that there are, and becomes those after it."""
        state, own = RuleState(), set[Labels]()
        offset_ms = group.query_offset_ms or 0
        steps = Steps(self._test.start_ms - offset_ms, self._step_ms, self._last_ms // self._step_ms + 1)
        for number, answer in enumerate(self._engine.ask_all(rule.expr, steps)):
            since_ms = number * self._step_ms
            if answer or state != RuleState():
                outcome = drive(evaluate_rule(rule, group, state, self._moment(since_ms)), _only(answer))
                if outcome.error:
                    return False
                state = outcome.state
                own.update(sample.labels for sample in outcome.samples)
                if self._record(outcome):
                    return False
            if since_ms in self._seen:
                self._seen[since_ms].append(state)
        is_apart = own.isdisjoint(made)
        made |= own
        return is_apart

    def _run_step_by_step(self) -> tuple[list[str], int]:
        states = [RuleState() for _ in self._rules]
        errors: list[str] = []
        for since_ms in range(0, self._last_ms + 1, self._step_ms):
            self._load(since_ms - self._step_ms if since_ms else -1, since_ms)
            moment = self._moment(since_ms)
            for place, (group, rule) in enumerate(self._rules):
                outcome = drive(evaluate_rule(rule, group, states[place], moment), self._engine.ask)
                states[place] = outcome.state
                refusal = self._record(outcome)
                if error := outcome.error or refusal:
                    time = duration_text(moment.at_ms * 10**6)
                    errors.append(f"    rule: {_name(rule)}, time: {time}, err: {error}")
            if errors:
                return errors, since_ms - self._step_ms
            if since_ms in self._seen:
                self._seen[since_ms] = list(states)
        return [], self._last_ms

    def _record(self, outcome: RuleOutcome) -> str:
        """Store what a rule made; return why a sample cannot be. Markers of others' series need no reason."""
        refusal = ""
        for sample in outcome.samples:
            reason = self._engine.source.append(sample.labels, sample.at_ms, sample.value)
            if sample.value is not None:
                refusal = reason or refusal
        return refusal

    def _check_alerts(self, case: AlertCase) -> list[str]:
        since_ms = case.eval_time_ms // self._step_ms * self._step_ms
        found = sorted(
            ShownAlert(_sorted(alert.labels), _sorted(alert.annotations))
            for (_, rule), state in zip(self._rules, self._seen[since_ms], strict=True)
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


class _TemplateAsksError(Exception):
    """A template has a query; its answer is not known in advance."""


def _only(answer: Answer) -> Callable[[Question], Answer]:
    """Answer one question."""
    answers = [answer]

    def ask(_: Question) -> Answer:
        if not answers:
            raise _TemplateAsksError
        return answers.pop()

    return ask


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
