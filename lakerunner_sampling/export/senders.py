"""A sender encodes a chunk of spans and hands it to its destination; a reply says what became of it.

taken       gone for good                   2xx
later       the same payload may be taken   no connection, 408, 425, 429, 5xx, also 401 to 404: settings
too large   halves may be taken             413
refused     halves may be; one trace is not 400 and others
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

LATER = frozenset({401, 403, 404, 405, 408, 425, 429})
"""Statuses below 500 that a repetition may overcome, some of them once somebody has changed a setting."""
MOST_REST_S = 3600.0


class Outcome(StrEnum):
    TAKEN = "taken"
    LATER = "later"
    TOO_LARGE = "too_large"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer of a destination."""

    outcome: Outcome
    error: str = ""
    rest_s: float = 0.0
    """Seconds for which it wants to rest; 0: it does not say."""


class Sender(Protocol):
    """A destination."""

    name: str

    def encode(self, spans: pa.Table) -> bytes:
        """Encode spans, which are sorted by trace."""

    def send(self, payload: bytes, traces: int, identity: str) -> Reply:
        """Send a payload; `identity` is the same when it is sent again."""

    def close(self) -> None:
        """Close connections."""


@dataclass(slots=True)
class HttpSender:
    """Sends payloads with one client; its subclass says to where and how they are encoded."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    method: str = "POST"
    _client: httpx.Client | None = None

    def post(self, payload: bytes, headers: Mapping[str, str]) -> Reply:
        if self._client is None:
            self._client = httpx.Client(timeout=self.timeout_s)
        try:
            found = self._client.request(
                self.method, self.url, content=payload, headers={**self.headers, **headers}
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Reply(Outcome.LATER, f"{type(error).__name__}: {error}")
        return reply_of(found.status_code, found.text, found.headers.get("retry-after", ""))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def reply_of(status: int, text: str, retry_after: str) -> Reply:
    """Classify an answer over HTTP.

    >>> reply_of(429, "slow down", "7")
    Reply(outcome=<Outcome.LATER: 'later'>, error='429 slow down', rest_s=7.0)
    >>> reply_of(413, "", "").outcome, reply_of(202, "", "").outcome, reply_of(400, "", "").outcome
    (<Outcome.TOO_LARGE: 'too_large'>, <Outcome.TAKEN: 'taken'>, <Outcome.REFUSED: 'refused'>)
    """
    error = f"{status} {text[:200]}".strip()
    if 200 <= status < 300:
        return Reply(Outcome.TAKEN)
    if status in LATER or status >= 500:
        return Reply(Outcome.LATER, error, rest_of(retry_after))
    return Reply(Outcome.TOO_LARGE if status == 413 else Outcome.REFUSED, error)


def rest_of(retry_after: str) -> float:
    """Read a header `Retry-After`, which is a number of seconds or a date; 0 if it is neither.

    >>> rest_of("2.5"), rest_of("soon"), rest_of("Wed, 21 Oct 2015 07:28:00 GMT")
    (2.5, 0.0, 0.0)
    """
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            at = parsedate_to_datetime(retry_after)
        except ValueError:
            return 0.0
        seconds = (at - dt.datetime.now(dt.UTC)).total_seconds()
    return min(max(seconds, 0.0), MOST_REST_S)


@dataclass(slots=True)
class FileSender:
    """Writes Parquet files of the span relation; one that is sent again replaces itself."""

    name: str
    folder: Path

    def encode(self, spans: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(spans, sink, compression="zstd")
        return bytes(sink.getvalue())

    def send(self, payload: bytes, traces: int, identity: str) -> Reply:
        del traces
        target = self.folder / f"{identity}.parquet"
        part = target.with_suffix(".part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        except OSError as error:
            return Reply(Outcome.LATER, f"{target}: {error}")
        return Reply(Outcome.TAKEN)

    def close(self) -> None:
        """Close nothing: files are closed when they are written."""
