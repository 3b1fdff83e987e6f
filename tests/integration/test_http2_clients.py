"""Clients of HTTP/2 and gRPC at a server of HTTP/1.1: they are told where to go, others notice nothing."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from lakerunner_ingress.addresses import GRPC_ANSWER
from lakerunner_ingress.app import create_app
from resources.http2 import END_HEADERS, GRPC, GRPC_HUFFMAN, HEADERS, PREFACE, SETTINGS, frame, literal
from resources.http_server import server_options
from resources.settings import Settings
from tests.support.ingress.doubles import FakeProducer, accounts
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    settings = Settings(log_level="WARNING")
    app = create_app(settings, accounts(), FakeProducer())  # type: ignore[arg-type]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, **server_options(settings, GRPC_ANSWER)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(PATIENCE_S)


def frames(port: int, sent: bytes, pause_at: int = 0) -> list[tuple[int, int, bytes]]:
    """Send bytes; return kind, flags and payload of the frames up to GOAWAY."""
    found, data = [], b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(sent[:pause_at] if pause_at else sent)
        if pause_at:
            time.sleep(0.05)
            client.sendall(sent[pause_at:])
        while not found or found[-1][0] != 7:
            data += client.recv(65_536)
            while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
                size = int.from_bytes(data[:3], "big")
                found.append((data[3], data[4], data[9 : 9 + size]))
                data = data[9 + size :]
    return found


@pytest.mark.parametrize("spelled", [GRPC + b"+proto", GRPC_HUFFMAN])
@pytest.mark.parametrize("pause_at", [0, 20, 40])
def test_a_grpc_call_ends_with_a_status_that_says_where_to_go(
    port: int, spelled: bytes, pause_at: int
) -> None:
    block = b"\x83\x86" + literal(b"content-type", spelled)
    found = frames(port, PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, block), pause_at)
    assert [kind for kind, _, _ in found] == [4, 4, 1, 7]
    _, flags, answer = found[2]
    assert flags & 1
    assert literal(b"grpc-status", b"12") in answer
    assert b"send OTLP/HTTP to this port" in answer


def test_another_client_of_http_2_gets_505_and_the_sentence(port: int) -> None:
    found = frames(port, PREFACE + frame(HEADERS, END_HEADERS, 1, b"\x82\x84\x86"))
    assert [kind for kind, _, _ in found] == [4, 1, 0, 7]
    assert found[2][2].decode() == GRPC_ANSWER + "\n"


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_shows_the_sentence(port: int) -> None:
    url = f"http://127.0.0.1:{port}/v1/logs"
    command = ["curl", "-sS", "-m", "10", "--http2-prior-knowledge", "-w", "%{http_code}", url]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if "HTTP/2" in found.stderr or found.returncode == 2:
        pytest.skip("this curl has no HTTP/2")
    assert found.stdout == f"{GRPC_ANSWER}\n505"
    upgrade = subprocess.run(
        [*command[:4], "--http2", *command[5:]], capture_output=True, text=True, check=False
    )
    assert upgrade.stdout.endswith("405")


@pytest.mark.parametrize(
    "junk", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 70_000, PREFACE + b"\0" * 9]
)
def test_junk_behind_the_preface_does_no_harm(port: int, junk: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(junk)
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(4096).endswith(b"ok")
