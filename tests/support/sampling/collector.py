"""Policies and traces on which the collector's code and ours must agree.

Values whose kinds decide in the collector are avoided, as are policies that it decides by the order of spans
or by a clock; docs/reference/sampling-policies.md names these differences.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

from tests.support.sampling.oracle import by_trace, random_policies
from tests.support.sampling.spans import Span, random_spans

OURS = {"ottl_condition", "span_duration", "deterministic", "composite"}
TRACES = 60


def cases(count: int, *, tracestate: bool) -> Iterator[tuple[int, list[dict[str, Any]], list[Span]]]:
    """Yield seeds with policies that have something to decide, and spans."""
    seed = found = 0
    while found < count:
        seed += 1
        policies = policies_of(seed, tracestate=tracestate)
        if policies:
            found += 1
            yield seed, policies, spans_of(seed)


def policies_of(seed: int, *, tracestate: bool) -> list[dict[str, Any]]:
    made = [each for each in random_policies(random.Random(seed)) if not _differs(each, tracestate)]
    text = json.dumps(made).replace('"upper_threshold_ms": 2500', '"upper_threshold_ms": 0')
    found: list[dict[str, Any]] = json.loads(text)
    return found


def _differs(policy: dict[str, Any], tracestate: bool) -> bool:
    kind = policy["type"]
    given = policy.get(kind, {})
    below = [given["not_sub_policy"]] if kind == "not" else given.get(f"{kind}_sub_policy", [])
    limited = any(each["type"] == "rate_limiting" for each in below)
    return (
        kind in OURS
        or (kind == "rate_limiting" and not tracestate)
        or (kind in {"not", "drop"} and limited)
        or any(_differs(each, tracestate) for each in below)
    )


def spans_of(seed: int) -> list[Span]:
    spans = random_spans(seed, TRACES)
    for span in spans:
        for held in (span.attributes, span.resource):
            if held.get("http.status_code") in {"5.5", "x", "007"}:
                held["http.status_code"] = "-7"
            if held.get("retry") == "yes":
                held["retry"] = "true"
    return spans


def digest(spans: list[Span]) -> str:
    """Return a hash that changes when the generator does."""
    return hashlib.sha256(repr(spans).encode()).hexdigest()[:16]


def bits(kept: dict[str, bool], spans: list[Span]) -> str:
    """Write decisions in the order of traces."""
    return "".join(str(int(kept[key.hex()])) for key in by_trace(spans))


def otlp(trace: list[Span]) -> str:
    """Write a trace as OTLP's JSON."""
    groups = []
    for span in trace:
        one: dict[str, Any] = {
            "traceId": span.trace_id.hex(),
            "spanId": f"{span.span:016x}",
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": str(span.start_ns),
            "endTimeUnixNano": str(span.end_ns),
            "traceState": span.state,
            "flags": span.flags,
            "status": {"code": span.status},
            "attributes": _attributes(span.attributes),
        }
        if span.parent is not None:
            one["parentSpanId"] = f"{span.parent:016x}"
        resource = {"attributes": _attributes({"service.name": span.service, **span.resource})}
        groups.append({"resource": resource, "scopeSpans": [{"spans": [one]}]})
    return json.dumps({"resourceSpans": groups})


def _attributes(held: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(key, value)} for key, value in held.items()]


def _value(key: str, value: str) -> dict[str, Any]:
    if key == "retry":
        return {"boolValue": value == "true"}
    return {"intValue": value} if key == "http.status_code" else {"stringValue": value}
