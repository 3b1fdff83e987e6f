"""Hours that grew are derived from what was added, to the same bytes as from all of it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakerunner_assets.compacted.due import Scope
from lakerunner_assets.compacted.report import Report as MergeReport
from lakerunner_assets.compacted.run import compact
from lakerunner_assets.materialized.run import DeriveReport
from lakerunner_query.rules.documents import LINE_BYTES, DerivedMetric
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.materialized.lake import derived_segments
from tests.support.materialized.rules import declare, derive_rules, derived, due_hours, gaps
from tests.support.otlp_logs import otlp_logs

ANY = '{service_name=~".+"}'
COUNT = DerivedMetric("lines", Signal.LOGS, ANY, ("service_name",))
ERRORS = DerivedMetric("errors", Signal.LOGS, f'{ANY} |= "error"', ("service_name",))
TOOK = DerivedMetric("took", Signal.LOGS, f"{ANY} | logfmt", ("service_name", "code"), "duration(took)")
SIZES = DerivedMetric("sizes", Signal.LOGS, '{service_name="shop"} != "debug"', (), LINE_BYTES)
NUMBERS = DerivedMetric("numbers", Signal.LOGS, f"{ANY} | logfmt", ("code",), "n")
JSON = DerivedMetric("parsed", Signal.LOGS, f"{ANY} | json | a != 1", ("service_name",))
RULES = (COUNT, ERRORS, TOOK, SIZES, NUMBERS, JSON)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def line(choose: random.Random) -> tuple[int, str]:
    at = HOUR + choose.choice((1, 10 * SECOND, 10 * SECOND + 1, choose.randrange(1, HOUR_NS + 1)))
    took = choose.choice((f" took={choose.randrange(400)}ms", " took=0.1s", " took=1h0.7ms", " took=bad", ""))
    number = choose.choice(("", " n=0.1", " n=-0", " n=-0.3", f" n={choose.random()}", " n=1e-9", " n=7"))
    text = f"code={choose.choice((200, 500))}{took}{number} {choose.choice(('error', 'debug', 'fine'))}"
    return at, choose.choice((text, text, text, '{"a": 1, "b": 2}', '{"a": 2}'))


def arrive(lake: Lake, name: str, lines: list[tuple[int, str]], service: str = "shop") -> None:
    lake.arrive(name, otlp_logs(lines, service))
    lake.cook()


def merge(lake: Lake) -> None:
    """Merge the segments of the hour as of one that is over; two may stay."""
    scope = Scope({"acme": frozenset({HOUR})})
    list(compact(lake.run_context(), Signal.LOGS, MergeReport(), scope))


def content(lake: Lake) -> tuple[list[object], list[object]]:
    """Return the rows as they are stored, and what the index has of the rules."""
    found: list[object] = []
    for segment in derived_segments(lake):
        path = lake.folder / "lake" / segment.key
        found += [sorted(pq.read_table(path).to_pylist(), key=repr), segment.rows, segment.max_ns]
        with path.open("rb") as file:
            file.seek(segment.series_offset)
            found.append(file.read(segment.series_length))
    return found, list(lake.index.rule_hours("acme", Signal.LOGS, HOUR, HOUR + HOUR_NS))


def add_three(lake: Lake) -> None:
    for name in "bcd":
        arrive(lake, name, [(HOUR + 2, name)])


def derive(lake: Lake, *, force: bool = False) -> DeriveReport:
    report = DeriveReport()
    derive_rules(lake, Signal.LOGS, report=report, force=force)
    assert not report.failed
    return report


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    steps=st.lists(st.sampled_from("laldmrlds"), min_size=2, max_size=8),
    rules=st.sets(st.sampled_from(RULES), min_size=1),
    most=st.sampled_from((3, 10_000)),
)
def test_hours_in_steps_equal_whole_ones(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    steps: list[str],
    rules: set[DerivedMetric],
    most: int,
) -> None:
    """Lines come late or again, segments are merged or rebuilt, rules change; the hour is derived between."""
    lake, choose = lake_in(tmp_path_factory.mktemp("lake")), random.Random(seed)
    lake.settings = replace(lake.settings, derived_max_series=most)
    declare(lake, *sorted(rules, key=lambda rule: rule.metric))
    sent: list[list[tuple[int, str]]] = []
    for number, step in enumerate(("l", "d", *steps, "l", "d")):
        if step == "l" or not sent:
            sent.append([line(choose) for _ in range(choose.randrange(1, 12))])
            arrive(lake, f"o{number}", sent[-1], choose.choice(("shop", "cart")))
        elif step == "a":
            arrive(lake, f"again{number}", choose.choice(sent))
        elif step == "d":
            derive(lake)
        elif step == "m":
            merge(lake)
        elif step == "r":
            lake.rebuild(HOUR)
        else:
            declare(lake, replace(COUNT, keep=choose.choice(((), ("service_name",), ("code",)))))
    derive(lake)
    in_steps = content(lake)
    assert due_hours(lake, Signal.LOGS) == []
    assert derive(lake, force=True).added == 0
    assert in_steps == content(lake)


def test_what_was_added_alone_is_read(lake: Lake) -> None:
    declare(lake, COUNT)
    arrive(lake, "a", [(HOUR + n, "x") for n in range(1, 9)])
    first = derive(lake)
    arrive(lake, "b", [(HOUR + 3, "y")])
    second = derive(lake)
    assert (first.records, first.added, second.records, second.added) == (8, 0, 1, 1)
    assert derived(lake, "lines") == {((("service_name", "shop"),), (HOUR + 10 * SECOND) // 10**6): 9.0}
    assert gaps(lake, Signal.LOGS, "lines") == ()
    assert len(derived_segments(lake)) == 1


def test_additions_are_found_behind_a_merge(lake: Lake) -> None:
    declare(lake, COUNT)
    arrive(lake, "a", [(HOUR + 1, "x")])
    derive(lake)
    add_three(lake)
    merge(lake)
    assert len(lake.segments()) < 4
    report = derive(lake)
    assert (report.records, report.added) == (3, 1)
    assert sum(derived(lake, "lines").values()) == 4


@pytest.mark.parametrize("change", ["rebuild", "rule", "limit", "release", "swept"])
def test_other_changes_derive_the_hour_whole(
    lake: Lake, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(lake, COUNT)
    arrive(lake, "a", [(HOUR + 1, "x")])
    derive(lake)
    add_three(lake)
    if change == "rebuild":
        lake.rebuild(HOUR)
    elif change == "rule":
        declare(lake, ERRORS)
    elif change == "limit":
        lake.settings = replace(lake.settings, derived_max_series=9_999)
    elif change == "release":
        monkeypatch.setattr("lakerunner_assets.materialized.run.version", lambda _: "99")
    else:
        merge(lake)
        gone = [i for i, kept in lake.index._state.segments.items() if kept.retired_at is not None]
        for one in gone:
            del lake.index._state.segments[one]
    report = derive(lake)
    assert (report.records, report.added) == (4, 0)
    assert sum(derived(lake, "lines").values()) == 4


def test_a_segment_that_is_gone_leads_to_a_whole_derivation(lake: Lake) -> None:
    declare(lake, COUNT)
    arrive(lake, "a", [(HOUR + 1, "x")])
    derive(lake)
    add_three(lake)
    merge(lake)
    for kept in lake.index._state.segments.values():
        if kept.retired_at is not None:
            (lake.folder / "lake" / kept.segment.key).unlink()
    report = derive(lake)
    assert (report.records, report.added) == (4, 0)


def test_a_sum_of_three_doubles_is_derived_whole(lake: Lake) -> None:
    declare(lake, NUMBERS)
    arrive(lake, "a", [(HOUR + 1, "code=1 n=1e30"), (HOUR + 1, "code=1 n=1"), (HOUR + 2, "code=1 n=1e-30")])
    derive(lake)
    arrive(lake, "b", [(HOUR + 3, "code=1 n=-1e30")])
    report = derive(lake)
    assert (report.made, report.added) == (1, 0)
    assert derived(lake, "numbers") == {((("code", "1"),), (HOUR + 10 * SECOND) // 10**6): 1.0}


def test_of_two_runs_one_publishes_and_nothing_is_counted_twice(lake: Lake) -> None:
    """The second derives while the first does; killed before its publication, it leaves the hour due."""
    declare(lake, COUNT)
    arrive(lake, "a", [(HOUR + 1, "x")])
    derive(lake)
    arrive(lake, "b", [(HOUR + 2, "y")])
    inner: list[DeriveReport] = []

    def other() -> None:
        lake.tasks.before = bool
        inner.append(derive(lake))

    lake.tasks.before = other
    report = derive(lake)
    assert (inner[0].added, report.made, report.current, len(report.conflicts)) == (1, 0, 1, 1)
    assert sum(derived(lake, "lines").values()) == 2
    arrive(lake, "c", [(HOUR + 3, "z")])
    lake.tasks.deadly = {str(HOUR)}
    with pytest.raises(Exception, match="worker exited"):
        derive(lake)
    lake.tasks.deadly = set()
    assert due_hours(lake, Signal.LOGS) == [HOUR]
    assert derive(lake).added == 1
    assert sum(derived(lake, "lines").values()) == 3
