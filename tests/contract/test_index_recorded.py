"""Hours of recorded metrics are due when what they are made from changes, whoever keeps the index."""

from __future__ import annotations

import pytest

from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import AlertRule, RecordingRule, RuleGroup, RuleLanguage
from resources.index.memory import MemoryIndex
from resources.index.rule_types import DropRule, RecordedFrom, RuleKind
from resources.index.types import (
    BatchKind,
    BatchPlan,
    Publication,
    PublishConflictError,
)
from resources.lake.layout import Signal
from resources.lake.signals import RECORDED_MS
from resources.lake.timecut import HOUR_NS
from tests.contract.test_index_rule_hours import cook, publication
from tests.contract.test_index_tiers import HOUR, Index, segment

NEXT = HOUR + HOUR_NS
GROUP = RuleGroup("g", (AlertRule("A", "x"), RecordingRule("r", "x")))
LINES = RuleGroup("l", (RecordingRule("l", 'rate({a="b"}[1m])'),), RuleLanguage.LOGQL)
METRICS = (Signal.METRICS,)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def index(request: pytest.FixtureRequest) -> Index:
    found: Index = MemoryIndex() if request.param == "memory" else request.getfixturevalue("postgres_index")
    for org in ("acme", "beta"):
        found.create_organisation(org)
    return found


def apply(index: Index, *groups: RuleGroup, org: str = "acme") -> None:
    index.change_rules(org, [put_of(group, "n") for group in groups], None)


def due(index: Index) -> list[tuple[str, int]]:
    return sorted((one.org, one.start_ns) for one in index.due_partitions(Signal.METRICS, RECORDED_MS))


def recording(index: Index, hour: int = HOUR, back: int = 0, number: int = 0) -> Publication:
    """Return a publication as it is planned now."""
    claim = index.create_claimed(BatchPlan(BatchKind.RECORD, "acme", "all", Signal.METRICS, hour))
    known = {p.start_ns: p.version for p in index.partitions("acme", Signal.METRICS, RECORDED_MS)}
    sources = index.recorded_sources("acme", METRICS, hour - back * HOUR_NS, hour + HOUR_NS)
    made = (segment(number, start=hour, signal=Signal.METRICS, dataset="metrics"),) if number else ()
    return Publication(
        claim,
        made,
        hours=(hour,) if made else (),
        recorded=RecordedFrom(hour, known.get(hour, 0), sources, METRICS, back),
        rules_revision=index.rules("acme").revision,
    )


def test_hours_are_due_where_rules_record(index: Index) -> None:
    cook(index, 1, signal=Signal.METRICS)
    assert due(index) == []
    apply(index, GROUP)
    cook(index, 2, signal=Signal.METRICS)
    cook(index, 3, signal=Signal.METRICS, org="beta")
    cook(index, 4, hour=NEXT, signal=Signal.LOGS)
    assert due(index) == [("acme", HOUR)]
    apply(index, LINES)
    cook(index, 5, hour=NEXT, signal=Signal.LOGS)
    assert due(index) == [("acme", HOUR), ("acme", NEXT)]


def test_alerts_alone_and_deleted_groups_record_nothing(index: Index) -> None:
    apply(index, RuleGroup("g", (AlertRule("A", "x"),)))
    cook(index, 1, signal=Signal.METRICS)
    apply(index, GROUP)
    index.change_rules("acme", [DropRule(RuleKind.GROUP, "n", "g")], None)
    cook(index, 2, signal=Signal.METRICS)
    assert due(index) == []


def test_a_recorded_hour_is_not_due_until_its_samples_change(index: Index) -> None:
    apply(index, GROUP)
    cook(index, 1, signal=Signal.METRICS)
    index.publish(recording(index, number=9))
    assert due(index) == []
    cook(index, 2, signal=Signal.METRICS)
    assert due(index) == [("acme", HOUR)]


def test_samples_that_came_while_the_hour_was_recorded_leave_it_due(index: Index) -> None:
    apply(index, GROUP)
    cook(index, 1, signal=Signal.METRICS)
    planned = recording(index)
    cook(index, 2, signal=Signal.METRICS)
    index.publish(planned)
    assert due(index) == [("acme", HOUR)]


def test_rules_that_changed_while_the_hour_was_recorded_leave_it_due(index: Index) -> None:
    apply(index, GROUP)
    cook(index, 1, signal=Signal.METRICS)
    planned = recording(index)
    apply(index, LINES)
    index.publish(planned)
    assert due(index) == [("acme", HOUR)]


def test_derived_metrics_are_sources(index: Index) -> None:
    apply(index, GROUP)
    cook(index, 1, signal=Signal.METRICS)
    cook(index, 2, signal=Signal.LOGS)
    index.publish(recording(index))
    before = index.recorded_sources("acme", METRICS, HOUR, NEXT)
    index.publish(publication(index, ()))
    assert index.recorded_sources("acme", METRICS, HOUR, NEXT)[HOUR] > before[HOUR]
    assert due(index) == [("acme", HOUR)]
    assert index.recorded_sources("beta", METRICS, HOUR, NEXT) == {}


def test_a_changed_hour_makes_those_due_that_read_it(index: Index) -> None:
    apply(index, GROUP)
    cook(index, 1, signal=Signal.METRICS)
    cook(index, 2, hour=NEXT, signal=Signal.METRICS)
    for hour in (HOUR, NEXT):
        index.publish(recording(index, hour, back=1))
    assert due(index) == []
    cook(index, 3, signal=Signal.METRICS)
    index.publish(recording(index, HOUR, back=1))
    assert due(index) == [("acme", NEXT)]
    index.publish(recording(index, NEXT, back=1))
    assert due(index) == []
    index.publish(recording(index, HOUR, back=1, number=9))
    assert due(index) == []


def test_two_runs_do_not_record_the_same_hour(index: Index) -> None:
    apply(index, GROUP)
    cook(index, 1, signal=Signal.METRICS)
    first, second = recording(index, number=8), recording(index, number=9)
    index.publish(first)
    with pytest.raises(PublishConflictError, match="since planning"):
        index.publish(second)
