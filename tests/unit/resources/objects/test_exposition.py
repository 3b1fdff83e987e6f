"""What is written for Prometheus can be read by it, whatever the labels hold."""

from __future__ import annotations

import pytest

from resources.exposition import Family, families, render, series
from resources.objects.latency import LatencyTable
from tests.support.exposition_parser import parse

HOSTILE = 'a"b\\c\nd{}=,é'


def test_hostile_labels_come_back_as_they_were() -> None:
    text = Family("rows", "gauge", "Rows.", {series("rows", org=HOSTILE, signal="logs"): 3}).render()
    assert parse(text) == {("rows", frozenset({("org", HOSTILE), ("signal", "logs")})): 3}


def test_series_of_one_metric_stand_together_and_what_is_no_series_is_left_out() -> None:
    given = {'a_total{x="1"}': 1.0, "a_total_more": 2.0, "a_total": 3.0, 'broken{x="1': 4.0, "two words": 5.0}
    found = families(given)
    assert [(f.name, f.kind) for f in found] == [("a_total", "counter"), ("a_total_more", "gauge")]
    assert sorted(parse(render(found)).values()) == [1, 2, 3]


def test_histograms_are_cumulative_and_named() -> None:
    table = LatencyTable("seconds", ("route", "status"))
    for seconds in (0.002, 0.2, 99.0):
        table.add(HOSTILE, "200", seconds)
    found = parse(table.render())
    labels = frozenset({("route", HOSTILE), ("status", "200")})
    assert found["seconds_count", labels] == 3
    assert found["seconds_bucket", labels | {("le", "0.25")}] == 2


@pytest.mark.parametrize("text", ["a 1\n", "# TYPE a gauge\na{x=1} 1\n", "# TYPE a gauge\na 1\na 1\n"])
def test_the_reader_is_strict(text: str) -> None:
    with pytest.raises(AssertionError):
        parse(text)
