"""The Alerts view of the Explore page in a real browser: rules, states over time, the query behind them."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from lakerunner_query.rules.documents import AlertRule, RecordingRule, RuleGroup, RuleLanguage
from resources.index.ruling_types import AlertCorrection, RecordedOutcome, Verdict
from resources.settings import Settings
from tests.support.browser import Page, browser_path, open_page
from tests.support.query.lake import BASE, Lake, start_workers
from tests.support.query.real_prometheus import served
from tests.support.query.ruled_lake import RuledLake

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(browser_path() is None, reason="there is no browser on PATH"),
]
BASE_MS, MINUTE = BASE // 1_000_000, 60_000
RANGE = {"view": "alerts", "range": "custom", "from": "2026-01-01T00:00", "to": "2026-01-01T01:00"}
SHOWN = "document.querySelectorAll('#alert-rules > li').length"
WAVE, FIRES = "vector(time()) % 1800 < 600", "label_replace(load > 1, 'job', '<b>cart</b>', '', '')"
GROUPS = (
    RuleGroup(
        "shop",
        (
            RecordingRule("load", "vector(2)"),
            AlertRule("Wave", WAVE, 120_000, annotations={"summary": "{{ $value }} s into it"}),
            AlertRule("Fires", FIRES, labels={"severity": "page"}),
            AlertRule("Quiet", "vector(0) > 1"),
            AlertRule("Wrong", "sum(load) + on (", 0),
        ),
        interval_ms=MINUTE,
    ),
    RuleGroup(
        "ratios", (RecordingRule("job:load", "load"), RecordingRule("job:bad", "load")), interval_ms=MINUTE
    ),
    RuleGroup("lines", (AlertRule("Lines", 'count_over_time({a="b"}[1m]) > 0'),), RuleLanguage.LOGQL, MINUTE),
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("alerting")
    lake = Lake(folder / "lake")
    lake.folder.mkdir()
    lake.add_org("acme", "key-acme")
    ruled = RuledLake(lake, folder / "scratch", Settings(data_dir=folder, ruler_webhooks="http://hook/"))
    ruled.apply("acme", "shop.yaml", *GROUPS)
    ruled.look()
    ruled.answers = lambda _: 503
    for minute in range(40):
        ruled.evaluate(BASE_MS + minute * MINUTE)
    keep_corrections(ruled)
    ruled.close()
    for stack in start_workers(tmp_path_factory.mktemp("data"), lake.folder, 1):
        with served(lake, stack) as peer:
            yield peer.address.removesuffix("prometheus")


def keep_corrections(ruled: RuledLake) -> None:
    """Let an alert have missed five minutes and fired for three too many, and a rule have failed."""
    own, index = ruled.own("shop"), ruled.lake.index
    minutes = {Verdict.WOULD_HAVE_FIRED: (15, 19), Verdict.WOULD_NOT_HAVE_FIRED: (7, 9)}
    found = [
        AlertCorrection(
            own.stored.rule_id, "Wave", {"alertname": "Wave"}, verdict, BASE_MS + first * MINUTE,
            BASE_MS + last * MINUTE, "7" if first == 15 else "", BASE_MS + 30 * MINUTE,
        )
        for verdict, (first, last) in minutes.items()
    ]  # fmt: skip
    assert index.write_check(own.record, None, found)
    outcomes = [
        RecordedOutcome("ratios", "job:load", 0),
        RecordedOutcome("ratios", "job:bad", 0, "no vector"),
    ]
    index.note_recorded_rules("acme", outcomes)


@pytest.fixture(scope="module")
def tab(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("browser")) as page:
        page.open(address)
        page.run("sessionStorage.setItem('lakerunner-key', 'key-acme')")
        yield page


@pytest.fixture
def page(tab: Page, address: str) -> Iterator[Page]:
    """The tab with the alerts; whatever the test did, no script failed."""
    tab.errors.clear()
    tab.open(address + "#" + urlencode(RANGE))
    tab.wait(SHOWN)
    yield tab
    assert tab.errors == []


def card(name: str, rest: str) -> str:
    is_named = f"(one) => one.querySelector('b').textContent === '{name}'"
    return f"[...document.querySelectorAll('#alert-rules > li')].find({is_named}).{rest}"


def test_rules_are_listed_with_what_fires_first(page: Page) -> None:
    names = page.run("[...document.querySelectorAll('#alert-rules b')].map((one) => one.textContent)")
    assert sorted(names[:5]) == ["Fires", "Lines", "Quiet", "Wave", "Wrong"]
    assert names[5:] == ["job:load, job:bad"]
    assert set(names[:2]) == {"Fires", "Wave"}
    assert "2 firing" in page.text("#status")
    assert "5 rules" in page.text("#status")
    assert "wait for the webhook" in page.text("#notice")
    page.picture("alerts")
    page.colours("dark")
    page.picture("alerts-dark")
    page.colours("light")
    page.size(390, 844)
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    page.picture("alerts-narrow")
    page.size(1440, 900)


def test_states_over_time_are_drawn(page: Page) -> None:
    bars = page.run(card("Wave", "querySelectorAll('.band i').length"))
    assert bars == 4 + 2, "pending and firing, twice, and the corrections"
    titles = page.run(f"[...{card('Wave', 'querySelectorAll')}('.band i')].map((one) => one.title)")
    assert titles[0] == "pending from 2026-01-01 00:00 to 2026-01-01 00:02"
    assert titles[1] == "firing from 2026-01-01 00:02 to 2026-01-01 00:10"
    left = page.run(card("Wave", "querySelectorAll('.band i')[1].style.left"))
    assert float(left.removesuffix("%")) == pytest.approx(100 * 2 / 60, abs=0.01)
    assert page.run(card("Quiet", "querySelectorAll('.band').length")) == 0


def test_what_an_alert_missed_is_drawn_and_told(page: Page) -> None:
    missed = page.run(card("Wave", "querySelector('.band .would_have_fired').title"))
    assert missed == "would have fired from 2026-01-01 00:15 to 2026-01-01 00:20"
    assert page.run(card("Wave", "querySelectorAll('.band .would_not_have_fired').length")) == 1
    told = page.run(card("Wave", "querySelector('.times').innerText"))
    assert "would have fired 2026-01-01 00:15 to 2026-01-01 00:19, value 7: records came late" in told
    assert "2 corrections" in page.text("#status")


def test_a_group_that_only_records_says_whether_it_is_current(page: Page) -> None:
    name = "job:load, job:bad"
    assert page.run(card(name, "querySelector('.state').textContent")) == "failing"
    assert "recorded " in page.run(card(name, "querySelector('.facts').textContent"))
    assert page.run(card(name, "querySelector('.failed').textContent")) == "job:bad: no vector"


def test_a_rule_tells_what_answers_its_query(page: Page) -> None:
    for name, said in (("Quiet", "from records"), ("Lines", "from records"), ("Wrong", "parse error")):
        page.run(card(name, "querySelector('details').setAttribute('open', '')"))
        page.wait(f"{card(name, 'querySelector(`details p`).textContent')} !== '…'")
        assert said in page.run(card(name, "querySelector('details p').textContent")), name
    page.picture("alerts-explained")
    assert page.errors.pop().startswith("Failed to load resource: the server responded with a status of 400")


def test_labels_are_text_and_errors_are_told(page: Page) -> None:
    assert "job=<b>cart</b>" in page.run(card("Fires", "querySelector('.who').textContent"))
    assert page.run(card("Fires", "querySelector('.who').children.length")) == 0
    assert "parse error" in page.run(card("Wrong", "querySelector('.failed').textContent"))


def test_the_query_behind_a_rule_is_a_click_away(page: Page) -> None:
    link = page.run(card("Lines", "querySelector('a').href"))
    asked = parse_qs(urlsplit(link).fragment)
    assert (asked["view"], asked["range"]) == (["logs"], ["custom"])
    assert asked["q"] == ['count_over_time({a="b"}[1m]) > 0']
    page.run(card("Quiet", "querySelector('a').click()"))
    page.wait("document.body.dataset.view === 'metrics'")
    assert page.run("document.querySelector('#query').value") == "vector(0) > 1"


def test_without_rules_it_says_how_to_apply_some(page: Page, address: str) -> None:
    nothing = "{ data: { groups: [] }, changes: [], waiting: [] }"
    page.run(f"void (window.fetch = async () => new Response(JSON.stringify({nothing})))")
    page.run("document.querySelector('#form').requestSubmit()")
    page.wait("/No rules yet/.test(document.querySelector('#empty').innerText)")
    page.open(address)
