"""OTLP metric and attribute names translate to Prometheus names, as in Prometheus' OTLP receiver.

| OTLP | kind | unit | Prometheus |
|---|---|---|---|
| http.server.request.duration | histogram | s | http_server_request_duration_seconds |
| system.cpu.time | monotonic sum | s | system_cpu_time_seconds_total |
| system.memory.utilization | gauge | 1 | system_memory_utilization_ratio |
| system.network.io | monotonic sum | By/s | system_network_io_bytes_per_second_total |

Its defaults are ours: unit words of released Prometheus versions (`TiBy` → `tibibytes`, `KBy`), several
underscores of a label name kept, one in front answered by `key`. Where Prometheus refuses a name because
nothing of it is left (`温度`), the sent name stays: a sample is never dropped for its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from resources.lake.options import MetricNaming

UNITS = {
    "d": "days",
    "h": "hours",
    "min": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "By": "bytes",
    "KiBy": "kibibytes",
    "MiBy": "mebibytes",
    "GiBy": "gibibytes",
    "TiBy": "tibibytes",
    "KBy": "kilobytes",
    "MBy": "megabytes",
    "GBy": "gigabytes",
    "TBy": "terabytes",
    "m": "meters",
    "V": "volts",
    "A": "amperes",
    "J": "joules",
    "W": "watts",
    "g": "grams",
    "Cel": "celsius",
    "Hz": "hertz",
    "1": "",
    "%": "percent",
}
PER_UNITS = {
    "s": "second",
    "m": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
    "mo": "month",
    "y": "year",
}

_NOT_IN_METRIC = re.compile(r"[^a-zA-Z0-9:]+")
_NOT_IN_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_DIGIT = re.compile(r"[0-9]")


@dataclass(frozen=True, slots=True)
class Naming:
    """A way to name metrics and labels."""

    metric: Callable[[str, str, str, bool], str]
    """Name from name, unit, metric type and monotonicity."""
    label: Callable[[str], str]


def naming(how: MetricNaming) -> Naming:
    """Return the naming that an organisation chose.

    >>> naming(MetricNaming.VERBATIM).metric("cpu.time", "s", "sum", True)
    'cpu.time'
    """
    if how is MetricNaming.PROMETHEUS:
        return Naming(metric_name, label_name)
    return Naming(lambda name, _unit, _type, _monotonic: name, _present)


def metric_name(name: str, unit: str, metric_type: str, monotonic: bool) -> str:
    """Translate a metric name, appending its unit and type suffixes.

    >>> metric_name("process.cpu.time", "s", "sum", True), metric_name("a..b", "{x}/min", "gauge", False)
    ('process_cpu_time_seconds_total', 'a_b_per_min')
    """
    words = [word for word in _NOT_IN_METRIC.split(name) if word]
    main, per = _unit_words(unit)
    if main in words:
        main = ""
    per = per.removesuffix("_") if per != "per_" else ""
    if per in words:
        per = ""
    if per:
        main = main.removesuffix("_")
    words += [word for word in (main, per) if word]
    if metric_type == "sum" and monotonic:
        words = [*(word for word in words if word != "total"), "total"]
    if unit == "1" and metric_type == "gauge":
        words = [*(word for word in words if word != "ratio"), "ratio"]
    joined = "_".join(words)
    if not joined.strip("_"):
        return name
    return f"_{joined}" if _DIGIT.match(joined) else joined


def label_name(key: str) -> str:
    """Translate an attribute key.

    >>> label_name("http.status-code"), label_name("2xx"), label_name("_id")
    ('http_status_code', 'key_2xx', 'key_id')
    """
    name = _NOT_IN_LABEL.sub("_", key)
    if not name.strip("_"):
        return _present(key)
    if _DIGIT.match(name):
        return f"key_{name}"
    return f"key{name}" if name.startswith("_") and not name.startswith("__") else name


def unit_name(unit: str) -> str:
    """Return the value of `__unit__`.

    >>> unit_name("By/s"), unit_name("{request}")
    ('bytes_per_second', '')
    """
    name = "_".join(word for word in _unit_words(unit) if word)
    return name.removeprefix("_").removesuffix("_")


def _unit_words(unit: str) -> tuple[str, str]:
    """Split a unit into what is measured and per what; '' for a blank or an annotation in braces."""
    main, _, per = (part.strip() for part in unit.partition("/"))
    main = "" if set("{}") & set(main) else _clean(UNITS.get(main, main))
    per = "" if not per or set("{}") & set(per) else _clean("per_" + PER_UNITS.get(per, per))
    return main, per


def _clean(words: str) -> str:
    return _NOT_IN_METRIC.sub("_", words).removeprefix("_")


def _present(key: str) -> str:
    """Return the key, or a stand-in for an empty one: a label must have a name."""
    return key or "key_"
