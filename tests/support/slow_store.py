"""A proxy before an S3 server adds latency, limits bandwidth, injects faults and counts requests and bytes.

    python -m tests.support.slow_store http://127.0.0.1:9000 --port 9001 --delay-ms 20 --megabytes 100
    curl http://127.0.0.1:9001/_proxy/counts                       what was asked since the start
    curl -X PUT http://127.0.0.1:9001/_proxy/conditions -d '{"failing": 0.1}'

Requests pass through byte by byte with the Host that was signed, so clients use the proxy as their endpoint,
path-style. Tests start one in a thread of their own: `with slow_store(upstream, Conditions(…)) as proxy`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.patience import PATIENCE_S

CONTROL = "/_proxy/"
BLOCK = 256 * 1024
LARGEST_HEAD = 1 << 20
FAULTS = ("500", "503", "reset", "reset_middle", "slow", "truncated", "short")
"""Errors with a status; resets before and within the body; a body that stalls, or ends too early; half of the
range in a well-formed answer."""
_RESET = struct.pack("ii", 1, 0)
"""Option of a socket that is closed by a reset."""
_ERRORS = {"500": ("500 Internal Server Error", "InternalError"), "503": ("503 Slow Down", "SlowDown")}
_HOP_BY_HOP = ("connection", "keep-alive", "proxy-connection", "expect")
Before = Callable[[str, str], None]
"""Runs before a request is passed on, with its method and its path."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The way the store behaves; may be exchanged while it runs."""

    delay_ms: float = 0.0
    bytes_per_s: float = 0.0
    """Bound per connection; 0 is none."""
    failing: float = 0.0
    """Share of requests that fail."""
    faults: tuple[str, ...] = FAULTS
    ranges_only: bool = True
    """Only GETs of a range fail."""
    stall_s: float = 1.0


