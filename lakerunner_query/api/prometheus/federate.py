"""Federation: the newest samples of the last five minutes, in the formats in which metrics are scraped.

    # TYPE up untyped
    up{instance="",job="a"} 1 1767225600000

As in Prometheus, floats have no type, `instance` is always there, and histograms with exponential buckets
need protobuf; those with explicit buckets become classic ones.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from anyio.to_thread import run_sync
from litestar import MediaType, Request, Response, Router, get

from lakerunner_query.api.prometheus.render import respond_like_prometheus
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import missing_warnings, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.languages import STORED_SAMPLES
from lakerunner_query.coordinator.promql import LOOKBACK_MS
from lakerunner_query.coordinator.stored_samples import SamplesRequest
from lakerunner_query.errors import InvalidRequestError, QueryError, SegmentsMissingError
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.promql.lang.parser import parse_selector
from lakerunner_query.protocol.answers import NewestSample, SparseHistogram
from lakerunner_query.protocol.units import SeriesSelector
from lakerunner_query.serving import handlers, unless_gone
from resources.proto.prometheus import MetricFamily

TEXT = "text/plain; version=0.0.4; charset=utf-8"
MESSAGE = "io.prometheus.client.MetricFamily"
PROTOBUF = f"application/vnd.google.protobuf; proto={MESSAGE}; encoding=delimited"
UNTYPED, HISTOGRAM, GAUGE_HISTOGRAM = 3, 4, 5
"""Types of families, by their numbers in the protocol."""
CUSTOM = -53
"""Schema of histograms with explicit buckets."""
NAME, INSTANCE = "__name__", "instance"
_PLAIN_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@get("/federate", media_type=MediaType.TEXT)
async def federate(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return the newest sample of each series that any `match[]` selects."""
    fields = await read_fields(request)
    accepted = accept(request.headers.get("accept", ""))
    now = time.time_ns() // 1_000_000
    chosen = tuple(
        SeriesSelector(_selector(text), now - LOOKBACK_MS - 1, now) for text in fields.all("match[]")
    )
    with services.watch("prometheus") as watch:
        asked = SamplesRequest(caller(request.state).org, chosen, "newest")
        found = await unless_gone(request, services.engine.ask(STORED_SAMPLES, asked))
        if found.missing:
            raise SegmentsMissingError(missing_warnings(found.missing)[0])
        watch.end(partial=False, points=len(found.newest))
    body = await run_sync(lambda: b"".join(exposition(found.newest, accepted)))
    return Response(body, headers={"Content-Type": accepted.content_type})


@get("/", media_type=MediaType.TEXT, sync_to_thread=False, guards=[], tags=["health"])
def home() -> str:
    """Answer clients that ask for the page of a Prometheus to see whether there is one."""
    return "Prometheus' API is below /prometheus/api/v1, federation at /prometheus/federate.\n"


federation_router = Router(
    "/prometheus",
    route_handlers=[federate],
    guards=[require_reader],
    exception_handlers=handlers(respond_like_prometheus),
    tags=["prometheus"],
)
home_router = Router("/prometheus", route_handlers=[home])


def _selector(text: str) -> tuple[Any, ...]:
    try:
        return parse_selector(text)
    except QueryError as error:
        raise InvalidRequestError(error.message, error.position) from error


@dataclass(frozen=True, slots=True)
class Accepted:
    """The format of the answer, and how names beyond the old alphabet are written in it."""

    is_protobuf: bool = False
    escaping: str = "underscores"

    @property
    def content_type(self) -> str:
        return f"{PROTOBUF if self.is_protobuf else TEXT}; escaping={self.escaping}"


def accept(header: str) -> Accepted:
    """Choose the first clause that names a format there is, by weight; text otherwise.

    >>> accept("application/json, text/*;q=0.5").content_type
    'text/plain; version=0.0.4; charset=utf-8; escaping=underscores'
    """
    escaping = "underscores"
    for kind, more in sorted(map(_clause, header.split(",")), key=lambda one: -_weight(one[1])):
        escaping = more["escaping"] if more.get("escaping") in ESCAPES else escaping
        family, _, form = kind.partition("/")
        if (family, form) == ("application", "vnd.google.protobuf"):
            if (more.get("proto"), more.get("encoding")) == (MESSAGE, "delimited"):
                return Accepted(True, escaping)
        elif family in {"text", "*"} and form in {"plain", "*"} and more.get("version", "0.0.4") == "0.0.4":
            return Accepted(False, escaping)
    return Accepted(False, escaping)


def _clause(text: str) -> tuple[str, dict[str, str]]:
    kind, *more = (part.strip() for part in text.split(";"))
    pairs = (part.partition("=") for part in more)
    return kind.lower(), {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}


def _weight(more: dict[str, str]) -> float:
    try:
        return float(more.get("q", "1"))
    except ValueError:
        return 0.0


def exposition(samples: Sequence[NewestSample], accepted: Accepted) -> Iterator[bytes]:
    """Render samples by name; a name with samples of several types makes several families."""
    escape = ESCAPES[accepted.escaping]
    named = [(name, one) for one in samples if (name := dict(one.labels).get(NAME, ""))]
    named.sort(key=itemgetter(0))
    for (name, kind), pairs in groupby(named, lambda pair: (pair[0], _kind(pair[1]))):
        members = (one for _, one in pairs)
        if accepted.is_protobuf:
            yield _family(escape(name), kind, members, escape)
        else:
            yield _text(escape(name), kind, members, escape)


