"""Differences of two traces: pairs, changes, tolerances, places in the tree."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from lakerunner_query.assembly import diff as module
from lakerunner_query.assembly.diff import diff
from lakerunner_query.errors import LimitExceededError

MS = 1_000_000


@dataclass(frozen=True)
class One:
    """A span of a test; times in milliseconds, ids of one byte."""

    span: int
    parent: int
    name: str
    start: int = 1
    width: float = 10
    service: str = "web"
    status: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)


def traces(*spans: One) -> TracesData:
    data = TracesData()
    for one in spans:
        group = data.resource_spans.add()
        group.resource.attributes.add(key="service.name").value.string_value = one.service
        span = group.scope_spans.add().spans.add(trace_id=b"t" * 16, name=one.name, kind=2)
        span.span_id = bytes(7) + bytes([one.span])
        span.parent_span_id = bytes(7) + bytes([one.parent]) if one.parent else b""
        span.start_time_unix_nano = (1_000 + one.start) * MS
        span.end_time_unix_nano = int((1_000 + one.start + one.width) * MS)
        span.status.code = one.status  # type: ignore[assignment]
        for key, value in one.attributes.items():
            target = span.attributes.add(key=key).value
            match value:
                case bool():
                    target.bool_value = value
                case int():
                    target.int_value = value
                case float():
                    target.double_value = value
                case bytes():
                    target.bytes_value = value
                case list():
                    for each in value:
                        target.array_value.values.add(string_value=each)
                case _:
                    target.string_value = value
    return data


SHOP = (
    One(1, 0, "GET /", 1, 100),
    One(2, 1, "select", 2, 20, "db", attributes={"rows": 5, "table": "cart"}),
    One(3, 1, "send", 50, 30),
)


def changed(**more: Any) -> tuple[One, ...]:
    """The shop, with other facts of its second span."""
    return SHOP[0], replace(SHOP[1], **more), SHOP[2]


def test_changes_additions_and_removals_have_their_places() -> None:
    retry = One(4, 2, "retry", 30, 12, "db", 1)
    other = (
        SHOP[0],
        replace(SHOP[1], width=80, status=2, attributes={"rows": 5, "error.type": "slow"}),
        retry,
    )
    assert diff(traces(*SHOP), traces(*other)) == {
        "version": "trace-patch-v0",
        "base": {"traceId": "74" * 16, "spanCount": 3},
        "compare": {"traceId": "74" * 16, "spanCount": 3},
        "stats": {
            "spanCountA": 3, "spanCountB": 3, "matchedSpans": 2, "modifiedSpans": 1, "addedSpans": 1,
            "removedSpans": 1, "fieldChanges": 2, "attributeChanges": 2, "eventChanges": 0,
            "truncated": False,
        },
        "modified": [
            {
                "span": {"path": [0, 0], "service": "db", "name": "select", "kind": "server"},
                "changes": [
                    change("modify", {"type": "field", "name": "duration_nanos"}, 20 * MS, 80 * MS),
                    change("modify", {"type": "field", "name": "status"}, "unset", "error"),
                    change("add", {"type": "attribute", "scope": "span", "key": "error.type"}, None, "slow"),
                    change("remove", {"type": "attribute", "scope": "span", "key": "table"}, "cart", None),
                ],
            }
        ],
        "added": [
            {
                "target": {"type": "span", "parentPath": [0, 0], "index": 0},
                "span": {"path": [0, 0, 0], "service": "db", "name": "retry", "kind": "server",
                         "duration_nanos": 12 * MS, "status": "ok"},
            }
        ],
        "removed": [
            {
                "target": {"type": "span", "path": [0, 1]},
                "span": {"path": [0, 1], "service": "web", "name": "send", "kind": "server",
                         "duration_nanos": 30 * MS, "status": "unset"},
            }
        ],
        "warnings": [],
    }  # fmt: skip


def change(op: str, target: dict[str, str], before: object, after: object) -> dict[str, Any]:
    return {"op": op, "target": target, "before": before, "after": after}


@pytest.mark.parametrize(
    ("before", "after", "is_changed"),
    [
        ({"width": 20}, {"width": 26}, False),
        ({"width": 20}, {"width": 29}, True),
        ({"width": 0.1}, {"width": 1}, False),
        ({"width": -1}, {"width": -5}, False),
        ({"width": -1}, {"width": 1}, True),
        ({"attributes": {"http.response.size": 1000}}, {"attributes": {"http.response.size": 1040}}, False),
        ({"attributes": {"http.response.size": 1000}}, {"attributes": {"http.response.size": 1100}}, True),
        ({"attributes": {"rows": 1000}}, {"attributes": {"rows": 1001}}, True),
        ({"attributes": {"rows": 5}}, {"attributes": {"rows": 5.0}}, False),
        ({"attributes": {"rows": 1}}, {"attributes": {"rows": True}}, True),
        ({"attributes": {"rows": "1"}}, {"attributes": {"rows": 1}}, True),
        ({"attributes": {"x": float("nan")}}, {"attributes": {"x": float("nan")}}, False),
        ({"attributes": {"x": ["a", "b"]}}, {"attributes": {"x": ["b", "a"]}}, True),
        ({"attributes": {"x": b"\x00"}}, {"attributes": {"x": b"\x01"}}, True),
        ({"status": 1}, {"status": 2}, True),
    ],
)
def test_what_counts_as_a_change(before: dict[str, Any], after: dict[str, Any], is_changed: bool) -> None:
    found = diff(traces(*changed(**before)), traces(*changed(**after)))
    assert bool(found["modified"]) == is_changed
    assert found["stats"]["matchedSpans"] == 3
    json.dumps(found, allow_nan=False)


def test_a_trace_equals_itself_in_any_order_of_sending() -> None:
    rng = random.Random(3)
    spans = [
        One(n, rng.randrange(n) if n > 1 else 0, rng.choice("abc"), n % 3 + 1, rng.randrange(50),
            attributes={"k": rng.randrange(3)})
        for n in range(1, 60)
    ]  # fmt: skip
    mixed = rng.sample(spans, len(spans))
    found = diff(traces(*spans), traces(*mixed))
    assert (found["stats"]["matchedSpans"], found["modified"], found["added"], found["removed"]) == (
        59,
        [],
        [],
        [],
    )


def test_alike_siblings_are_pairs_before_changed_ones() -> None:
    base = (SHOP[0], *(One(n, 1, "call", n, attributes={"n": n}) for n in (2, 3, 4)))
    other = (
        SHOP[0],
        *(One(n, 1, "call", n, attributes={"n": value}) for n, value in ((2, 4), (3, 2), (4, 9))),
    )
    found = diff(traces(*base), traces(*other))
    (one,) = found["modified"]
    assert [(each["before"], each["after"]) for each in one["changes"]] == [(3, 9)]
    assert [one["code"] for one in found["warnings"]] == ["ambiguous_span_match"]


def test_spans_without_a_way_to_a_root_begin_there() -> None:
    circle = (One(1, 0, "root", 5), One(2, 3, "a", 1), One(3, 2, "b", 2), One(4, 99, "orphan", 3))
    empty = diff(traces(*circle), traces(One(9, 0, "other")))
    assert [(one["span"]["name"], one["target"]["path"]) for one in empty["removed"]] == [
        ("orphan", [0]), ("root", [1]), ("a", [2]), ("b", [2, 0]),
    ]  # fmt: skip
    assert empty["added"][0]["target"] == {"type": "span", "index": 0}


def test_what_is_doubtful_is_warned_of() -> None:
    odd = (One(1, 0, "GET /users/1234567"), One(1, 0, "twin"), One(2, 1, "backwards", width=-3))
    found = diff(traces(*odd), traces(*SHOP))
    assert [one["code"] for one in found["warnings"]] == [
        "high_cardinality_span_name", "invalid_duration", "duplicate_span_id",
    ]  # fmt: skip


def test_a_deep_trace_needs_no_deep_stack_and_too_many_twins_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = TracesData()
    spans = data.resource_spans.add().scope_spans.add().spans
    for number in range(1, 3_001):
        span = spans.add(span_id=number.to_bytes(8, "big"), name=f"n{number}", start_time_unix_nano=number)
        span.parent_span_id = (number - 1).to_bytes(8, "big") if number > 1 else b""
    assert diff(data, data)["stats"]["matchedSpans"] == 3_000
    monkeypatch.setattr(module, "MOST_PAIRS", 2)
    with pytest.raises(LimitExceededError, match="more than 2"):
        diff(traces(*SHOP), traces(*SHOP))
