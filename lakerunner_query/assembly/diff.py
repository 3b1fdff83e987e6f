"""Two traces are compared span by span, as Tempo's `trace-patch-v0` describes it.

    base      GET /  └─ select 20ms      └─ send
    compare   GET /  └─ select 80ms  └─ retry

    modified  select: duration_nanos 20000000 → 80000000      added  retry      removed  send

Spans of one service, name and kind are pairs: first those below the same parent that are alike, last any.
Durations count as changed beyond a quarter and a millisecond; sizes and counts of tokens beyond a twentieth.
"""

from __future__ import annotations

import base64
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from lakerunner_query.errors import LimitExceededError

VERSION = "trace-patch-v0"
MOST_PAIRS = 1_000_000
"""Pairs of spans of one service, name and kind that may be looked at."""
DURATION_SHARE, DURATION_NS, AMOUNT_SHARE = 0.25, 1_000_000, 0.05
AMOUNTS = frozenset(
    """
    http.request.body.size http.request.size http.response.body.size http.response.size
    http.request_content_length http.request_content_length_uncompressed http.response_content_length
    http.response_content_length_uncompressed messaging.message.body.size messaging.message.envelope.size
    message.compressed_size message.uncompressed_size rpc.message.compressed_size
    rpc.message.uncompressed_size file.size gen_ai.usage.input_tokens gen_ai.usage.output_tokens
    gen_ai.usage.prompt_tokens gen_ai.usage.completion_tokens gen_ai.usage.cache_creation.input_tokens
    gen_ai.usage.cache_read.input_tokens gen_ai.usage.reasoning.output_tokens
    gen_ai.response.time_to_first_chunk app.jank.period
    """.split()  # noqa: SIM905 - one name beside the other
)
"""Attributes of which small differences are noise."""
SERVICE = "service.name"
_ID_IN_NAME = re.compile(r"\b(?:[0-9]{6,}|[0-9a-f][0-9a-f-]{7,})\b", re.IGNORECASE)


class Identity(NamedTuple):
    """An operation; spans of two traces that share it may be pairs."""

    service: str
    name: str
    kind: str


@dataclass(frozen=True)
class PlacedSpan:
    """A span with its place: numbers of siblings from the root down."""

    span: Span
    identity: Identity
    parent: Identity | None
    path: tuple[int, ...]
    attributes: Mapping[str, Any]

    @cached_property
    def duration_ns(self) -> int | None:
        """Return the duration; None where start or end is missing or wrong."""
        start, end = self.span.start_time_unix_nano, self.span.end_time_unix_nano
        return end - start if 0 < start <= end else None

    @cached_property
    def status(self) -> str:
        code = self.span.status.code
        return _word(Status.StatusCode, code, "STATUS_CODE_")

    def reference(self) -> dict[str, Any]:
        return {"path": list(self.path), **self.identity._asdict()}

    def snapshot(self) -> dict[str, Any]:
        return {**self.reference(), "duration_nanos": self.duration_ns or 0, "status": self.status}


@dataclass
class Side:
    """One of the two traces, its spans in the order of its tree."""

    trace_id: str = ""
    count: int = 0
    spans: list[PlacedSpan] = field(default_factory=list)
    warnings: list[dict[str, str]] = field(default_factory=list)


def _word(enum: Any, number: int, prefix: str) -> str:
    """Return the word for a number; one that OTLP does not name is its digits."""
    if number not in enum.values():
        return str(number)
    return str(enum.Name(number)).removeprefix(prefix).lower()


def diff(base: TracesData, compare: TracesData) -> dict[str, Any]:
    """Return what has to change in the first trace to get the second one."""
    left, right = place(base, "base"), place(compare, "compare")
    partners = _pairs(left.spans, right.spans)
    modified, added = list[dict[str, Any]](), list[dict[str, Any]]()
    for number, span in enumerate(right.spans):
        if number not in partners:
            target = {"type": "span", "parentPath": list(span.path[:-1]), "index": span.path[-1]}
            added.append({"target": _without_empty(target), "span": span.snapshot()})
        elif changes := list(_changes(left.spans[partners[number]], span)):
            modified.append({"span": span.reference(), "changes": changes})
    paired = set(partners.values())
    removed = [
        {"target": {"type": "span", "path": list(span.path)}, "span": span.snapshot()}
        for number, span in enumerate(left.spans)
        if number not in paired
    ]
    kinds = Counter(change["target"]["type"] for one in modified for change in one["changes"])
    stats = {
        "spanCountA": left.count, "spanCountB": right.count, "matchedSpans": len(partners),
        "modifiedSpans": len(modified), "addedSpans": len(added), "removedSpans": len(removed),
        "fieldChanges": kinds["field"], "attributeChanges": kinds["attribute"], "eventChanges": 0,
        "truncated": False,
    }  # fmt: skip
    return {
        "version": VERSION,
        "base": {"traceId": left.trace_id, "spanCount": left.count},
        "compare": {"traceId": right.trace_id, "spanCount": right.count},
        "stats": stats,
        "modified": modified,
        "added": added,
        "removed": removed,
        "warnings": _warnings(left, right),
    }


