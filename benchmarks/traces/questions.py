"""TraceQL questions stand here with what makes two answers the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from benchmarks.traces.data import Loaded
from resources.proto.tempo import TraceByIDResponse

SECOND_NS = 10**9
PROTOBUF = {"Accept": "application/protobuf"}
FIRST, EVERY = 20, 20_000
STEP_S = 60
SLICE_S = 120
"""Seconds of the range in which all matches of a frequent condition are compared."""
RARE, FREQUENT, STRUCTURE, RATE, QUANTILE, BY_ID = (
    "search-rare", "search-frequent", "structural", "metrics-rate", "metrics-quantile", "trace-by-id",
)  # fmt: skip
ERRORS = "{ span.http.response.status_code = 500 }"
FEW = '{ name = "GET /orders" && status = error } >> { name = "charge" && status = error }'
MANY = '{ resource.service.name = "svc-3" } >> { resource.service.name = "svc-7" && status = error }'

Values = Mapping[str, object]
Facts = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Question:
    target: str
    name: str
    asked: Sequence[tuple[str, Values]]
    """Path and parameters behind the API's prefix; several stand for one another in turn."""
    compared: Sequence[tuple[str, Values]]
    """Those whose whole answers are compared before anything is timed."""
    facts: Callable[[bytes], Facts]
    headers: Mapping[str, str]
    tempo_facts: Callable[[bytes], Facts] | None = None
    """Reads Tempo's answer where it says the same in another form."""


def questions(loaded: Loaded) -> list[Question]:
    by_id = [(f"/v2/traces/{one}", {}) for one in loaded.traces]
    rare = f'{{ span.user.id = "{loaded.user}" }}'
    middle_s = (loaded.start_ns + loaded.end_ns) // 2 // SECOND_NS
    part = {"start": middle_s, "end": middle_s + SLICE_S}
    return [
        Question(BY_ID, "trace by id", by_id, by_id, spans_of_trace, PROTOBUF),
        _search(RARE, "rare attribute", rare, loaded),
        _search(FREQUENT, "frequent attribute", ERRORS, loaded, part),
        _search(STRUCTURE, "few traces, all of them", FEW, loaded, limit=EVERY),
        _search(STRUCTURE, "many traces, first ones", MANY, loaded, part),
        _metrics(RATE, "rate", "{} | rate() by (resource.service.name)", loaded),
        _metrics(QUANTILE, "quantile", "{} | quantile_over_time(duration, .9)", loaded),
    ]


def _search(
    target: str, name: str, text: str, loaded: Loaded, part: Values | None = None, limit: int = FIRST
) -> Question:
    """Ask for the first matches of the range; compare all of it, or of `part`."""
    within = {"start": loaded.start_ns // SECOND_NS, "end": loaded.end_ns // SECOND_NS}
    asked = ("/search", {"q": text, **within, "limit": limit})
    compared = ("/search", {"q": text, **(part or within), "limit": EVERY})
    return Question(target, name, [asked], [compared], traces_of_search, {})


def _metrics(target: str, name: str, text: str, loaded: Loaded) -> Question:
    within = {"start": loaded.start_ns // SECOND_NS, "end": loaded.end_ns // SECOND_NS}
    asked = ("/metrics/query_range", {"q": text, **within, "step": f"{STEP_S}s"})
    return Question(target, name, [asked], [asked], samples_of_series, {}, later_samples)


def spans_of_trace(body: bytes) -> Facts:
    """Return what spans say, by id."""
    answer = TraceByIDResponse.FromString(body)
    return {
        span.span_id: (
            span.name, span.parent_span_id, span.kind, span.start_time_unix_nano, span.end_time_unix_nano,
            span.status.code, _attributes(span.attributes), _attributes(group.resource.attributes),
            len(span.events),
        )
        for group in TracesData.FromString(answer.trace.SerializeToString()).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    }  # fmt: skip


def _attributes(pairs: Any) -> tuple[tuple[str, bytes], ...]:
    return tuple(sorted((one.key, one.value.SerializeToString(deterministic=True)) for one in pairs))


def traces_of_search(body: bytes) -> Facts:
    """Return root, time and number of matches by trace id."""
    return {
        one["traceID"]: (
            one.get("rootServiceName"), one.get("rootTraceName"), one["startTimeUnixNano"],
            one.get("durationMs", 0), sum(each["matched"] for each in one["spanSets"]),
        )
        for one in json.loads(body).get("traces", ())
    }  # fmt: skip


def samples_of_series(body: bytes) -> Facts:
    """Return samples other than 0 by labels and time."""
    return {
        (json.dumps(each["labels"], sort_keys=True), sample["timestampMs"]): round(sample["value"], 9)
        for each in json.loads(body)["series"]
        for sample in each["samples"]
        if sample.get("value")
    }


def later_samples(body: bytes) -> Facts:
    """Return samples at the ends of their steps; Tempo of May 2025 names a step by its begin."""
    return {
        (labels, str(int(time_ms) + STEP_S * 1000)): value
        for (labels, time_ms), value in samples_of_series(body).items()
    }
