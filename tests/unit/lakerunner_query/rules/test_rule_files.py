"""Rule files are read strictly, and every fault is told with its line."""

from __future__ import annotations

from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.rules.checks import lint
from lakerunner_query.rules.documents import AlertRule, RecordingRule, RuleGroup, RuleLanguage
from lakerunner_query.rules.rule_files import FileForm, RuleFileError, read_file, read_group
from resources.yaml_nodes import MAX_DEPTH, YamlError, compose

LOGQL = FileForm(RuleLanguage.LOGQL)


def faults(text: str, form: FileForm = FileForm()) -> list[str]:  # noqa: B008 (frozen)
    return [fault.at("f") for fault in read_file(text.encode(), form).faults]


def only_group(text: str, form: FileForm = FileForm()) -> RuleGroup:  # noqa: B008 (frozen)
    ((_, group),) = read_file(text.encode(), form).require().groups
    return group


def test_a_group_is_read_with_everything_it_may_have() -> None:
    group = only_group("""
groups:
- name: g
  interval: 1m30s
  query_offset: 0s
  limit: 5
  labels: {team: a}
  rules:
  - alert: Down
    expr: up == 0
    for: 5m
    keep_firing_for: 1h
    labels: {severity: page, n: 1}
    annotations: {summary: "{{ $labels.job }}"}
  - record: job:up:sum
    expr: sum by (job) (up)
""")
    alert = AlertRule(
        "Down", "up == 0", 300_000, 3_600_000,
        {"severity": "page", "n": "1"}, {"summary": "{{ $labels.job }}"},
    )  # fmt: skip
    recording = RecordingRule("job:up:sum", "sum by (job) (up)")
    assert group == RuleGroup("g", (alert, recording), RuleLanguage.PROMQL, 90_000, 0, 5, {"team": "a"})
    assert (group.line, group.rules[0].line, group.rules[1].line) == (3, 10, 16)


def test_all_faults_are_told_at_once_with_their_lines() -> None:
    text = """groups:
- name: g
  owner: me
  rules:
  - record: a
    expr: sum(
  - alert: B
    expr: up
    for: 5
    labels: {__name__: x}
- name: g
  limit: many
"""
    assert faults(text) == [
        "f:3: field owner not found in type rulefmt.RuleGroup",
        'f:6: group "g", rule 1, "a": could not parse expression: '
        "1:5: parse error: unclosed left parenthesis",
        'f:8: group "g", rule 2, "B": invalid label name: __name__',
        'f:9: not a valid duration string: "5"',
        'f:11: groupname: "g" is repeated in the same file',
        "f:12: cannot unmarshal !!str `many` into int",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [", "f:2: yaml: did not find expected node content"),
        ("groups: *x", "f:1: yaml: unknown anchor 'x' referenced"),
        ("a: &x [*x]", "f:1: yaml: anchor 'x' value contains itself"),
        ("groups:\n- {name: a, name: b}", 'f:2: mapping key "name" already defined at line 2'),
        ("groups:\n- {<<: 3, name: b}", "f:2: map merge requires map or sequence of maps as the value"),
        ("groups: {}", "f:1: cannot unmarshal !!map into []rulefmt.RuleGroup"),
        ('groups:\n- name: "a\\0b"', "f:2: a text with the character NUL cannot be stored"),
        ("groups:\n- {name: g, language: sql}", "f:2: language 'sql': expected one of promql, logql,"),
        ("a: \x01", "f:1: yaml: control characters are not allowed"),
        ("[" * (MAX_DEPTH + 1), f"f:1: yaml: nested more than {MAX_DEPTH} levels deep"),
    ],
)
def test_what_is_no_rule_file_is_refused(text: str, message: str) -> None:
    assert any(one.startswith(message) for one in faults(text)), faults(text)


def test_a_file_that_grows_by_aliases_is_refused() -> None:
    rules = ", ".join("{record: a, expr: b}" for _ in range(2000))
    groups = ", ".join("{name: g, rules: *r}" for _ in range(2000))
    text = f"x: &r [{rules}]\ngroups: [{groups}]"
    assert any("excessive aliasing" in one for one in faults(text))


