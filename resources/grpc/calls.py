"""A gRPC call as its handler sees it: metadata, the request message piece by piece, messages sent back."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol
from urllib.parse import quote

from resources.proto.status import Any, RetryInfo, Status

PREFIX_BYTES = 5
MAX_TEXT = 1000
"""Characters of an error that fit into a header: clients refuse trailers of more than 8 KiB."""
RETRY_TYPE = "type.googleapis.com/google.rpc.RetryInfo"
IDENTITY, GZIP = "identity", "gzip"
Headers = list[tuple[str, str]]


class Code(IntEnum):
    """The status codes of gRPC that this project answers with."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class CallError(Exception):
    """The status that ends a call; `retry_after_s` says when the client may try again."""

    def __init__(self, code: Code, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s


class CallGoneError(Exception):
    """The client has reset the call, or its connection is lost: nobody waits for an answer."""


@dataclass(frozen=True, slots=True)
class MessageHead:
    """The five bytes in front of a message."""

    size: int
    is_compressed: bool


class Stream(Protocol):
    """The side of a connection that a call uses."""

    @property
    def is_draining(self) -> bool: ...
    def acknowledge(self, stream_id: int, size: int) -> None: ...
    async def write(self, call: Call, data: bytes) -> None: ...


class Call:
    """A call under way; its body waits in the sender's flow control until the handler reads it."""

    def __init__(self, stream: Stream, stream_id: int, path: str, metadata: Mapping[str, str]) -> None:
        self.stream_id = stream_id
        self.path = path
        self.metadata = metadata
        self.is_answering = False
        self.is_gone = False
        self.has_whole_body = False
        self.progress = asyncio.Event()
        """An event that any change of the stream sets: data, its end, a reset, room for writing."""
        self.closing: Headers = []
        """Metadata that is sent with the status."""
        self._stream = stream
        self._pieces: deque[tuple[bytes, int]] = deque()
        self._rest = b""

    @property
    def encoding(self) -> str:
        """Encoding of compressed messages of this call."""
        return self.metadata.get("grpc-encoding", IDENTITY)

    @property
    def is_draining(self) -> bool:
        """True when the server is about to end: calls without an end of their own end then."""
        return self._stream.is_draining

    def feed(self, data: bytes, charged: int) -> None:
        """Take data from the connection; `charged` is its size in the sender's flow control."""
        if data:
            self._pieces.append((data, charged))
            self.progress.set()
        else:
            self._stream.acknowledge(self.stream_id, charged)

    def end_body(self) -> None:
        self.has_whole_body = True
        self.progress.set()

    def abandon(self) -> None:
        self.is_gone = True
        self.drop_body()
        self.progress.set()

    def drop_body(self) -> None:
        """Return what nobody reads any more to the flow control of the connection."""
        while self._pieces:
            self._stream.acknowledge(self.stream_id, self._pieces.popleft()[1])

    async def read(self) -> bytes:
        """Return the next piece of the body, empty at its end."""
        while not self._pieces:
            if self.is_gone:
                raise CallGoneError
            if self.has_whole_body:
                return b""
            self.progress.clear()
            await self.progress.wait()
        data, charged = self._pieces.popleft()
        self._stream.acknowledge(self.stream_id, charged)
        return data

    async def open_message(self) -> MessageHead:
        """Read the head of the one message of a request."""
        head = b""
        while len(head) < PREFIX_BYTES:
            piece = await self.read()
            if not piece:
                raise CallError(
                    Code.INVALID_ARGUMENT, f"the request ends after {len(head)} bytes, before its message"
                )
            head += piece
        self._rest = head[PREFIX_BYTES:]
        if head[0] > 1:
            raise CallError(Code.INVALID_ARGUMENT, f"byte 0 of a message is 0 or 1, found {head[0]}")
        return MessageHead(int.from_bytes(head[1:PREFIX_BYTES], "big"), head[0] == 1)

    async def pieces(self, size: int) -> AsyncIterator[bytes]:
        """Read a message of `size` bytes, behind which the request must end."""
        found, piece = 0, self._rest or await self.read()
        while piece and found + len(piece) <= size:
            yield piece
            found += len(piece)
            piece = await self.read()
        if piece or found < size:
            rest = "more" if piece else found
            raise CallError(Code.INVALID_ARGUMENT, f"expected one message of {size} bytes, found {rest}")

    async def message(self, most: int) -> bytes:
        """Read a small request whole, at most `most` bytes as sent and as opened."""
        head = await self.open_message()
        if head.size > most:
            raise CallError(Code.RESOURCE_EXHAUSTED, f"a message of {head.size} bytes: at most {most}")
        data = b"".join([piece async for piece in self.pieces(head.size)])
        if not head.is_compressed or self.encoding == IDENTITY:
            return data
        if self.encoding != GZIP:
            raise CallError(Code.UNIMPLEMENTED, f"grpc-encoding {self.encoding[:32]!r}: expected {GZIP}")
        return _open_gzip(data, most)

    async def send(self, message: bytes) -> None:
        """Send a message as fast as the client reads; raise `CallGoneError` if it does not."""
        head = b"\0" + len(message).to_bytes(4, "big")
        await self._stream.write(self, head + message)


def _open_gzip(data: bytes, most: int) -> bytes:
    opener = zlib.decompressobj(31)
    try:
        found = opener.decompress(data, most + 1)
    except zlib.error as error:
        raise CallError(Code.INVALID_ARGUMENT, f"gzip: {error}") from error
    if len(found) > most:
        raise CallError(Code.RESOURCE_EXHAUSTED, f"more than {most} bytes once opened")
    if not opener.eof:
        raise CallError(Code.INVALID_ARGUMENT, f"gzip: cut short at byte {len(data)}")
    return found


def trailers(error: CallError | None) -> Headers:
    """Return the headers that end a call; a pause before the next try is a `RetryInfo`.

    >>> trailers(CallError(Code.NOT_FOUND, "100 %"))
    [('grpc-status', '5'), ('grpc-message', '100 %25')]
    """
    if error is None:
        return [("grpc-status", str(Code.OK.value))]
    message = error.message[:MAX_TEXT]
    found = [
        ("grpc-status", str(error.code.value)),
        ("grpc-message", quote(message, safe=" !#$&'()*+,/:;=?@[]~\"<>{}|^`")),
    ]
    if error.retry_after_s is not None:
        info = RetryInfo()
        info.retry_delay.seconds = int(error.retry_after_s)
        info.retry_delay.nanos = int(error.retry_after_s % 1 * 1e9)
        details = Any(type_url=RETRY_TYPE, value=info.SerializeToString())
        status = Status(code=error.code.value, message=message, details=[details])
        packed = base64.b64encode(status.SerializeToString()).rstrip(b"=").decode()
        found.append(("grpc-status-details-bin", packed))
    return found


Handler = Callable[[Call], Awaitable[None]]
Describe = Callable[[Exception], CallError]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service."""

    handle: Handler
    describe: Describe
    """Function that turns an error of the handler into a status."""
    is_cancellable: bool
    """True where the work ends with the call; else it goes on when the client has left."""
    encodings: tuple[str, ...] = field(default=(GZIP,))
    """Encodings of requests."""