def place(data: TracesData, side: str) -> Side:
    """Give each span of a trace its place; those without their parent, and circles, begin at the root."""
    sent = [
        (span, _identity(span, group.resource.attributes))
        for group in data.resource_spans
        for part in group.scope_spans
        for span in part.spans
    ]
    sent.sort(key=lambda one: (one[0].start_time_unix_nano, one[0].span_id))
    known = {span.span_id for span, _ in sent}
    children = defaultdict(list)
    for one in sent:
        parent = one[0].parent_span_id
        children[parent if parent in known else b""].append(one)
    found = Side(next((span.trace_id.hex() for span, _ in sent), ""), len(sent))
    seen: set[bytes] = set()
    roots = [*children.pop(b"", ()), *sent]
    waiting: list[_Level] = [_Level(iter(roots), (), None)]
    while waiting:
        level = waiting[-1]
        fresh = next((each for each in level.spans if each[0].span_id not in seen), None)
        if fresh is None:
            waiting.pop()
            continue
        span, identity = fresh
        seen.add(span.span_id)
        path = (*level.path, level.next_number())
        found.spans.append(PlacedSpan(span, identity, level.parent, path, values(span.attributes)))
        waiting.append(_Level(iter(children.get(span.span_id, ())), path, identity))
    found.warnings = _warn(found, side)
    return found


def _identity(span: Span, resource: Iterable[KeyValue]) -> Identity:
    service = _text(span.attributes) or _text(resource)
    return Identity(service, span.name, _word(Span.SpanKind, span.kind, "SPAN_KIND_"))


@dataclass
class _Level:
    """Siblings, of which some are still to be placed."""

    spans: Iterator[tuple[Span, Identity]]
    path: tuple[int, ...]
    parent: Identity | None
    placed: int = 0

    def next_number(self) -> int:
        self.placed += 1
        return self.placed - 1


def _warn(side: Side, name: str) -> list[dict[str, str]]:
    found = []
    for span in side.spans:
        if _ID_IN_NAME.search(span.identity.name):
            said = (
                f"the name {span.identity.name!r} of {span.identity.service!r} seems to hold an id: the same"
            )
            found.append(_warning("high_cardinality_span_name", f"{said} operation may be added and removed"))
            break
    invalid = sum(one.duration_ns is None for one in side.spans)
    if invalid:
        found.append(_warning("invalid_duration", f"{name} trace: {invalid} spans have no valid duration"))
    lost = side.count - len(side.spans)
    if lost:
        found.append(_warning("duplicate_span_id", f"{name} trace: {lost} spans share ids and are left out"))
    return found


def _warning(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}


def _warnings(left: Side, right: Side) -> list[dict[str, str]]:
    found = list(left.warnings)
    known = {one["code"] for one in found if one["code"] == "high_cardinality_span_name"}
    found += [one for one in right.warnings if one["code"] not in known]
    groups = _ambiguous(left.spans, right.spans)
    if groups:
        said = f"{groups} operations have several spans: which of them are pairs is not certain"
        found.append(_warning("ambiguous_span_match", said))
    return found


def _ambiguous(left: Sequence[PlacedSpan], right: Sequence[PlacedSpan]) -> int:
    """Count the operations whose spans are no certain pairs."""
    counts: dict[Identity, tuple[Counter[Any], Counter[Any]]] = defaultdict(lambda: (Counter(), Counter()))
    for side, spans in enumerate((left, right)):
        for one in spans:
            counts[one.identity][side][one.parent] += 1
    found = 0
    for base, compare in counts.values():
        both = base & compare
        rest = (base - both).total(), (compare - both).total()
        has_several = any(base[parent] > 1 or compare[parent] > 1 for parent in both)
        found += has_several or (min(rest) > 0 and max(rest) > 1)
    return found


