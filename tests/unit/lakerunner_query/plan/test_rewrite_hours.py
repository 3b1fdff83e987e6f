"""An hour stands for its records only on conditions, and every one of them is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakerunner_assets.materialized.rule_cells import RuleCells
from lakerunner_assets.materialized.rules import rules_origin
from lakerunner_query.plan.rewrite import derived_origin
from lakerunner_query.rules.documents import DerivedMetric
from resources.lake.layout import Signal
from resources.lake.timecut import SECOND_NS
from tests.support.query.lake import BASE, Line
from tests.support.query.metric_lake import labels, write_samples
from tests.support.query.rewriting.lake import ORG, UNPRICED, RuleLake

TIMES = (BASE + 60 * SECOND_NS, BASE + 600 * SECOND_NS, 60 * SECOND_NS)


@dataclass(frozen=True)
class Example:
    """Lines and a question that derived metrics would answer wrongly."""

    texts: Sequence[str]
    query: str
    value: str = ""
    keep: tuple[str, ...] = ("region",)


EXAMPLES: Mapping[str, Example] = {
    "a line that no parser understands": Example(
        ['{"region":"eu"}', "{broken"], 'sum by (region) (count_over_time({service_name="web"} | json [1m]))'
    ),
    "a value that is no number": Example(
        ['{"took":"1"}', '{"took":"slow"}'],
        'sum(sum_over_time({service_name="web"} | json | unwrap took [1m]))',
        "took",
    ),
    "a label that is there but empty": Example(
        ['{"region":"eu"}', '{"region":""}', "{}"],
        'sum by (region) (count_over_time({service_name="web"} | json [1m]))',
    ),
    "a value that is not finite": Example(
        ['{"took":"NaN"}', '{"took":"1"}'],
        'max_over_time({service_name="web"} | json | unwrap took [1m]) by (region)',
        "took",
    ),
    "more series than a rule may have": Example(
        [f'{{"region":"{number}"}}' for number in range(40)],
        'sum by (region) (count_over_time({service_name="web"} | json [1m]))',
    ),
}
MOST = 30


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RuleLake]:
    monkeypatch.setattr(RuleLake, "most_series", MOST)
    made = RuleLake(tmp_path)
    yield made
    made.close()


def fill(lake: RuleLake, example: Example) -> None:
    count = len(example.texts)
    lake.lake.write(ORG, [Line(n * SECOND_NS, example.texts[n % count]) for n in range(1, 600)])
    select = '{service_name="web"} | json'
    lake.put(DerivedMetric("derived", Signal.LOGS, select, example.keep, example.value))
    lake.derive_as_product()


@pytest.mark.parametrize("name", EXAMPLES)
def test_such_an_hour_is_answered_from_records(lake: RuleLake, name: str) -> None:
    example = EXAMPLES[name]
    fill(lake, example)
    found = lake.ask(example.query, *TIMES, guards=UNPRICED)
    assert "derived, coverage: " in found.lines[0]
    assert not found.differs(lake.ask(example.query, *TIMES, rewrite=False))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_condition_of_an_hour_is_needed(
    lake: RuleLake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RuleCells, "refusal", "")
    example = EXAMPLES[name]
    fill(lake, example)
    found = lake.ask(example.query, *TIMES, guards=UNPRICED)
    assert found.served
    assert found.differs(lake.ask(example.query, *TIMES, rewrite=False))


def test_samples_that_were_sent_under_the_name_of_a_derived_metric_do_not_count(lake: RuleLake) -> None:
    lake.lake.write(ORG, [Line(n * SECOND_NS, "x") for n in range(1, 600)])
    lake.put(DerivedMetric("derived", Signal.LOGS, '{service_name="web"}'))
    lake.derive_as_product()
    write_samples(lake.lake, ORG, {labels("derived"): [(at * 10_000, 1000.0) for at in range(1, 60)]})
    asked = 'sum(count_over_time({service_name="web"}[1m]))'
    found = lake.ask(asked, *TIMES, guards=UNPRICED)
    assert found.served
    assert not found.differs(lake.ask(asked, *TIMES, rewrite=False))


@pytest.mark.parametrize("signal", list(Signal))
def test_origins_are_those_of_the_pipeline(signal: Signal) -> None:
    assert rules_origin(signal).startswith(derived_origin(signal))
