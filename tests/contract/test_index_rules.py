"""Rules of organisations mean the same in PostgreSQL and in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.rule_types import DropRule, PutRule, RuleKind, RulesChangedError

GROUP, DERIVED = RuleKind.GROUP, RuleKind.DERIVED
Index = MemoryIndex | PostgresIndex


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def index(request: pytest.FixtureRequest) -> Index:
    found: Index = MemoryIndex() if request.param == "memory" else request.getfixturevalue("postgres_index")
    for org in ("acme", "beta"):
        found.create_organisation(org)
    return found


def put(name: str, expr: str = "1", namespace: str = "", kind: RuleKind = GROUP) -> PutRule:
    return PutRule(kind, namespace, name, {"expr": expr, "labels": {"ä": '"'}, "list": [1, {"x": None}]})


def named(index: Index, org: str = "acme") -> list[tuple[str, str, str]]:
    return [(rule.kind.value, rule.namespace, rule.name) for rule in index.rules(org).rules]


def test_an_organisation_begins_without_rules(index: Index) -> None:
    found = index.rules("acme")
    assert (found.revision, found.rules) == (0, ())
    assert index.all_rules() == []


def test_rules_are_kept_with_their_documents_and_in_order(index: Index) -> None:
    changes = [put("b", namespace="ns"), put("a", namespace="ns"), put("Z", namespace="ns"), put("é")]
    found = index.change_rules("acme", [*changes, put("m", kind=DERIVED)], 0)
    assert found.revision == 1
    assert named(index) == [
        ("derived", "", "m"),
        ("group", "", "é"),
        ("group", "ns", "Z"),
        ("group", "ns", "a"),
        ("group", "ns", "b"),
    ]
    assert found == index.rules("acme")
    rule = found.rules[0]
    assert rule.document == changes[0].document
    assert (rule.version, rule.org, rule.retired) == (1, "acme", False)
    assert 0 < rule.created_at_ns == rule.updated_at_ns
    assert len({one.rule_id for one in found.rules}) == 5


def test_a_change_makes_a_version_and_the_same_makes_none(index: Index) -> None:
    first = index.change_rules("acme", [put("g"), put("h")], None)
    same = index.change_rules("acme", [put("g"), put("h")], first.revision)
    assert same == first
    changed = index.change_rules("acme", [put("g", "2"), put("h")], first.revision)
    assert changed.revision == first.revision + 1
    assert [rule.version for rule in changed.rules] == [2, 1]
    assert changed.rules[0].rule_id == first.rules[0].rule_id
    assert changed.rules[0].created_at_ns == first.rules[0].created_at_ns
    versions = index.rule_versions("acme", changed.rules[0].rule_id)
    assert [(one.version, one.document["expr"]) for one in versions] == [(2, "2"), (1, "1")]


def test_a_deleted_rule_stays_in_the_history_and_may_come_back(index: Index) -> None:
    rule_id = index.change_rules("acme", [put("g")], None).rules[0].rule_id
    assert index.change_rules("acme", [DropRule(GROUP, "", "g")], 1).rules == ()
    again = index.change_rules("acme", [DropRule(GROUP, "", "g"), DropRule(GROUP, "", "never")], 2)
    assert again.revision == 2
    back = index.change_rules("acme", [put("g")], 2)
    assert (back.revision, back.rules[0].rule_id, back.rules[0].version) == (3, rule_id, 3)
    assert [one.retired for one in index.rule_versions("acme", rule_id)] == [False, True, False]


def test_kind_and_namespace_are_part_of_the_name(index: Index) -> None:
    index.change_rules("acme", [put("g"), put("g", namespace="n"), put("g", kind=DERIVED)], None)
    index.change_rules("acme", [DropRule(GROUP, "n", "g")], None)
    assert named(index) == [("derived", "", "g"), ("group", "", "g")]


def test_a_change_over_an_old_revision_changes_nothing(index: Index) -> None:
    index.change_rules("acme", [put("g")], 0)
    with pytest.raises(RulesChangedError, match=r"acme are at revision 1, expected 0"):
        index.change_rules("acme", [put("h"), DropRule(GROUP, "", "g")], 0)
    assert named(index) == [("group", "", "g")]
    assert index.rules("acme").revision == 1


def test_organisations_see_only_their_own(index: Index) -> None:
    rule_id = index.change_rules("acme", [put("g")], None).rules[0].rule_id
    assert index.rules("beta").rules == ()
    assert index.rules("beta").revision == 0
    assert index.rule_versions("beta", rule_id) == []
    index.change_rules("beta", [DropRule(GROUP, "", "g"), put("h")], None)
    assert named(index) == [("group", "", "g")]
    assert [(one.org, one.name) for one in index.all_rules()] == [("acme", "g"), ("beta", "h")]


def test_an_unknown_organisation_gets_no_rules(index: Index) -> None:
    with pytest.raises((KeyError, psycopg.IntegrityError)):
        index.change_rules("nobody", [put("g")], None)


def test_changes_at_once_make_one_revision_each(index: Index) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: index.change_rules("acme", [put(f"g{n}")], None), range(8)))
    found = index.rules("acme")
    assert (found.revision, len(found.rules)) == (8, 8)


def test_of_two_who_expect_the_same_revision_one_is_refused(index: Index) -> None:
    def attempt(n: int) -> bool:
        try:
            index.change_rules("acme", [put(f"g{n}")], 0)
        except RulesChangedError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(4))) == 1
    assert len(index.rules("acme").rules) == 1
