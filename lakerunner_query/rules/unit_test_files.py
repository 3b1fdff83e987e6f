"""Files of unit tests for rules are read as promtool reads them.

tests:
- interval: 1m
  input_series:
  - {series: 'up{job="a"}', values: '1 1 0x5'}
  alert_rule_test:
  - {eval_time: 5m, alertname: Down, exp_alerts: [{exp_labels: {job: a}}]}
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from lakerunner_query.gotext.durations import PROMETHEUS
from lakerunner_query.gotext.numbers import parse_float
from resources.yaml_nodes import Fields, Node, Reading, YamlError, compose

_MINUTE = 60_000
_SPECIAL = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class UnitTestFileError(ValueError):
    """The file is none of unit tests; the message has the place in it."""


@dataclass(frozen=True, slots=True)
class InputSeries:
    series: str
    values: str


@dataclass(frozen=True, slots=True)
class ExpectedAlert:
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlertCase:
    eval_time_ms: int
    alert: str
    alerts: tuple[ExpectedAlert, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectedSample:
    labels: str = ""
    value: float = 0.0
    histogram: str = ""


@dataclass(frozen=True, slots=True)
class ExprCase:
    expr: str
    eval_time_ms: int
    samples: tuple[ExpectedSample, ...] = ()


@dataclass(frozen=True, slots=True)
class TestGroup:
    name: str = ""
    interval_ms: int = 0
    """Milliseconds between samples of the input; 0: the evaluation interval of the file."""
    input_series: tuple[InputSeries, ...] = ()
    alert_cases: tuple[AlertCase, ...] = ()
    expr_cases: tuple[ExprCase, ...] = ()
    external_labels: Mapping[str, str] = field(default_factory=dict)
    external_url: str = ""
    start_ms: int = 0

    @property
    def last_eval_ms(self) -> int:
        times = [case.eval_time_ms for case in self.alert_cases]
        return max([*times, *(case.eval_time_ms for case in self.expr_cases)], default=0)


@dataclass(frozen=True, slots=True)
class UnitTestFile:
    rule_files: tuple[str, ...] = ()
    evaluation_interval_ms: int = _MINUTE
    group_eval_order: tuple[str, ...] = ()
    fuzzy_compare: bool = False
    tests: tuple[TestGroup, ...] = ()


def read_unit_tests(path: Path) -> UnitTestFile:
    """Read a file; keys that are unknown or stand twice are refused, all faults at once."""
    try:
        documents = compose(path.read_bytes())
    except YamlError as error:
        raise UnitTestFileError(str(error)) from error
    reading = Reading(PROMETHEUS.parse)
    found = _file(reading, documents[0]) if documents else UnitTestFile()
    if reading.faults:
        raise UnitTestFileError("\n".join(fault.at(path.name) for fault in reading.faults))
    return found


def _file(reading: Reading, node: Node) -> UnitTestFile:
    keys = ("rule_files", "evaluation_interval", "group_eval_order", "fuzzy_compare", "tests")
    found = reading.fields(node, "main.unitTestFile", keys)
    return UnitTestFile(
        tuple(map(reading.text, found.items("rule_files", "string"))),
        found.duration_ms("evaluation_interval") or _MINUTE,
        tuple(map(reading.text, found.items("group_eval_order", "string"))),
        _flag(reading, found, "fuzzy_compare"),
        tuple(_test_group(reading, item) for item in found.items("tests", "main.testGroup")),
    )


def _test_group(reading: Reading, node: Node) -> TestGroup:
    keys = (
        *("interval", "input_series", "alert_rule_test", "promql_expr_test", "external_labels"),
        *("external_url", "name", "start_timestamp"),
    )
    found = reading.fields(node, "main.testGroup", keys)
    return TestGroup(
        found.text("name"),
        found.duration_ms("interval") or 0,
        tuple(_input_series(reading, item) for item in found.items("input_series", "main.series")),
        tuple(_alert_case(reading, item) for item in found.items("alert_rule_test", "main.alertTestCase")),
        tuple(_expr_case(reading, item) for item in found.items("promql_expr_test", "main.promqlTestCase")),
        found.texts("external_labels"),
        found.text("external_url"),
        _start(reading, found),
    )


def _input_series(reading: Reading, node: Node) -> InputSeries:
    found = reading.fields(node, "main.series", ("series", "values"))
    return InputSeries(found.text("series"), found.text("values"))


def _alert_case(reading: Reading, node: Node) -> AlertCase:
    found = reading.fields(node, "main.alertTestCase", ("eval_time", "alertname", "exp_alerts"))
    alerts = found.items("exp_alerts", "main.alert")
    return AlertCase(
        found.duration_ms("eval_time") or 0,
        found.text("alertname"),
        tuple(_expected_alert(reading, item) for item in alerts),
    )


def _expected_alert(reading: Reading, node: Node) -> ExpectedAlert:
    found = reading.fields(node, "main.alert", ("exp_labels", "exp_annotations"))
    return ExpectedAlert(found.texts("exp_labels"), found.texts("exp_annotations"))


def _expr_case(reading: Reading, node: Node) -> ExprCase:
    found = reading.fields(node, "main.promqlTestCase", ("expr", "eval_time", "exp_samples"))
    samples = found.items("exp_samples", "main.sample")
    return ExprCase(
        found.text("expr"),
        found.duration_ms("eval_time") or 0,
        tuple(_expected_sample(reading, item) for item in samples),
    )


def _expected_sample(reading: Reading, node: Node) -> ExpectedSample:
    found = reading.fields(node, "main.sample", ("labels", "value", "histogram"))
    return ExpectedSample(found.text("labels"), _number(reading, found, "value"), found.text("histogram"))


def _flag(reading: Reading, found: Fields, name: str) -> bool:
    text = found.text(name).lower()
    if text and text not in _FLAGS:
        reading.fault(found.line_of(name), f"expected true or false for {name}, found {text!r}")
    return _FLAGS.get(text, False)


def _number(reading: Reading, found: Fields, name: str) -> float:
    text = found.text(name)
    if not text:
        return 0.0
    node = found.values[name][1]
    if node.tag not in {"!!int", "!!float"}:
        reading.fault_at(node, f"cannot unmarshal {node.shown()} into float64")
        return 0.0
    number = _SPECIAL.get(text.lower(), parse_float(text))
    if number is None:
        reading.fault(found.line_of(name), f"expected a number for {name}, found {text!r}")
        return 0.0
    return number


def _start(reading: Reading, found: Fields) -> int:
    """Read seconds since 1970, or a time of RFC 3339."""
    text = found.text("start_timestamp")
    seconds = parse_float(text) if text else 0.0
    if seconds is None and _RFC_3339.fullmatch(text):
        with suppress(ValueError):  # a day that its month does not have
            seconds = datetime.fromisoformat(text).timestamp()
    if seconds is None or not math.isfinite(seconds):
        reading.fault(
            found.line_of("start_timestamp"), f"expected seconds or a time of RFC 3339, found {text!r}"
        )
        return 0
    return round(seconds * 1000)
