"""A connection of HTTP/2 that carries gRPC calls; h2 keeps the protocol's state.

A client's data is acknowledged when a handler reads it, so that a body is never in memory before the handler
has made room for it. Clients that reset calls more often than they finish them, or do not read what they are
sent, are disconnected.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from resources.grpc.calls import Call, CallError, CallGoneError, Code, Headers, Method, trailers

if TYPE_CHECKING:
    from resources.grpc.server import GrpcServer

GRPC = "application/grpc"
CONTENT_TYPES = {GRPC, f"{GRPC}+proto"}
HTTP_ANSWER = "this server speaks gRPC over HTTP/2, and everything else over HTTP/1.1"
MAX_STREAMS, MAX_HEADERS, MAX_FRAME = 128, 16_384, 65_536
STREAM_WINDOW, CONNECTION_WINDOW = 256 << 10, 1 << 20
"""Bytes that a client may send before a handler reads them."""
MAX_UNSENT = 4 << 20
"""Bytes that wait for a client to read them, beyond which it is disconnected: mostly answers to pings."""
SPARE_RESETS = 1000
"""Calls that a client may reset beyond those that it finishes."""
STALL_S = 60.0
"""Time after which a call ends whose client makes no room for an answer."""
_log = logging.getLogger(__name__)
_LOCAL = {
    SettingCodes.HEADER_TABLE_SIZE: 4096,
    SettingCodes.ENABLE_PUSH: 0,
    SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
    SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: MAX_FRAME,
    SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADERS,
}


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, server: GrpcServer) -> None:
        self._server = server
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._h2.local_settings = Settings(client=False, initial_values=_LOCAL)
        self._h2.max_inbound_frame_size = MAX_FRAME
        self._h2.decoder.max_header_list_size = MAX_HEADERS
        self._calls: dict[int, Call] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._cancellable: set[int] = set()
        self._resets_left = SPARE_RESETS
        self._is_paused = False
        self.is_draining = False
        self._idle: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW - self._h2.inbound_flow_control_window)
        self._flush()
        self._consider_idle()

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self._server.connections.discard(self)
        if self._idle is not None:
            self._idle.cancel()
        for stream_id in list(self._calls):
            self._abandon(stream_id)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._wake()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._h2.receive_data(data):
                self._take(event)
        except H2Error as error:
            _log.info("a connection of HTTP/2 is closed: %s", error)
            self._flush()
            self._transport.close()
            return
        self._flush()

    def drain(self) -> None:
        """Tell the client to open no further calls here, and close the connection behind the last one."""
        if self.is_draining or self._transport.is_closing():
            return
        self.is_draining = True
        last = self._h2.highest_inbound_stream_id
        goaway = GoAwayFrame(0, last_stream_id=last, error_code=ErrorCodes.NO_ERROR)
        self._transport.write(goaway.serialize())  # h2 has no state of a connection that ends gently
        self._consider_idle()

    def abort(self) -> None:
        """Close the connection; calls under way are cancelled."""
        for task in self._tasks.values():
            task.cancel()
        self._transport.close()

    def acknowledge(self, stream_id: int, size: int) -> None:
        if not self._transport.is_closing() and size:
            self._h2.acknowledge_received_data(size, stream_id)
            self._flush()

    async def write(self, call: Call, data: bytes) -> None:
        """Send data of a call within its client's windows."""
        self._start_answer(call)
        view = memoryview(data)
        while view:
            if call.is_gone or self._transport.is_closing():
                raise CallGoneError
            window = self._h2.local_flow_control_window(call.stream_id)
            size = min(len(view), window, self._h2.max_outbound_frame_size)
            if size <= 0 or self._is_paused:
                call.progress.clear()
                try:
                    await asyncio.wait_for(call.progress.wait(), STALL_S)
                except TimeoutError as error:
                    raise CallGoneError from error
                continue
            self._h2.send_data(call.stream_id, bytes(view[:size]))
            self._flush()
            view = view[size:]

    def _take(self, event: events.Event) -> None:
        match event:
            case events.RequestReceived():
                self._open(event.stream_id, event.headers)
            case events.DataReceived():
                self._feed(event)
            case events.StreamEnded():
                if call := self._calls.get(event.stream_id):
                    call.end_body()
            case events.StreamReset():
                self._reset(event.stream_id)
            case events.WindowUpdated() | events.RemoteSettingsChanged():
                self._wake()
            case events.ConnectionTerminated():
                self._transport.close()
            case _:  # acknowledgements, which h2 has sent itself, and priorities
                pass

    def _open(self, stream_id: int, headers: Any) -> None:
        """Begin a call, or answer that there is none of this kind."""
        fields: dict[str, str] = {}
        for name, value in headers:
            key = bytes(name).decode("latin-1")
            text = bytes(value).decode("latin-1")
            fields[key] = f"{fields[key]},{text}" if key in fields else text
        if self.is_draining:
            self._h2.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        content_type = fields.get("content-type", "").partition(";")[0].strip().lower()
        if content_type not in CONTENT_TYPES or fields.get(":method") != "POST":
            self._refuse_http(stream_id)
            return
        call = Call(self, stream_id, fields.get(":path", ""), fields)
        self._calls[stream_id] = call
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        method = self._server.method_of(call.path, fields.get(":authority", ""))
        if method.is_cancellable:
            self._cancellable.add(stream_id)
        task = asyncio.get_running_loop().create_task(self._run(call, method))
        self._tasks[stream_id] = task
        self._server.note(task)

    def _feed(self, event: events.DataReceived) -> None:
        charged = event.flow_controlled_length or 0
        call = self._calls.get(event.stream_id)
        if call is None:
            self._h2.acknowledge_received_data(charged, event.stream_id)
        else:
            call.feed(event.data or b"", charged)

    def _reset(self, stream_id: int) -> None:
        if stream_id not in self._calls:
            return
        self._abandon(stream_id)
        self._resets_left -= 1
        if self._resets_left < 0:
            _log.warning("a client resets more calls than it finishes, it is disconnected")
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._flush()
            self._transport.close()

    def _abandon(self, stream_id: int) -> None:
        """End what works for a client that has left, if it may end."""
        self._calls.pop(stream_id).abandon()
        if stream_id in self._cancellable:
            self._tasks[stream_id].cancel()

    async def _run(self, call: Call, method: Method) -> None:
        error: CallError | None = None
        try:
            await method.handle(call)
        except CallGoneError:
            error = CallError(Code.CANCELLED, "the client does not read its answer")
        except asyncio.CancelledError:
            error = CallError(Code.UNAVAILABLE, "the server is stopping; send this again", 1.0)
        except Exception as caught:  # noqa: BLE001 - the method says what its client is told
            error = method.describe(caught)
        finally:
            self._cancellable.discard(call.stream_id)
            self._tasks.pop(call.stream_id, None)
        if self._calls.pop(call.stream_id, None) is not None and not self._transport.is_closing():
            self._resets_left = min(SPARE_RESETS, self._resets_left + 1)
            self._finish(call, error, method)
        self._consider_idle()

    def _finish(self, call: Call, error: CallError | None, method: Method) -> None:
        """Send the status; a body that nobody reads any more is refused."""
        found = [*trailers(error), *call.closing]
        if not call.is_answering:
            found = [*_head(method), *found]
        self._h2.send_headers(call.stream_id, found, end_stream=True)
        call.drop_body()
        if not call.has_whole_body:
            self._h2.reset_stream(call.stream_id, ErrorCodes.NO_ERROR)
        self._flush()

    def _start_answer(self, call: Call) -> None:
        if not call.is_answering and not call.is_gone:
            call.is_answering = True
            self._h2.send_headers(call.stream_id, [(":status", "200"), ("content-type", GRPC)])

    def _refuse_http(self, stream_id: int) -> None:
        """Answer a request that is not of gRPC."""
        body = HTTP_ANSWER.encode() + b"\n"
        head = [(":status", "505"), ("content-type", "text/plain; charset=utf-8")]
        self._h2.send_headers(stream_id, head)
        self._h2.send_data(stream_id, body, end_stream=True)

    def _wake(self) -> None:
        for call in self._calls.values():
            call.progress.set()

    def _consider_idle(self) -> None:
        """Close a connection without calls, at once if it drains, else after a while."""
        if self._calls or self._transport.is_closing():
            return
        if self.is_draining:
            self._transport.close()
        elif self._idle is None:
            self._idle = asyncio.get_running_loop().call_later(self._server.idle_s, self.drain)

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)
            if self._transport.get_write_buffer_size() > MAX_UNSENT:
                _log.warning("a client of HTTP/2 does not read, it is disconnected")
                self._transport.abort()


def _head(method: Method) -> Headers:
    encodings = ",".join(("identity", *method.encodings))
    return [(":status", "200"), ("content-type", GRPC), ("grpc-accept-encoding", encodings)]
