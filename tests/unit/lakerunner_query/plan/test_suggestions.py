"""Suggested rules would have served the queries that they are suggested for, and read back as YAML."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.errors import QueryError
from lakerunner_query.plan.drafts import DIALECTS
from lakerunner_query.plan.rewrite import ActiveRule
from lakerunner_query.plan.suggestions import BYTES_PER_SAMPLE, Suggestions, suggest
from lakerunner_query.rules.documents import LINE_BYTES, DerivedMetric, RuleLanguage
from lakerunner_query.rules.printing import files_yaml
from lakerunner_query.rules.rule_files import FileForm, read_file
from resources.index.query_log import AskedQuery
from resources.lake.layout import Signal
from tests.support.query.rewriting import random_logs, samples, spans

GENERATORS = {RuleLanguage.LOGQL: random_logs, RuleLanguage.PROMQL: samples, RuleLanguage.TRACEQL: spans}


def asked(
    query: str, language: str = "logql", *, is_aligned: bool = True, times: int = 100, seconds: float = 30.0,
    read_bytes: float = 4e9, series: int = 1, served: int = 0,
) -> AskedQuery:  # fmt: skip
    return AskedQuery(
        "acme",
        0,
        language,
        query,
        is_aligned,
        times,
        served,
        seconds,
        read_bytes,
        100,
        3600.0 * times,
        series,
    )


def rules(metrics: Iterable[DerivedMetric]) -> list[ActiveRule]:
    return [ActiveRule(number, 1, metric) for number, metric in enumerate(metrics)]


def metrics_of(found: Suggestions) -> list[DerivedMetric]:
    return [one.metric for one in found.proposals]


def shown(found: Suggestions) -> list[tuple[str, str, tuple[str, ...], str]]:
    return [(one.metric, one.select, one.keep, one.value) for one in metrics_of(found)]


def reasons(found: Suggestions) -> dict[str, str]:
    return {one.query: one.reason for one in found.unserved}


def test_nothing_asked_gives_nothing() -> None:
    assert suggest([]) == Suggestions((), ())


def test_leaves_that_narrow_otherwise_share_a_rule_that_keeps_the_label() -> None:
    found = suggest(
        [
            asked('sum(rate({app="web"} |= "error"[5m]))', seconds=1.0),
            asked('sum by (level)(count_over_time({app="shop"} |= "error"[1h]))', series=4),
        ]
    )
    assert shown(found) == [("shop_web_error", '{app=~"shop|web"} |= "error"', ("app", "level"), "")]
    (one,) = found.proposals
    assert (one.asked, one.seconds, one.read_bytes, one.series) == (200, 31.0, 8e9, 8)
    assert one.queries[0].startswith("sum by (level)")
    would_read = 2 * 8 * 360.0 * 100 * BYTES_PER_SAMPLE
    assert one.saved_bytes == pytest.approx(8e9 - would_read)
    assert one.saved_seconds == pytest.approx(31.0 * (1 - would_read / 8e9))
    assert found.unserved == ()


def test_a_label_with_many_values_is_only_demanded() -> None:
    found = suggest([asked(f'sum(rate({{app="a{number}"}}[5m]))') for number in range(6)])
    assert shown(found) == [("logs_app", '{app=~".+"}', ("app",), "")]
    assert found.proposals[0].series == 6


@pytest.mark.parametrize("value", ['a.b|c"d\\', "ä (x)", "{a}[b]^$"])
def test_values_mean_themselves(value: str) -> None:
    spelled = value.replace("\\", "\\\\").replace('"', '\\"')
    texts = [f'sum(rate({{app="{one}"}}[5m]))' for one in (spelled, "web")]
    found = suggest([asked(text) for text in texts])
    assert len(found.proposals) == 1
    assert found.unserved == ()


def test_what_no_common_rule_can_serve_gets_rules_of_its_own() -> None:
    found = suggest(
        [asked('sum(rate({app="web"}[5m]))'), asked('sum(rate({app="web", env!="test"}[5m]))', seconds=9.0)]
    )
    assert [one[1:3] for one in shown(found)] == [
        ('{app="web"}', ("env",)),
        ('{app="web", env!="test"}', ()),
    ]
    assert found.unserved == ()


def test_every_leaf_of_a_query_gets_a_rule_and_they_share_the_saving() -> None:
    text = 'sum(rate({app="web"} |= "error"[5m])) / sum(rate({app="web"}[5m]))'
    found = suggest([asked(text)])
    assert {one.select for one in metrics_of(found)} == {'{app="web"} |= "error"', '{app="web"}'}
    assert [one.seconds for one in found.proposals] == [15.0, 15.0]


def test_counts_bytes_and_numbers() -> None:
    found = suggest(
        [
            asked('sum by (app)(bytes_over_time({app=~".+"}[5m]))'),
            asked('sum(count_over_time({app=~".+"}[5m]))'),
            asked('sum by (app)(sum_over_time({app=~".+"} | logfmt | unwrap duration(took)[5m]))'),
            asked('max_over_time({app=~".+"} | logfmt | unwrap duration(took)[5m]) by (region)'),
        ]
    )
    assert {(one[1], one[2], one[3]) for one in shown(found)} == {
        ('{app=~".+"}', ("app",), LINE_BYTES),
        ('{app=~".+"} | logfmt', ("app", "region"), "duration(took)"),
    }


def test_conditions_behind_the_pipeline_are_kept_labels() -> None:
    texts = [f'sum(rate({{app="web"}} | logfmt | region="{one}" | a="1"[5m]))' for one in ("eu", "us")]
    found = suggest([asked(text) for text in texts])
    assert [one[1:3] for one in shown(found)] == [('{app="web"} | logfmt | a="1"', ("region",))]


def test_samples_and_spans() -> None:
    found = suggest(
        [
            asked('sum by (job)(sum_over_time(load{job="node"}[5m]))', "promql", seconds=4.0),
            asked('sum(count_over_time(load{job="db"}[5m]))', "promql", seconds=4.0),
            asked('{ status = error && resource.service.name = "web" } | rate() by (name)', "traceql"),
            asked('{ status = error && resource.service.name = "shop" } | rate()', "traceql"),
        ]
    )
    assert shown(found) == [
        ("status_error", "{ status = error }", ("name", "resource.service.name"), ""),
        ("load_job_db_node", '{__name__="load",job=~"db|node"}', ("job",), "sample"),
    ]


UNSERVED = {
    'sum(rate({app="web"}[15s]))': "window: the range is no multiple of 10 s",
    'topk(5, sum by (app)(sum_over_time({app="web"} | json | unwrap took [1m])))': (
        "expression: topk compares sums of numbers, whose last digits may differ"
    ),
    'rate({app="web"}[1m])': "grouping: all labels are shown: only groups by named labels can be answered",
}


def test_queries_that_no_rule_can_serve_are_listed_with_the_reason() -> None:
    found = suggest([asked(text, seconds=float(n)) for n, text in enumerate(UNSERVED)])
    assert found.proposals == ()
    assert [one.query for one in found.unserved] == [*UNSERVED][::-1]
    for text, reason in UNSERVED.items():
        assert reason in reasons(found)[text]


def test_steps_that_are_not_aligned_are_no_reason_for_a_rule() -> None:
    text = 'sum(rate({app="web"}[5m]))'
    found = suggest([asked(text, is_aligned=False)])
    assert reasons(found) == {text: "window: the first step is no multiple of 10 s"}


def test_rules_that_are_there_are_not_suggested_again() -> None:
    text = 'sum(rate({app="web"}[5m]))'
    first = suggest([asked(text)])
    again = suggest([asked(text)], rules(metrics_of(first)))
    assert again == Suggestions((), (), 1)
    assert suggest([asked(text, times=3, served=3)]) == Suggestions((), ())


def test_names_are_not_given_twice() -> None:
    found = suggest([asked('sum(rate({app="web"} |= "error"[5m]))')], taken={"web_error", "web_error_2"})
    assert [one.metric for one in metrics_of(found)] == ["web_error_3"]


def test_metrics_of_rules_are_read_by_no_rule() -> None:
    rule = DerivedMetric("errors", Signal.LOGS, '{app="web"}', ())
    text = "sum(sum_over_time(errors[5m]))"
    found = suggest([asked(text, "promql")], rules([rule]))
    assert reasons(found) == {text: "made: it reads samples that rules made"}


def test_a_rule_that_is_not_worth_it_is_not_suggested() -> None:
    text = 'sum by (pod)(rate({app="web"}[5m]))'
    found = suggest([asked(text, series=20_000)])
    assert reasons(found) == {text: "limits: a rule would have about 20000 series, more than 10000"}
    small = suggest([asked(text, read_bytes=10.0)])
    assert "cost" in reasons(small)[text]


def test_queries_that_cannot_be_read_are_left_alone() -> None:
    assert suggest([asked("sum(", "promql"), asked("x", "sql"), asked("{}", "traceql")]) == Suggestions(
        (), ()
    )


@given(st.integers(0, 2**32), st.sampled_from(list(GENERATORS)))
def test_random_queries_get_rules_that_serve_them(seed: int, language: RuleLanguage) -> None:
    rng = random.Random(seed)
    generator = GENERATORS[language]
    made = [generator.rule(rng, number) for number in range(3)]
    log = [asked(generator.question(rng, made).text, language.value, series=2) for _ in range(8)]
    found = suggest(log)
    metrics = metrics_of(found)
    faults = read_file(files_yaml([], metrics).encode(), FileForm()).faults
    assert not faults, [(str(fault), files_yaml([], metrics)) for fault in faults]
    unserved = reasons(found)
    assert all(unserved.values())
    for one in log:
        try:
            readable = DIALECTS[language].read(one.query, 0)
        except QueryError:
            continue
        rewriting = readable.rewrite(rules(metrics)) if metrics else None
        is_served = rewriting is not None and rewriting.is_whole
        assert is_served or one.query in unserved or not readable.leaves, one.query


@pytest.mark.parametrize("language", list(GENERATORS))
def test_many_random_queries_are_served(language: RuleLanguage) -> None:
    served = total = 0
    for seed in range(30):
        rng = random.Random(seed)
        generator = GENERATORS[language]
        made = [generator.rule(rng, number) for number in range(3)]
        log = {generator.question(rng, made).text for _ in range(8)}
        found = suggest([asked(text, language.value) for text in log])
        served, total = served + len(log) - len(found.unserved), total + len(log)
        assert len(found.proposals) <= 2 * len(log)
    assert served > total / 5, (served, total)
