"""The endpoints of Prometheus that list series, label names and values, metadata and exemplars."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
from litestar import Request, Response, get, route

from lakerunner_query.api.prometheus import render as answers
from lakerunner_query.api.prometheus.params import FOREVER_MS, limit, optional_time, selectors, unescape_label
from lakerunner_query.api.prometheus.render import JSON, METHODS, reply
from lakerunner_query.api.shared.auth import caller
from lakerunner_query.api.shared.requests import RequestFields, missing_warnings, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.languages import EXEMPLARS, LABEL_NAMES, LABEL_VALUES, METADATA, SERIES
from lakerunner_query.coordinator.names import Listing, SeriesRequest
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.gotext.strconv import PROMQL
from lakerunner_query.histogram.text import api_number
from lakerunner_query.promql.lang.ast import Selector, walk
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.protocol.answers import MetricFact, SeriesExemplars
from lakerunner_query.protocol.units import SeriesSelector
from lakerunner_query.serving import unless_gone
from resources.index.account_types import MetricFamily
from resources.lake.metric_families import is_part, possible_families


@route("/series", http_method=METHODS, status_code=200, media_type=JSON)
async def series(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the label sets of the series that match."""
    fields = await read_fields(request)
    if not fields.all("match[]"):
        raise InvalidRequestError("no match[] parameter provided")
    wanted = question(fields, caller(request.state).org)
    with services.watch("prometheus") as watch:
        found = await unless_gone(request, services.engine.ask(SERIES, wanted))
        watch.end(partial=bool(found.missing))
    return _reply(fields, await asyncio.to_thread(answers.series, found.series), found)