@dataclass(slots=True)
class Counts:
    """Requests and bytes of bodies by (method, key), ranges in order, faults by kind."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    bytes: Counter[tuple[str, str]] = field(default_factory=Counter)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    """(key, value of the Range header)."""
    faults: Counter[str] = field(default_factory=Counter)

    def gets(self, suffix: str = "") -> int:
        return sum(
            n for (method, key), n in self.requests.items() if method == "GET" and key.endswith(suffix)
        )

    def bytes_read(self, suffix: str = "") -> int:
        return sum(n for (method, key), n in self.bytes.items() if method == "GET" and key.endswith(suffix))

    def to_json(self) -> dict[str, Any]:
        return {
            "requests": [[*name, n] for name, n in self.requests.items()],
            "bytes": [[*name, n] for name, n in self.bytes.items()],
            "ranges": self.ranges,
            "faults": self.faults,
        }

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> Counts:
        named = ({(method, key): n for method, key, n in found[name]} for name in ("requests", "bytes"))
        return cls(
            *map(Counter, named), [(key, value) for key, value in found["ranges"]], Counter(found["faults"])
        )


@dataclass(slots=True)
class Head:
    """The first line and the headers of a message, as they came."""

    line: str
    headers: list[tuple[str, str]]

    def get(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    def body_bytes(self) -> int | None:
        """Return the length of the body; None is unknown, -1 is chunked."""
        if "chunked" in self.get("transfer-encoding").lower():
            return -1
        length = self.get("content-length")
        return int(length) if length else None

    def encoded(self, **more: str) -> bytes:
        changed = {name.replace("_", "-"): value for name, value in more.items()}
        kept = [
            pair
            for pair in self.headers
            if pair[0].lower() not in _HOP_BY_HOP and pair[0].lower() not in changed
        ]
        lines = [self.line, *(f"{name}: {value}" for name, value in [*kept, *changed.items()]), "", ""]
        return "\r\n".join(lines).encode("latin-1")


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SlowStore:
    """The proxy; `conditions` and `before` may be exchanged at any time from any thread."""

    def __init__(
        self, upstream: str, conditions: Conditions | None = None, seed: int = 1, before: Before | None = None
    ) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 80)
        self.conditions = conditions or Conditions()
        self.counts = Counts()
        self.before = before
        self.port = 0
        self._chance = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def forget_counts(self) -> Counts:
        """Return the counts so far and begin new ones."""
        counts, self.counts = self.counts, Counts()
        return counts

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, limit=LARGEST_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        connection = _Connection(self, (reader, writer), self._upstream)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await connection.serve_one():
                    pass
        finally:
            connection.close()
            self._clients.discard(task)

    def pick_fault(self, request: Head) -> str:
        """Return the kind of fault that strikes this request, or empty text."""
        now = self.conditions
        may_fail = not now.ranges_only or (request.line.startswith("GET ") and request.get("range"))
        if not may_fail or self._chance.random() >= now.failing:
            return ""
        fault = self._chance.choice(now.faults)
        self.counts.faults[fault] += 1
        return fault

    def control(self, method: str, path: str, body: bytes) -> object:
        """Answer a request for the proxy itself."""
        if path == f"{CONTROL}conditions" and method == "PUT":
            changes = json.loads(body)
            if "faults" in changes:
                changes["faults"] = tuple(changes["faults"])
            self.conditions = replace(self.conditions, **changes)
            return asdict(self.conditions)
        if path == f"{CONTROL}counts":
            return (self.forget_counts() if method == "DELETE" else self.counts).to_json()
        return {"error": f"{method} {path}: unknown"}


class _Connection:
    """One client and its connection to the store; both are kept alive."""

    def __init__(self, store: SlowStore, client: Streams, upstream: tuple[str, int]) -> None:
        self._store = store
        self._reader, self._writer = client
        self._address = upstream
        self._upstream: Streams | None = None

    def close(self) -> None:
        self._writer.close()
        self._drop_upstream()

    async def serve_one(self) -> bool:
        """Answer one request; False ends the connection."""
        request = await _read_head(self._reader)
        if request is None:
            return False
        method, target, _version = request.line.split(" ", 2)
        if "100-continue" in request.get("expect").lower():
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _read_whole(self._reader, request)
        if target.startswith(CONTROL):
            await self._send_json(self._store.control(method, target, body))
            return True
        path = unquote(urlsplit(target).path)
        key = path.lstrip("/").partition("/")[2]
        counts = self._store.counts
        counts.requests[method, key] += 1
        if method == "GET" and request.get("range"):
            counts.ranges.append((key, request.get("range")))
        else:
            counts.bytes[method, key] += len(body)
        fault = self._store.pick_fault(request)
        await asyncio.sleep(self._store.conditions.delay_ms / 1000)
        if fault in _ERRORS:
            await self._send_error(*_ERRORS[fault])
            return True
        if fault == "reset":
            return self._reset()
        if self._store.before is not None:
            await asyncio.to_thread(self._store.before, method, path)
        answer = await self._ask(request, body)
        return await self._pass_on(answer, method, key, fault)

    async def _ask(self, request: Head, body: bytes) -> Head:
        """Send to the store; once more where it closed a connection that was idle."""
        for fresh in (False, True):
            reader, writer = await self._connect(fresh)
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                writer.write(request.encoded() + body)
                await writer.drain()
                while (answer := await _read_head(reader)) is not None and answer.line.split(" ")[1] == "100":
                    pass
                if answer is not None:
                    return answer
        raise ConnectionResetError("the store closed the connection")

    async def _connect(self, fresh: bool) -> Streams:
        if fresh or self._upstream is None or self._upstream[0].at_eof():
            self._drop_upstream()
            self._upstream = await asyncio.open_connection(*self._address, limit=LARGEST_HEAD)
        return self._upstream

    async def _pass_on(self, answer: Head, method: str, key: str, fault: str) -> bool:
        assert self._upstream is not None
        length = answer.body_bytes()
        if method == "HEAD" or answer.line.split(" ")[1] in {"204", "304"}:
            self._writer.write(answer.encoded())
        elif length is None or length < 0:  # lists and errors: small, so that their length can be told
            body = await (self._upstream[0].read() if length is None else _read_chunked(self._upstream[0]))
            answer.headers = [pair for pair in answer.headers if pair[0].lower() != "transfer-encoding"]
            self._writer.write(answer.encoded(content_length=str(len(body))) + body)
        else:
            wanted = length // 2 if fault in {"reset_middle", "truncated", "short"} else length
            self._writer.write(_shortened(answer, wanted) if fault == "short" else answer.encoded())
            await self._pump(wanted, wanted // 2 if fault == "slow" else wanted, (method, key))
            if wanted < length:
                self._drop_upstream()
        await self._writer.drain()
        if "close" in answer.get("connection").lower() or answer.line.startswith("HTTP/1.0"):
            self._drop_upstream()
        if fault == "reset_middle":
            return self._reset()
        return fault != "truncated"

    async def _pump(self, length: int, pause_at: int, name: tuple[str, str]) -> None:
        """Copy a body at the speed of the conditions, with a stall behind `pause_at` bytes."""
        assert self._upstream is not None
        reader, writer, counts = self._upstream[0], self._writer, self._store.counts
        speed, began, done = self._store.conditions.bytes_per_s, time.monotonic(), 0
        while done < length:
            data = await reader.read(min(BLOCK, (pause_at if done < pause_at else length) - done))
            if not data:
                raise ConnectionResetError("the store ended the body early")
            done += len(data)
            counts.bytes[name] += len(data)
            writer.write(data)
            if done == pause_at and pause_at < length:
                await asyncio.sleep(self._store.conditions.stall_s)
            if speed and (ahead := began + done / speed - time.monotonic()) > 0.001:
                await asyncio.sleep(ahead)
            await writer.drain()

    async def _send_error(self, status: str, code: str) -> None:
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
        head = Head(f"HTTP/1.1 {status}", [("Content-Type", "application/xml")])
        self._writer.write(head.encoded(content_length=str(len(body))) + body)
        await self._writer.drain()

    async def _send_json(self, found: object) -> None:
        body = json.dumps(found).encode()
        head = Head("HTTP/1.1 200 OK", [("Content-Type", "application/json")])
        self._writer.write(head.encoded(content_length=str(len(body))) + body)
        await self._writer.drain()

    def _reset(self) -> bool:
        found = self._writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.transport.abort()
        return False

    def _drop_upstream(self) -> None:
        if self._upstream is not None:
            self._upstream[1].close()
            self._upstream = None


async def _read_head(reader: asyncio.StreamReader) -> Head | None:
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, *rest = text.rstrip("\r\n").split("\r\n")
    pairs = (one.partition(":") for one in rest)
    return Head(line, [(name, value.strip()) for name, _, value in pairs])


async def _read_whole(reader: asyncio.StreamReader, head: Head) -> bytes:
    """Read the body of a request; a chunked one gets a length instead."""
    length = head.body_bytes()
    if length == -1:
        body = await _read_chunked(reader)
        head.headers = [pair for pair in head.headers if pair[0].lower() != "transfer-encoding"]
        head.headers.append(("Content-Length", str(len(body))))
        return body
    return await reader.readexactly(length) if length else b""


async def _read_chunked(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while (await reader.readuntil(b"\r\n")) != b"\r\n":
        pass
    return b"".join(parts)


def _shortened(answer: Head, length: int) -> bytes:
    """Return the head of an honest answer with the first `length` bytes of the range."""
    unit, _, rest = answer.get("content-range").partition(" ")
    if not unit:
        return answer.encoded(content_length=str(length))
    span, _, whole = rest.partition("/")
    first = int(span.partition("-")[0])
    told = f"{unit} {first}-{first + max(length, 1) - 1}/{whole}"
    return answer.encoded(content_length=str(length), content_range=told)


@contextlib.contextmanager
def slow_store(
    upstream: str, conditions: Conditions | None = None, seed: int = 1, before: Before | None = None
) -> Iterator[SlowStore]:
    """Run a proxy in a thread of its own."""
    store, loop = SlowStore(upstream, conditions, seed, before), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="slow store")
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(store.start(), loop).result(PATIENCE_S)
        yield store
    finally:
        asyncio.run_coroutine_threadsafe(store.close(), loop).result(PATIENCE_S)
        asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


async def _serve(store: SlowStore, port: int) -> None:
    await store.start(port)
    print(store.url, flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.slow_store", description=__doc__)
    parser.add_argument("upstream", help="address of the S3 server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--megabytes", type=float, default=0.0, help="bound of each connection, a second")
    parser.add_argument("--failing", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    conditions = Conditions(given.delay_ms, given.megabytes * 1e6, given.failing)
    store = SlowStore(given.upstream, conditions, given.seed)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(store, given.port))


if __name__ == "__main__":
    sys.exit(main())
