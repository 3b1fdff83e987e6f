"""Unit tests of rules: verdicts, promtool's texts, and files that are none."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from pathlib import Path

import pytest

from lakerunner_cli import rule_tests
from lakerunner_query.rules.documents import AlertRule, RecordingRule, Rule
from lakerunner_query.rules.memory_engine import can_ask_all
from lakerunner_query.rules.unit_test_files import UnitTestFileError, read_unit_tests
from lakerunner_query.rules.unit_tests import run_file

RULES = """
groups:
- name: up
  labels: {team: core}
  rules:
  - {record: "job:up:sum", expr: sum by (job) (up)}
  - alert: Down
    expr: job:up:sum < 2
    for: 2m
    annotations: {text: "{{ $labels.job }} has {{ $value }} on {{ $externalURL }}"}
"""
TESTS = """
rule_files: [rules.yml]
tests:
- name: two targets
  external_url: http://lake
  input_series:
  - {series: 'up{job="a", instance="1"}', values: '1x5'}
  - {series: 'up{job="a", instance="2"}', values: '1 1 0x3'}
  alert_rule_test:
  - {eval_time: 3m, alertname: Down}
  - eval_time: 4m
    alertname: Down
    exp_alerts:
    - exp_labels: {job: a, team: core}
      exp_annotations: {text: a has 1 on http://lake}
  promql_expr_test:
  - {expr: 'job:up:sum', eval_time: 5m, exp_samples: [{labels: 'job:up:sum{job="a", team="core"}', value: 1}]}
"""


def run(folder: Path, tests: str, rules: str = RULES, **more: object) -> dict[str, tuple[str, ...]]:
    (folder / "rules.yml").write_text(rules)
    (folder / "test.yml").write_text(tests)
    return {one.name: one.failures for one in run_file(folder / "test.yml", **more)}  # type: ignore[arg-type]


def test_what_is_as_expected_passes(tmp_path: Path) -> None:
    assert run(tmp_path, TESTS) == {"two targets": ()}


def test_alerts_are_compared_after_the_evaluation_before(tmp_path: Path) -> None:
    assert run(tmp_path, TESTS.replace("eval_time: 3m", "eval_time: 3m59s")) == {"two targets": ()}
    assert run(tmp_path, TESTS.replace("eval_time: 3m", "eval_time: 4m59s"))["two targets"] != ()


def test_failures_are_told_as_promtool_does(tmp_path: Path) -> None:
    wrong = TESTS.replace("has 1 on", "has 2 on").replace("value: 1", "value: 3")
    alert, expr = run(tmp_path, wrong)["two targets"]
    assert alert == (
        "    name: two targets,\n"
        "    alertname: Down, time: 4m, \n"
        "        exp:[\n"
        "            0:\n"
        '              Labels:{alertname="Down", job="a", team="core"}\n'
        '              Annotations:{text="a has 2 on http://lake"}\n'
        "            ], \n"
        "        got:[\n"
        "            0:\n"
        '              Labels:{alertname="Down", job="a", team="core"}\n'
        '              Annotations:{text="a has 1 on http://lake"}\n'
        "            ]"
    )
    shown = '{__name__="job:up:sum", job="a", team="core"}'
    assert (
        expr == f'    expr: "job:up:sum", time: 5m,\n        exp: {shown} 3E+00\n        got: {shown} 1E+00'
    )
    difference = run(tmp_path, wrong, shows_diff=True)["two targets"][1]
    assert f"-{shown} 3E+00" in difference
    assert f"+{shown} 1E+00" in difference


def test_rules_that_cannot_be_loaded_fail_every_group(tmp_path: Path) -> None:
    (failure,) = run(tmp_path, TESTS, RULES.replace("sum by (job) (up)", "sum by"))["two targets"]
    assert "rules.yml" in failure
    assert "parse error" in failure


def test_an_error_of_a_rule_ends_the_group(tmp_path: Path) -> None:
    expr = "up * on (job) group_left up"
    (failure,) = run(tmp_path, TESTS, RULES.replace("sum by (job) (up)", expr))["two targets"]
    assert failure.startswith("    rule: job:up:sum, time: 0s, err: found duplicate series")


def test_only_chosen_groups_run(tmp_path: Path) -> None:
    assert run(tmp_path, TESTS, only=["three"]) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tests: [{intervall: 1m}]", "test.yml:1: field intervall not found"),
        ("fuzzy_compare: perhaps", "expected true or false"),
        ("tests: [{start_timestamp: soon}]", "RFC 3339"),
        ("tests: [{start_timestamp: '2026-01-01'}]", "RFC 3339"),
        ("tests: [{start_timestamp: '2026-02-30T00:00:00Z'}]", "RFC 3339"),
        ("tests: [{promql_expr_test: [{exp_samples: [{value: many}]}]}]", "cannot unmarshal !!str `many`"),
        ("tests: [{promql_expr_test: [{exp_samples: [{value: '1'}]}]}]", "cannot unmarshal !!str `1`"),
        ("tests: [", "yaml"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "test.yml"
    path.write_text(text)
    with pytest.raises(UnitTestFileError, match=re.escape(message)):
        read_unit_tests(path)


def test_a_group_that_is_ordered_twice(tmp_path: Path) -> None:
    (failures,) = run(tmp_path, "group_eval_order: [a, b, a]").values()
    assert failures == ("group name repeated in evaluation order: a",)


def test_the_command_prints_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, TESTS)
    parser = ArgumentParser()
    rule_tests.configure(parser)
    assert rule_tests.run(parser.parse_args([str(tmp_path / "test.yml")])) == 0
    assert capsys.readouterr().out == f"Unit Testing:  {tmp_path / 'test.yml'}\n  SUCCESS\n\n"
    assert rule_tests.run(parser.parse_args([str(tmp_path / "none.yml")])) == 1
    assert "FAILED:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "expr",
    [
        "up",
        "up offset 1m",
        "up offset -1m",
        "up @ 120",
        "up @ end()",
        "topk(1, up)",
        "max_over_time(up[3m:1m])",
        "absent(up == 0)",
        "ALERTS",
        "{job='a'}",
        "later",
        "same + 1",
        "up + time() * 0",
    ],
)
def test_all_times_at_once_are_the_times_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expr: str
) -> None:
    rules = f"""
groups:
- name: g
  rules:
  - {{record: same, expr: sum(up)}}
  - alert: Any
    expr: {expr}
    for: 2m
    annotations: {{text: "{{{{ $value }}}} {{{{ $labels.instance }}}}"}}
  - {{record: later, expr: same > 1}}
"""
    checks = "".join(f"  - {{eval_time: {minute}m, alertname: Any}}\n" for minute in range(6))
    asked = "".join(
        f"  - {{expr: '{text}', eval_time: {minute}m, exp_samples: [{{labels: none}}]}}\n"
        for minute in range(6)
        for text in ("same", "later", "ALERTS", "ALERTS_FOR_STATE")
    )
    tests = TESTS.partition("  alert_rule_test")[0]
    tests += f"  alert_rule_test:\n{checks}  promql_expr_test:\n{asked}"
    at_once = run(tmp_path, tests, rules)
    monkeypatch.setattr("lakerunner_query.rules.unit_tests.can_ask_all", lambda *_: False)
    assert run(tmp_path, tests, rules) == at_once
    assert at_once["two targets"] != ()


def test_usual_rules_are_evaluated_at_all_times_at_once() -> None:
    rules: list[Rule] = [RecordingRule("r", "rate(x[5m])"), AlertRule("A", "r > 1 and on () y offset 1h")]
    assert can_ask_all(rules)
    assert not can_ask_all(rules[::-1])
    assert not can_ask_all([*rules, RecordingRule("r", "y")])


def test_templates_that_ask_see_their_time(tmp_path: Path) -> None:
    rules = RULES.replace("has {{ $value }}", "has {{ query `sum(up)` | first | value }}")
    assert run(tmp_path, TESTS, rules) == {"two targets": ()}


@pytest.mark.parametrize(("record", "first"), [("up", 300), ("two", -1)])
def test_series_that_are_made_twice_are_made_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: str, first: int
) -> None:
    """A rule writes a series of the input after it has ended, or one that another rule writes, too."""
    rules = f"""
groups:
- name: g
  rules:
  - {{record: two, expr: 'max by (job) (up == 0) * 0 + 8'}}
  - {{record: {record}, expr: vector(7) and vector(time()) > {first}, labels: {{job: a, instance: "1"}}}}
  - {{record: two, expr: 'vector(8)', labels: {{job: a}}}}
"""
    tests = (
        TESTS.partition("  alert_rule_test")[0]
        + "  promql_expr_test:\n"
        + "".join(
            f"  - {{expr: '{name}', eval_time: 9m, exp_samples: [{{labels: none}}]}}\n"
            for name in ("up", "two")
        )
    )
    found = run(tmp_path, tests, rules)
    monkeypatch.setattr("lakerunner_query.rules.unit_tests.can_ask_all", lambda *_: False)
    assert run(tmp_path, tests, rules) == found
    assert "7E+00" in "".join(found["two targets"])


def failures_of(folder: Path, rules: str, *asked: str, series: str = "") -> str:
    """Return the failures of rules over one target; expressions are asked at five minutes."""
    tests = "tests:\n- input_series:\n  - {series: 'up{job=\"a\"}', values: '0+1x9'}\n" + series
    tests += "  promql_expr_test:\n" + "".join(f"  - {{expr: '{one}', eval_time: 5m}}\n" for one in asked)
    files = "rule_files: [rules.yml]\ngroup_eval_order: [one, two]\n"
    (failures,) = run(folder, files + tests, rules).values()
    return "\n".join(failures)


def test_a_sample_that_another_rule_made_otherwise_is_an_error(tmp_path: Path) -> None:
    rules = "groups: [{name: one, rules: [{record: r, expr: sum(up)}, {record: r, expr: sum(up) %s}]}]"
    found = failures_of(tmp_path, rules % "+ 1", "r")
    assert "rule: r, time: 0s, err: duplicate sample for timestamp 0; overrides not allowed: " in found
    assert "existing 0, new value 1" in found
    assert '{__name__="r"} 5E+00' in failures_of(tmp_path, rules % "+ 0", "r")


def test_a_sample_before_the_last_one_is_an_error(tmp_path: Path) -> None:
    rules = (
        "groups: [{name: one, rules: [{record: r, expr: sum(up)}]}, "
        "{name: two, query_offset: 30s, rules: [{record: r, expr: sum(up)}]}]"
    )
    assert "rule: r, time: 1m0s, err: out of order sample" in failures_of(tmp_path, rules, "r")


def test_rules_see_no_samples_of_later_evaluations(tmp_path: Path) -> None:
    """Samples recorded for a time before the evaluation are there after it only."""
    rules = (
        "groups: [{name: one, query_offset: 1m, rules: [{record: early, expr: sum(up)}]}, "
        "{name: two, rules: [{record: seen, expr: early}]}]"
    )
    assert '{__name__="seen"} 4E+00' in failures_of(tmp_path, rules, "seen")


def test_the_last_of_two_inputs_with_the_same_labels_counts(tmp_path: Path) -> None:
    again = "  - {series: 'up{job=\"a\"}', values: '7x9'}\n"
    found = failures_of(tmp_path, "groups: []", "sum(up)", series=again)
    assert "{} 7E+00" in found


def test_a_label_that_expands_to_nothing_keeps_its_text_in_the_series_of_the_alert(tmp_path: Path) -> None:
    rules = "groups: [{name: one, rules: [{alert: A, expr: sum(up), labels: {of: '{{ $labels.job }}'}}]}]"
    found = failures_of(tmp_path, rules, "ALERTS")
    assert 'alertstate="firing", of="{{ $labels.job }}"} 1E+00' in found


def test_quantiles_have_the_digits_of_promtool(tmp_path: Path) -> None:
    """NumPy's logarithm would give 2.265767770591597."""
    first = "{{schema:1 sum:11 count:8 z_bucket:1 z_bucket_w:0.001 buckets:[4 1 0 1] n_buckets:[1]}}"
    more = "{{schema:1 sum:5 count:6 z_bucket:1 z_bucket_w:0.001 buckets:[2 1 0 1] n_buckets:[1]}}"
    series = f"  - {{series: size, values: '{first}+{more}x4'}}\n"
    found = failures_of(tmp_path, "groups: []", "histogram_quantile(0.9, size)", series=series)
    assert "{} 2.2657677705915975E+00" in found


def test_a_duration_that_has_no_value_is_an_error_of_its_rule(tmp_path: Path) -> None:
    rules = "groups: [{name: one, rules: [{record: r, expr: 'sum_over_time(up[range()])'}]}]"
    found = failures_of(tmp_path, rules, "r")
    assert "rule: r, time: 0s, err: 17:24: duration must be greater than 0" in found


def test_a_histogram_with_negative_counts_is_not_recorded(tmp_path: Path) -> None:
    rules = "groups: [{name: one, rules: [{record: r, expr: size - 2 * size}]}]"
    series = "  - {series: size, values: '{{schema:1 sum:1 count:3 buckets:[3]}}x9'}\n"
    found = failures_of(tmp_path, rules, "r", series=series)
    assert "rule: r, time: 0s, err: observation count is -3" in found
