"""`traces` are whole, whatever segments and units their spans lie in, and however often those were sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from lakerunner_query.coordinator import lakeql_desk, lakeql_scans
from lakerunner_query.lakeql.views import MARGIN_NS
from lakerunner_query.plan import lakeql_pushdown
from lakerunner_query.plan.slices import RowSliceSizes
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.cooking_lake import HOUR, lake_in
from tests.support.query.signals_lake import Asked, asked_over
from tests.support.query.traces_lake import SPANS, TIES, TracesLake

MINUTE_NS = 60 * SECOND_NS


EXPECTED = {
    2: ("web", 30.0, 33.0, 4, 0, ["db", "web"]),
    3: (None, 40.0, 41.0, 1, 1, ["db"]),
    4: ("web", 49.0, 51.5, 3, 0, ["db", "search", "web"]),
    5: ("web", 3590.0, 4791.0, 2, 0, ["late", "web"]),
}
WHOLE = {1: ("web", -0.5, 5.0, 3, 1, ["db", "payments", "web"]), **EXPECTED}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    lake = cast("Any", TracesLake(lake_in(tmp_path_factory.mktemp("traces") / "lake")))
    with asked_over(lake, tmp_path_factory.mktemp("scratch")) as found:
        yield found


@pytest.fixture(params=["one unit", "many units"], autouse=True)
def _units(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "many units":
        monkeypatch.setattr(lakeql_scans, "SCAN_SIZES", RowSliceSizes(rows=1, first=1.0))


def traces(asked: Asked, where: str = "", start_ns: int = HOUR + HOUR_NS, **more: Any) -> dict[int, Any]:
    more = {"start_ns": start_ns, "end_ns": HOUR + 2 * HOUR_NS, **more}
    found = asked.table(f"SELECT * FROM traces {where}", **more).to_pylist()
    zero = HOUR + HOUR_NS
    return {
        bytes.fromhex(one["trace_id"])[0]: (
            one["root_service_name"], (one["tsns"] - zero) / SECOND_NS, (one["end_tsns"] - zero) / SECOND_NS,
            one["span_count"], one["error_count"], one["services"],
        )
        for one in found
    }  # fmt: skip


def test_traces_belong_to_the_interval_that_they_begin_in(asked: Asked) -> None:
    assert traces(asked) == EXPECTED
    assert traces(asked, start_ns=HOUR + HOUR_NS - MINUTE_NS) == WHOLE
    bounded = "WHERE timestamp >= '2026-01-01 00:59:00' AND timestamp < '2026-01-01 02:00:00'"
    assert traces(asked, bounded, start_ns=0, end_ns=0) == WHOLE
    assert sorted(traces(asked, f"WHERE tsns < {HOUR + HOUR_NS + 35 * SECOND_NS}")) == [2]


def test_spans_that_were_sent_twice_are_rows_of_spans_and_count_once(asked: Asked) -> None:
    more = {"start_ns": HOUR + HOUR_NS, "end_ns": HOUR + 2 * HOUR_NS}
    trace = bytes([2] * 16).hex()
    assert (
        asked.table(f"SELECT count(*) AS n FROM spans WHERE trace_id = '{trace}'", **more)["n"][0].as_py()
        == 5
    )
    assert traces(asked, f"WHERE trace_id = '{trace}'") == {2: EXPECTED[2]}
    assert asked.statistics["segments_without_words"] > 0, "blooms were not asked for the id"


def test_columns_of_a_root_have_one_and_are_null_without(asked: Asked) -> None:
    assert sorted(traces(asked, "WHERE root_service_name IS NULL")) == [3]
    assert sorted(traces(asked, "WHERE root_service_name = 'web'")) == [2, 4, 5]
    assert asked.forms == ["parts", "keys"]
    assert sorted(traces(asked, "WHERE root_service_name = 'search'")) == []
    assert sorted(traces(asked, "WHERE root_name LIKE 'of w%' AND root_service_name <> 'db'")) == [2, 4, 5]


def test_conditions_on_spans_narrow_what_is_read(asked: Asked) -> None:
    assert sorted(traces(asked, "WHERE list_contains(services, 'search')")) == [4]
    narrowed = asked.statistics
    assert sorted(traces(asked, "WHERE services[2] = 'search'")) == [4]
    assert narrowed["segments_without_words"] > asked.statistics["segments_without_words"]
    assert sorted(traces(asked, "WHERE error_count > 0")) == [3]
    assert sorted(traces(asked, "WHERE error_count = 0")) == [2, 4, 5]


def test_of_roots_that_begin_together_one_without_an_id_comes_last(tmp_path: Path) -> None:
    lake = cast("Any", TracesLake(lake_in(tmp_path / "lake"), TIES))
    with asked_over(lake, tmp_path) as found:
        roots = {trace: (one[0], one[3]) for trace, one in traces(found).items()}
    assert roots == {7: ("web", 3), 8: ("db", 3), 9: ("web", 3)}


def test_a_hint_that_names_too_many_traces_is_not_used(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lakeql_pushdown, lakeql_desk):
        monkeypatch.setattr(module, "MOST_KEYS", 2)
    assert sorted(traces(asked, "WHERE root_service_name = 'web'")) == [2, 4, 5]
    assert sorted(traces(asked, "WHERE 'db' = ANY(services)")) == [2, 3, 4]
    assert asked.statistics["segments_without_words"] == 0


def test_the_margin_is_wider_than_the_spans_of_these_tests() -> None:
    latest = max(one.at_s for spans in SPANS for one in spans) * SECOND_NS
    assert latest - HOUR_NS < MARGIN_NS
