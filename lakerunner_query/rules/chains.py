"""Recording rules that read what others record are evaluated after them; no rule may wait for itself.

a: job:errors:rate5m          from errors_total
b: job:errors:ratio           from job:errors:rate5m      →  a, then b

x: one from two, y: two from one                           →  refused: one -> two -> one
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from lakerunner_query.gotext.regexp import full_matches
from lakerunner_query.promql.lang.ast import Call, Expr, Selector, children
from lakerunner_query.promql.lang.functions import FUNCTIONS
from lakerunner_query.promql.lang.parser import parse_cached
from lakerunner_query.rules.documents import AlertRule, RecordingRule, RuleGroup, RuleLanguage
from lakerunner_query.syntax import Matcher, MatchOp, Task, unwind
from lakerunner_query.vectors.vector import NAME

SPAN_METRICS = "traces_s"
"""Beginning of the names of metrics that are derived from spans without a rule."""
_Rule = tuple[int, int]
"""Positions of a group, and of a rule in it."""


class RuleCycleError(ValueError):
    """Recording rules read each other in a circle; the message names the metrics on it."""

    def __init__(self, records: Sequence[str]) -> None:
        super().__init__(f"recording rules read each other in a circle: {' -> '.join(records)}")
        self.records = tuple(records)


def in_order(groups: Sequence[RuleGroup]) -> list[RuleGroup]:
    """Return groups such that each stands behind those whose metrics it reads, else as they were.

    Two groups that read each other are put apart: a group may come back in several parts.
    """
    order = _sorted_rules(groups)
    found: list[RuleGroup] = []
    last = -1
    for group, rule in order:
        one = groups[group].rules[rule]
        if group == last:
            found[-1] = _with_rules(found[-1], (*found[-1].rules, one))
        else:
            found.append(_with_rules(groups[group], (one,)))
        last = group
    return found


def cycles(groups: Sequence[RuleGroup]) -> tuple[str, ...]:
    """Return the metrics of a circle of recording rules, the first again at the end; empty without one."""
    try:
        _sorted_rules(groups)
    except RuleCycleError as error:
        return error.records
    return ()


def names_read(text: str, names: Sequence[str]) -> list[str]:
    """Return those of the metric names that a PromQL expression may read.

    >>> names_read('rate(a[5m]) / {__name__=~"b.*", job="x"}', ["a", "bc", "c"])
    ['a', 'bc']
    """
    read: set[str] = set()
    for matchers in _name_matchers(text):
        left = list(names)
        for matcher in matchers:
            left = _matching(matcher, left)
        read.update(left)
    return [name for name in names if name in read]


def reads_derived(group: RuleGroup, made: Sequence[str]) -> bool:
    """Tell whether rules of a group may read metrics that are derived: those in `made`, or those of spans."""
    if group.language is RuleLanguage.LAKEQL:
        return True
    if group.language is not RuleLanguage.PROMQL:
        return False
    return any(SPAN_METRICS in rule.expr or _reads_any(rule.expr, tuple(made)) for rule in group.rules)


def _with_rules(group: RuleGroup, rules: tuple[RecordingRule | AlertRule, ...]) -> RuleGroup:
    return RuleGroup(
        group.name,
        rules,
        group.language,
        group.interval_ms,
        group.query_offset_ms,
        group.limit,
        group.labels,
        group.line,
    )


def _sorted_rules(groups: Sequence[RuleGroup]) -> list[_Rule]:
    """Return the recording rules, each behind those it reads, or raise `RuleCycleError`."""
    makers: dict[str, list[_Rule]] = {}
    rules: dict[_Rule, tuple[RuleGroup, RecordingRule]] = {}
    for number, group in enumerate(groups):
        for place, rule in enumerate(group.rules):
            if isinstance(rule, RecordingRule):
                rules[number, place] = group, rule
                makers.setdefault(rule.record, []).append((number, place))
    names = sorted(makers)
    done: set[_Rule] = set()
    order: list[_Rule] = []
    path: dict[_Rule, None] = {}
    """Rules that wait, each for the next one."""

    def visit(each: _Rule) -> Task[None]:
        if each in done:
            return
        if each in path:
            waiting = list(path)
            circle = [rules[one][1].record for one in waiting[waiting.index(each) :]]
            raise RuleCycleError([*circle, circle[0]])
        path[each] = None
        group, rule = rules[each]
        read = names_read(rule.expr, names) if group.language is RuleLanguage.PROMQL else []
        for name in read:
            for maker in makers[name]:
                yield visit(maker)
        path.popitem()
        done.add(each)
        order.append(each)

    for each in rules:
        unwind(visit(each))
    return order


@lru_cache(maxsize=4096)
def _reads_any(text: str, names: tuple[str, ...]) -> bool:
    return bool(names_read(text, names))


@lru_cache(maxsize=2048)
def _name_matchers(text: str) -> tuple[tuple[Matcher, ...], ...]:
    return tuple(_selected_names(parse_cached(text)))


def _selected_names(expr: Expr) -> Iterator[tuple[Matcher, ...]]:
    waiting = [expr]
    while waiting:
        one = waiting.pop()
        waiting += children(one)
        if isinstance(one, Selector):
            yield tuple(matcher for matcher in one.matchers if matcher.name == NAME)
        elif isinstance(one, Call) and FUNCTIONS[one.function].syntax.label_selector is not None:
            yield (Matcher(NAME, MatchOp.EQUAL, "target_info"),)


def _matching(matcher: Matcher, names: list[str]) -> list[str]:
    if not names:
        return names
    if matcher.op.is_regex:
        hits = full_matches(matcher.value, names)
    else:
        hits = [name == matcher.value for name in names]
    return [name for name, hit in zip(names, hits, strict=True) if hit != matcher.op.is_negative]
