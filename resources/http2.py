"""Clients of HTTP/2 and gRPC are told that this server speaks HTTP/1.1.

gRPC clients begin with HTTP/2 at once, and show nothing but a broken connection when the answer is HTTP/1.1.
So the first request of such a connection is answered in frames: with the status of a gRPC call that says that
this is not implemented, or with 505 and a text. Header blocks are not decoded; a content type of gRPC is
recognised in both spellings that clients use.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 4, 6, 7, 9
ACK, END_STREAM, END_HEADERS = 1, 1, 4
GRPC = b"application/grpc"
GRPC_HUFFMAN = bytes.fromhex("1d75d0620d263d4c4d6564")
"""`application/grpc` in the Huffman code of HPACK, which ends with a byte."""
UNIMPLEMENTED = b"12"
MAX_FRAME, MAX_PENDING, LINGER_S = 16_384, 65_536, 5.0


def http1_only(text: str) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol with an answer for HTTP/2 clients."""

    class Http1Only(HttpToolsProtocol):
        def data_received(self, data: bytes) -> None:
            started: object = self.cycle  # None before the first request, whatever uvicorn's types say
            if started is None and data.startswith(PREFACE[:14]):
                self.connections.discard(self)
                self._unset_keepalive_if_required()
                refusal = Http2Refusal(text)
                self.transport.set_protocol(refusal)
                refusal.connection_made(self.transport)
                refusal.data_received(data)
            else:
                super().data_received(data)

    return Http1Only


class Http2Refusal(asyncio.Protocol):
    """Answers the first request of a connection, and nothing more."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pending = b""
        self._in_preface = True
        self._block = b""
        self._answered = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, transport.close)
        transport.write(frame(SETTINGS, 0, 0))

    def connection_lost(self, _error: Exception | None) -> None:
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._answered:
            return
        self._pending += data
        if self._in_preface and len(self._pending) >= len(PREFACE):
            self._in_preface = False
            self._pending = self._pending[len(PREFACE) :]
        while not self._in_preface and not self._answered and self._take_frame():
            pass
        if len(self._pending) > MAX_PENDING:
            self._transport.close()

    def _take_frame(self) -> bool:
        """Handle one frame, if it is complete."""
        head, size = self._pending[:9], int.from_bytes(self._pending[:3], "big")
        if len(head) < 9 or len(self._pending) < 9 + size:
            if size > MAX_FRAME:
                self._transport.close()
            return False
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:9], "big")
        payload, self._pending = self._pending[9 : 9 + size], self._pending[9 + size :]
        if kind == SETTINGS and not flags & ACK:
            self._transport.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._transport.write(frame(PING, ACK, 0, payload))
        elif kind in {HEADERS, CONTINUATION}:
            self._block += payload
            if flags & END_HEADERS:
                self._answer(stream)
        return True

    def _answer(self, stream: int) -> None:
        self._answered = True
        is_grpc = GRPC in self._block or GRPC_HUFFMAN in self._block
        frames = grpc_refusal(stream, self._text) if is_grpc else http_refusal(stream, self._text)
        last = stream.to_bytes(4, "big") + bytes(4) + self._text.encode()
        self._transport.write(frames + frame(GOAWAY, 0, 0, last))


def grpc_refusal(stream: int, text: str) -> bytes:
    """Return the frames that end a gRPC call with `UNIMPLEMENTED` and a text."""
    block = b"\x88" + literal(b"content-type", GRPC) + literal(b"grpc-status", UNIMPLEMENTED)
    block += literal(b"grpc-message", quote(text, safe=" !#$&'()*+,/:;=?@[]~").encode())
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, block)


def http_refusal(stream: int, text: str) -> bytes:
    """Return the frames of an answer with status 505 and a text."""
    block = literal(b":status", b"505") + literal(b"content-type", b"text/plain; charset=utf-8")
    body = text.encode() + b"\n"
    return frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, body)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame of HTTP/2.

    >>> frame(SETTINGS, ACK, 0).hex()
    '000000040100000000'
    """
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def literal(name: bytes, value: bytes) -> bytes:
    """Return a header field that needs no table; name and value are at most 254 bytes."""
    return b"\x00" + _text(name) + _text(value)


def _text(data: bytes) -> bytes:
    """Return a text with its length, whose first 127 stand in one byte."""
    head = bytes((len(data),)) if len(data) < 127 else bytes((127, len(data) - 127))
    return head + data
