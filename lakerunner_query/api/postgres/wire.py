"""A client's connection: whole messages in, bytes out, TLS on request, and word when the client left.

Nothing is kept for a slow reader: a piece is handed over when the one before it has gone, and a client that
takes nothing for `stall_s` is left. What a client sent before TLS began is never taken for encrypted.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Callable, Collection, Iterable
from typing import SupportsIndex, cast

from lakerunner_query.api.postgres.messages import IDLE, VIOLATION, SqlError

PIECE_BYTES = 1 << 18
READ_BYTES = 1 << 16
PART_S = 60.0
"""Seconds within which a message that has begun has to end."""


class GoneError(Exception):
    """The client has closed the connection, or takes no more bytes."""


class _Reader(asyncio.StreamReader):
    """A stream reader that counts the bytes nobody has looked at, and tells when the client leaves."""

    def __init__(self) -> None:
        super().__init__(limit=READ_BYTES)
        self.unread = 0
        self.gone: Callable[[], None] = lambda: None

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        found = bytes(data)
        self.unread += len(found)
        super().feed_data(found)

    def feed_eof(self) -> None:
        super().feed_eof()
        self.gone()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.gone()

    async def readexactly(self, n: int) -> bytes:
        found = await super().readexactly(n)
        self.unread -= n
        return found


class Wire:
    """The two directions of one connection."""

    def __init__(self, reader: _Reader, writer: asyncio.StreamWriter, stall_s: float) -> None:
        self._reader = reader
        self._writer = writer
        self._stall_s = stall_s if stall_s > 0 else None
        self._waiting = bytearray()
        self.is_secure = False
        peer = writer.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else ""

    @property
    def is_local(self) -> bool:
        """Tell whether the client is on this machine."""
        try:
            address = ipaddress.ip_address(self.peer.partition("%")[0])
        except ValueError:  # a Unix socket has no address
            return not self.peer
        mapped = getattr(address, "ipv4_mapped", None)
        return bool((mapped or address).is_loopback)

    def when_gone(self, call: Callable[[], None]) -> None:
        self._reader.gone = call

    async def first(self, max_bytes: int) -> bytes:
        """Read a message without a type: the first of a connection."""
        return await self._body(await self._exactly(4), max_bytes)

    async def message(
        self, max_bytes: int, idle_s: float | None = None, kinds: Collection[bytes] | None = None
    ) -> tuple[bytes, bytes]:
        """Read a message, its type and its body; wait no longer than `idle_s` for it to begin."""
        try:
            async with asyncio.timeout(idle_s or None):
                kind = await self._exactly(1)
        except TimeoutError:
            raise SqlError(IDLE, f"nothing was asked for {idle_s:g} s", is_fatal=True) from None
        if kinds is not None and kind not in kinds:
            raise SqlError(VIOLATION, f"unexpected message type {kind[0]}", is_fatal=True)
        try:
            async with asyncio.timeout(PART_S):
                return kind, await self._body(await self._exactly(4), max_bytes)
        except TimeoutError:
            raise SqlError(VIOLATION, "a message began and did not end", is_fatal=True) from None

    async def _body(self, head: bytes, max_bytes: int) -> bytes:
        length = int.from_bytes(head, signed=True) - 4
        if not 0 <= length <= max_bytes:
            raise SqlError(VIOLATION, f"invalid message length {length + 4}", is_fatal=True)
        return await self._exactly(length)

    async def _exactly(self, count: int) -> bytes:
        try:
            return await self._reader.readexactly(count)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise GoneError from error

    async def secure(self, context: ssl.SSLContext) -> None:
        """Go on under TLS; bytes that came before it are refused, somebody else may have sent them."""
        if self._reader.unread:
            raise SqlError(VIOLATION, "data was sent in clear behind the request for TLS", is_fatal=True)
        try:
            await self._writer.start_tls(context, ssl_handshake_timeout=10.0)
        except (OSError, ssl.SSLError) as error:
            raise GoneError from error
        self.is_secure = True

    def add(self, *parts: bytes) -> None:
        """Keep small answers until `flush`."""
        for part in parts:
            self._waiting += part

    async def flush(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, bytearray()
            await self.send(memoryview(waiting))

    async def send(self, data: memoryview) -> None:
        """Hand over bytes piece by piece, as fast as the client takes them."""
        for at in range(0, len(data), PIECE_BYTES):
            try:
                self._writer.write(data[at : at + PIECE_BYTES])
                async with asyncio.timeout(self._stall_s) as scope:
                    await self._writer.drain()
            except TimeoutError:
                if not scope.expired():
                    raise
                self._writer.transport.abort()
                raise GoneError from None
            except OSError as error:
                raise GoneError from error

    @property
    def is_busy(self) -> bool:
        return len(self._waiting) > PIECE_BYTES

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        """Send what is waiting and close; a client that does not take it is cut off."""
        try:
            async with asyncio.timeout(2.0):
                await self.flush()
                self._writer.close()
                await self._writer.wait_closed()
        except (OSError, GoneError, TimeoutError, ssl.SSLError):
            self._writer.transport.abort()


def protocol(serve: Callable[[Wire], object], stall_s: float) -> asyncio.StreamReaderProtocol:
    """Make the protocol of one connection, for `loop.create_server`; `serve` is a coroutine function."""
    reader = _Reader()

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> object:
        return serve(Wire(reader, writer, stall_s))

    return asyncio.StreamReaderProtocol(reader, cast("Callable[..., None]", connected))
