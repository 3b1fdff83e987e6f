"""Functions of alert templates, as Prometheus has them beside those of Go.

>>> humanize(1234567.0), humanize1024(1048576.0), humanize_duration(90000.0), humanize_percentage(0.1234567)
('1.235M', '1Mi', '1d 1h 0m 0s', '12.35%')
>>> strip_domain("foo.example.com:12345"), strip_port("[2001:db8::1]:80")
('foo:12345', '2001:db8::1')
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote_plus, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.gotext.durations import Duration, milliseconds
from lakerunner_query.gotext.fmt import sort_by_bytes
from lakerunner_query.gotext.numbers import INT_MAX, INT_MIN, ConversionError, format_float, read_float
from lakerunner_query.gotext.regexp import complaint, replace_all
from lakerunner_query.gotext.strconv import quote
from lakerunner_query.gotext.template.builtins import BUILTINS
from lakerunner_query.gotext.time import SECOND, Time, time_text
from lakerunner_query.gotext.values import (
    ANY,
    STRING,
    Function,
    Labels,
    Library,
    Row,
    TemplateError,
    function,
    to_bytes,
    type_name,
)
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.histogram.text import text as histogram_text
from lakerunner_query.logql.templates.functions import lower, title, upper
from lakerunner_query.logql.templates.time_functions import METHODS

_QUERY_RESULT, _SAMPLE = "template.queryResult", "*template.sample"
_LARGE = ("k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
_SMALL = ("m", "u", "n", "p", "f", "a", "z", "y")


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """A native histogram inside a template; it prints itself."""

    go_name: ClassVar[str] = "*histogram.FloatHistogram"
    go_text: str


@dataclass(frozen=True, slots=True)
class TemplateSample:
    """One sample of a query inside a template: `.Labels.job`, `.Value`."""

    go_name: ClassVar[str] = _SAMPLE
    labels: Labels
    value: float | HistogramValue

    @property
    def go_fields(self) -> tuple[object, ...]:
        """Return what a template writes for the whole sample."""
        return self.labels, self.value


class QueryResult(list[TemplateSample]):
    go_name = _QUERY_RESULT
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AlertData:
    """The dot of an alert's templates."""

    go_name: ClassVar[str] = (
        "struct { Labels map[string]string; ExternalLabels map[string]string; "
        "ExternalURL string; Value interface {} }"
    )
    labels: Labels
    external_labels: Labels
    external_url: str
    value: float | HistogramValue

    @property
    def go_fields(self) -> tuple[object, ...]:
        """Return what `{{ . }}` writes."""
        return self.labels, self.external_labels, self.external_url, self.value


@dataclass(frozen=True, slots=True)
class TemplateContext(Row):
    """Facts beside the dot: time, address of the server, and answers to queries."""

    external_url: str
    ask: Callable[[str], QueryResult]


def value_of(value: float | Histogram) -> float | HistogramValue:
    return HistogramValue(histogram_text(value)) if isinstance(value, Histogram) else value


def _number(value: Any) -> float:
    if isinstance(value, str):
        try:
            return read_float(value)
        except ConversionError as error:
            raise TemplateError(str(error)) from error
    if isinstance(value, Duration):
        return value / SECOND
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    shown = "<nil>" if value is None else type_name(value)
    raise TemplateError(f"can't convert {shown} to float")


def _four_digits(value: float) -> str:
    return format_float(value, "g", 4)


def _shrink(value: float, base: float, prefixes: Sequence[str]) -> tuple[float, str]:
    prefix = ""
    for one in prefixes:
        if abs(value) < base:
            break
        prefix, value = one, value / base
    return value, prefix


def _grow(value: float) -> tuple[float, str]:
    prefix = ""
    for one in _SMALL:
        if abs(value) >= 1:
            break
        prefix, value = one, value * 1000
    return value, prefix


def humanize(given: Any) -> str:
    value = _number(given)
    if value == 0 or not math.isfinite(value):
        return _four_digits(value)
    value, prefix = _shrink(value, 1000, _LARGE) if abs(value) >= 1 else _grow(value)
    return _four_digits(value) + prefix


def humanize1024(given: Any) -> str:
    value = _number(given)
    if abs(value) <= 1 or not math.isfinite(value):
        return _four_digits(value)
    value, prefix = _shrink(value, 1024, _BINARY)
    return _four_digits(value) + prefix


def humanize_duration(given: Any) -> str:
    """Write seconds as days, hours, minutes and seconds, or as parts of a second."""
    value = _number(given)
    if not math.isfinite(value):
        return _four_digits(value)
    if value == 0:
        return "0s" if math.copysign(1.0, value) > 0 else "-0s"
    if abs(value) < 1:
        value, prefix = _grow(value)
        return f"{_four_digits(value)}{prefix}s"
    sign, value = ("-", -value) if value < 0 else ("", value)
    whole = int(value)
    days, hours, minutes, seconds = whole // 86_400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {seconds}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {seconds}s"
    return f"{sign}{minutes}m {seconds}s" if minutes else f"{sign}{_four_digits(value)}s"


def humanize_percentage(given: Any) -> str:
    return _four_digits(_number(given) * 100) + "%"


def humanize_timestamp(given: Any) -> str:
    value = _number(given)
    return time_text(_time_of(value)) if math.isfinite(value) else _four_digits(value)