@route("/labels", http_method=METHODS, status_code=200, media_type=JSON)
async def labels(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List label names."""
    fields = await read_fields(request)
    wanted = question(fields, caller(request.state).org)
    with services.watch("prometheus") as watch:
        found = await unless_gone(request, services.engine.ask(LABEL_NAMES, wanted))
        watch.end(partial=bool(found.missing))
    return _reply(fields, msgspec.json.encode(found.texts), found)


@get("/label/{name:str}/values", media_type=JSON)
async def label_values(name: str, request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the values of one label; the prefix `U__` marks a name in hexadecimal."""
    fields = await read_fields(request)
    label = unescape_label(name)
    if not label:
        raise InvalidRequestError(f"invalid label name: {PROMQL.quote(label)}")
    wanted = replace(question(fields, caller(request.state).org), label=label)
    with services.watch("prometheus") as watch:
        found = await unless_gone(request, services.engine.ask(LABEL_VALUES, wanted))
        watch.end(partial=bool(found.missing))
    return _reply(fields, msgspec.json.encode(found.texts), found)


def question(fields: RequestFields, org: str) -> SeriesRequest:
    """Read selectors and range, both ends included; all time by default."""
    most = limit(fields)
    start = optional_time(fields, "start", -FOREVER_MS) - 1
    end = optional_time(fields, "end", FOREVER_MS)
    chosen = tuple(SeriesSelector(matchers, start, end) for matchers in selectors(fields.all("match[]")))
    return SeriesRequest(org, start, end, chosen, most)


def _reply(fields: RequestFields, data: bytes, found: Listing) -> Response[bytes]:
    truncated = [answers.TRUNCATED] if found.truncated else []
    return reply(
        fields, data, answers.Messages([*missing_warnings(found.missing), *truncated]), found.missing
    )


RECENT_MS = 86_400_000
"""Age of metadata; Prometheus returns that of current targets, here that of one day."""
NS_PER_MS = 1_000_000


@get("/metadata", media_type=JSON)
async def metadata(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return type, help and unit by metric; `start` and `end` are parameters of Lakerunner alone.

    Remote write tells them of families, apart from samples or with them; the index keeps those, and they
    count for all metrics of the family. Segments tell those of other metrics.
    """
    fields = await read_fields(request)
    most, most_each = _count(fields, "limit"), _count(fields, "limit_per_metric")
    end = optional_time(fields, "end", time.time_ns() // NS_PER_MS)
    start = optional_time(fields, "start", end - RECENT_MS)
    wanted = SeriesRequest(caller(request.state).org, start - 1, end, metric=fields.text("metric"))
    with services.watch("prometheus") as watch:
        found = await unless_gone(request, services.engine.ask(METADATA, wanted))
        told = await services.locator.metric_families(wanted.org, start, wanted.metric)
        watch.end(partial=bool(found.missing))
    data = metadata_json(unite_facts(found.facts, told, wanted.metric), most, most_each)
    return reply(fields, data, answers.Messages(missing_warnings(found.missing)), found.missing)


@route("/query_exemplars", http_method=METHODS, status_code=200, media_type=JSON)
async def query_exemplars(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List exemplars of all series that an expression selects."""
    fields = await read_fields(request)
    start = optional_time(fields, "start", -FOREVER_MS)
    end = optional_time(fields, "end", FOREVER_MS)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before start timestamp")
    expr = parse(fields.text("query"), services.features)
    matchers = {one.matchers for one in walk(expr) if isinstance(one, Selector)}
    if not matchers:
        return Response(b'{"status":"success"}', media_type=JSON)
    chosen = tuple(SeriesSelector(each, start - 1, end) for each in matchers)
    wanted = SeriesRequest(caller(request.state).org, start - 1, end, chosen)
    with services.watch("prometheus") as watch:
        found = await unless_gone(request, services.engine.ask(EXEMPLARS, wanted))
        watch.end(partial=bool(found.missing))
    messages = answers.Messages(missing_warnings(found.missing))
    return reply(fields, exemplars_json(found.exemplars), messages, found.missing)


def unite_facts(stored: Sequence[MetricFact], told: Sequence[MetricFamily], metric: str) -> list[MetricFact]:
    """Put what remote write told of families beside what segments say of other metrics.

    told    family latency, histogram         ->  latency histogram
    stored  latency_bucket unknown, up gauge      up gauge
    """
    types: dict[str, set[str]] = {}
    for each in told:
        types.setdefault(each.family, set()).add(each.type)

    def is_told(name: str) -> bool:
        return any(
            is_part(suffix, type_)
            for family, suffix in possible_families(name)
            for type_ in types.get(family, ())
        )

    found = {msgspec.structs.replace(fact, temporality="") for fact in stored if not is_told(fact.name)}
    for each in told:
        name = metric or each.family
        if is_part(name.removeprefix(each.family), each.type):
            found.add(MetricFact(name, each.type, each.unit, each.help))
    return sorted(found)


def metadata_json(facts: Sequence[MetricFact], most: int, most_each: int) -> bytes:
    """Render facts by metric; a limit below zero is none."""
    found: dict[str, list[dict[str, str]]] = {}
    for fact in facts:
        if fact.name not in found and 0 <= most <= len(found):
            break
        each = found.setdefault(fact.name, [])
        if most_each < 0 or len(each) < most_each:
            each.append({"type": fact.type, "help": fact.description, "unit": fact.unit})
    return msgspec.json.encode(found)


def exemplars_json(series: Sequence[SeriesExemplars]) -> bytes:
    return msgspec.json.encode(
        [
            {
                "seriesLabels": dict(one.labels),
                "exemplars": [
                    {
                        "labels": dict(each.labels),
                        "value": api_number(each.value),
                        "timestamp": msgspec.Raw(answers.seconds(each.time_ms)),
                    }
                    for each in one.exemplars
                ],
            }
            for one in series
        ]
    )


def _count(fields: RequestFields, name: str) -> int:
    text = fields.text(name)
    if not text:
        return -1
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or len(text) > 18:
        raise InvalidRequestError(f"{name} must be a number")
    return int(text)
