"""The traces view of the Explore page in a real browser, over a small lake and a worker."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.support.browser import Page, browser_path, open_page
from tests.support.query.traced_shop import BROWSE, CHECKOUT, served_shop

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(browser_path() is None, reason="there is no browser on PATH"),
]
HOUR = {"range": "custom", "from": "2026-01-01T00:00", "to": "2026-01-01T00:05"}
DONE = "/complete in/.test(document.querySelector('#status').innerText)"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served_shop(tmp_path_factory.mktemp("shop")) as found:
        yield f"{found}/"


@pytest.fixture(scope="module")
def tab(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("browser")) as page:
        page.open(address)
        page.run("sessionStorage.setItem('lakerunner-key', 'key-acme')")
        yield page


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """The tab; whatever the test did, no script failed."""
    tab.errors.clear()
    yield tab
    assert [one for one in tab.errors if "400 (Bad Request)" not in one and "404 (Not" not in one] == []


def go(page: Page, address: str, **fields: str) -> None:
    page.open(address + "#" + urlencode({"view": "traces", **HOUR, **fields}))


def ask(page: Page, address: str, **fields: str) -> None:
    go(page, address, **fields)
    page.wait(DONE)


def fragment(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(str(page.run("location.href"))).fragment)


def test_traces_are_found_and_drawn(page: Page, address: str) -> None:
    ask(page, address, q="{}")
    page.picture("traces-found")
    assert page.texts("#found tbody a") == ["web GET /", "web POST /checkout"]
    assert page.texts("#found tbody td:nth-child(3)") == ["50 ms", "1 s"]
    assert page.run("document.querySelectorAll('#dots-plot circle').length") == 2
    assert page.run("document.querySelectorAll('#dots-plot circle.failed').length") == 1
    assert page.text("#status").startswith("2 traces · complete in ")
    page.run("document.querySelector('#found-order').value = 'slowest'")
    page.run("document.querySelector('#found-order').dispatchEvent(new Event('change'))")
    assert page.texts("#found tbody a") == ["web POST /checkout", "web GET /"]


def test_a_query_is_written_with_suggestions(page: Page, address: str) -> None:
    go(page, address)
    page.wait("document.querySelectorAll('#empty button').length > 3")
    page.picture("traces-empty")
    page.click("#query")
    page.type("{ resource.serv")
    page.wait("document.querySelector('#suggestions li')?.innerText.startsWith('resource.service.name')")
    page.press("ArrowDown")
    page.press("Enter")
    page.type(' = "d')
    page.wait("document.querySelector('#suggestions li')?.innerText.startsWith('db')")
    page.press("ArrowDown")
    page.press("Enter")
    page.type(" }")
    page.press("Escape")
    page.press("Enter")
    page.wait(DONE)
    assert page.run("document.querySelector('#query').value") == '{ resource.service.name = "db" }'
    assert page.texts("#found tbody a") == ["web POST /checkout"]


def test_a_mistake_is_shown_where_it_is(page: Page, address: str) -> None:
    go(page, address, q="{ status > error }")
    page.wait("!document.querySelector('#notice').hidden")
    assert page.text("#notice .caret") == "^"


def test_a_trace_opens_as_a_waterfall_and_back(page: Page, address: str) -> None:
    ask(page, address, q="{ status = error }")
    page.click("#found tbody a")
    page.wait("document.querySelectorAll('#spans > li').length === 6")
    page.picture("trace-waterfall")
    assert fragment(page)["trace"] == [CHECKOUT]
    assert page.text("#trace-head h2") == "web POST /checkout"
    assert page.texts("#spans .who > span:last-child") == [
        "POST /checkout", "render", "charge", "send", "INSERT", "write",
    ]  # fmt: skip
    said = page.texts("#findings li")
    assert any("mail below payments" in one for one in said)
    assert page.texts("#where li")[0].startswith("db600 ms 60 %")
    left, width = page.run(
        "(([a, b]) => [(b.left - a.left) / a.width, b.width / a.width])(['.time', '.time .whole']"
        ".map((one) => document.querySelector(`#spans > li:nth-child(5) ${one}`).getBoundingClientRect()))"
    )
    assert (round(left, 2), round(width, 2)) == (0.15, 0.6)
    page.click("#trace-head .back")
    page.wait("!document.querySelector('#trace').checkVisibility()")
    page.wait("document.querySelectorAll('#found tbody tr').length === 1")


def test_a_span_opens_with_its_lines_and_exemplars(page: Page, address: str) -> None:
    go(page, address, trace=CHECKOUT)
    page.wait("document.querySelectorAll('#spans > li').length === 6")
    page.click("#spans > li:nth-child(5) .row")
    page.wait("document.querySelector('#spans .detail') !== null")
    told = page.text("#spans .detail")
    assert "acme: duplicate key value violates unique constraint" in told
    assert "exception.message" in told
    assert "it failed" in told
    page.click("#spans > li:nth-child(1) .row")
    page.picture("trace-span")
    assert "http_server_duration_seconds_bucket" in page.text("#spans > li:nth-child(1) .detail")
    href = page.run("document.querySelector('#spans dd a').getAttribute('href')")
    assert parse_qs(str(href).removeprefix("#"))["q"] == ['{ span.owner = "acme" }']
    assert "a line of a span that is not stored" in page.text("#span-rest")


def test_rows_fold_and_can_be_found(page: Page, address: str) -> None:
    go(page, address, trace=CHECKOUT)
    page.wait("document.querySelectorAll('#spans > li').length === 6")
    page.click("#spans > li:nth-child(3) button.fold")
    assert page.texts("#spans .who > span:last-child") == ["POST /checkout", "render", "charge", "write"]
    page.click("#spans > li:nth-child(3) button.fold")
    page.click("#path-only")
    assert page.texts("#spans .who > span:last-child") == [
        "POST /checkout", "render", "charge", "send", "INSERT",
    ]  # fmt: skip
    page.click("#span-find")
    page.type("insert")
    assert page.run("document.querySelectorAll('#spans > li.dim').length") == 5


def test_log_lines_lead_to_their_trace(page: Page, address: str) -> None:
    page.open(address + "#" + urlencode({**HOUR, "q": '{service_name="db"} |= "unique"'}))
    page.wait(DONE)
    page.click("#lines summary")
    page.wait("document.querySelector('#lines .detail a') !== null")
    page.picture("trace-log-link")
    page.click("#lines .detail a")
    page.wait("document.querySelectorAll('#spans > li').length === 6")


def test_exemplars_of_metrics_lead_to_their_trace(page: Page, address: str) -> None:
    fields = {**HOUR, "view": "metrics", "q": "http_server_duration_seconds_bucket", "step": "10s"}
    page.open(address + "#" + urlencode(fields))
    page.wait("document.querySelector('#chart .exemplar') !== null")
    page.picture("trace-exemplars")
    page.click("#chart .exemplar")
    page.wait("document.querySelectorAll('#spans > li').length > 0")
    assert fragment(page)["trace"][0] in {CHECKOUT, BROWSE}


def test_series_of_spans_are_a_chart_with_exemplars(page: Page, address: str) -> None:
    ask(page, address, q="{} | count_over_time() by (resource.service.name)", step="10s")
    page.picture("traces-series")
    assert page.text("#status").startswith("6 series")
    assert page.run("document.querySelectorAll('#chart .exemplar').length") > 1


def test_an_id_in_the_box_opens_the_trace(page: Page, address: str) -> None:
    go(page, address)
    page.click("#query")
    page.type(BROWSE)
    page.press("Enter")
    page.wait("document.querySelectorAll('#spans > li').length === 2")
    go(page, address, trace="9" * 32)
    page.wait("!document.querySelector('#notice').hidden")
    assert "there is no span of trace" in page.text("#notice")


def test_it_fits_a_phone_and_the_dark(page: Page, address: str) -> None:
    page.size(400, 800)
    page.colours("dark")
    try:
        go(page, address, trace=CHECKOUT)
        page.wait("document.querySelectorAll('#spans > li').length === 6")
        page.picture("trace-phone-dark")
        assert page.run("document.documentElement.scrollWidth") <= 400
        ask(page, address, q="{}")
        page.picture("traces-phone-dark")
        assert page.run("document.documentElement.scrollWidth") <= 400
    finally:
        page.size(1440, 900)
        page.colours("light")
