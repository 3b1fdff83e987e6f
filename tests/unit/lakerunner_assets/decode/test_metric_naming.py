"""Names against the translations that Prometheus documents and tests for its OTLP receiver."""

from __future__ import annotations

import pytest

from lakerunner_assets.decode.metric_naming import label_name, metric_name, naming, unit_name
from resources.lake.options import MetricNaming

GAUGE, COUNTER, UP_DOWN, HISTOGRAM = ("gauge", False), ("sum", True), ("sum", False), ("histogram", False)


@pytest.mark.parametrize(
    ("name", "unit", "kind", "expected"),
    [
        ("requests", "", COUNTER, "requests_total"),
        ("requests_total", "", COUNTER, "requests_total"),
        ("total.requests", "", COUNTER, "requests_total"),
        ("active_connections", "", UP_DOWN, "active_connections"),
        ("cpu_usage", "1", GAUGE, "cpu_usage_ratio"),
        ("cpu_usage_ratio", "1", GAUGE, "cpu_usage_ratio"),
        ("items", "1", COUNTER, "items_total"),
        ("response_time", "ms", GAUGE, "response_time_milliseconds"),
        ("response_time_seconds", "s", GAUGE, "response_time_seconds"),
        ("request_duration", "s", HISTOGRAM, "request_duration_seconds"),
        ("request_size", "By", ("exponential_histogram", False), "request_size_bytes"),
        ("memory_usage", "By", GAUGE, "memory_usage_bytes"),
        ("requests", "1/s", GAUGE, "requests_per_second"),
        ("requests", "1/s", COUNTER, "requests_per_second_total"),
        ("throughput", "By/s", GAUGE, "throughput_bytes_per_second"),
        ("hw.temperature", "Cel", GAUGE, "hw_temperature_celsius"),
        ("hw.power", "W", GAUGE, "hw_power_watts"),
        ("load", "%", GAUGE, "load_percent"),
        ("uptime", "d", GAUGE, "uptime_days"),
        ("custom_metric", "custom_unit", GAUGE, "custom_metric_custom_unit"),
        ("custom_metric", "{custom}", GAUGE, "custom_metric"),
        ("custom_metric", "By/{custom}", GAUGE, "custom_metric_bytes"),
        ("custom_metric", "{packet}/s", GAUGE, "custom_metric_per_second"),
        ("custom_metric", "unit@with#special/chars", GAUGE, "custom_metric_unit_with_special_per_chars"),
        (
            "metric__with__multiple__underscores",
            "unit__multiple__underscores",
            GAUGE,
            "metric_with_multiple_underscores_unit_multiple_underscores",
        ),
        ("metric@with#special$chars", "", GAUGE, "metric_with_special_chars"),
        ("_metric_", "", GAUGE, "metric"),
        ("node:cpu:rate", "", GAUGE, "node:cpu:rate"),
        ("2xx.responses", "", GAUGE, "_2xx_responses"),
        ("@#$%", "", GAUGE, "@#$%"),  # refused by Prometheus: stays as sent
        ("", "", GAUGE, ""),
        ("", "s", GAUGE, "seconds"),
    ],
)
def test_metric_names(name: str, unit: str, kind: tuple[str, bool], expected: str) -> None:
    assert metric_name(name, unit, *kind) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("label:with:colons", "label_with_colons"),
        ("LabelWithCapitalLetters", "LabelWithCapitalLetters"),
        ("label!with&special$chars)", "label_with_special_chars_"),
        ("label_with_foreign_characters_字符", "label_with_foreign_characters___"),
        ("label.with.dots", "label_with_dots"),
        ("123label", "key_123label"),
        ("_label_starting_with_underscore", "key_label_starting_with_underscore"),
        ("__label_starting_with_2underscores", "__label_starting_with_2underscores"),
        ("a__b", "a__b"),
        ("ようこそ", "ようこそ"),  # refused by Prometheus: stays as sent
        ("", "key_"),
    ],
)
def test_label_names(key: str, expected: str) -> None:
    assert label_name(key) == expected


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("", ""),
        ("   ", ""),
        ("s", "seconds"),
        ("min", "minutes"),
        ("TiBy", "tibibytes"),
        ("1", ""),
        ("1/m", "per_minute"),
        ("1/mo", "per_month"),
        ("MBy/h", "megabytes_per_hour"),
        ("requests/m", "requests_per_minute"),
        ("custom/custom", "custom_per_custom"),
        ("{custom}/s", "per_second"),
        ("{custom}/{invalid}", ""),
        ("By/custom@per#unit", "bytes_per_custom_per_unit"),
        ("unit@@##$$name", "unit_name"),
        ("@#$%", ""),
        ("/", ""),
        ("By/", "bytes"),
        ("/s", "per_second"),
        ("_custom_unit", "custom_unit"),
        ("custom_unit_", "custom_unit"),
        ("By/_custom__unit_", "bytes_per_custom_unit"),
    ],
)
def test_unit_names(unit: str, expected: str) -> None:
    assert unit_name(unit) == expected


def test_verbatim_changes_nothing_but_an_empty_label_name() -> None:
    verbatim = naming(MetricNaming.VERBATIM)
    assert verbatim.metric("cpu.time", "s", "sum", True) == "cpu.time"
    assert [verbatim.label(key) for key in ("http.method", "2xx", "ようこそ", "")] == [
        "http.method",
        "2xx",
        "ようこそ",
        "key_",
    ]
