"""Metadata of metrics in the index: kept per organisation, bounded, whoever sends it in what order."""

from __future__ import annotations

import pytest

from resources.index.account_types import MetricFamily
from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex

Index = MemoryIndex | PostgresIndex
UP = MetricFamily("up", "gauge", "", "Whether the target answers.")
REQUESTS = MetricFamily("http_requests_total", "counter", "", "Requests.")
OTHER_HELP = MetricFamily("http_requests_total", "counter", "", "All requests.")


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def index(request: pytest.FixtureRequest) -> Index:
    found: Index = MemoryIndex() if request.param == "memory" else request.getfixturevalue("postgres_index")
    for org in ("acme", "beta"):
        found.create_organisation(org)
    return found


def test_what_was_sent_is_listed_whoever_sent_it_last(index: Index) -> None:
    index.put_metric_metadata("acme", [REQUESTS, UP])
    index.put_metric_metadata("acme", [OTHER_HELP])
    index.put_metric_metadata("acme", [UP, UP])
    assert index.metric_metadata("acme", 0) == [OTHER_HELP, REQUESTS, UP]
    assert index.metric_metadata("acme", 0, ["up", "down"]) == [UP]
    assert index.metric_metadata("acme", 0, []) == []


def test_organisations_see_their_own(index: Index) -> None:
    index.put_metric_metadata("acme", [UP])
    assert index.metric_metadata("beta", 0) == []


def test_what_was_not_sent_lately_is_not_listed(index: Index) -> None:
    index.put_metric_metadata("acme", [UP])
    assert index.metric_metadata("acme", 4_000_000_000 * 10**9) == []


def test_an_organisation_keeps_a_bounded_number_and_those_stay(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = type(index).put_metric_metadata.__module__
    monkeypatch.setattr(f"{where}.MAX_FAMILIES", 3)
    index.put_metric_metadata("acme", [MetricFamily(f"m{n}", "gauge") for n in range(10)])
    index.put_metric_metadata("acme", [UP])
    assert len(index.metric_metadata("acme", 0)) == 3
    assert UP not in index.metric_metadata("acme", 0)
    index.put_metric_metadata("beta", [UP])
    assert index.metric_metadata("beta", 0) == [UP]


def test_what_nobody_sends_again_is_forgotten(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.put_metric_metadata("acme", [UP])
    where = type(index).put_metric_metadata.__module__
    monkeypatch.setattr(f"{where}.METADATA_KEPT_S", -1)
    index.put_metric_metadata("acme", [REQUESTS])
    assert index.metric_metadata("acme", 0) == [REQUESTS]
