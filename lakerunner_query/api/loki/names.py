"""The endpoints of Loki that list labels, their values and streams, with sizes and volumes.

Bytes are those of the stored segments, shared out by rows, not the length of the lines. A range of part of an
hour gets that part of each stream's rows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
from litestar import Request, Response, get, route

from lakerunner_query.api.loki.params import RECENT_S, limit, query_text, selector, step_ns, time_range
from lakerunner_query.api.loki.render import JSON, METHODS, bare, reply, statistics
from lakerunner_query.api.prometheus.render import metric, seconds
from lakerunner_query.api.prometheus.render import series as series_json
from lakerunner_query.api.shared.auth import caller
from lakerunner_query.api.shared.requests import RequestFields, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.languages import (
    STREAM_LABEL_VALUES,
    STREAM_LABELS,
    STREAM_SIZES,
    STREAM_VOLUMES,
    STREAMS,
)
from lakerunner_query.coordinator.merge import RowMerge
from lakerunner_query.coordinator.names import Listing, StreamsRequest
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.serving import unless_gone
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Labels


@route(["/labels", "/label"], http_method=METHODS, status_code=200, media_type=JSON)
async def labels(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the names of stream labels."""
    fields = await read_fields(request)
    wanted = question(fields, caller(request.state).org, *fields.all("query"))
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.engine.ask(STREAM_LABELS, wanted))
        watch.end(partial=bool(found.missing))
    return reply(fields, msgspec.json.encode(found.texts), found.missing)


@get("/label/{name:str}/values", media_type=JSON)
async def label_values(name: str, request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the values of one stream label."""
    fields = await read_fields(request)
    wanted = replace(question(fields, caller(request.state).org, *fields.all("query")), labels=(name,))
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.engine.ask(STREAM_LABEL_VALUES, wanted))
        watch.end(partial=bool(found.missing))
    return reply(fields, msgspec.json.encode(found.texts), found.missing)


@route("/series", http_method=METHODS, status_code=200, media_type=JSON)
async def series(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the label sets of the streams that match."""
    fields = await read_fields(request)
    wanted = question(fields, caller(request.state).org, *fields.all("match[]", "match"))
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.engine.ask(STREAMS, wanted))
        watch.end(partial=bool(found.missing))
    return reply(fields, await asyncio.to_thread(series_json, found.series), found.missing)


def question(fields: RequestFields, org: str, *selectors: str) -> StreamsRequest:
    """Read selectors and range, by default the last hours."""
    start, end = time_range(fields, time.time_ns(), RECENT_S)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    return StreamsRequest(org, start, end, tuple(selector(text) for text in selectors if text.strip()))


MAX_GROUPS = 100
NS_PER_MS = 1_000_000
BY_SERIES, BY_LABELS = "series", "labels"