def _kind(one: NewestSample) -> int:
    if one.histogram is None:
        return UNTYPED
    return GAUGE_HISTOGRAM if one.histogram.is_gauge else HISTOGRAM


def _pairs(one: NewestSample, escape: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the labels of a sample, with an `instance` in any case."""
    found = [(escape(name), value) for name, value in one.labels if name != NAME]
    return found if any(name == INSTANCE for name, _ in one.labels) else [*found, (INSTANCE, "")]


def _number(one: NewestSample) -> float:
    value: float = struct.unpack("<d", one.value)[0]
    return value


def _text(name: str, kind: int, members: Iterable[NewestSample], escape: Callable[[str], str]) -> bytes:
    lines: list[str] = []
    for one in members:
        pairs = _pairs(one, escape)
        if one.histogram is None:
            lines.append(_line(name, pairs, _number(one), one.time_ms))
        elif one.histogram.schema == CUSTOM:
            lines += _classic_lines(name, pairs, one.histogram, one.time_ms)
    if not lines:
        return b""
    title = f"# TYPE {_quoted(name)} {'untyped' if kind == UNTYPED else 'histogram'}\n"
    return (title + "".join(lines)).encode("utf-8", "surrogateescape")


def _classic_lines(
    name: str, pairs: list[tuple[str, str]], histogram: SparseHistogram, time_ms: int
) -> Iterator[str]:
    for bound, count in [*cumulative(histogram), (float("inf"), histogram.count)]:
        yield _line(f"{name}_bucket", [*pairs, ("le", format_float(bound))], count, time_ms)
    yield _line(f"{name}_sum", pairs, histogram.sum, time_ms)
    yield _line(f"{name}_count", pairs, histogram.count, time_ms)


def cumulative(histogram: SparseHistogram) -> Iterator[tuple[float, float]]:
    """Yield the bounds of explicit buckets with the counts up to them."""
    spans, counts = histogram.positive
    by_place: dict[int, float] = {}
    place, values = 0, iter(counts)
    for gap, length in spans:
        place += gap
        by_place.update(zip(range(place, place + length), values, strict=False))
        place += length
    total = 0.0
    for place, bound in enumerate(histogram.bounds):
        total += by_place.get(place, 0.0)
        yield bound, total


def _line(name: str, pairs: list[tuple[str, str]], value: float, time_ms: int) -> str:
    is_plain = bool(_PLAIN_NAME.fullmatch(name))
    parts = [] if is_plain else [_quoted(name)]
    parts += [f'{_quoted(key)}="{_escaped(text)}"' for key, text in pairs]
    return f"{name if is_plain else ''}{{{','.join(parts)}}} {format_float(value)} {time_ms}\n"


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f'"{_escaped(name)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _family(name: str, kind: int, members: Iterable[NewestSample], escape: Callable[[str], str]) -> bytes:
    family = MetricFamily(name=name, type=kind)
    for one in members:
        metric = family.metric.add(timestamp_ms=one.time_ms)
        for key, value in _pairs(one, escape):
            metric.label.add(name=key, value=value)
        if one.histogram is None:
            metric.untyped.value = _number(one)
        else:
            _put_histogram(metric.histogram, one.histogram)
    body: bytes = family.SerializeToString()
    size, length = bytearray(), len(body)
    while length >= 128:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes((*size, length)) + body


def _put_histogram(message: Any, histogram: SparseHistogram) -> None:
    message.sample_count_float, message.sample_sum = histogram.count, histogram.sum
    if histogram.schema == CUSTOM:
        for bound, count in cumulative(histogram):
            message.bucket.add(upper_bound=bound, cumulative_count_float=count)
        return
    message.schema, message.zero_threshold = histogram.schema, histogram.zero_threshold
    message.zero_count_float = histogram.zero_count
    for spans, counts, (listed, numbers) in (
        (message.positive_span, message.positive_count, histogram.positive),
        (message.negative_span, message.negative_count, histogram.negative),
    ):
        for offset, length in listed:
            spans.add(offset=offset, length=length)
        counts.extend(numbers)


def _is_old(character: str, at: int) -> bool:
    """Tell whether a character at this place is in the alphabet of names without quotes."""
    is_word = character.isalpha() or character in "_:" or (at > 0 and character.isdigit())
    return character.isascii() and is_word


def _with_underscores(name: str) -> str:
    return "".join(one if _is_old(one, at) else "_" for at, one in enumerate(name))


def _with_dots(name: str) -> str:
    return "".join(
        "__" if one == "_" else "_dot_" if one == "." else one if _is_old(one, at) else "__"
        for at, one in enumerate(name)
    )


def _with_values(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name
    return "U__" + "".join(
        "__" if one == "_" else one if _is_old(one, at) else f"_{ord(one):x}_" for at, one in enumerate(name)
    )


ESCAPES: dict[str, Callable[[str], str]] = {
    "allow-utf-8": lambda name: name,
    "underscores": _with_underscores,
    "dots": _with_dots,
    "values": _with_values,
}
"""Ways to write names beyond the old alphabet, by the parameter of `Accept`."""
