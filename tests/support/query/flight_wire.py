"""A bare client of Flight's gRPC methods, and sessions of spoiled messages for the door's fuzz test.

Messages are written by hand, so that each can be cut, changed or sent in the wrong place.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import pyarrow as pa
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from lakerunner_query.api.flight.results import Statement, Tickets
from resources.proto import flight_sql as sql
from resources.proto.build import build
from tests.support.query.lake import TOKEN

SERVICE = "/arrow.flight.protocol.FlightService/"
PATIENCE_S = 60.0
KEYS = ("key-acme", "key-acme", "key-acme", "key-globex", "wrong", "")
FORESEEN = frozenset({
    "OK", "CANCELLED", "INVALID_ARGUMENT", "NOT_FOUND", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNAVAILABLE",
    "UNIMPLEMENTED", "RESOURCE_EXHAUSTED", "UNKNOWN", "OUT_OF_RANGE",
})  # fmt: skip
"""Codes of answers to what is wrong; UNKNOWN is Arrow's for an error of the server's own wording."""
_OUTER = build(
    "outer",
    """
FlightDescriptor
  1 type int32
  2 cmd bytes
  3 path string*
Action
  1 type string
  2 body bytes
Ticket
  1 ticket bytes
Criteria
  1 expression bytes
Empty
""",
)
_TAKES = {
    **dict.fromkeys(("GetFlightInfo", "GetSchema", "PollFlightInfo"), "FlightDescriptor"),
    "DoGet": "Ticket",
    "DoAction": "Action",
    "ListFlights": "Criteria",
    "ListActions": "Empty",
}
"""Messages of Flight itself that the methods take."""
OF_US = ("Traceback", ".py", "internal error")
STATEMENTS = (
    "SELECT 1 AS one", "SELECT message FROM logs LIMIT 3", "SELECT $1 AS given", "SELEC", "", "é" * 50,
    "SELECT nope FROM logs", "SELECT 'endless', message FROM logs", "SELECT * FROM metrics",
    "DELETE FROM nothing", "SELECT '\\0'",
)  # fmt: skip


def part(number: int, body: bytes) -> bytes:
    """A field of a protobuf message: bytes, text, or a message."""
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def descriptor(command: bytes) -> bytes:
    return b"\x08\x02" + part(2, command)


def action(name: str, body: bytes) -> bytes:
    return part(1, name.encode()) + part(2, body)


def flight_data(batch: pa.RecordBatch, command: bytes) -> list[bytes]:
    """A stream of parameters as a client puts it: the columns with the descriptor, then the rows."""
    schema = batch.schema.serialize().to_pybytes()
    rows = batch.serialize().to_pybytes()
    return [part(1, descriptor(command)) + _ipc(schema), _ipc(rows)]


def _ipc(message: bytes) -> bytes:
    """Header and body of an encapsulated IPC message as fields of FlightData."""
    size = struct.unpack_from("<i", message, 4)[0]
    header, body = message[8 : 8 + size], message[8 + size :]
    return part(2, header) + (part(1000, body) if body else b"")


def mutated(rng: random.Random, data: bytes, most: int = 4) -> bytes:
    """Change a few bytes, cut, repeat or insert some; one in four stays as it is."""
    raw = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, most))):
        at, what = rng.randrange(len(raw) + 1), rng.randrange(5)
        if what == 0 and at < len(raw):
            raw[at] = rng.randrange(256)
        elif what == 1:
            del raw[at : at + rng.randrange(1, 8)]
        elif what == 2:
            raw[at:at] = rng.randbytes(rng.randrange(1, 8))
        elif what == 3:
            raw[at : at + 4] = rng.choice(
                (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x80", b"\0\0\0\0")
            )
        else:
            raw += raw[at : at + rng.randrange(1, 40)]
    return bytes(raw)


@dataclass
class Findings:
    """Ends of calls by their code, and those that nobody foresaw."""

    codes: Counter[str] = field(default_factory=Counter)
    defects: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return self.codes.total()

    def note(self, method: str, sent: bytes, error: grpc.RpcError | None, *, must_fail: bool = False) -> None:
        code = error.code().name if error is not None else "OK"
        details = str(error.details()) if error is not None else ""
        self.codes[code] += 1
        is_grpcs = code == "INTERNAL" and not details and not _is_message(method, sent)
        if not (code in FORESEEN or is_grpcs) or any(words in details for words in OF_US):
            self.defects.append(f"{method}: {code} {details[:200]}")
        if must_fail and error is None:
            self.defects.append(f"{method}: answered")


def _is_message(method: str, sent: bytes) -> bool:
    """Tell whether gRPC itself can read what was sent; it answers INTERNAL without words if not."""
    try:
        _OUTER[_TAKES[method]].FromString(sent)
    except (DecodeError, KeyError):
        return False
    return True


class Sessions:
    """Sessions against one door."""

    def __init__(self, seed: int, port: int) -> None:
        self.rng = random.Random(seed)
        self.port = port
        self.found = Findings()
        self._signer, self._stranger = Tickets(TOKEN), Tickets("another token")
        self._handles: list[bytes] = []

    def __iter__(self) -> Iterator[Findings]:
        while True:
            self.session()
            yield self.found

    def session(self) -> None:
        """Make a few calls of one kind or another over one connection."""
        if self.rng.random() < 0.05:
            self._noise()
            return
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            for _ in range(self.rng.randrange(1, 12)):
                self.rng.choice(_CALLS)(self, channel)

    def ticket(self) -> tuple[bytes, bool]:
        """A ticket, and whether it must be refused: forged, expired, signed by others, or of others."""
        rng, text = self.rng, self.rng.choice(STATEMENTS)
        good = self._signer.issue("acme", text)
        match rng.randrange(6):
            case 0:
                at = rng.randrange(len(good))
                return good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :], True
            case 1:
                return self._signer.sign(Statement("0" * 32, "acme", text, (), 1.0)), True
            case 2:
                return self._stranger.issue("acme", text), True
            case 3:
                return self._signer.issue("initech", text), True
            case 4:
                return rng.randbytes(rng.randrange(80)), True
        return good, False

    def command(self) -> bytes:
        """A command or ticket of Flight SQL, whole or spoiled."""
        rng = self.rng
        name = rng.choice(sorted(sql._SQL))
        message = sql._SQL[name]()
        for one in message.DESCRIPTOR.fields:
            if rng.random() < 0.7:
                self._fill(message, one)
        packed = sql.pack(message)
        return packed if rng.random() < 0.4 else mutated(rng, packed)

    def _fill(self, message: Any, one: Any) -> None:
        rng = self.rng
        texts = (*STATEMENTS, "%", "logs", "\\", "%" * 60, "_l\\%")
        values: dict[int, Callable[[], object]] = {
            one.TYPE_STRING: lambda: rng.choice(texts),
            one.TYPE_BYTES: lambda: rng.choice((*self._handles[-3:], self.ticket()[0], rng.randbytes(9))),
            one.TYPE_BOOL: lambda: rng.random() < 0.5,
            one.TYPE_INT32: lambda: rng.choice((0, 1, -(2**31), 2**31 - 1)),
            one.TYPE_UINT32: lambda: rng.choice((0, 4, 507, 2**32 - 1)),
        }
        value = values[one.type]()
        if one.label == one.LABEL_REPEATED:
            getattr(message, one.name).extend([value])
        else:
            setattr(message, one.name, value)

    def headers(self) -> list[tuple[str, str | bytes]]:
        rng, key = self.rng, self.rng.choice(KEYS)
        given = rng.choice((f"Bearer {key}", key, f"Basic {key}", "Bearer", "Basic !!!", "Bearer " * 50))
        found: list[tuple[str, str | bytes]] = [
            ("authorization", f"Bearer {key}" if rng.random() < 0.85 else given)
        ]
        if rng.random() < 0.1:
            found.append(
                rng.choice((("x-scope-orgid", "globex"), ("api-key-bin", rng.randbytes(9)), ("api-key", "x")))
            )
        return found

    # Calls

    def ask(self, channel: grpc.Channel) -> None:
        method = self.rng.choice(("GetFlightInfo", "GetSchema", "PollFlightInfo"))
        self._unary(channel, method, self._maybe(descriptor(self.command())))

    def get(self, channel: grpc.Channel) -> None:
        """Read a result to its end, or leave it after some of its messages."""
        rng = self.rng
        if rng.random() < 0.5:
            self._stream(channel, "DoGet", self._maybe(part(1, self.command())))
            return
        handle, is_bad = self.ticket()
        asked = part(1, sql.pack(sql.StatementTicket(statement_handle=handle)))
        is_acmes = rng.random() < 0.7
        headers = [("authorization", f"Bearer {'key-acme' if is_acmes else 'key-globex'}")]
        self._stream(channel, "DoGet", asked, headers=headers, must_fail=is_bad or not is_acmes)

    def act(self, channel: grpc.Channel) -> None:
        rng = self.rng
        names = ("CreatePreparedStatement", "ClosePreparedStatement", "CancelQuery", "CancelFlightInfo")
        name = rng.choice((*names, *names, "CloseSession", "BeginTransaction", "é\0"))
        ticket, _ = self.ticket()
        packed = sql.pack(sql.StatementTicket(statement_handle=ticket))
        info = part(3, part(1, part(1, packed)))  # a FlightInfo with one endpoint
        body = rng.choice((self.command(), part(1, info), sql.pack(sql.CancelQuery(info=info))))
        if name == "CreatePreparedStatement" and rng.random() < 0.7:
            body = sql.pack(sql.CreatePreparedStatement(query=rng.choice(STATEMENTS)))
        for answer in self._stream(channel, "DoAction", self._maybe(action(name, self._maybe(body)))):
            with contextlib.suppress(Exception):  # other answers are no prepared statements
                made = sql.unpack(_body(answer), sql.CreatedPreparedStatement)
                self._handles = [*self._handles[-20:], made.prepared_statement_handle]

    def put(self, channel: grpc.Channel) -> None:
        """Bind parameters with a whole stream, a spoiled one, or half of one."""
        rng = self.rng
        handle = rng.choice(self._handles) if self._handles and rng.random() < 0.9 else b"unknown"
        named = "CommandPreparedStatementQuery" if rng.random() < 0.9 else "CommandPreparedStatementUpdate"
        command = sql.pack(sql._SQL[named](prepared_statement_handle=handle))
        sent = flight_data(rng.choice(_PARAMETERS), command)
        if rng.random() < 0.75:
            place = rng.randrange(len(sent))
            sent[place] = mutated(rng, sent[place], 8)
        if rng.random() < 0.2:
            sent = sent[: rng.randrange(len(sent) + 1)]
        self._both_ways(channel, rng.choice(("DoPut", "DoPut", "DoPut", "DoExchange")), sent)
        if rng.random() < 0.3:
            asked = sql.pack(sql._SQL["CommandPreparedStatementQuery"](prepared_statement_handle=handle))
            self._unary(channel, "GetFlightInfo", descriptor(asked))

    def others(self, channel: grpc.Channel) -> None:
        rng = self.rng
        match rng.randrange(4):
            case 0:
                self._both_ways(channel, "Handshake", [rng.randbytes(rng.randrange(20)) for _ in range(3)])
            case 1:
                self._stream(channel, "ListFlights", rng.randbytes(rng.randrange(9)))
            case 2:
                self._stream(channel, "ListActions", b"")
            case 3:
                self._unary(channel, "Nothing", rng.randbytes(5))

    def _maybe(self, data: bytes) -> bytes:
        return data if self.rng.random() < 0.7 else mutated(self.rng, data)

    def _unary(self, channel: grpc.Channel, method: str, data: bytes) -> None:
        call = channel.unary_unary(SERVICE + method)
        try:
            call(data, timeout=PATIENCE_S, metadata=self.headers())
        except grpc.RpcError as error:
            self.found.note(method, data, error)
        else:
            self.found.note(method, data, None)

    def _stream(
        self, channel: grpc.Channel, method: str, data: bytes, *, headers: Any = None, must_fail: bool = False
    ) -> list[bytes]:
        metadata = self.headers() if headers is None else headers
        running = channel.unary_stream(SERVICE + method)(data, timeout=PATIENCE_S, metadata=metadata)
        return self._read(method, data, running, must_fail=must_fail)

    def _both_ways(self, channel: grpc.Channel, method: str, sent: Sequence[bytes]) -> None:
        call = channel.stream_stream(SERVICE + method)
        self._read(method, b"".join(sent), call(iter(sent), timeout=PATIENCE_S, metadata=self.headers()))

    def _read(self, method: str, sent: bytes, running: Any, *, must_fail: bool = False) -> list[bytes]:
        found: list[bytes] = []
        most = self.rng.choice((0, 1, 2, 5, 50))
        try:
            for message in running:
                found.append(message)
                if len(found) >= most:
                    running.cancel()
                    break
        except grpc.RpcError as error:
            self.found.note(method, sent, error)
            return found
        self.found.note(method, sent, None, must_fail=must_fail and bool(found))
        return found

    def _noise(self) -> None:
        """Bytes that are no HTTP/2, or only its beginning."""
        rng = self.rng
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 10) as one:
            one.settimeout(0.2)
            one.sendall(
                rng.choice((b"", preface, b"GET / HTTP/1.1\r\n\r\n")) + rng.randbytes(rng.randrange(400))
            )
            one.recv(100)
        self.found.codes["noise"] += 1


_CALLS: tuple[Callable[[Sessions, grpc.Channel], None], ...] = (
    Sessions.ask, Sessions.ask, Sessions.get, Sessions.get, Sessions.act, Sessions.act, Sessions.put,
    Sessions.put, Sessions.others,
)  # fmt: skip
_PARAMETERS = (
    pa.record_batch({"1": [7]}),
    pa.record_batch({"1": ["a text that is long enough for an offset"], "2": [1.5]}),
    pa.record_batch({"1": pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string()))}),
    pa.record_batch({"1": pa.array(["x", "y", "x"]).dictionary_encode()}),
    pa.record_batch({"1": pa.array([None], pa.null()), "2": pa.array([b"\0"], pa.binary())}),
    pa.record_batch({"1": pa.array(["a long text in a view of its own"], pa.string_view())}),
    pa.record_batch({"1": pa.array([[1, None]], pa.list_(pa.int64()))}),
)


def _body(result: bytes) -> bytes:
    """The body of a `Result` message."""
    return bytes(sql.StatementTicket.FromString(result).statement_handle)
