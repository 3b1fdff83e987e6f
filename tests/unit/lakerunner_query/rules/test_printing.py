"""Printed rules read back as the same rules, whatever texts are in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.rules.documents import AlertRule, DerivedMetric, RecordingRule, RuleGroup, RuleLanguage
from lakerunner_query.rules.printing import files_yaml, group_yaml
from lakerunner_query.rules.rule_files import read_file, read_group
from resources.lake.layout import Signal
from resources.yaml_nodes import compose

WORDS = st.sampled_from(
    ["", "~", "null", "yes", "1e3", "0o7", "0x1f", "1_000", "<<", "=", "2026-01-01", ".inf", "true", "- a",
     "a: b", "a #b", "'", '"', "|", ">", "\n", "a\n", "\na", "a\n b\n", "a  \nb", "a\tb", "\x85", "\u2028",
     "\ufeff", "é日"]
)  # fmt: skip
TEXT = WORDS | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NAMES = st.text("abc_", min_size=1, max_size=5)
LABELS = st.dictionaries(NAMES, TEXT.filter(lambda text: "{{" not in text), max_size=3)
DURATION = st.integers(0, 10**9)
EXPRS = st.sampled_from(["up", "sum(\n  up\n)", "up ==\n\n  1", " up", "up # why\n", "up\n\n", '{a="\\n"}'])
RULES = st.builds(RecordingRule, NAMES, EXPRS, LABELS) | st.builds(
    AlertRule, TEXT.filter(bool), EXPRS, DURATION, DURATION, LABELS, LABELS
)
GROUPS = st.builds(
    RuleGroup,
    TEXT.filter(bool),
    st.lists(RULES, max_size=3).map(tuple),
    st.just(RuleLanguage.PROMQL),
    DURATION,
    st.none() | DURATION,
    st.integers(-3, 3),
    LABELS,
)


@given(TEXT.filter(bool), GROUPS)
def test_groups_come_back(namespace: str, group: RuleGroup) -> None:
    assert read_group(group_yaml(group).encode()) == group
    assert read_file(files_yaml([(namespace, group)], []).encode()).require().groups == [(namespace, group)]


@pytest.mark.parametrize(
    "metric",
    [
        DerivedMetric(
            "m", Signal.LOGS, '{a="b"} |= `x`', ("a", "b"), "duration(took)", 1_767_225_600 * 10**9
        ),
        DerivedMetric("m", Signal.TRACES, "{ }", ("name", "resource.service.name")),
        DerivedMetric("m", Signal.METRICS, "up", (), "sample"),
    ],
)
def test_derived_metrics_come_back(metric: DerivedMetric) -> None:
    assert read_file(files_yaml([], [metric]).encode()).require().derived == [metric]


def test_lines_of_an_expression_stay_lines() -> None:
    group = RuleGroup("g", (RecordingRule("r", "sum(\n  up\n)\n"),), RuleLanguage.LOGQL)
    assert group_yaml(group) == (
        "name: g\nlanguage: logql\nrules:\n- record: r\n  expr: |\n    sum(\n      up\n    )\n"
    )


def test_nothing_is_no_document() -> None:
    assert files_yaml([], []) == ""
    assert compose(b"") == []
