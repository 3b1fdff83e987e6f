"""A client that hardly reads holds no worker and no memory, is left in the end, and can go on."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import httpx
import psutil
import pytest
import uvicorn

from lakerunner_query.app import create_app
from resources.lake.timecut import SECOND_NS
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.lake import BASE, Lake, Line, Stack, free_port

pytestmark = pytest.mark.integration
LINES, PADDING = 20_000, "x" * 1000
STALL_S = 8.0
ABANDONED = re.escape('lakerunner_query_seconds_count{api="lakerunner",outcome="abandoned"}')
BODY = {"q": '{service_name="web"}', "s": str(BASE), "e": str(BASE + 3600 * SECOND_NS), "limit": LINES}


@pytest.fixture(scope="module")
def port(lake: Lake, stack: Stack) -> Iterator[int]:
    lake.add_org("acme", "key-acme")
    for part in range(4):
        each = LINES // 4
        lake.write("acme", [Line((part * each + n) * 1_000_000, f"{n} {PADDING}") for n in range(each)])
    app = create_app(replace(stack.settings, query_stall_s=STALL_S, query_max_concurrency=8), lake.index)
    found = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=found, log_level="critical"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield found
    server.should_exit = True
    thread.join(PATIENCE_S)


def open_slowly(port: int) -> socket.socket:
    """Send the request over a socket with a small buffer, and read nothing."""
    body = json.dumps(BODY).encode()
    head = (
        f"POST /api/v1/logs/query HTTP/1.1\r\nhost: x\r\napi-key: key-acme\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(head.encode() + body)
    return connection


def gauge(port: int, name: str) -> float:
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S).text
    found = re.search(rf"^{name} ([0-9.e+]+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def until_quiet(port: int) -> None:
    """Wait until units neither run nor start: between two units of a query none runs for a moment."""
    same, last = 0, -1.0
    while same < 10:
        units = gauge(port, "lakerunner_query_units_total")
        is_quiet = units == last and not gauge(port, "lakerunner_query_units_running")
        same, last = same + 1 if is_quiet else 0, units
        time.sleep(0.05)


def until_left(port: int, count: float) -> None:
    wait_for(lambda: gauge(port, ABANDONED) >= count, "the end of answers that nobody takes")


def test_clients_that_read_a_byte_a_second_hold_no_worker_and_are_left(port: int) -> None:
    def others() -> int:
        asked = {"query": 'sum(count_over_time({service_name="web"}[1h]))', "time": BASE + 1800 * SECOND_NS}
        url, headers = f"http://127.0.0.1:{port}/loki/api/v1/query", {"Api-Key": "key-acme"}
        answer = httpx.get(url, params=asked, headers=headers, timeout=PATIENCE_S)
        return int(answer.json()["data"]["result"][0]["value"][1])

    assert others() == LINES
    connections = [open_slowly(port) for _ in range(6)]
    try:
        first = b"".join(one.recv(1) for one in connections)
        assert first == b"H" * 6
        until_quiet(port)
        before = psutil.Process().memory_info().rss
        for _ in range(2):
            assert others() == LINES, "slots are free"
            for one in connections:
                one.recv(1)
            until_quiet(port)
        assert psutil.Process().memory_info().rss - before < 64 << 20
        until_left(port, 6)
    finally:
        for one in connections:
            one.close()


def test_a_client_that_was_left_goes_on_behind_its_last_event(port: int) -> None:
    before = gauge(port, ABANDONED)
    connection = open_slowly(port)
    until_left(port, before + 1)
    received = bytearray()
    while piece := connection.recv(1 << 16):
        received += piece
    connection.close()
    ids = re.findall(rb"^id: (\S+)\n\r?\n", bytes(received), re.MULTILINE)
    assert 0 < len(ids) < LINES
    headers = {"Api-Key": "key-acme", "Last-Event-ID": ids[-1].decode()}
    rest = httpx.post(
        f"http://127.0.0.1:{port}/api/v1/logs/query", json=BODY, headers=headers, timeout=PATIENCE_S
    )
    assert rest.status_code == 200
    sent = int(ids[-1].split(b".")[8])
    assert rest.text.count('"type":"result"') == LINES - sent
