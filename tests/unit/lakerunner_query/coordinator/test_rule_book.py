"""Changes of rules are made over what is there now, and break nothing that is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.rule_book import OutdatedRulesError, RuleBook
from lakerunner_query.rules.documents import RecordingRule, RuleGroup
from lakerunner_query.rules.rule_files import RuleFile, RuleFileError, read_file
from resources.index.memory import MemoryIndex
from resources.index.rule_types import PutRule, RuleChange, RuleKind, RuleSet
from resources.index.types import SegmentQuery, Snapshot

ERRORS = "materialize: [{metric: m, from: logs, select: '{a=\"b\"}'}]"


class Busy(MemoryIndex):
    """An index in which somebody else changes the rules before each of the first changes."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.create_organisation("acme")
        self.times = times

    def change_rules(self, org: str, changes: Sequence[RuleChange], expected_revision: int | None) -> RuleSet:
        if self.times:
            self.times -= 1
            other = PutRule(
                RuleKind.GROUP, "other", f"g{self.times}", {"name": "g", "language": "promql", "rules": []}
            )
            super().change_rules(org, [other], None)
        return super().change_rules(org, changes, expected_revision)


class Sending(Busy):
    """An index with segments of these metrics, by origin."""

    def __init__(self, **sent: str) -> None:
        super().__init__(0)
        self.sent = sent
        self.asked: list[SegmentQuery] = []

    def snapshot(self, questions: Sequence[SegmentQuery], *_: Any, **__: Any) -> Snapshot:
        self.asked += questions
        return Snapshot(
            tuple(tuple(_Segment(name, origin) for name, origin in self.sent.items()) for _ in questions)  # type: ignore[misc]
        )


class _Segment:
    def __init__(self, name: str, origin: str) -> None:
        self.metric_names = (name, "else")
        self.origin = origin


def read(text: str) -> RuleFile:
    return read_file(text.encode()).require()


def records(*rules: tuple[str, str], group: str = "g") -> RuleFile:
    made = tuple(RecordingRule(record, expr) for record, expr in rules)
    return RuleFile([("", RuleGroup(group, made))])


@pytest.fixture
def index() -> Busy:
    return Busy(0)


def apply(index: MemoryIndex, *files: RuleFile, **more: Any) -> list[str]:
    async def run() -> list[str]:
        locator = Locator(index)
        try:
            applied = await RuleBook(locator).apply("acme", [("ns", one) for one in files], **more)
        finally:
            locator.close()
        return [each.place for each in applied.differences]

    return asyncio.run(run())


def test_a_change_is_made_over_what_others_changed_meanwhile() -> None:
    index = Busy(3)
    assert apply(index, records(("a", "up"))) == ["group ns/g"]
    assert [rule.name for rule in index.rules("acme").rules] == ["g", "g0", "g1", "g2"]


def test_somebody_who_is_always_slower_is_told() -> None:
    with pytest.raises(OutdatedRulesError, match="were changed by others 20 times"):
        apply(Busy(99), records(("a", "up")))


def test_a_revision_is_not_tried_again() -> None:
    with pytest.raises(OutdatedRulesError, match="revision 1, expected 0"):
        apply(Busy(1), records(("a", "up")), revision=0)


@pytest.mark.parametrize(
    ("rules", "circle"),
    [
        ([("a", "a offset 1m")], "a -> a"),
        ([("a", "sum(b)"), ("b", 'rate(c[5m]) or {__name__="a"}'), ("c", "up")], "a -> b -> a"),
        ([("a", "b"), ("b", "c"), ("c", "max_over_time((up + a)[1h:5m])")], "a -> b -> c -> a"),
    ],
)
def test_circles_of_recording_rules_are_refused(
    index: Busy, rules: list[tuple[str, str]], circle: str
) -> None:
    with pytest.raises(RuleFileError, match="in a circle: " + circle):
        apply(index, records(*rules))
    assert index.rules("acme").rules == ()


def test_a_circle_through_rules_that_are_there_is_found(index: Busy) -> None:
    apply(index, records(("a", "b")))
    apply(index, records(("c", "a"), group="h"))
    with pytest.raises(RuleFileError, match="in a circle: a -> b -> c -> a"):
        apply(index, records(("b", "c"), group="i"))
    apply(index, records(("b", "up"), group="i"))
    apply(index, records(("a", "b"), ("a", "b")))


def test_a_derived_metric_takes_no_name_that_is_recorded(index: Busy) -> None:
    apply(index, records(("m", "up")))
    with pytest.raises(RuleFileError, match='metric "m": group "g" has the name m'):
        apply(index, read(ERRORS))
    apply(index, records(("n", "up")))
    apply(index, read(ERRORS))
    with pytest.raises(RuleFileError, match='group "h" has the name m'):
        apply(index, records(("m", "up"), group="h"))


def test_a_derived_metric_takes_no_name_that_is_sent() -> None:
    index = Sending(m="", other="")
    with pytest.raises(RuleFileError, match='metric "m": a metric that was sent has the name m'):
        apply(index, read(ERRORS))
    (asked,) = index.asked
    assert (asked.org, asked.names, len(asked.terms)) == ("acme", True, 1)


def test_its_own_samples_do_not_keep_a_derived_metric_from_coming_back() -> None:
    index = Sending(m="derived-logs@1")
    assert apply(index, read(ERRORS)) == ["metric m"]
    index.sent["m"] = ""
    changed = read(ERRORS.replace('"b"', '"c"'))
    assert apply(index, changed) == ["metric m"]  # only new names are looked for
    assert apply(index, changed) == []


def test_groups_of_one_name_under_one_namespace_are_refused(index: Busy) -> None:
    group = RuleGroup("g", (), line=4)
    files = RuleFile([("", group)]), RuleFile([("ns", replace(group, line=7))])
    with pytest.raises(RuleFileError, match='line 7: group "g" is repeated in namespace "ns"'):
        apply(index, *files)
