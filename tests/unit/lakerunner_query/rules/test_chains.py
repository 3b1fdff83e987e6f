"""Chains of recording rules: their order, and circles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.rules.chains import cycles, in_order
from lakerunner_query.rules.documents import AlertRule, RecordingRule, RuleGroup, RuleLanguage


def group(name: str, **records: str) -> RuleGroup:
    return RuleGroup(name, tuple(RecordingRule(record, expr) for record, expr in records.items()))


def order(*groups: RuleGroup) -> list[str]:
    return [
        rule.record for each in in_order(groups) for rule in each.rules if isinstance(rule, RecordingRule)
    ]


def test_readers_stand_behind_what_they_read() -> None:
    late, early = group("late", c="sum(b) + x", d="c"), group("early", b='{__name__=~"a.*"}', a="x")
    assert order(late, early) == ["a", "b", "c", "d"]
    assert cycles([late, early]) == ()


def test_groups_that_read_each_other_are_put_apart() -> None:
    assert [each.name for each in in_order([group("x", a="m", c="b"), group("y", b="a")])] == ["x", "y", "x"]


def test_circles_are_found() -> None:
    assert cycles([group("x", a="b offset 1h"), group("y", b="max_over_time(a[1h])")]) == ("a", "b", "a")
    assert cycles([group("x", a="a + 1")]) == ("a", "a")


def test_a_chain_may_have_any_length() -> None:
    count = 1500
    chain = group("x", **{f"a{number}": f"a{number + 1}" for number in range(count)})
    assert cycles([chain]) == ()
    closed = group("y", **{f"a{count}": "a0"})
    assert len(cycles([chain, closed])) == count + 2


def test_alerts_and_other_languages_read_nothing() -> None:
    alerts = RuleGroup("x", (AlertRule("A", "a"), RecordingRule("a", "m")))
    lines = RuleGroup("l", (RecordingRule("l", 'sum(rate({a="b"}[1m]))'),), RuleLanguage.LOGQL)
    assert order(alerts, lines) == ["a", "l"]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=10), st.permutations(range(6)))
def test_every_order_is_one(edges: list[tuple[int, int]], places: list[int]) -> None:
    """Rule i reads rule j only where j < i, so that there is no circle, whatever the groups' order."""
    reads = {
        number: [f"r{low}" for high, low in edges if high == number and low < high] for number in range(6)
    }
    groups = [group(f"g{number}", **{f"r{number}": " + ".join(["m", *reads[number]])}) for number in places]
    found = order(*groups)
    assert sorted(found) == [f"r{number}" for number in range(6)]
    for number, names in reads.items():
        assert all(found.index(name) < found.index(f"r{number}") for name in names)
