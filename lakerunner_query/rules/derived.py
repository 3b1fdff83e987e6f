"""Derived metrics are read from `materialize:` lists, and checked against the language of their signal.

    materialize:
    - metric: shop_errors
      from: logs
      select: '{app="shop"} | json | __error__="" | status >= 500 | __error__=""'
      keep: [service_name]
      value: duration(took) | __error__=""
      since: 2026-01-01

A selection whose rows may come out with an error is refused: a query over the raw rows would fail there, and
the metric would hide it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from lakerunner_query.errors import QueryError
from lakerunner_query.logql.lang.ast import LogQuery, RangeAggregation
from lakerunner_query.logql.lang.normal_form import failing_stage
from lakerunner_query.logql.lang.parser import parse as parse_lines
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.lang.stages import stage_text
from lakerunner_query.promql.lang.ast import Selector
from lakerunner_query.promql.lang.parser import parse as parse_promql
from lakerunner_query.rules.checks import LABEL_NAME, METRIC_NAME, NAME
from lakerunner_query.rules.documents import INCREASE, LINE_BYTES, SAMPLE, DerivedMetric
from lakerunner_query.syntax import MatchOp
from lakerunner_query.traceql.lang.ast import Pipeline
from lakerunner_query.traceql.lang.parser import parse as parse_spans
from lakerunner_query.traceql.lang.parser import parse_field
from resources.lake.layout import Signal
from resources.lake.timecut import from_datetime, hour_start
from resources.yaml_nodes import Fault, Fields, Node, Reading

_TYPE = "DerivedMetric"
_KEYS = ("metric", "from", "select", "keep", "value", "since")
_WORD = re.compile(r"\w+")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")


class SelectionError(QueryError):
    """The selection or the value of a derived metric cannot be what it says."""

    status = 400
    code = "invalid_rules"


def read_derived(reading: Reading, node: Node) -> DerivedMetric | None:
    """Read one item of a list, and note its faults; None where it names no signal."""
    before = len(reading.faults)
    fields = reading.fields(node, _TYPE, _KEYS)
    keep = tuple(reading.text(one) for one in fields.items("keep", "string"))
    for name in ("metric", "from", "select"):
        if name not in fields:
            reading.fault(node.line, f"field '{name}' must be set in a derived metric")
    source = fields.text("from")
    if source and source not in set(Signal):
        reading.fault(fields.line_of("from"), f"from {source!r}: expected one of {', '.join(Signal)}")
    metric, select, value = fields.text("metric"), fields.text("select"), fields.text("value")
    since_ns = _since(reading, fields)
    if len(reading.faults) > before:
        return None
    found = DerivedMetric(metric, Signal(source), select, keep, value, since_ns, fields.line_of("metric"))
    for field, message in faults_of(found):
        reading.fault(fields.line_of(field), f'metric "{metric}": {message}')
    return found


def _since(reading: Reading, fields: Fields) -> int | None:
    """Return the start of the hour of a date or a time in UTC."""
    text = fields.text("since")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return hour_start(from_datetime(moment) + 1)  # an hour does not hold its start
    except (ValueError, OverflowError):
        reading.fault(fields.line_of("since"), f"since {text!r}: expected a date such as 2026-01-01")
        return None


def faults_of(metric: DerivedMetric) -> Iterator[tuple[str, str]]:
    """Yield field and message of what is wrong with a metric by itself."""
    if not METRIC_NAME.fullmatch(metric.metric):
        yield "metric", "the name of a metric has letters, digits, `_` and `:`, and begins with no digit"
    try:
        _CHECKS[metric.source](metric)
    except QueryError as error:
        yield "select", error.message
    labels = [_kept_label(metric.source, name) for name in metric.keep]
    for name, label in zip(metric.keep, labels, strict=True):
        if not label:
            yield "keep", f"no event can have the label {name!r}"
        elif labels.count(label) > 1:
            yield "keep", f"{name!r} is kept twice"
            return


def _kept_label(source: Signal, name: str) -> str:
    """Return the label that stands for a kept dimension; nothing where there cannot be one."""
    if source is Signal.TRACES:
        try:
            parse_field(name)
        except QueryError:
            return ""
        return _UNSAFE.sub("_", name)
    return name if LABEL_NAME.fullmatch(name) and not name.startswith("__") else ""


def doubts_of(metric: DerivedMetric) -> Iterator[str]:
    """Yield what is allowed and may still surprise.

    Hours in which a line failed are answered from records: a query fails there, which the metric would hide.
    """
    if metric.source is not Signal.LOGS:
        return
    failing = failing_stage(parse_lines(metric.select).stages)
    if failing is not None:
        yield (
            f"a line on which `{stage_text(failing)}` fails gets an error and is left out, and the hour "
            f'cannot stand for queries: put `| __error__=""` behind it'
        )


def _reads_clock(text: str) -> bool:
    """Tell if a template calls `now`.

    >>> _reads_clock('| line_format "{{ now | date }} x"'), _reads_clock('| line_format "now {{ .known }}"')
    (True, False)
    """
    return any("now" in _WORD.findall(action.partition("}}")[0]) for action in text.split("{{")[1:])


def _check_logs(metric: DerivedMetric) -> None:
    query = parse_lines(metric.select)
    for stage in query.stages:
        if _reads_clock(stage_text(stage)):
            raise SelectionError(
                f"`{stage_text(stage)}` reads the clock: a query would say something else later"
            )
    if metric.value and metric.value != LINE_BYTES:
        _check_unwrapped(metric, query)


def _check_unwrapped(metric: DerivedMetric, query: LogQuery) -> None:
    try:
        found = parse_expr(f"sum_over_time({metric.select} | unwrap {metric.value} [10s])")
    except QueryError as error:
        raise SelectionError(_no_value(metric, error.message)) from error
    ranged = found.range if isinstance(found, RangeAggregation) else None
    if ranged is None or ranged.unwrap is None or ranged.query != query:
        reason = f"expected a label, `duration(label)`, `bytes(label)` or `{LINE_BYTES}`"
        raise SelectionError(_no_value(metric, reason))


def _no_value(metric: DerivedMetric, reason: str) -> str:
    return f"the value {metric.value!r} cannot be unwrapped: {reason}"


def _check_spans(metric: DerivedMetric) -> None:
    query = parse_spans(metric.select)
    if not isinstance(query.body, Pipeline) or query.hints:
        raise SelectionError("expected a selection of spans, found a query for series")
    if metric.value:
        try:
            parse_field(metric.value)
            parse_spans(f"{metric.select} | sum_over_time({metric.value})")
        except QueryError as error:
            raise SelectionError(_no_value(metric, error.message)) from error


def _check_samples(metric: DerivedMetric) -> None:
    expr = parse_promql(metric.select)
    if not isinstance(expr, Selector) or expr != Selector(expr.name, expr.matchers):
        raise SelectionError('expected a selector such as http_requests_total{job="shop"} alone')
    if metric.value not in {"", SAMPLE, INCREASE}:
        raise SelectionError(
            f"value {metric.value!r}: of samples it is {SAMPLE!r} or {INCREASE!r}, or left out"
        )


_CHECKS: Mapping[Signal, Callable[[DerivedMetric], None]] = {
    Signal.LOGS: _check_logs,
    Signal.TRACES: _check_spans,
    Signal.METRICS: _check_samples,
}


def clashes(metrics: Sequence[DerivedMetric], taken: Mapping[str, str]) -> Iterator[Fault]:
    """Yield names that two metrics have, or that are `taken`, by whom; and metrics of derived metrics."""
    owners: dict[str, DerivedMetric] = {}
    for metric in metrics:
        for name in metric.series.values():
            if name in owners:
                other = owners[name].metric
                yield Fault(metric.line, f'metric "{metric.metric}": "{other}" has a series {name}, too')
            elif name in taken:
                yield Fault(metric.line, f'metric "{metric.metric}": {taken[name]} has the name {name}')
            owners.setdefault(name, metric)
    for metric in metrics:
        if metric.source is Signal.METRICS and (read := _named(metric.select)) in owners:
            yield Fault(metric.line, f'metric "{metric.metric}": {read} is a derived metric itself')


def _named(selector: str) -> str:
    """Return the name that a selector asks for; nothing where it names none, or is none."""
    try:
        expr = parse_promql(selector)
    except QueryError:
        return ""
    matchers = expr.matchers if isinstance(expr, Selector) else ()
    return next((one.value for one in matchers if (one.name, one.op) == (NAME, MatchOp.EQUAL)), "")
