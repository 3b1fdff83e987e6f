"""How queries are counted: once each, by how they ended."""

from __future__ import annotations

import asyncio

import pytest

from lakerunner_query.api.shared.services import QueryWatch
from lakerunner_query.coordinator.merge import RowMerge
from lakerunner_query.errors import ParseError
from lakerunner_query.protocol.units import Missing
from lakerunner_query.serving import Counters
from resources.objects.latency import LatencyTable
from tests.support.exposition_parser import parse


@pytest.fixture
def watch() -> QueryWatch:
    return QueryWatch("loki", LatencyTable("lakerunner_query_seconds", ("api", "outcome")), Counters())


def outcomes(watch: QueryWatch) -> dict[str, float]:
    found = parse(watch.times.render())
    return {dict(labels)["outcome"]: n for (name, labels), n in found.items() if name.endswith("_count")}


def test_complete_and_partial(watch: QueryWatch) -> None:
    with watch:
        watch.finish(RowMerge(10, rows=7))
    with watch:
        watch.finish(RowMerge(10, missing={"s": Missing("s", "gone")}))
    assert outcomes(watch) == {"complete": 1, "partial": 1}
    assert parse(watch.counters.render())["lakerunner_query_rows_total", frozenset({("api", "loki")})] == 7


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ParseError("x"), "parse_error"), (KeyError("x"), "internal"), (asyncio.CancelledError(), "abandoned")],
)
def test_errors_by_code(watch: QueryWatch, error: BaseException, outcome: str) -> None:
    with pytest.raises(type(error)), watch:
        raise error
    assert outcomes(watch) == {outcome: 1}


def test_a_stream_is_counted_at_its_end(watch: QueryWatch) -> None:
    with watch:
        watch.hand_over()
    assert outcomes(watch) == {}
    with watch:
        watch.finish(RowMerge(10))
    assert outcomes(watch) == {"complete": 1}
