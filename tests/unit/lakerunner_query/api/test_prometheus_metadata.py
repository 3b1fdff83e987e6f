"""Metadata of metrics: what remote write told of families, beside what segments say of other metrics."""

from __future__ import annotations

import pytest

from lakerunner_query.api.prometheus.names import unite_facts
from lakerunner_query.protocol.answers import MetricFact
from resources.index.account_types import MetricFamily

LATENCY = MetricFamily("latency", "histogram", "", "Latency.")
REQUESTS = MetricFamily("requests_total", "counter", "", "Requests.")
STORED = [
    MetricFact("latency_bucket", "unknown", "", ""),
    MetricFact("latency_max", "unknown", "", ""),
    MetricFact("requests_total", "unknown", "", ""),
    MetricFact("temperature", "gauge", "celsius", "From OTLP."),
]


def test_what_was_told_of_a_family_counts_for_its_parts() -> None:
    assert unite_facts(STORED, [LATENCY, REQUESTS], "") == [
        MetricFact("latency", "histogram", "", "Latency."),
        MetricFact("latency_max", "unknown", "", ""),
        MetricFact("requests_total", "counter", "", "Requests."),
        MetricFact("temperature", "gauge", "celsius", "From OTLP."),
    ]


@pytest.mark.parametrize("stored", [STORED[:1], [], [MetricFact("latency_bucket", "histogram", "", "Old.")]])
def test_a_part_has_the_description_of_its_family_whatever_segments_say(stored: list[MetricFact]) -> None:
    found = unite_facts(stored, [LATENCY], "latency_bucket")
    assert found == [MetricFact("latency_bucket", "histogram", "", "Latency.")]


def test_a_family_of_another_type_has_no_such_part() -> None:
    gauge = MetricFamily("latency", "gauge", "", "Now.")
    assert unite_facts(STORED[:1], [gauge], "latency_bucket") == STORED[:1]


def test_senders_that_disagree_are_all_listed_in_one_order() -> None:
    other = MetricFamily("requests_total", "counter", "", "All requests.")
    assert unite_facts(STORED[2:3], [REQUESTS, other], "") == unite_facts([], [other, REQUESTS], "")
