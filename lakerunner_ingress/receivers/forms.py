"""Forms of raw objects from pushes, and the lanes that share an object."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from enum import StrEnum

from resources.index.account_types import MetricFamily
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, cut, from_datetime
from resources.notifications.raw_objects import marker
from resources.settings import Settings


class Form(StrEnum):
    """An encoding of requests; requests of one form can stand one after the other in an object."""

    OTLP_PROTOBUF = "otlp_protobuf"
    OTLP_JSON = "otlp_json"
    REMOTE_WRITE = "remote_write"
    LOKI_PUSH = "loki_push"

    @property
    def head(self) -> bytes:
        """First bytes of an object of this form."""
        return _HEADS.get(self, b"")

    @property
    def suffix(self) -> str:
        return ".json.zst" if self is Form.OTLP_JSON else ".binpb.zst"


_HEADS = {
    Form.REMOTE_WRITE: marker("prometheus.WriteRequest"),
    Form.LOKI_PUSH: marker("logproto.PushRequest"),
}


@dataclass(frozen=True, slots=True)
class CheckedPush:
    """The valid part of a push, and the reason why the rest is refused."""

    signal: Signal
    form: Form
    data: bytes
    rejected: int = 0
    """Number of refused records (log records, data points, spans, series, lines)."""
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers of the answer."""
    families: tuple[MetricFamily, ...] = ()
    """Descriptions of metric families that came with it."""


FAR_NS = 3650 * 86_400 * 10**9
"""Distance from the bounds beyond which a time is taken for one in another unit than nanoseconds."""


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Times of events that queries find; cooking puts others into quarantine."""

    first_ns: int
    last_ns: int

    def contain(self, time_ns: int) -> bool:
        return self.first_ns <= time_ns <= self.last_ns

    def are_far_from(self, time_ns: int) -> bool:
        return not self.first_ns - FAR_NS <= time_ns <= self.last_ns + FAR_NS


def time_bounds(settings: Settings, now: dt.datetime) -> TimeBounds:
    """Return the bounds of what arrives now: the horizon, and the end of the hour with the tolerance."""
    first = dt.datetime.fromisoformat(settings.horizon).replace(tzinfo=dt.UTC)
    hour_ns = cut(from_datetime(now), HOUR_NS)
    return TimeBounds(from_datetime(first), hour_ns + HOUR_NS + settings.future_tolerance_s * 10**9)


@dataclass(frozen=True, slots=True)
class Push:
    """A push as its path and headers describe it, which is all that opening and checking need to know."""

    signal: Signal
    form: Form
    encoding: str
    """Content-Encoding of the body."""
    message: str = ""
    """Message of remote write; `json` for a Loki push in JSON."""
    times: TimeBounds | None = None
    """Bounds of times, where the protocol tells senders about those outside."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The requests that share an object."""

    org: str
    collector: str
    signal: Signal
    form: Form
