"""Queues for tests: one in memory, and the REST interfaces of Pub/Sub and Azure over it, on a real socket.

The servers speak the little of each interface that its public reference documents and the pollers use, and
refuse what a real one would: wrong tokens, receipts that are no longer valid, numbers out of bounds.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from lakerunner_ingress.notifications.queues.queue import QueueMessage, QueueUnavailableError
from lakerunner_ingress.notifications.shapes import Shape
from lakerunner_ingress.notifications.shapes.aws import parse_aws
from tests.support.patience import PATIENCE_S

SAS = "sv=2021-12-02&sp=rp&sig=a%2Bb%2Fc%3D"
SUBSCRIPTION = "/v1/projects/p/subscriptions/s"


@dataclass
class Kept:
    id: str
    body: Any
    visible_at: float = 0.0
    receipt: str = ""
    receives: int = 0


@dataclass
class Shelf:
    """Messages that are hidden while somebody has them."""

    messages: list[Kept] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, body: Any) -> None:
        with self.lock:
            self.messages.append(Kept(uuid.uuid4().hex, body))

    def take(self, most: int, hold_s: float) -> list[Kept]:
        with self.lock:
            now = time.monotonic()
            found = [m for m in self.messages if m.visible_at <= now][:most]
            for message in found:
                message.visible_at, message.receipt = now + hold_s, uuid.uuid4().hex + "+/="
                message.receives += 1
            return found

    def drop(self, receipt: str) -> bool:
        return self._change(receipt, self.messages.remove)

    def hide(self, receipt: str, seconds: float) -> bool:
        until = time.monotonic() + seconds
        return self._change(receipt, lambda message: setattr(message, "visible_at", until))

    def _change(self, receipt: str, change: Callable[[Kept], object]) -> bool:
        with self.lock:
            found = [m for m in self.messages if receipt and m.receipt == receipt]
            for message in found:
                change(message)
            return bool(found)


class MemoryQueue:
    """A `Queue` without a network; `down` makes it unreachable."""

    name = "memory"

    def __init__(self, hold_s: float = 60.0, shape: Shape = parse_aws, most: int = 10) -> None:
        self.shelf = Shelf()
        self.hold_s = hold_s
        self.idle_s = 0.01
        self.shape: Shape = shape
        self.most = most
        self.down = False
        self.received = threading.Event()

    def receive(self) -> list[QueueMessage]:
        self._check()
        taken = self.shelf.take(self.most, self.hold_s)
        if taken:
            self.received.set()
        return [QueueMessage(m.id, m.receipt, m.body) for m in taken]

    def acknowledge(self, messages: Sequence[QueueMessage]) -> None:
        self._check()
        for message in messages:
            self.shelf.drop(message.handle)

    def release(self, messages: Sequence[QueueMessage]) -> None:
        self._check()
        for message in messages:
            self.shelf.hide(message.handle, 0)

    def close(self) -> None: ...

    def _check(self) -> None:
        if self.down:
            raise QueueUnavailableError("down")


@dataclass
class Server:
    url: str
    shelf: Shelf
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and headers of every request."""
    stall_s: float = 0.0
    is_closing: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Server

    def log_message(self, *_: object) -> None: ...

    def reply(self, status: int, content: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def body(self) -> bytes:
        found = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.site.asked.append((self.command, self.path, dict(self.headers)))
        return found


class _PubSub(_Handler):
    def do_POST(self) -> None:
        path, _, verb = self.path.rpartition(":")
        asked = json.loads(self.body())
        if path != SUBSCRIPTION:
            message = {"error": {"code": 404, "message": "Resource not found", "status": "NOT_FOUND"}}
            self.reply(404, json.dumps(message).encode())
            return
        answers = {"pull": self._pull, "acknowledge": self._acknowledge, "modifyAckDeadline": self._hold}
        self.reply(200, json.dumps(answers[verb](asked)).encode())

    def _pull(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert asked["maxMessages"] > 0
        taken = self.site.shelf.take(asked["maxMessages"], 10.0)
        if not taken:
            self.site.is_closing.wait(self.site.stall_s)
        found = [{"ackId": m.receipt, "message": m.body, "deliveryAttempt": m.receives} for m in taken]
        return {"receivedMessages": found} if found else {}

    def _acknowledge(self, asked: dict[str, Any]) -> dict[str, Any]:
        for receipt in asked["ackIds"]:
            self.site.shelf.drop(receipt)
        return {}

    def _hold(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert 0 <= asked["ackDeadlineSeconds"] <= 600
        for receipt in asked["ackIds"]:
            self.site.shelf.hide(receipt, asked["ackDeadlineSeconds"])
        return {}


class _Azure(_Handler):
    def do_GET(self) -> None:
        if (query := self._query()) is None:
            return
        most, hold_s = int(query["numofmessages"]), int(query["visibilitytimeout"])
        assert 1 <= most <= 32
        assert 1 <= hold_s <= 604_800
        taken = "".join(map(_xml, self.site.shelf.take(most, hold_s)))
        text = f'\ufeff<?xml version="1.0" encoding="utf-8"?><QueueMessagesList>{taken}</QueueMessagesList>'
        self.reply(200, text.encode(), "application/xml")

    def do_DELETE(self) -> None:
        if (query := self._query()) is not None:
            self._done(self.site.shelf.drop(query["popreceipt"]))

    def do_PUT(self) -> None:
        if (query := self._query()) is not None:
            self._done(self.site.shelf.hide(query["popreceipt"], int(query["visibilitytimeout"])))

    def _query(self) -> dict[str, str] | None:
        """The parameters without those of the token; None when it was refused."""
        self.body()
        found = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        token = {name: values[0] for name, values in parse_qs(SAS).items()}
        if {name: found.pop(name, "") for name in token} == token:
            return found
        self._error(403, "AuthenticationFailed")
        return None

    def _done(self, found: bool) -> None:
        if found:
            self.reply(204, b"")
        else:
            self._error(404, "MessageNotFound")

    def _error(self, status: int, code: str) -> None:
        self.reply(status, f"<Error><Code>{code}</Code></Error>".encode(), "application/xml")


def _xml(message: Kept) -> str:
    return (
        f"<QueueMessage><MessageId>{message.id}</MessageId>"
        "<InsertionTime>Fri, 02 Jan 2026 03:04:05 GMT</InsertionTime>"
        f"<PopReceipt>{escape(message.receipt)}</PopReceipt><DequeueCount>{message.receives}</DequeueCount>"
        f"<MessageText>{escape(message.body)}</MessageText></QueueMessage>"
    )


@contextmanager
def _serving(handler: type[_Handler]) -> Iterator[Server]:
    bound = type("Bound", (handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), bound) as server:
        server.daemon_threads = True
        site = Server(f"http://127.0.0.1:{server.server_address[1]}", Shelf())
        bound.site = site  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield site
        finally:
            site.is_closing.set()
            server.shutdown()
            thread.join(PATIENCE_S)


@contextmanager
def pubsub_server() -> Iterator[Server]:
    """Bodies on its shelf are Pub/Sub messages."""
    with _serving(_PubSub) as site:
        yield site


@contextmanager
def azure_server() -> Iterator[Server]:
    """Bodies on its shelf are the text of messages."""
    with _serving(_Azure) as site:
        yield site


def base64_text(payload: object) -> str:
    return base64.b64encode(json.dumps(payload).encode()).decode()