def test_anchors_and_merged_keys_are_followed() -> None:
    group = only_group("""
groups:
- name: g
  rules:
  - &first {alert: A, expr: up, labels: &l {a: "1", b: "2"}}
  - {<<: *first, alert: B, labels: {<<: *l, b: "3"}}
""")
    assert [(rule.alert, dict(rule.labels)) for rule in group.rules if isinstance(rule, AlertRule)] == [
        ("A", {"a": "1", "b": "2"}),
        ("B", {"a": "1", "b": "3"}),
    ]


def test_documents_of_our_own_form_have_namespaces_and_languages() -> None:
    text = b"""
namespace: one
groups: [{name: g, rules: [{record: a, expr: up}]}]
---
namespace: two
groups:
- {name: g, language: logql, rules: [{record: a, expr: 'sum(rate({app="x"}[1m]))'}]}
- {name: t, language: traceql, rules: [{record: a, expr: '{ } | rate()'}]}
- {name: q, language: lakeql, rules: [{record: a, expr: 'SELECT count(*) FROM logs'}]}
"""
    found = read_file(text).require()
    assert [(namespace, group.name, group.language.value) for namespace, group in found.groups] == [
        ("one", "g", "promql"),
        ("two", "g", "logql"),
        ("two", "t", "traceql"),
        ("two", "q", "lakeql"),
    ]
    strict = read_file(text, FileForm(is_strict=True)).faults
    assert [one.message for one in strict] == ["field namespace not found in type rulefmt.RuleGroups"]


@pytest.mark.parametrize("language", RuleLanguage)
def test_an_expression_is_parsed_in_the_language_of_its_group(language: RuleLanguage) -> None:
    text = "groups: [{name: g, rules: [{alert: A, expr: 'no ) language'}]}]"
    (fault,) = faults(text, FileForm(language))
    assert 'group "g", rule 1, "A": could not parse expression: ' in fault


def test_names_of_loki_have_the_classic_letters() -> None:
    text = "groups: [{name: g, rules: [{alert: A, expr: 'rate({a=\"b\"}[1m])', annotations: {a.b: x}}]}]"
    assert faults(text, LOGQL) == ['f:1: group "g", rule 1, "A": invalid annotation name: a.b']
    assert faults(text.replace('rate({a="b"}[1m])', "up")) == []


def test_one_group_is_read_from_the_body_of_a_request() -> None:
    group = read_group(b"name: g\nrules:\n- {record: a, expr: up}\n")
    assert (group.name, len(group.rules)) == ("g", 1)
    with pytest.raises(RuleFileError, match=r"^line 1: Groupname must not be empty"):
        read_group(b"")
    with pytest.raises(RuleFileError, match="expected one rule group, found 2 documents"):
        read_group(b"name: g\n---\nname: h\n")


def test_lint_tells_repeated_rules_and_expressions_without_a_vector() -> None:
    found = read_file(b"""groups:
- name: g
  rules:
  - {record: a, expr: up}
  - {record: a, expr: down}
  - {record: a, expr: up, labels: {x: y}}
  - {alert: M, expr: "up[5m]"}
- {name: l, language: logql, rules: [{alert: L, expr: '{a="b"}'}]}
""").require()
    assert [one.at("f") for one in lint(group for _, group in found.groups)] == [
        "f:5: duplicate rule: a{} stands here again",
        "f:7: M: the expression yields a range vector, every evaluation will fail",
        "f:8: L: the expression yields log lines, every evaluation will fail",
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("ab:- #&*<'\"\n", max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
        max_leaves=9,
    )
)
def test_any_data_is_composed_or_faulty_and_never_breaks(data: object) -> None:
    text = yaml.safe_dump(data).encode()
    assert len(compose(text)) == 1
    read_file(text)


@given(st.text("ab:-[]{}#&*!|>'\"%@,? \n", max_size=30))
def test_any_text_is_composed_or_refused(text: str) -> None:
    with suppress(YamlError):
        compose(text.encode())
    assert all(fault.line >= 1 for fault in read_file(text.encode()).faults)


def test_a_limit_with_a_fraction_is_cut_as_prometheus_cuts_it() -> None:
    assert only_group("groups: [{name: g, limit: 1.5, rules: []}]").limit == 1
    assert faults("groups: [{name: g, limit: .nan, rules: []}]") != []