@route("/index/stats", http_method=METHODS, status_code=200, media_type=JSON)
async def index_stats(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Count the streams, chunks, bytes and lines that a query would read."""
    fields = await read_fields(request)
    wanted = question(fields, caller(request.state).org, query_text(fields))
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.engine.ask(STREAM_SIZES, wanted))
        watch.end(partial=bool(found.missing))
    sizes = {"streams": found.streams, "chunks": found.chunks, "bytes": found.bytes, "entries": found.rows}
    return bare(fields, msgspec.json.encode(sizes), found.missing)


@route("/index/volume", http_method=METHODS, status_code=200, media_type=JSON)
async def index_volume(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Sum bytes by the labels that the query names, or by `targetLabels`."""
    return await _volume(request, services, is_range=False)


@route("/index/volume_range", http_method=METHODS, status_code=200, media_type=JSON)
async def index_volume_range(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Sum bytes like `index_volume`, step by step."""
    return await _volume(request, services, is_range=True)


async def _volume(request: Request[Any, Any, Any], services: Services, *, is_range: bool) -> Response[bytes]:
    fields = await read_fields(request)
    began = time.perf_counter()
    wanted = question(fields, caller(request.state).org, query_text(fields))
    step = step_ns(fields, wanted.start_ns, wanted.end_ns) if is_range else 0
    by_labels, most = _aggregates_by_labels(fields), limit(fields, MAX_GROUPS)
    targets = _targets(fields, wanted, by_labels=by_labels)
    volumes = replace(_with_targets(wanted, fields), labels=targets, step_ns=step)
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.engine.ask(STREAM_VOLUMES, volumes))
        watch.end(partial=bool(found.missing))
    series = greatest(_by_label(found) if by_labels else _by_series(found), most)
    stats = msgspec.json.encode(statistics(RowMerge(0), time.perf_counter() - began))
    return reply(fields, volumes_json(series, wanted, step, stats), found.missing)


Volumes = dict[Labels, dict[int, float]]
"""Bytes by bucket."""


def greatest(volumes: Volumes, most: int) -> list[tuple[Labels, dict[int, float]]]:
    ordered = sorted(volumes.items(), key=lambda one: (-sum(one[1].values()), one[0]))
    return ordered[:most]


def volumes_json(
    series: Iterable[tuple[Labels, dict[int, float]]], within: StreamsRequest, step: int, stats: bytes
) -> bytes:
    """Render a vector where every series has one value, else a matrix."""
    rendered = [(metric(labels), _points(buckets, within.end_ns, step)) for labels, buckets in series]
    if all(len(points) == 1 for _, points in rendered):
        kind = b"vector"
        parts = [b'{"metric":' + of + b',"value":' + points[0] + b"}" for of, points in rendered]
    else:
        kind = b"matrix"
        parts = [b'{"metric":' + of + b',"values":[' + b",".join(points) + b"]}" for of, points in rendered]
    return b'{"resultType":"' + kind + b'","result":[' + b",".join(parts) + b'],"stats":' + stats + b"}"


def _points(buckets: dict[int, float], end_ns: int, step: int) -> list[bytes]:
    """Render points at the last millisecond of each bucket, the last one at the end of the range."""
    ends = {bucket: _end_ms(bucket, end_ns, step) for bucket in buckets}
    return [
        b"[" + seconds(ends[bucket]) + f',"{round(size)}"]'.encode()
        for bucket, size in sorted(buckets.items())
    ]


def _end_ms(bucket: int, end_ns: int, step: int) -> int:
    """
    >>> _end_ms(0, 70_000_000_000, 60_000_000_000), _end_ms(1, 70_000_000_000, 60_000_000_000)
    (59999, 70000)
    """
    whole_ms = (bucket + 1) * step // NS_PER_MS - 1
    last_ms = -(-end_ns // NS_PER_MS)
    return min(whole_ms, last_ms) if step else last_ms


def _by_series(found: Listing) -> Volumes:
    volumes: Volumes = {}
    for (labels, bucket), size in found.volumes.items():
        volumes.setdefault(labels, {})[bucket] = size
    return volumes


def _by_label(found: Listing) -> Volumes:
    """Sum bytes by label name; every label of a group counts for itself."""
    volumes: Volumes = {}
    for (labels, bucket), size in found.volumes.items():
        for name, _ in labels:
            of = volumes.setdefault(((name, ""),), {})
            of[bucket] = of.get(bucket, 0.0) + size
    return volumes


def _target_labels(fields: RequestFields) -> tuple[str, ...]:
    return tuple(name.strip() for name in fields.text("targetLabels").split(",") if name.strip())


def _targets(fields: RequestFields, wanted: StreamsRequest, *, by_labels: bool) -> tuple[str, ...]:
    """Choose the labels that make a group: `targetLabels`, else those of the query."""
    if by_labels:
        return _target_labels(fields)
    return _target_labels(fields) or tuple(
        dict.fromkeys(one.name for each in wanted.selectors for one in each)
    )


def _with_targets(wanted: StreamsRequest, fields: RequestFields) -> StreamsRequest:
    """Select only streams that have all of `targetLabels`."""
    present = tuple(Matcher(name, MatchOp.NOT_EQUAL, "") for name in _target_labels(fields))
    return replace(wanted, selectors=tuple((*each, *present) for each in wanted.selectors))


def _aggregates_by_labels(fields: RequestFields) -> bool:
    by = fields.text("aggregateBy") or BY_SERIES
    if by not in {BY_SERIES, BY_LABELS}:
        raise InvalidRequestError("invalid aggregation option")
    return by == BY_LABELS
