"""The map of the Explore page in a real browser: drawn from spans, with numbers and ways on."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.support.browser import Page, browser_path, open_page
from tests.support.cooking_lake import HOUR, lake_in
from tests.support.materialized.lake import cook, derive
from tests.support.materialized.spans import plain_edges, traces
from tests.support.query.lake import start_workers
from tests.support.query.real_prometheus import served

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(browser_path() is None, reason="there is no browser on PATH"),
]
CALLS = traces(random.Random(5), 200, HOUR)
RANGE = {"view": "map", "range": "custom", "from": "2026-01-01T00:00", "to": "2026-01-01T01:00"}
DRAWN = "document.querySelectorAll('#map-plot .node').length"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mapped")
    lake = lake_in(folder)
    lake.index.create_api_key("acme", "read", "k", hashlib.sha256(b"key-acme").digest(), None)
    cook(lake, "spans", CALLS)
    derive(lake)
    for stack in start_workers(tmp_path_factory.mktemp("data"), folder / "lake", 1):
        with served(lake, stack) as peer:
            yield peer.address.removesuffix("prometheus")


@pytest.fixture(scope="module")
def tab(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("browser")) as page:
        page.open(address)
        page.run("sessionStorage.setItem('lakerunner-key', 'key-acme')")
        yield page


@pytest.fixture
def page(tab: Page, address: str) -> Iterator[Page]:
    """The tab with the map; whatever the test did, no script failed."""
    tab.errors.clear()
    tab.open(address + "#" + urlencode(RANGE))
    tab.wait(DRAWN)
    yield tab
    assert tab.errors == []


def boxes(page: Page) -> dict[str, list[float]]:
    box = "['x', 'y'].map((name) => Number(one.querySelector('.body').getAttribute(name)))"
    made = (
        "Object.fromEntries([...document.querySelectorAll('#map-plot .node')]"
        f".map((one) => [one.querySelector('.name').textContent, {box}]))"
    )
    found: dict[str, list[float]] = page.run(made)
    return found


def test_every_service_and_connection_is_drawn(page: Page) -> None:
    requests, _, unpaired = plain_edges(CALLS, HOUR)
    assert boxes(page).keys() == {end for client, server, _ in requests for end in (client, server)}
    assert page.run("document.querySelectorAll('#map-plot .edge').length") == len(requests)
    assert f"{len(requests)} connections" in page.text("#status")
    assert f"{unpaired.total()} spans without their other end" in page.text("#status")
    assert len(page.texts("#map-edges tbody tr")) == len(requests)
    page.picture("map")
    page.colours("dark")
    page.picture("map-dark")
    page.colours("light")


def test_it_stands_the_same_way_each_time_and_callers_stand_left(page: Page, address: str) -> None:
    first = boxes(page)
    assert first["user"][0] < first["gate"][0]
    assert len({tuple(place) for place in first.values()}) == len(first)
    page.open(address + "#" + urlencode(RANGE))
    page.wait(DRAWN)
    assert boxes(page) == first


def test_a_node_tells_its_numbers_and_leads_to_traces_and_metrics(page: Page) -> None:
    cart = (
        "[...document.querySelectorAll('#map-plot .node')].find((one) => one.textContent.startsWith('cart'))"
    )
    page.run(f"{cart}.dispatchEvent(new PointerEvent('pointermove', {{ clientX: 300, clientY: 300 }}))")
    assert "requests" in page.text("#map-tip")
    assert "p95" in page.text("#map-tip")
    page.run(f"{cart}.dispatchEvent(new MouseEvent('click'))")
    page.wait("!document.querySelector('#map-detail').hidden")
    page.picture("map-detail")
    links = page.run("[...document.querySelectorAll('#map-detail a')].map((one) => one.href)")
    asked = [parse_qs(urlsplit(link).fragment) for link in links]
    assert asked[0]["q"] == ['{resource.service.name="cart"}']
    assert asked[0]["view"] == ["traces"]
    assert all(one["from"] == ["2026-01-01T00:00"] for one in asked)
    page.run("document.querySelectorAll('#map-detail a')[1].click()")
    page.wait("document.body.dataset.view === 'metrics'")
    page.wait("/series/.test(document.querySelector('#status').innerText)")
    assert "traces_spanmetrics_calls_total" in page.run("document.querySelector('#query').value")


def test_an_edge_is_chosen_with_the_keyboard(page: Page) -> None:
    page.run("document.querySelector('#map-plot .edge').focus()")
    assert not page.run("document.querySelector('#map-tip').hidden")
    page.press("Enter")
    page.wait("!document.querySelector('#map-detail').hidden")
    assert "→" in page.text("#map-detail h2")


def test_an_empty_range_says_so(page: Page, address: str) -> None:
    page.open(address + "#" + urlencode({**RANGE, "from": "2025-01-01T00:00", "to": "2025-01-01T01:00"}))
    page.wait("/No spans in this range/.test(document.querySelector('#empty').innerText)")
    assert page.run("document.querySelector('#map').hidden")
