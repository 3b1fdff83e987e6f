"""The SQL view of the Explore page in a real browser, over a small lake and a worker."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pyarrow as pa
import pytest

from tests.support.browser import Page, browser_path, open_page
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.lake import start_workers
from tests.support.query.real_prometheus import served
from tests.support.query.shop_lake import MINUTES, shop_lake

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(browser_path() is None, reason="there is no browser on PATH"),
]
A_MINUTE = 200
HOUR = {"range": "custom", "from": "2026-01-01T00:00", "to": "2026-01-01T01:00"}
ERRORS = """SELECT time_bucket(INTERVAL '1 minute', timestamp) AS minute, service_name, count(*) AS errors
FROM logs
WHERE severity IN ('ERROR', 'FATAL')
GROUP BY 1, 2
ORDER BY 1, 2"""
DONE = "/complete in/.test(document.querySelector('#status').innerText)"
JOIN = """WITH slow AS (SELECT trace_id FROM spans WHERE duration_ns > 2000000000)
SELECT l.service_name, count(*) AS lines
FROM logs l JOIN slow USING (trace_id)
WHERE l.severity = 'ERROR' AND l.message LIKE '%gateway%' GROUP BY 1"""
CHOSEN = "document.querySelector('[name=as]:checked').id"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("shop")
    lake = shop_lake(folder, A_MINUTE)
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
def page(tab: Page) -> Iterator[Page]:
    """The tab; whatever the test did, no script failed."""
    tab.errors.clear()
    yield tab
    assert [one for one in tab.errors if "400 (Bad Request)" not in one] == []


def go(page: Page, address: str, q: str = "", **more: str) -> None:
    page.open(address + "#" + urlencode({"view": "sql", "q": q, **HOUR, **more}))


def ask(page: Page, address: str, q: str, **more: str) -> None:
    go(page, address, q, **more)
    page.wait(DONE)


def column(page: Page, number: int) -> list[str]:
    """Texts of the rows that are elements."""
    return page.texts(f"#rows tbody tr:not(.space) td:nth-child({number + 1})")


def address_of(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(str(page.run("location.href"))).fragment)


def test_a_statement_is_written_and_run(page: Page, address: str) -> None:
    go(page, address)
    page.wait("document.querySelectorAll('#tables details').length > 3")
    page.picture("sql-empty")
    page.click("#query")
    page.type("SELECT service_name, count(*) AS n\nFROM logs\nGROUP BY 1 ORDER BY 1")
    page.press("Enter", ctrl=True)
    page.wait(DONE)
    assert column(page, 1) == ["cart", "checkout", "frontend", "payment"]
    assert column(page, 2) == ["3,000"] * 4
    told = page.text("#status")
    assert told.startswith("4 rows · complete in ")
    assert f"{MINUTES * A_MINUTE:,} rows" in told
    assert "kB considered" in told
    assert page.run("getComputedStyle(document.querySelector('#rows td.number')).textAlign") == "right"
    assert page.texts("#paint .keyword") == ["SELECT", "AS", "FROM", "GROUP", "BY", "ORDER", "BY"]
    assert page.text("#numbers").split() == ["1", "2", "3"]
    assert "logs: the statement has no bound on timestamp" in page.text("#reads")


def test_a_mistake_is_marked_where_it_is(page: Page, address: str) -> None:
    go(page, address, "SELECT severity, count(*)\nFROM logs\nWHERE servce_name = 'web'\nGROUP BY 1")
    page.wait("!document.querySelector('#mistake').hidden")
    page.picture("sql-mistake")
    assert page.text("#paint .bad") == "servce_name"
    assert page.text("#numbers .bad") == "3"
    assert page.text("#mistake").startswith("Line 3, column 7 ")
    assert "service_name" in page.text("#mistake")
    page.click("#mistake button")
    assert page.run("getSelection().toString() || (({ value, selectionStart: a, selectionEnd: b }) => "
                    "value.slice(a, b))(document.querySelector('#query'))") == "servce_name"  # fmt: skip
    page.type("service_name")
    assert page.run("document.querySelector('#mistake').hidden && !document.querySelector('#paint .bad')")
    page.press("Enter", ctrl=True)
    page.wait(DONE)


def test_a_mistake_is_said_while_writing(page: Page, address: str) -> None:
    go(page, address)
    page.click("#query")
    page.type("SELECT servce_name FROM logs ")
    page.wait("!document.querySelector('#mistake').hidden")
    assert page.text("#paint .bad") == "servce_name"
    page.run("document.querySelector('#query').select()")
    page.type("SELECT service_name FROM logs WHERE ")  # of what is still to come nothing is said
    time.sleep(1.5)
    assert page.run("document.querySelector('#mistake').hidden")


def offered(page: Page, *names: str) -> None:
    """Wait until these are the first that are offered."""
    listed = "[...document.querySelectorAll('#suggestions li span')].map((one) => one.innerText)"
    page.wait(f"JSON.stringify({listed}.slice(0, {len(names)})) === JSON.stringify({json.dumps(names)})")


def test_what_can_be_written_is_offered(page: Page, address: str) -> None:
    go(page, address)
    page.wait("document.querySelectorAll('#tables details').length > 3")
    page.click("#query")
    page.type("SELECT l.sever, * FROM ")
    offered(page, "logs", "metrics", "spans")
    page.type("lo")
    offered(page, "logs", "logql")
    page.press("ArrowDown")
    page.press("Tab")
    page.type(" l WHERE l.k8s")
    offered(page, "k8s_pod_name", "resource_k8s_pod_name")  # a label of this organisation
    page.picture("sql-suggestions")
    page.press("ArrowDown")
    page.press("Enter")
    page.type(" = 'cart-")
    offered(page, "cart-0", "cart-1")
    page.press("ArrowDown")
    page.press("Enter")
    page.type(" AND time_b")
    offered(page, "time_bucket")
    written = page.run("document.querySelector('#query').value")
    assert written == "SELECT l.sever, * FROM logs l WHERE l.k8s_pod_name = 'cart-0' AND time_b"


def test_the_browser_of_tables_writes(page: Page, address: str) -> None:
    go(page, address)
    page.wait("document.querySelectorAll('#tables details').length > 3")
    page.click("#query")
    page.type("SELECT ")
    page.click("#find")
    page.type("http_route")
    assert [one.split() for one in page.texts("#tables li")] == [["attr_http_route", "text"]]
    page.click("#tables [data-name=attr_http_route] button")
    assert page.run("document.querySelector('#query').value") == "SELECT attr_http_route"


def test_a_chart_of_times_and_one_of_categories(page: Page, address: str) -> None:
    ask(page, address, ERRORS)
    page.click("label:has(#as-chart)")
    page.wait("document.querySelectorAll('#plot path').length === 4")
    page.picture("sql-chart")
    assert page.text("#series").split() == ["cart", "checkout", "frontend", "payment"]
    assert "a value every 1 min" in page.text("#covers")
    assert address_of(page)["as"] == ["chart"]
    choose = "Object.assign(document.querySelector('#plot-x'), { value: 'service_name' })"
    page.run(f"{choose}.dispatchEvent(new Event('change'))")
    page.wait("!document.querySelector('#bar-chart').hidden && document.querySelector('#chart').hidden")
    assert "The first 60 of 240 rows are drawn." in page.text("#plot-notes")
    ask(
        page,
        address,
        "SELECT service_name, count(*) AS lines, avg(attr_http_status) AS m FROM logs GROUP BY 1 ORDER BY 1",
        **{"as": "chart"},
    )
    page.picture("sql-bars")
    assert page.texts("#bar-chart tbody th") == ["cart", "checkout", "frontend", "payment"]
    assert page.run("document.querySelectorAll('#bar-chart .bar').length") == 8


def test_a_plan_is_a_tree(page: Page, address: str) -> None:
    go(page, address, JOIN, **{"as": "plan"})
    page.wait("document.querySelectorAll('#plan .lane').length === 2")
    page.picture("sql-plan")
    reads, scans = (
        " ".join(page.text(f"#plan .lane:first-child .{one}").split()) for one in ("read", "scan")
    )
    assert reads.startswith("logs 2026-01-01 00:00 to 2026-01-01 01:00 UTC")
    assert f"segments · {MINUTES * A_MINUTE:,} rows · at most " in reads
    conditions = page.texts("#plan .lane:first-child .where .chip")
    assert conditions == ["l.severity = 'ERROR'", "l.message LIKE '%gateway%'"]
    assert "message" in scans
    assert "FROM scan_0" in page.text("#plan .last .code")
    assert page.run("document.querySelector('#grid').hidden")
    page.click("#query")
    page.press("Enter", ctrl=True)  # running it is no question for its plan
    page.wait(DONE)
    assert page.run(CHOSEN) == "as-table"


def downloaded(page: Page, count: int) -> list[Path]:
    """The files once there are so many and all are whole."""
    found = sorted(page.downloads.glob("lakerunner-*"))
    return found if len(found) == count and all(one.suffix != ".crdownload" for one in found) else []


def test_files_hold_all_rows(page: Page, address: str) -> None:
    ask(page, address, ERRORS)
    for form in ("csv", "json", "arrow"):
        page.click(f"#save-{form}")
    files = wait_for(lambda: downloaded(page, 3), "three files")
    kinds = {one.suffix: one.read_bytes() for one in files}
    rows = list(csv.DictReader(io.StringIO(kinds[".csv"].decode())))
    table = pa.ipc.open_stream(kinds[".arrows"]).read_all()
    whole: dict[str, Any] = json.loads(kinds[".json"])
    assert len(rows) == len(whole["rows"]) == table.num_rows == 240
    assert sum(int(one["errors"]) for one in rows) == sum(table["errors"].to_pylist())
    assert table.schema.field("minute").type == pa.timestamp("us")


def test_a_link_opens_the_same(page: Page, address: str) -> None:
    ask(page, address, ERRORS, **{"as": "chart", "y": "errors", "by": "-"})
    page.wait("document.querySelectorAll('#plot path').length === 1")
    assert "rows share their time" in page.text("#plot-notes")
    link = str(page.run("location.href"))
    page.open(address)
    page.wait("document.body.dataset.view === 'logs'")
    page.open(link)
    page.wait(DONE)
    page.wait("document.querySelectorAll('#plot path').length === 1")
    assert page.run("document.querySelector('#query').value") == ERRORS
    assert page.run("document.querySelector('#from').value").startswith("2026-01-01T00:00")
    assert page.run(CHOSEN) == "as-chart"


def test_stop_leaves_the_connection(page: Page, address: str) -> None:
    go(page, address)
    page.click("#query")
    page.type("SELECT count(*) FROM logs a, logs b, logs c WHERE a.message <> b.message || c.message")
    page.press("Enter", ctrl=True)
    page.wait("/so far/.test(document.querySelector('#progress').innerText)")
    assert page.text("#run") == "Stop"
    page.wait("/6 of 6 segments/.test(document.querySelector('#progress').innerText)")
    page.picture("sql-running")
    page.click("#run")
    page.wait("document.querySelector('#status').innerText.startsWith('stopped')")
    assert page.text("#run") == "Run"
    assert page.text("#progress") == ""
    ended = re.compile(r'api="lakeql",outcome="abandoned"')
    wait_for(lambda: ended.search(httpx.get(address + "metrics", timeout=PATIENCE_S).text), "the end")


def test_ten_thousand_rows_and_more(page: Page, address: str) -> None:
    ask(page, address, "SELECT * FROM logs ORDER BY timestamp")
    assert page.text("#status").startswith("12,000 rows")
    assert page.run("document.querySelectorAll('#rows tbody tr').length") < 120
    assert page.run("document.querySelector('#rows').getAttribute('aria-rowcount')") == "12001"
    page.run("document.querySelector('#scroll').scrollTop = 1e9")
    page.wait("[...document.querySelectorAll('#rows tbody tr')].at(-2).cells[0].innerText === '12,000'")
    page.run("document.querySelector('#scroll').scrollTop = 0")
    page.wait("document.querySelector('#rows tbody tr:nth-child(2)').cells[0].innerText === '1'")
    page.click("#rows th:nth-child(2) button")  # texts and times from the least on, numbers from the greatest
    assert page.run("document.querySelector('#rows th:nth-child(2)').ariaSort") == "ascending"
    page.click("#rows th:nth-child(2) button")
    assert column(page, 1)[0] == "2026-01-01 00:59:59.700"
    page.click("#rows tbody tr:nth-child(3) td:nth-child(3)")
    page.picture("sql-rows")
    assert "k8s_pod_name" in page.text("#detail .chip")
    page.press("Escape")
    page.run("document.querySelector('#scroll').focus()")
    page.press("ArrowDown")
    assert page.text("#row-told").startswith("row 3: timestamp 2026-01-01 00:59:59.100")


def test_no_more_rows_than_a_page_can_hold(page: Page, address: str) -> None:
    go(page, address, "SELECT n, n * n AS square FROM generate_series(1, 400000) AS t(n)")
    page.wait("/^100,000 rows · cut in/.test(document.querySelector('#status').innerText)")
    assert "The first 100,000 rows are shown." in page.text("#notice")
    assert page.run("document.querySelector('#notice').className") == "warn"
    page.run("document.querySelector('#scroll').scrollTop = 1e9")
    page.wait("[...document.querySelectorAll('#rows tbody tr')].at(-2).cells[0].innerText === '100,000'")


def test_what_was_run_is_kept_and_examples_run(page: Page, address: str) -> None:
    page.run("localStorage.clear()")
    go(page, address)
    for number in range(1, 5):
        go(page, address)
        page.wait("document.querySelectorAll('.examples button').length === 4")
        page.click(f".examples button:nth-child({number})")
        page.wait(DONE)
        assert column(page, 1), number
    page.picture("sql-join")
    page.click("#past > summary")
    page.wait("document.querySelectorAll('#past-list li').length === 5")
    page.picture("sql-history")
    page.click("#past-list li:nth-child(4) button")
    page.wait(DONE)
    assert page.run("document.querySelector('#query').value").startswith("-- Errors by service")
    kept = json.loads(page.run("localStorage.getItem('lakerunner-statements')"))
    assert len(kept) == 4
    assert "key-acme" not in json.dumps(kept)


def test_dark_narrow_and_the_other_views(page: Page, address: str) -> None:
    ask(page, address, ERRORS, **{"as": "chart"})
    page.colours("dark")
    page.picture("sql-dark")
    ground = page.run("getComputedStyle(document.body).backgroundColor")
    page.colours("light")
    assert ground != page.run("getComputedStyle(document.body).backgroundColor")
    page.size(420, 900)
    assert page.run("document.documentElement.scrollWidth") <= 420
    page.picture("sql-narrow")
    page.size(1440, 900)
    page.click("label:has(#view-logs)")
    page.wait("document.querySelector('#chart').checkVisibility() === false")
    assert not page.run("document.querySelector('#schema').checkVisibility()")
    assert page.run("document.querySelector('#query').value") == '{service_name=~".+"}'
    page.click("label:has(#view-sql)")
    page.wait(DONE)
    assert page.run("document.querySelector('#query').value") == ERRORS


def test_times_in_the_zone_of_the_browser(page: Page, address: str) -> None:
    page.send("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    ask(page, address, ERRORS, zone="here")
    assert column(page, 1)[0] == "2026-01-01 05:30:00"
    page.send("Emulation.setTimezoneOverride", timezoneId="")


def test_partial_answers_and_notes_are_said(page: Page, address: str) -> None:
    """What the server says of missing segments comes through, as from the other views."""
    go(page, address)
    missing = [{"segment_id": "s1", "reason": "gone"}]
    events = [
        ("schema", [{"name": "n", "type": "int64"}]), ("notice", "rollups are old"),
        ("result", {"rows": [[1]]}),
        ("done", {"status": "partial", "warnings": [], "missing": missing, "stats": {"rows": 1}}),
    ]  # fmt: skip
    said = "".join(f"data: {json.dumps({'type': kind, 'data': data})}\n\n" for kind, data in events)
    page.run(
        "(() => { const real = window.fetch; window.fetch = async (path, options) =>"
        " path === '/api/v1/query' && !options.headers.Accept"
        f" ? new Response({json.dumps(said)}) : real(path, options); }})()"
    )
    page.click("#query")
    page.type("SELECT 1 AS n")
    page.press("Enter", ctrl=True)
    page.wait("document.querySelector('#notice').className === 'warn'")
    assert "Partial: 1 segments could not be read, their rows are missing. First: s1: gone" in page.text(
        "#notice"
    )
    assert "rollups are old" in page.text("#notice")
    assert page.text("#status").startswith("1 row · partial in")
