"""Units that cost much go on behind the others, and their threads are replaced."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

import msgspec
import pytest

from lakerunner_query.protocol.frames import ANSWER, REQUEST, FromReader, Opened
from lakerunner_query.worker import unit_server
from lakerunner_query.worker.unit_server import NICENESS, UnitServer
from tests.support.patience import PATIENCE_S


def ask(connection: socket.socket, number: int, body: bytes) -> tuple[int, float, bytes]:
    connection.sendall(REQUEST.pack(number, len(body)) + body)
    found, cpu_s, told, size = ANSWER.unpack(connection.recv(ANSWER.size, socket.MSG_WAITALL))
    connection.recv(told, socket.MSG_WAITALL)
    return found, cpu_s, connection.recv(size, socket.MSG_WAITALL) if size else b""


@pytest.fixture
def priorities(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Units that burn, told by their first byte, answer with the priority that they ended with."""
    seen: list[int] = []

    def answer(body: bytearray, *_others: Any) -> tuple[bytes, dict[str, int]]:
        end = time.thread_time() + (0.6 if body == b"burn" else 0.0)
        while time.thread_time() < end:
            sum(range(1000))
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return bytes(body), {}

    monkeypatch.setattr(unit_server, "decode_unit", lambda body: body)
    monkeypatch.setattr(unit_server, "answer_unit", answer)
    return seen


def test_a_costly_unit_yields_and_the_next_one_does_not(priorities: list[int]) -> None:
    usual = os.getpriority(os.PRIO_PROCESS, os.getpid())
    ours, theirs = socket.socketpair()
    control, told = socket.socketpair()
    server = UnitServer(None, None, None, control, lambda: "")  # type: ignore[arg-type]
    messages = told.makefile("rb")
    with ours, theirs, control, told, messages:
        server.open([theirs])
        (first,) = msgspec.json.decode(messages.readline(), type=Opened).threads
        assert ask(ours, 1, b"cheap")[::2] == (1, b"cheap")
        number, cpu_s, _ = ask(ours, 2, b"burn")
        assert (number, priorities) == (2, [usual, min(19, usual + NICENESS)])
        assert cpu_s > 0.5
        (second,) = msgspec.json.decode(messages.readline(), type=FromReader).threads
        assert second != first
        assert ask(ours, 3, b"cheap")[::2] == (3, b"cheap")
        assert priorities[-1] == usual
        ours.close()
        thread = server.slots[0].thread
        assert thread is not None
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
