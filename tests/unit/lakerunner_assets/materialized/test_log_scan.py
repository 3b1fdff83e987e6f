"""Rules that share a scan say what each says alone, whatever stages they have in common."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lakerunner_assets.materialized.run import DeriveReport
from lakerunner_query.rules.documents import DerivedMetric
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.materialized.rules import declare, derive_rules, derived, raw_logs
from tests.support.otlp_logs import otlp_logs

PIPELINES = (
    "",
    '|= "code=5"',
    '|= "code=5" | logfmt',
    '|= "code=5" | logfmt | code = "503"',
    '|= "code=5" != "fast" | logfmt | code >= 500',
    "| logfmt",
    '| logfmt | path =~ "/a.*"',
    "| logfmt | keep path",
    "| logfmt | drop code",
    "| logfmt | label_format path=code",
    '| line_format "{{.service_name}} {{__line__}}" |= "shop code"',
    '| line_format "x" |= "code"',
    '| regexp "path=(?P<path>\\\\S+)" | path != ""',
    '| pattern "<_>path=<path> <_>"',
    '|~ "code=(404|500)" | logfmt | path != ""',
    '| detected_level = "info" | logfmt | path = "/b"',
)
SELECTORS = ('{service_name="shop"}', '{service_name=~".+"}', '{service_name=~".+", service_name!="shop"}')


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def fill(lake: Lake, seed: int) -> None:
    choose = random.Random(seed)
    for number, service in enumerate(("shop", "cart", "shop", "pay")):
        lines = [
            (
                HOUR + choose.randrange(1, HOUR_NS + 1),
                f"code={choose.choice((200, 404, 500, 503))} path={choose.choice(('/a', '/ab', '/b'))} "
                f"{choose.choice(('fast', 'slow', 'ünï'))}",
            )
            for _ in range(80)
        ]
        lake.arrive(str(number), otlp_logs(lines, service, choose.choice(("INFO", "ERROR"))))
        lake.cook()


@pytest.mark.parametrize("keep", [("service_name",), ("path", "code"), ()])
def test_all_pipelines_at_once_say_what_each_query_says(lake: Lake, keep: tuple[str, ...]) -> None:
    fill(lake, len(keep))
    rules = {
        f"rule_{number}": f"{SELECTORS[number % 3]} {pipeline}" for number, pipeline in enumerate(PIPELINES)
    }
    declare(lake, *(DerivedMetric(name, Signal.LOGS, text, keep) for name, text in rules.items()))
    report = DeriveReport()
    derive_rules(lake, Signal.LOGS, report=report)
    assert not report.ineligible
    for name, text in rules.items():
        expected = raw_logs(lake, f"sum by ({', '.join(keep)}) (count_over_time({text} [10s]))")
        assert derived(lake, name) == expected, text
    assert sum(bool(derived(lake, name)) for name in rules) > 10


def test_lines_of_the_neighbouring_hour_do_not_count(lake: Lake) -> None:
    declare(lake, *(DerivedMetric(f"m{n}", Signal.LOGS, f"{SELECTORS[n]} |= `x`") for n in range(3)))
    lines = [(HOUR, "x"), (HOUR + 1, "x"), (HOUR + HOUR_NS, "x"), (HOUR + HOUR_NS + 1, "x")]
    lake.arrive("o", otlp_logs(lines, "shop"))
    lake.cook()
    derive_rules(lake, Signal.LOGS)
    ends = [(HOUR + 10 * SECOND) // 10**6, (HOUR + HOUR_NS) // 10**6]
    assert derived(lake, "m0") == {((), end): 1.0 for end in ends}