def _time_of(seconds: float) -> Time:
    """Return the time, cut to milliseconds as Prometheus' times are."""
    if not math.isfinite(seconds):
        raise TemplateError("value is NaN or Inf")
    ns = seconds * 1e9
    if not INT_MIN <= ns <= INT_MAX:
        raise TemplateError(
            f"{format_float(seconds)} cannot be represented as a nanoseconds timestamp "
            "since it overflows int64"
        )
    return Time(int(ns / 1e6) * 10**6)


def to_duration(given: Any) -> Duration:
    value = _number(given)
    if not math.isfinite(value):
        raise TemplateError("value is NaN or Inf")
    ns = value * 1e9
    if not INT_MIN <= ns <= INT_MAX:
        raise TemplateError(
            f"{format_float(value)} cannot be represented as a duration since it overflows int64"
        )
    return Duration(int(ns))


def parse_duration(text: str) -> float:
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        return sign * milliseconds(rest) / 1000
    except ConversionError as error:
        raise TemplateError(str(error).replace(quote(rest), quote(text))) from error


def first(result: QueryResult) -> TemplateSample:
    if not result:
        raise TemplateError("first() called on vector with no elements")
    return result[0]


def sort_by_label(label: str, result: QueryResult) -> QueryResult:
    values = [sample.labels.get(label, "") for sample in result]
    ranks = {value: rank for rank, value in enumerate(sort_by_bytes(dict.fromkeys(values)))}
    return QueryResult(sorted(result, key=lambda sample: ranks[sample.labels.get(label, "")]))


def matches(pattern: str, text: str) -> bool:
    if reason := complaint(pattern):
        raise TemplateError(reason)
    return bool(
        pc.match_substring_regex(pa.scalar(to_bytes(text).decode("utf-8", "replace")), pattern).as_py()
    )


def replace_matches(pattern: str, replacement: str, text: str) -> str:
    if reason := complaint(pattern):
        shown = quote(pattern) if "`" in pattern or not pattern.isprintable() else f"`{pattern}`"
        raise TemplateError(f"regexp: Compile({shown}): {reason}")
    return replace_all(pattern, text, replacement)


def _split_host_port(text: str) -> tuple[str, str] | None:
    """Split as Go's `net.SplitHostPort`; None where the text has no port."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return None
    if host.startswith("["):
        inside = host[1:-1]
        return (inside, port) if host.endswith("]") and not set(inside) & set("[]") else None
    return None if set(host) & set(":[]") else (host, port)


def strip_port(text: str) -> str:
    split = _split_host_port(text)
    return text if split is None else split[0]


def strip_domain(text: str) -> str:
    host, port = _split_host_port(text) or (text, "")
    if _is_address(host):
        return text
    name = host.partition(".")[0]
    shown = f"[{name}]" if ":" in name else name
    return f"{shown}:{port}" if port else name


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def _link(expr: str, tab: int) -> str:
    return f"/graph?g0.expr={quote_plus(to_bytes(expr))}&g0.tab={tab}"


_FUNCTIONS: tuple[Function, ...] = (
    Function("query", lambda context, text: context.ask(text), (STRING,), takes_row=True),
    Function("now", lambda context: context.now_ns / 1e9, takes_row=True),
    Function("externalURL", lambda context: context.external_url, takes_row=True),
    Function("pathPrefix", lambda context: urlsplit(context.external_url).path, takes_row=True),
    function("first", first, _QUERY_RESULT),
    function("label", lambda label, sample: sample.labels.get(label, ""), STRING, _SAMPLE),
    function("value", lambda sample: sample.value, _SAMPLE),
    function("strvalue", lambda sample: sample.labels.get("__value__", ""), _SAMPLE),
    function("sortByLabel", sort_by_label, STRING, _QUERY_RESULT),
    function("args", lambda *given: {f"arg{at}": one for at, one in enumerate(given)}, rest=ANY),
    function("reReplaceAll", replace_matches, STRING, STRING, STRING),
    function("match", matches, STRING, STRING),
    function("safeHtml", lambda text: text, STRING),
    function("title", title, STRING),
    function("toUpper", upper, STRING),
    function("toLower", lower, STRING),
    function("graphLink", lambda expr: _link(expr, 0), STRING),
    function("tableLink", lambda expr: _link(expr, 1), STRING),
    function("stripPort", strip_port, STRING),
    function("stripDomain", strip_domain, STRING),
    function("humanize", humanize, ANY),
    function("humanize1024", humanize1024, ANY),
    function("humanizeDuration", humanize_duration, ANY),
    function("humanizePercentage", humanize_percentage, ANY),
    function("humanizeTimestamp", humanize_timestamp, ANY),
    function("toTime", lambda given: _time_of(_number(given)), ANY),
    function("toDuration", to_duration, ANY),
    function("parseDuration", parse_duration, STRING),
    function("urlQueryEscape", lambda text: quote_plus(to_bytes(text)), STRING),
)
_DATA_FIELDS = (
    function("Labels", lambda data: data.labels),
    function("ExternalLabels", lambda data: data.external_labels),
    function("ExternalURL", lambda data: data.external_url),
    function("Value", lambda data: data.value),
)
_SAMPLE_FIELDS = (
    function("Labels", lambda sample: sample.labels),
    function("Value", lambda sample: sample.value),
)
LIBRARY = Library(
    {one.name: one for one in (*BUILTINS, *_FUNCTIONS)},
    METHODS
    | {
        AlertData: {field.name: field for field in _DATA_FIELDS},
        TemplateSample: {field.name: field for field in _SAMPLE_FIELDS},
        HistogramValue: {"String": function("String", lambda histogram: histogram.go_text)},
    },
)
