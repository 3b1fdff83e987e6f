"""Answers of Tempo's API have one form here, read from JSON or made by the oracle, and are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakerunner_query.gotext.durations import duration_text
from lakerunner_query.traceql.lang.ast import Type
from tests.support.query.traceql.oracle_fields import Typed

Shown = tuple[str, Any]
"""A value with the name of its field in OTLP's JSON."""
CLOSE = 1e-9


@dataclass(frozen=True)
class FoundSpan:
    ident: str
    name: str
    start_ns: int
    duration_ns: int
    attributes: tuple[tuple[str, Shown], ...]


@dataclass(frozen=True)
class FoundSet:
    matched: int
    attributes: tuple[tuple[str, Shown], ...]
    spans: tuple[FoundSpan, ...]


@dataclass(frozen=True)
class FoundTrace:
    ident: str
    root_service: str
    root_name: str
    start_ns: int
    duration_ms: int
    services: dict[str, tuple[int, int]]
    sets: tuple[FoundSet, ...]


Labels = tuple[tuple[str, Shown], ...]
Samples = dict[int, float]
"""Values by time in milliseconds."""


def shown(value: Typed | None) -> Shown:
    """Return a value as OTLP's JSON has it."""
    if value is None or value[0] is Type.NIL:
        return "stringValue", "nil"
    kind, content = value
    if isinstance(content, tuple):
        return "arrayValue", tuple(shown((kind, one)) for one in content)
    if kind is Type.DURATION:
        return "stringValue", duration_text(int(content)) if isinstance(content, int) else content
    if kind is Type.INTEGER:
        return "intValue", str(content)
    if kind is Type.FLOAT:
        return "doubleValue", "NaN" if math.isnan(content) else _rounded(content)
    return ("boolValue" if kind is Type.BOOLEAN else "stringValue"), content


def _rounded(value: float) -> float:
    """Leave out the last digits, in which powers differ."""
    return float(f"{value:.12g}")


def read_search(body: Mapping[str, Any]) -> list[FoundTrace]:
    """Read the answer to a search; span sets, spans and attributes have no order."""
    return [
        FoundTrace(
            one["traceID"], one["rootServiceName"], one.get("rootTraceName", ""),
            int(one["startTimeUnixNano"]),
            one.get("durationMs", 0),
            {name: (of.get("spanCount", 0), of.get("errorCount", 0)) for name,
            of in one["serviceStats"].items()},
            tuple(sorted(map(_read_set, one["spanSets"]), key=repr)),
        )
        for one in body.get("traces", [])
    ]  # fmt: skip


def _read_set(one: Mapping[str, Any]) -> FoundSet:
    spans = (
        FoundSpan(
            each["spanID"], each.get("name", ""), int(each["startTimeUnixNano"]), int(each["durationNanos"]),
            _read_attributes(each.get("attributes", [])),
        )
        for each in one.get("spans", [])
    )  # fmt: skip
    return FoundSet(
        one["matched"], _read_attributes(one.get("attributes", [])), tuple(sorted(spans, key=repr))
    )


def _read_attributes(attributes: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, Shown], ...]:
    return tuple(sorted(((one["key"], _read_value(one["value"])) for one in attributes), key=repr))


def _read_value(value: Mapping[str, Any]) -> Shown:
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return kind, tuple(map(_read_value, content["values"]))
    if kind == "doubleValue" and content != "NaN":
        content = _rounded(float(content))
    return kind, content


def read_series(body: Mapping[str, Any], instant_ms: int | None = None) -> dict[Labels, Samples]:
    """Read series by labels; those of an instant query have one sample."""
    found: dict[Labels, Samples] = {}
    for one in body.get("series", []):
        labels = _read_attributes(one["labels"])
        assert labels not in found, f"twice: {labels}"
        if instant_ms is not None:
            found[labels] = {instant_ms: float(one["value"])}
        else:
            found[labels] = {int(each["timestampMs"]): float(each["value"]) for each in one["samples"]}
    return found


def search_difference(found: Sequence[FoundTrace], wanted: Sequence[FoundTrace]) -> str:
    """Say what is wrong with an answer; empty: nothing."""
    ours, theirs = [one.ident for one in found], [one.ident for one in wanted]
    if ours != theirs:
        return f"traces {ours} instead of {theirs}"
    for one, other in zip(found, wanted, strict=True):
        for name in ("root_service", "root_name", "start_ns", "duration_ms", "services", "sets"):
            if getattr(one, name) != getattr(other, name):
                return f"trace {one.ident}: {name} {getattr(one, name)!r} instead of {getattr(other, name)!r}"
    return ""


def series_difference(found: Mapping[Labels, Samples], wanted: Mapping[Labels, Samples]) -> str:
    """Say what is wrong with series; floats may differ by their last digits."""
    extra, lost = sorted(set(found) - set(wanted), key=repr), sorted(set(wanted) - set(found), key=repr)
    if extra or lost:
        return f"series too many {extra}, missing {lost}"
    for labels, samples in found.items():
        other = wanted[labels]
        if set(samples) != set(other):
            return f"{labels}: times {sorted(samples)} instead of {sorted(other)}"
        for time_ms, value in samples.items():
            if not _is_close(value, other[time_ms]):
                return f"{labels} at {time_ms}: {value} instead of {other[time_ms]}"
    return ""


def _is_close(one: float, other: float) -> bool:
    return one == other or math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-12)


def compare_difference(found: Mapping[Labels, Samples], wanted: Mapping[Labels, Samples], limit: int) -> str:
    """Say what is wrong with an answer to `compare()`: of equally frequent values any may be the first."""
    ours = {
        _meta_first(labels): _nonzero(samples) for labels, samples in found.items() if any(samples.values())
    }
    theirs = {_meta_first(labels): samples for labels, samples in wanted.items()}
    for labels, samples in ours.items():
        if samples != theirs.get(labels):
            return f"{labels}: {samples} instead of {theirs.get(labels)}"
    totals: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for place, series in enumerate((ours, theirs)):
        for (side, other), samples in series.items():
            totals.setdefault((side[1][1], other[0]), ([], []))[place].append(sum(samples.values()))
    for key, (some, each) in totals.items():
        if sorted(some) != sorted(sorted(each, reverse=True)[:limit]):
            return f"{key}: frequencies {sorted(some)} instead of the first {limit} of {sorted(each)}"
    return ""


def _meta_first(labels: Labels) -> Labels:
    return tuple(sorted(labels, key=lambda one: one[0] != "__meta_type"))


def _nonzero(samples: Samples) -> Samples:
    return {time_ms: value for time_ms, value in samples.items() if value}