def _pairs(left: Sequence[PlacedSpan], right: Sequence[PlacedSpan]) -> dict[int, int]:
    """Return the places of spans in the base by the places of their partners."""
    base, compare = _by_identity(left), _by_identity(right)
    looks = sum(len(base.get(each, ())) * len(members) for each, members in compare.items())
    if looks > MOST_PAIRS:
        raise LimitExceededError(
            f"{looks} pairs of spans have the same service, name and kind, more than {MOST_PAIRS}"
        )
    found: dict[int, int] = {}
    for identity, members in compare.items():
        free = list(base.get(identity, ()))
        open_ = list(members)
        for fits in PHASES:
            for number in open_:
                partner = next((each for each in free if fits(left[each], right[number])), None)
                if partner is not None:
                    found[number] = partner
                    free.remove(partner)
            open_ = [each for each in open_ if each not in found]
    return found


def _by_identity(spans: Sequence[PlacedSpan]) -> dict[Identity, list[int]]:
    found: dict[Identity, list[int]] = {}
    for number, one in enumerate(spans):
        found.setdefault(one.identity, []).append(number)
    return found


def _alike(base: PlacedSpan, compare: PlacedSpan) -> bool:
    """Tell whether there would be no change between two spans."""
    if base.status != compare.status or _other_duration(base, compare):
        return False
    old, new = base.attributes, compare.attributes
    return old.keys() == new.keys() and all(_same_amount(key, old[key], new[key]) for key in old)


def _same_parent(base: PlacedSpan, compare: PlacedSpan) -> bool:
    return base.parent == compare.parent


def _same_status(base: PlacedSpan, compare: PlacedSpan) -> bool:
    return base.status == compare.status


PHASES: tuple[Callable[[PlacedSpan, PlacedSpan], bool], ...] = (
    lambda base, compare: _same_parent(base, compare) and _alike(base, compare),
    lambda base, compare: _same_parent(base, compare) and _same_status(base, compare),
    _same_parent,
    _alike,
    _same_status,
    lambda _base, _compare: True,
)
"""Pairs that fit one of these are made before any of the next."""


def _changes(base: PlacedSpan, compare: PlacedSpan) -> Iterator[dict[str, Any]]:
    if _other_duration(base, compare):
        target = {"type": "field", "name": "duration_nanos"}
        yield _change("modify", target, base.duration_ns, compare.duration_ns)
    if base.status != compare.status:
        yield _change("modify", {"type": "field", "name": "status"}, base.status, compare.status)
    for key in sorted(base.attributes.keys() | compare.attributes.keys()):
        target = {"type": "attribute", "scope": "span", "key": key}
        old, new = base.attributes.get(key), compare.attributes.get(key)
        if key not in base.attributes:
            yield _change("add", target, None, shown(new))
        elif key not in compare.attributes:
            yield _change("remove", target, shown(old), None)
        elif not _same_amount(key, old, new):
            yield _change("modify", target, shown(old), shown(new))


def _other_duration(base: PlacedSpan, compare: PlacedSpan) -> bool:
    before, after = base.duration_ns, compare.duration_ns
    if before is None or after is None:
        return before != after
    return not is_close(before, after, DURATION_SHARE, DURATION_NS)


def _change(op: str, target: dict[str, str], before: object, after: object) -> dict[str, Any]:
    return {"op": op, "target": target, "before": before, "after": after}


def _same_amount(key: str, old: object, new: object) -> bool:
    if key in AMOUNTS and _is_number(old) and _is_number(new):
        return is_close(old, new, AMOUNT_SHARE, 0)  # type: ignore[arg-type]
    return same(old, new)


def is_close(one: float, other: float, share: float, least: float) -> bool:
    return abs(one - other) <= least + share * max(abs(one), abs(other))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(one: object, other: object) -> bool:
    """Compare values as they were sent: numbers by size, NaN with NaN, others by type and value.

    >>> same(1, 1.0), same(True, 1), same([1, "a"], [1, "a"]), same(math.nan, math.nan)
    (True, False, True, True)
    """
    if _is_number(one) and _is_number(other):
        return one == other or (one != one and other != other)  # noqa: PLR0124 - NaN is not itself
    if type(one) is not type(other):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


def values(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    if kind == "kvlist_value":
        return values(value.kvlist_value.values)
    return None if kind is None else getattr(value, kind)


def shown(value: Any) -> Any:
    """Return a value as JSON has it: bytes are base64, numbers that are none are texts."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [shown(one) for one in value]
    return {key: shown(one) for key, one in value.items()} if isinstance(value, dict) else value


def _text(attributes: Iterable[KeyValue]) -> str:
    return next((str(one.value.string_value) for one in attributes if one.key == SERVICE), "")


def _without_empty(target: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in target.items() if value != []}
