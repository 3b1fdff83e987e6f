"""Remote read: Prometheus and others fetch stored samples and evaluate expressions themselves.

    ReadRequest{queries: [{start, end, matchers}], accepted_response_types: [STREAMED_XOR_CHUNKS, SAMPLES]}

The first known type of answer is sent, as in Prometheus: one compressed message with all samples, or a stream
of frames with a series each. Neither has a place for warnings, so an answer with gaps is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pyarrow as pa
from anyio.to_thread import run_sync
from litestar import Request, Response, post
from litestar.response import Stream

from lakerunner_query.api.prometheus.params import FOREVER_MS
from lakerunner_query.api.shared.auth import caller
from lakerunner_query.api.shared.requests import missing_warnings
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.languages import STORED_SAMPLES
from lakerunner_query.coordinator.stored_samples import SamplesRequest, StoredSamples
from lakerunner_query.errors import InvalidRequestError, LimitExceededError, SegmentsMissingError
from lakerunner_query.gotext.regexp import InvalidRegexError, check
from lakerunner_query.protocol.units import SamplesForm, SeriesSelector
from lakerunner_query.serving import unless_gone
from lakerunner_query.syntax import Matcher, MatchOp
from resources.proto.parsing import NotAMessageError, parse
from resources.proto.prometheus import ReadRequest

FORMS: dict[int, SamplesForm] = {0: "samples", 1: "chunks"}
"""Types of answers, by their numbers in the protocol."""
OPERATORS = (MatchOp.EQUAL, MatchOp.NOT_EQUAL, MatchOp.REGEX, MatchOp.NOT_REGEX)
"""Kinds of matchers, by their numbers in the protocol."""
MAX_QUERIES = 64
MAX_MATCHERS = 256
"""Matchers of one query: each is compared with every series."""
MAX_REQUEST = 1 << 20
"""Bytes of a request once opened."""
MAX_ANSWER = 256 << 20
PIECE = 1 << 20
"""Bytes of frames that are sent at once."""
PROTOBUF = "application/x-protobuf"
STREAMED = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"


@post("/read", status_code=200)
async def read(request: Request[Any, Any, Any], services: Services) -> Response[bytes] | Stream:
    """Return stored samples as Prometheus' remote read does; the body is a snappy block."""
    org = caller(request.state).org
    form, queries = await run_sync(_understood, await request.body())
    with services.watch("prometheus") as watch:
        found: list[StoredSamples] = []
        size = 0
        for number, selector in enumerate(queries):
            asked = SamplesRequest(org, (selector,), form, number)
            one = await unless_gone(request, services.engine.ask(STORED_SAMPLES, asked))
            if one.missing:
                raise SegmentsMissingError(missing_warnings(one.missing)[0])
            size += sum(map(len, one.messages))
            if size > MAX_ANSWER:
                raise LimitExceededError(
                    f"the answer has more than {MAX_ANSWER} bytes of samples: ask for less"
                )
            found.append(one)
        watch.end(partial=False, points=sum(one.samples for one in found))
    if form == "chunks":
        return Stream(_pieces(found), media_type=STREAMED)
    body = await run_sync(_together, found)
    return Response(body, media_type=PROTOBUF, headers={"Content-Encoding": "snappy"})


def _understood(body: bytes) -> tuple[SamplesForm, list[SeriesSelector]]:
    """Return the type of the answer, and the selector of each query."""
    try:
        message = parse(ReadRequest, open_snappy(body))
    except NotAMessageError as error:
        raise InvalidRequestError(f"the body is no prometheus.ReadRequest: {error}") from error
    if len(message.queries) > MAX_QUERIES:
        raise InvalidRequestError(f"{len(message.queries)} queries: expected at most {MAX_QUERIES}")
    accepted = list(message.accepted_response_types) or [0]
    form = next((FORMS[kind] for kind in accepted if kind in FORMS), None)
    if form is None:
        raise InvalidRequestError(
            f"accepted_response_types {accepted[:8]}: expected 0 (SAMPLES) or 1 (STREAMED_XOR_CHUNKS)"
        )
    return form, [_selector(query) for query in message.queries]


def open_snappy(body: bytes) -> bytes:
    """Decompress a snappy block, which begins with its length."""
    size = 0
    for index, byte in enumerate(body[:5]):
        size |= (byte & 127) << (7 * index)
        if byte < 128:
            break
    if size > MAX_REQUEST:
        raise InvalidRequestError(f"a request of {size} bytes: expected at most {MAX_REQUEST}")
    try:
        return bytes(pa.Codec("snappy").decompress(body, size, asbytes=True))
    except (OSError, ValueError) as error:
        raise InvalidRequestError(
            "the body is no snappy block: remote read sends no other encoding"
        ) from error


def _selector(query: Any) -> SeriesSelector:
    """Read a query; its hints do not change which samples are asked for."""
    if len(query.matchers) > MAX_MATCHERS:
        raise InvalidRequestError(f"{len(query.matchers)} matchers: expected at most {MAX_MATCHERS}")
    start = max(query.start_timestamp_ms, -FOREVER_MS)
    end = min(query.end_timestamp_ms, FOREVER_MS)
    return SeriesSelector(tuple(map(_matcher, query.matchers)), start - 1, end)


def _matcher(sent: Any) -> Matcher:
    if not 0 <= sent.type < len(OPERATORS):
        raise InvalidRequestError(f"matcher of type {sent.type}: expected 0 (=), 1 (!=), 2 (=~) or 3 (!~)")
    found = Matcher(sent.name, OPERATORS[sent.type], sent.value)
    if found.op.is_regex:
        try:
            check(found.value)
        except InvalidRegexError as error:
            raise InvalidRequestError(f"matcher of {sent.name[:64]!r}: {error}") from error
    return found


def _together(found: Sequence[StoredSamples]) -> bytes:
    """Put results into a ReadResponse, and compress it."""
    parts: list[bytes] = []
    for one in found:
        parts += [b"\x0a", _uvarint(sum(map(len, one.messages))), *one.messages]
    return bytes(pa.compress(b"".join(parts), codec="snappy", asbytes=True))


def _uvarint(number: int) -> bytes:
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


async def _pieces(found: Sequence[StoredSamples]) -> AsyncIterator[bytes]:
    """Yield frames, several small ones at once."""
    waiting: list[bytes] = []
    size = 0
    for one in found:
        for frame in one.messages:
            waiting.append(frame)
            size += len(frame)
            if size >= PIECE:
                yield b"".join(waiting)
                waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
