"""Derived metrics are drafted from leaves of queries: their common selection, and the labels they tell.

    sum(rate({app="web"} |= "error" [5m]))                 from: logs
    sum by (level) (rate({app="shop"} |= "error" [1h]))    select: '{app=~"shop|web"} |= "error"'
                                                           keep: [app, level]

A draft may fit no leaf at all; whoever asks for one checks it by the guards of rewriting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_

from lakerunner_query.logql.lang import parser as logql_parser
from lakerunner_query.logql.lang.aggregations import RANGE
from lakerunner_query.logql.lang.ast import LabelFilter, LabelMatch, LogQuery, Stage, Unwrap
from lakerunner_query.logql.lang.conditions import conjuncts, matcher_text
from lakerunner_query.logql.lang.normal_form import filters_of
from lakerunner_query.logql.lang.printer import log_query_text, unwrapped_text
from lakerunner_query.logql.lang.stages import row_of
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan import rewrite_logql, rewrite_promql, rewrite_traceql
from lakerunner_query.plan.rewrite import ActiveRule, Leaf, Rewriting
from lakerunner_query.plan.rules.matchers import demanded_values, refuses_empty
from lakerunner_query.plan.traceql import TraceMetricsRequest
from lakerunner_query.promql.lang.ast import Selector
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.functions import NUMBER
from lakerunner_query.promql.lang.parser import parse_cached
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.rules.documents import LINE_BYTES, SAMPLE, DerivedMetric, RuleLanguage
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.traceql.lang.ast import Attribute, Comparison, Intrinsic
from lakerunner_query.traceql.lang.parser import parse_metrics
from lakerunner_query.traceql.lang.printer import field_text, print_node
from lakerunner_query.vectors.vector import Steps
from resources.lake.layout import Signal
from resources.lake.timecut import SECOND_NS

FEW_VALUES = 5
"""Values of a label that a draft lists; of more it takes all."""
STEP_S = 60
PHASE_NS = 1_000_000
"""Distance from a multiple of ten seconds at which queries are asked that are not aligned."""
UNNAMED = "unnamed"
_NAME = "__name__"


@dataclass(frozen=True, slots=True)
class Readable:
    """Query of the log that was parsed, as if it were asked at two steps."""

    leaves: tuple[Leaf, ...]
    rewrite: Callable[[Sequence[ActiveRule]], Rewriting | None]
    """Find the rules that may serve it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Way to rules from the queries of one language."""

    read: Callable[[str, int], Readable]
    """Parse a text that is asked at so many nanoseconds."""
    kind: Callable[[Leaf], Hashable]
    """Return what all leaves of one rule have in common, whatever they narrow by."""
    conditions: Callable[[Leaf], Hashable]
    """Return what a leaf narrows by."""
    draft: Callable[[Sequence[Leaf]], DerivedMetric]
    """Return the narrowest rule for leaves of one kind; they are as narrow as each other, or not."""
    values: Callable[[Leaf], Mapping[str, Collection[str]]]
    """Return the values of labels that a leaf asks for."""


def _read_logs(text: str, first_ns: int) -> Readable:
    expr = logql_parser.parse_expr(text)
    if isinstance(expr, LogQuery):
        return Readable((), lambda _: None)
    steps = LogSteps(first_ns, STEP_S * SECOND_NS, 2)
    return Readable(
        tuple(rewrite_logql.leaves_of(expr, steps)), partial(rewrite_logql.rewrite_logql, expr, steps)
    )


def _kind_of_lines(leaf: Leaf) -> Hashable:
    form, unwrap = leaf.body.form, leaf.body.unwrap
    value = None if unwrap is None else (unwrap.label, unwrap.conversion)
    return form.stages, form.filters[:-1], form.last.lines, form.last.ordered, value


def _conditions_of_lines(leaf: Leaf) -> Hashable:
    return leaf.body.form.matchers, leaf.body.form.last.matches


def _draft_lines(leaves: Sequence[Leaf]) -> DerivedMetric:
    bodies = [leaf.body for leaf in leaves]
    matchers, labels = in_common([body.form.matchers for body in bodies])
    common = reduce(and_, (body.form.last.matches for body in bodies))
    labels |= {one.name for body in bodies for one in body.behind - common}
    query, unwrap = _ranged(leaves[0])
    stages = tuple(_with_conditions(query.stages, common))
    streams = sorted(map(_demanding, matchers), key=matcher_text)
    select = log_query_text(LogQuery(tuple(streams), stages))
    value = "" if unwrap is None else unwrapped_text(unwrap).removeprefix("| unwrap ")
    if unwrap is None and any(RANGE[leaf.op].counts_bytes for leaf in leaves):
        value = LINE_BYTES
    return DerivedMetric(UNNAMED, Signal.LOGS, select, _kept(leaves, labels), value)


def _demanding(matcher: Matcher) -> Matcher:
    """Spell `!=""` as the regex that LogQL lets a selector consist of."""
    is_any = (matcher.op, matcher.value) == (MatchOp.NOT_EQUAL, "")
    return Matcher(matcher.name, MatchOp.REGEX, ".+") if is_any else matcher


def _ranged(leaf: Leaf) -> tuple[LogQuery, Unwrap | None]:
    node = getattr(leaf.node, "expr", leaf.node)
    return node.range.query, node.range.unwrap


def _is_filter(stage: Stage) -> bool:
    return not row_of(stage).keyword  # filters of lines and of labels have none


def _with_conditions(stages: Sequence[Stage], common: Collection[Matcher]) -> Iterable[Stage]:
    """Yield the stages; of the last conditions on texts only those that all leaves have."""
    others = [place for place, one in enumerate(stages) if not _is_filter(one)]
    behind = others[-1] + 1 if others else 0
    yield from stages[:behind]
    for stage in stages[behind:]:
        if not isinstance(stage, LabelFilter):
            yield stage
            continue
        for one in conjuncts(stage.condition):
            wanted = filters_of((LabelFilter(one),)).matches
            if not isinstance(one, LabelMatch) or wanted <= set(common):
                yield LabelFilter(one)


def _values_of_lines(leaf: Leaf) -> Mapping[str, Collection[str]]:
    return values_of(leaf.body.form.matchers | leaf.body.behind)


def _read_samples(text: str, first_ns: int) -> Readable:
    first_ms = first_ns // 1_000_000
    expr = bind(parse_cached(text, Features()), first_ms, first_ms + STEP_S * 1000, STEP_S * 1000)
    steps = Steps(first_ms, STEP_S * 1000, 2)
    return Readable(
        tuple(rewrite_promql.leaves_of(expr, steps)), partial(rewrite_promql.rewrite_promql, expr, steps)
    )


def _kind_of_samples(leaf: Leaf) -> Hashable:
    return frozenset(one for one in leaf.body.matchers if one.name == _NAME)


def _draft_samples(leaves: Sequence[Leaf]) -> DerivedMetric:
    matchers, labels = in_common([leaf.body.matchers for leaf in leaves])
    ordered = sorted(matchers, key=lambda one: (one.name != _NAME, one.name, one.op, one.value))
    value = "" if all(leaf.body.window == NUMBER for leaf in leaves) else SAMPLE
    select = to_text(Selector("", tuple(ordered)))
    return DerivedMetric(UNNAMED, Signal.METRICS, select, _kept(leaves, labels), value)


def _values_of_samples(leaf: Leaf) -> Mapping[str, Collection[str]]:
    return values_of(leaf.body.matchers)


def _read_spans(text: str, first_ns: int) -> Readable:
    query = parse_metrics(text)
    request = TraceMetricsRequest("", first_ns, STEP_S * SECOND_NS, 2)
    return Readable(
        tuple(rewrite_traceql.leaves_of(query, request)),
        partial(rewrite_traceql.rewrite_traceql, query, request),
    )


def _kind_of_spans(leaf: Leaf) -> Hashable:
    return leaf.body.operand, leaf.body.conditions is None


def _draft_spans(leaves: Sequence[Leaf]) -> DerivedMetric:
    conditions = [leaf.body.conditions or frozenset() for leaf in leaves]
    common = reduce(and_, conditions)
    fields = {one for leaf in leaves for one in leaf.body.by}
    for one in frozenset().union(*conditions) - common:
        if isinstance(one, Comparison) and isinstance(one.left, Attribute | Intrinsic):
            fields.add(one.left)
    select = " && ".join(sorted(map(print_node, common)))
    value = "" if leaves[0].body.operand is None else field_text(leaves[0].body.operand)
    keep = tuple(sorted(map(field_text, fields)))
    return DerivedMetric(UNNAMED, Signal.TRACES, f"{{ {select} }}" if select else "{ }", keep, value)


def _values_of_spans(leaf: Leaf) -> Mapping[str, Collection[str]]:
    found: dict[str, set[str]] = {}
    for one in leaf.body.conditions or ():
        if isinstance(one, Comparison) and isinstance(one.left, Attribute | Intrinsic):
            found.setdefault(rewrite_traceql.label_name(one.left), set()).add(print_node(one))
    return found


DIALECTS: Mapping[RuleLanguage, Dialect] = {
    RuleLanguage.LOGQL: Dialect(
        _read_logs, _kind_of_lines, _conditions_of_lines, _draft_lines, _values_of_lines
    ),
    RuleLanguage.PROMQL: Dialect(
        _read_samples, _kind_of_samples, lambda leaf: leaf.body.matchers, _draft_samples, _values_of_samples
    ),
    RuleLanguage.TRACEQL: Dialect(
        _read_spans, _kind_of_spans, lambda leaf: leaf.body.conditions, _draft_spans, _values_of_spans
    ),
}


def in_common(sets: Sequence[frozenset[Matcher]]) -> tuple[set[Matcher], set[str]]:
    """Return the matchers of a rule for all of these, and the labels by which they differ.

    >>> one, two = (frozenset({Matcher("app", MatchOp.EQUAL, value)}) for value in ("web", "shop"))
    >>> (common,), labels = in_common([one, two])
    >>> matcher_text(common), labels
    ('app=~"shop|web"', {'app'})
    """
    common = set(reduce(and_, sets))
    labels = {one.name for each in sets for one in each if one not in common}
    for label in labels:
        mine = [[one for one in each if one.name == label] for each in sets]
        values = [_values(each) for each in mine]
        listed = {value for each in values for value in each}
        if all(values) and len(listed) <= FEW_VALUES:
            common.add(Matcher(label, MatchOp.REGEX, "|".join(sorted(map(_escaped, listed)))))
        elif all(any(map(refuses_empty, each)) for each in mine):
            common.add(Matcher(label, MatchOp.NOT_EQUAL, ""))
    return common, labels


def values_of(matchers: Iterable[Matcher]) -> Mapping[str, Collection[str]]:
    found: dict[str, set[str]] = {}
    for one in matchers:
        found.setdefault(one.name, set()).update(demanded_values(one) or (f"{one.op}{one.value}",))
    return found


def _values(matchers: Iterable[Matcher]) -> Collection[str]:
    """Return the values that one of these demands; nothing where none says."""
    return next(filter(None, map(demanded_values, matchers)), ())


def _escaped(value: str) -> str:
    """Escape what has a meaning in a regex of RE2.

    >>> _escaped("a.b-c")
    'a\\\\.b-c'
    """
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", value)


def _kept(leaves: Sequence[Leaf], labels: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted({*labels, *(name for leaf in leaves for name in leaf.by or ())}))
