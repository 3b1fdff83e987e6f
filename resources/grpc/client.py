"""A client makes unary gRPC calls over one connection, from one thread; h2 keeps the protocol's state."""

from __future__ import annotations

import base64
import binascii
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import H2Error

from resources.grpc.calls import PREFIX_BYTES, RETRY_TYPE, Code
from resources.proto.status import RetryInfo, Status

PORTS = {"http": 80, "https": 443}
READ_BYTES = 65_536
MOST_ANSWER = 16 << 20
"""Bytes of the largest answer that is taken."""
_BY_STATUS = {
    400: Code.INTERNAL,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.UNIMPLEMENTED,
}
"""Meaning of HTTP statuses of whoever does not speak gRPC."""


class GrpcError(Exception):
    """A call that ended with another status than OK."""

    def __init__(self, code: Code, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class _Answer:
    """Parts of an answer that have arrived."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = False


class GrpcClient:
    """Makes one call after the other; a connection that is lost is opened anew by the next call."""

    def __init__(self, url: str, timeout_s: float, metadata: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError(f"{url!r}: expected http://host:port or https://host:port")
        self._secure = parts.scheme == "https"
        self._address = parts.hostname, parts.port or PORTS[parts.scheme]
        self._authority = parts.netloc.rpartition("@")[2]
        self._timeout_s = timeout_s
        self._metadata = [(name.lower(), value) for name, value in (metadata or {}).items()]
        self._socket: socket.socket | None = None
        self._h2 = H2Connection()

    def call(self, path: str, message: bytes) -> bytes:
        """Return the answer's message; raise `GrpcError`, or OSError where nobody answers."""
        deadline = time.monotonic() + self._timeout_s
        try:
            self._connect()
            stream_id = self._h2.get_next_available_stream_id()
            self._h2.send_headers(stream_id, self._head(path))
            answer = _Answer()
            body = b"\0" + len(message).to_bytes(4, "big") + message
            self._send_body(stream_id, memoryview(body), answer, deadline)
            while not answer.is_whole:
                self._receive(stream_id, answer, deadline)
        except H2Error as error:
            self.close()
            raise ConnectionError(f"HTTP/2: {error}") from error
        except OSError:
            self.close()
            raise
        return _message_of(answer)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _head(self, path: str) -> list[tuple[str, str]]:
        return [
            (":method", "POST"),
            (":scheme", "https" if self._secure else "http"),
            (":authority", self._authority),
            (":path", path),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("grpc-timeout", f"{round(self._timeout_s * 1000)}m"),
            *self._metadata,
        ]

    def _connect(self) -> None:
        if self._socket is not None:
            return
        found = socket.create_connection(self._address, self._timeout_s)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._secure:
            context = ssl.create_default_context()
            context.set_alpn_protocols(["h2"])
            found = context.wrap_socket(found, server_hostname=self._address[0])
        self._socket = found
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._h2.initiate_connection()

    def _send_body(self, stream_id: int, data: memoryview, answer: _Answer, deadline: float) -> None:
        """Send as fast as the server's windows let it, unless it answers before the end."""
        while data and not answer.is_whole:
            window = self._h2.local_flow_control_window(stream_id)
            size = min(len(data), window, self._h2.max_outbound_frame_size)
            if size <= 0:
                self._receive(stream_id, answer, deadline)
                continue
            self._h2.send_data(stream_id, bytes(data[:size]), end_stream=size == len(data))
            data = data[size:]
            self._flush()
        self._flush()

    def _flush(self) -> None:
        if self._socket is not None:
            self._socket.sendall(self._h2.data_to_send())

    def _receive(self, stream_id: int, answer: _Answer, deadline: float) -> None:
        self._flush()
        left_s = deadline - time.monotonic()
        if self._socket is None or left_s <= 0:
            raise TimeoutError(f"no answer within {self._timeout_s:g} s")
        self._socket.settimeout(left_s)
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        for event in self._h2.receive_data(data):
            self._take(event, stream_id, answer)
        self._flush()

    def _take(self, event: Any, stream_id: int, answer: _Answer) -> None:
        if isinstance(event, events.ConnectionTerminated):
            raise ConnectionError(f"the server ends the connection: {event.error_code}")
        if getattr(event, "stream_id", None) != stream_id:
            return
        match event:
            case events.ResponseReceived() | events.TrailersReceived():
                answer.headers |= {str(name): str(value) for name, value in event.headers or ()}
            case events.DataReceived():
                answer.body += event.data or b""
                self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream_id)
                if len(answer.body) > MOST_ANSWER:
                    raise ConnectionError(f"an answer of more than {MOST_ANSWER} bytes")
            case events.StreamEnded():
                answer.is_whole = True
            case events.StreamReset():
                raise ConnectionError(f"the server reset the call: {event.error_code}")
            case _:  # pings and settings, which h2 has acknowledged itself
                pass


def _message_of(answer: _Answer) -> bytes:
    status = int(answer.headers.get(":status", "0"))
    if "grpc-status" not in answer.headers:
        code = _BY_STATUS.get(status, Code.UNAVAILABLE)
        raise GrpcError(code, f"status {status} of HTTP, and none of gRPC")
    number = int(answer.headers["grpc-status"])
    if number:
        code = Code(number) if number in {one.value for one in Code} else Code.INTERNAL
        raise GrpcError(code, unquote(answer.headers.get("grpc-message", "")), _rest_of(answer.headers))
    size = int.from_bytes(answer.body[1:PREFIX_BYTES], "big")
    if len(answer.body) != PREFIX_BYTES + size or answer.body[0]:
        raise GrpcError(Code.INTERNAL, f"expected one plain message, found {len(answer.body)} bytes")
    return bytes(answer.body[PREFIX_BYTES:])


def _rest_of(headers: Mapping[str, str]) -> float:
    """Return the pause that a `RetryInfo` asks for; 0 without one."""
    packed = headers.get("grpc-status-details-bin", "")
    try:
        status = Status.FromString(base64.b64decode(packed + "=" * (-len(packed) % 4)))
    except (binascii.Error, ValueError):
        return 0.0
    for detail in status.details:
        if detail.type_url == RETRY_TYPE:
            delay = RetryInfo.FromString(detail.value).retry_delay
            return float(delay.seconds + delay.nanos / 1e9)
    return 0.0
