"""A bare client of PostgreSQL's protocol, and a stream of mutated sessions for the door's fuzz test."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from tests.support.patience import PATIENCE_S

Answer = tuple[bytes, bytes]


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


def startup(version: int = 196608, **options: str) -> bytes:
    pairs = b"".join(f"{name}\0{value}\0".encode() for name, value in options.items())
    body = struct.pack(">i", version) + pairs + b"\0"
    return struct.pack(">i", len(body) + 4) + body


def query(text: str) -> bytes:
    return message(b"Q", text.encode() + b"\0")


def parse(text: str, name: str = "", types: tuple[int, ...] = ()) -> bytes:
    oids = b"".join(struct.pack(">I", oid) for oid in types)
    return message(b"P", f"{name}\0{text}\0".encode() + struct.pack(">h", len(types)) + oids)


def bind(*values: bytes | None, name: str = "", portal: str = "", binary: bool = False) -> bytes:
    packed = b"".join(
        b"\xff\xff\xff\xff" if one is None else struct.pack(">i", len(one)) + one for one in values
    )
    head = f"{portal}\0{name}\0".encode() + struct.pack(">hh", 0, len(values))
    return message(b"B", head + packed + struct.pack(">hh", 1, int(binary)))


def describe(kind: str, name: str = "") -> bytes:
    return message(b"D", f"{kind}{name}\0".encode())


def execute(most: int = 0, portal: str = "") -> bytes:
    return message(b"E", f"{portal}\0".encode() + struct.pack(">i", most))


def close(kind: str, name: str = "") -> bytes:
    return message(b"C", f"{kind}{name}\0".encode())


SYNC, FLUSH, TERMINATE = message(b"S"), message(b"H"), message(b"X")


class BareClient:
    """A connection that sends what it is told to; use it as a context."""

    def __init__(self, port: int, key: str = "key-acme", **options: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._file = self._socket.makefile("rb")
        if key:
            self.send(startup(user="ann", **options))
            assert self.read()[0] == b"R"
            self.send(message(b"p", key.encode() + b"\0"))
            assert self.until_ready()[0] == (b"R", b"\0\0\0\0")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()

    def send(self, *parts: bytes) -> None:
        self._socket.sendall(b"".join(parts))

    def end(self) -> None:
        """Send nothing more; a message that was cut ends here."""
        self._socket.shutdown(socket.SHUT_WR)

    def raw(self, count: int) -> bytes:
        return self._file.read(count)

    def read(self) -> Answer:
        """The next message; an empty type at the end of the connection."""
        head = self._file.read(5)
        if len(head) < 5:
            return b"", b""
        return head[:1], self._file.read(struct.unpack(">i", head[1:])[0] - 4)

    def until_ready(self) -> list[Answer]:
        found = [self.read()]
        while found[-1][0] not in {b"Z", b""}:
            found.append(self.read())
        return found

    def ask(self, *parts: bytes) -> str:
        """The types of the answers up to ReadyForQuery."""
        self.send(*parts)
        return b"".join(kind for kind, _ in self.until_ready()).decode()


SEEDS = (
    query("SELECT 1"), query("SELECT message FROM logs LIMIT 3; SHOW ALL"), query(""), query("BEGIN"),
    query("COMMIT"), query("DECLARE c CURSOR WITH HOLD FOR SELECT 1"), query("FETCH 1 FROM c"),
    query("SELECT relname FROM pg_catalog.pg_class WHERE oid = '16400'::regclass"),
    query("SET statement_timeout = '3s'"), query("SELECT '{a' || E'\\'' || $$x$$ -- c"),
    query("SELECT format_type(a.atttypid, -1) FROM pg_attribute a WHERE attrelid = ANY(ARRAY[16400])"),
    parse("SELECT $1::BIGINT, $2", "s"), parse("SELECT message FROM logs WHERE duration_ms < $1"),
    bind(b"7", b"x", name="s"), bind(b"7"), bind(b"7", None, name="s", binary=True), describe("S", "s"),
    describe("P"), execute(2), execute(0), close("S", "s"), close("P"), SYNC, FLUSH,
    message(b"F", b"\0\0\0\1"), message(b"d", b"abc"), message(b"c"), message(b"f", b"no\0"),
)  # fmt: skip
"""Messages that sessions of the fuzz test are made of."""


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Change a few bytes, cut, repeat or insert some; the length is often made right again."""
    raw = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        at = rng.randrange(len(raw) + 1)
        what = rng.randrange(5)
        if what == 0 and at < len(raw):
            raw[at] = rng.randrange(256)
        elif what == 1:
            del raw[at : at + rng.randrange(1, 8)]
        elif what == 2:
            raw[at:at] = rng.randbytes(rng.randrange(1, 8))
        elif what == 3:
            raw[at:at] = rng.choice(
                (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0", b"';", b'"', b"$9", b"(" * 50)
            )
        else:
            raw += raw[at : at + rng.randrange(1, 40)]
    if len(raw) >= 5 and rng.random() < 0.9:
        raw[1:5] = struct.pack(">i", len(raw) - 1)
    return bytes(raw)


def fuzzed_session(rng: random.Random, port: int) -> int:
    """Send one mutated session; return how many messages went out before the server left."""
    sent = 0
    with contextlib.suppress(OSError), BareClient(port, "" if rng.random() < 0.1 else "key-acme") as client:
        for _ in range(rng.randrange(1, 30)):
            seed = startup(user="ann") if rng.random() < 0.02 else rng.choice(SEEDS)
            client.send(mutated(rng, seed))
            sent += 1
        if rng.random() < 0.7:
            client.send(SYNC, TERMINATE)
            client.end()
            while client.read()[0]:
                pass
    return sent


def sessions(seed: int, port: int) -> Iterator[int]:
    rng = random.Random(seed)
    while True:
        yield fuzzed_session(rng, port)
