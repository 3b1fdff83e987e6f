"""Labels and annotations of alerts are templates, as in Prometheus.

    {{ $labels.instance }} is down for {{ humanizeDuration $value }}   →   a:9100 is down for 5m 0s

A text that fails is replaced by its error, so that the alert is sent all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lakerunner_query.errors import LimitExceededError, TemplateSyntaxError
from lakerunner_query.gotext.limits import Budget
from lakerunner_query.gotext.template.ast import Tree
from lakerunner_query.gotext.template.execute import Execution
from lakerunner_query.gotext.template.parser import parse
from lakerunner_query.gotext.values import ExecutionError, Labels
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.rules.templates_functions import (
    LIBRARY,
    AlertData,
    QueryResult,
    TemplateContext,
    TemplateSample,
    value_of,
)

_VARIABLES = (
    "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}"
    "{{$externalURL := .ExternalURL}}{{$value := .Value}}"
)
Answer = Iterable[tuple[Mapping[str, str], float | Histogram]]
"""Labels and values of an instant vector."""


class TemplateFailure(Exception):  # noqa: N818 (its text is an ordinary value of an annotation)
    """A template is none, or failed; the message is Prometheus'."""


@dataclass(frozen=True, slots=True)
class AlertTemplate:
    """The facts that the templates of one alert show."""

    alert: str
    labels: Mapping[str, str]
    value: float | Histogram
    at_ms: int
    external_labels: Mapping[str, str] = field(default_factory=dict)
    external_url: str = ""


def check_template(alert: str, text: str) -> None:
    """Raise `TemplateSyntaxError` unless `text` is a template that an alert may have.

    >>> check_template("Down", "{{ $labels.instance }} is down")
    """
    _parse(f"__alert_{alert}", _VARIABLES + text)


def expand(text: str, data: AlertTemplate, ask: Callable[[str], Answer]) -> str:
    """Expand a label or annotation; a failure is told inside the text.

    >>> expand("{{ $value }} of {{ $labels.job }}", AlertTemplate("A", {"job": "a"}, 1.5, 0), lambda _: ())
    '1.5 of a'
    >>> expand("{{ $value | first }}", AlertTemplate("A", {}, 1.5, 0), lambda _: ())[:50]
    '<error expanding template: error executing templat'
    """
    if "{{" not in text:
        return text
    dot = AlertData(
        Labels(data.labels), Labels(data.external_labels), data.external_url, value_of(data.value)
    )
    context = TemplateContext("", 0, data.at_ms * 10**6, data.external_url, lambda query: _result(ask(query)))
    try:
        return render(f"__alert_{data.alert}", _VARIABLES + text, dot, context)
    except TemplateFailure as error:
        return f"<error expanding template: {error}>"


def render(name: str, text: str, dot: Any, context: TemplateContext) -> str:
    """Run a template over any dot."""
    try:
        tree = _parse(name, text)
    except TemplateSyntaxError as error:
        raise TemplateFailure(f"error parsing template {name}: {error}") from error
    try:
        return Execution(tree, dot, context, Budget(1), LIBRARY).run(tree.root.nodes)
    except (ExecutionError, LimitExceededError) as error:
        raise TemplateFailure(f"error executing template {name}: {error}") from error
    except RecursionError as error:
        raise TemplateFailure(
            f"error executing template {name}: templates call each other too deeply"
        ) from error


@lru_cache(maxsize=4096)
def _parse(name: str, text: str) -> Tree:
    return parse(name, text, LIBRARY.functions.keys())


def _result(answer: Answer) -> QueryResult:
    return QueryResult(TemplateSample(Labels(labels), value_of(value)) for labels, value in answer)
