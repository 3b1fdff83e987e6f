"""Rules survive the way through JSON, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.rules.catalog import CatalogError, derived_of, group_of, put_of, to_document
from lakerunner_query.rules.documents import (
    AlertRule,
    DerivedMetric,
    RecordingRule,
    RuleGroup,
    RuleLanguage,
)
from resources.index.rule_types import RuleKind, StoredRule
from resources.lake.layout import Signal

TEXT = st.text(max_size=8)
LABELS = st.dictionaries(TEXT, TEXT, max_size=3)
MILLISECONDS = st.integers(0, 2**40)
RECORDING = st.builds(RecordingRule, TEXT, TEXT, LABELS)
ALERT = st.builds(AlertRule, TEXT, TEXT, MILLISECONDS, MILLISECONDS, LABELS, LABELS)
GROUP = st.builds(
    RuleGroup,
    TEXT,
    st.lists(RECORDING | ALERT, max_size=4).map(tuple),
    st.sampled_from(RuleLanguage),
    MILLISECONDS,
    st.none() | MILLISECONDS,
    st.integers(0, 9),
    LABELS,
)
DERIVED = st.builds(
    DerivedMetric,
    TEXT,
    st.sampled_from(Signal),
    TEXT,
    st.lists(TEXT, max_size=3).map(tuple),
    TEXT,
    st.none() | st.integers(0, 2**62),
)


def stored(document: object, kind: RuleKind = RuleKind.GROUP) -> StoredRule:
    read = json.loads(json.dumps(document))
    return StoredRule(7, "acme", kind, "ns", "g", 3, read, 0, 0)


@given(GROUP)
def test_groups_survive(group: RuleGroup) -> None:
    assert group_of(stored(to_document(group))) == group


@given(DERIVED)
def test_derived_metrics_survive(metric: DerivedMetric) -> None:
    assert derived_of(stored(to_document(metric), RuleKind.DERIVED)) == metric


def test_lines_are_not_part_of_a_document() -> None:
    group = RuleGroup("g", (RecordingRule("r", "1", line=4),), line=2)
    assert to_document(group) == to_document(replace(group, line=9))
    assert "line" not in json.dumps(to_document(group))


def test_puts_name_what_they_put() -> None:
    group = put_of(RuleGroup("g", ()), "ns")
    assert (group.kind, group.namespace, group.name) == (RuleKind.GROUP, "ns", "g")
    metric = put_of(DerivedMetric("m", Signal.LOGS, "{}"), "ns")
    assert (metric.kind, metric.namespace, metric.name) == (RuleKind.DERIVED, "", "m")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"name": "g", "language": "promql", "rules": [], "new": 1}, "unknown field `new`"),
        ({"name": "g", "language": "sql", "rules": []}, "Invalid enum value 'sql'"),
        ({"name": "g", "language": "promql"}, "missing required field `rules`"),
        ({"name": "g", "language": "promql", "rules": [{"record": "r", "expr": "1"}]}, "rule"),
        ({"name": 1, "language": "promql", "rules": []}, "Expected `str`, got `int`"),
    ],
)
def test_other_documents_are_refused_with_their_place(document: object, message: str) -> None:
    with pytest.raises(CatalogError, match=r"group ns/g of acme, version 3: .*" + message):
        group_of(stored(document))


def test_a_group_is_no_derived_metric() -> None:
    with pytest.raises(CatalogError, match="expected a derived"):
        derived_of(stored(to_document(RuleGroup("g", ()))))
