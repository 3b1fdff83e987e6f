"""What the protobuf runtime reads in a metrics request, in the words of our columns.

Labels are made here a second time, plainly, one point after the other, from the rules in series.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from lakerunner_assets.decode.metric_naming import label_name, metric_name
from lakerunner_assets.decode.otlp.owners import LAST_NS
from resources.lake.streams import canonical, labels_to_text, stream_id
from tests.support.decode.oracle import first_of_each, found_rows, text

KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
TEMPORALITY = {0: "unspecified", 1: "delta", 2: "cumulative"}
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]


def expected_rows(payload: bytes) -> Iterator[dict[str, Any]]:
    for group in ExportMetricsServiceRequest.FromString(payload).resource_metrics:
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind is not None:
                    for point in getattr(metric, kind).data_points:
                        yield _row(group, scope, metric, kind, point)


def _row(group: Any, scope: Any, metric: Any, kind: str, point: Any) -> dict[str, Any]:
    data = getattr(metric, kind)
    monotonic = data.is_monotonic if kind == "sum" else None
    name = metric_name(metric.name, metric.unit, kind, bool(monotonic))
    labels = canonical(_labels(name, group, scope, point))
    time = min(point.time_unix_nano, LAST_NS)
    with_temporality = kind in {"sum", "histogram", "exponential_histogram"}
    temporality = data.aggregation_temporality if with_temporality else None
    return {
        "metric_name": name,
        "metric_original_name": metric.name if metric.name != name else None,
        "chq_tid": stream_id(labels),
        "chq_series": labels_to_text(labels),
        "chq_timestamp": time // 1_000_000,
        "chq_tsns": time if time % 1_000_000 else None,
        "chq_start_tsns": min(point.start_time_unix_nano, LAST_NS) or None,
        "chq_flags": point.flags,
        "chq_metric_type": kind,
        "metric_temporality": None if temporality is None else TEMPORALITY.get(temporality, str(temporality)),
        "metric_is_monotonic": monotonic,
        "metric_unit": metric.unit or None,
        "metric_description": metric.description or None,
        "metric_metadata": [(pair.key, text(pair.value)) for pair in metric.metadata] or None,
        "scope_name": scope.scope.name or None,
        "scope_version": scope.scope.version or None,
        "scope_schema_url": scope.schema_url or None,
        "resource_schema_url": group.schema_url or None,
        "chq_exemplars": [_exemplar(each) for each in getattr(point, "exemplars", ())] or None,
        **_values(kind, point),
        **_distribution(kind, point),
        "attributes": first_of_each(
            ("resource", group.resource.attributes),
            ("scope", scope.scope.attributes),
            ("record", point.attributes),
        ),
    }


def _values(kind: str, point: Any) -> dict[str, Any]:
    sent = point.WhichOneof("value") if kind in {"gauge", "sum"} else None
    number = getattr(point, sent) if sent else None
    stale = point.flags & 1
    exact = sent != "as_int" or number == float(number)  # Python compares them exactly
    return {
        "chq_value": STALE if stale else None if number is None else float(number),
        "chq_value_int": None if stale or exact else number,
        "chq_value_kind": None if sent is None else sent.removeprefix("as_"),
    }


def _distribution(kind: str, point: Any) -> dict[str, Any]:
    if kind in {"gauge", "sum"}:
        return {"chq_hist_count": None, "chq_hist_counts": None}
    row: dict[str, Any] = {"chq_hist_count": _signed(point.count)}
    if kind == "summary":
        quantiles = [{"quantile": each.quantile, "value": each.value} for each in point.quantile_values]
        return row | {"chq_hist_sum": point.sum, "chq_summary_quantiles": quantiles}
    for name in ("sum", "min", "max"):
        row[f"chq_hist_{name}"] = getattr(point, name) if point.HasField(name) else None
    if kind == "histogram":
        row["chq_hist_bounds"] = list(point.explicit_bounds)
        row["chq_hist_counts"] = [_signed(count) for count in point.bucket_counts]
        return row
    row |= {
        "chq_hist_schema": point.scale,
        "chq_hist_zero_count": _signed(point.zero_count),
        "chq_hist_zero_threshold": point.zero_threshold,
    }
    for side in ("positive", "negative"):
        buckets = getattr(point, side) if point.HasField(side) else None
        row[f"chq_hist_{side}_offset"] = buckets and buckets.offset
        row[f"chq_hist_{side}_counts"] = buckets and [_signed(count) for count in buckets.bucket_counts]
    return row


def _signed(count: int) -> int:
    return count - 2**64 if count >= 2**63 else count


def _exemplar(exemplar: Any) -> dict[str, Any]:
    sent = exemplar.WhichOneof("value")
    return {
        "tsns": min(exemplar.time_unix_nano, LAST_NS) or None,
        "value": float(getattr(exemplar, sent)) if sent else None,
        "value_int": exemplar.as_int if sent == "as_int" else None,
        "trace_id": _id(exemplar.trace_id, 16),
        "span_id": _id(exemplar.span_id, 8),
        "attributes": [(pair.key, text(pair.value)) for pair in exemplar.filtered_attributes] or None,
    }


def _id(raw: bytes, width: int) -> bytes | None:
    return raw if len(raw) == width and any(raw) else None


def _labels(name: str, group: Any, scope: Any, point: Any) -> dict[str, str]:
    resource = {pair.key: text(pair.value) for pair in reversed(group.resource.attributes)}
    system = {
        "otel_scope_name": scope.scope.name,
        "otel_scope_version": scope.scope.version,
        "otel_scope_schema_url": scope.schema_url,
    }
    system = {key: value for key, value in system.items() if value}
    prefixed = [("otel_scope_" + pair.key, text(pair.value)) for pair in scope.scope.attributes]
    _put(system, _joined(prefixed), "otel_scope_", ())
    if resource.get("service.name"):
        namespace = resource.get("service.namespace")
        system["job"] = f"{namespace}/{resource['service.name']}" if namespace else resource["service.name"]
    if resource.get("service.instance.id"):
        system["instance"] = resource["service.instance.id"]
    of_resource: dict[str, str] = dict(system)
    pairs = [(pair.key, text(pair.value)) for pair in group.resource.attributes]
    _put(of_resource, _joined(pairs), "resource_", ("__name__",))
    labels = {"__name__": name, **system}
    _put(labels, _joined([(pair.key, text(pair.value)) for pair in point.attributes]), "exported_", ())
    rest = {key: value for key, value in of_resource.items() if key not in system}
    _put(labels, rest, "resource_", ())
    return labels


def _joined(pairs: list[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for key, value in sorted(pairs, key=lambda pair: pair[0]):
        if value:
            found.setdefault(label_name(key), []).append(value)
    return {name: ";".join(values) for name, values in found.items()}


def _put(labels: dict[str, str], new: dict[str, str], prefix: str, reserved: tuple[str, ...]) -> None:
    taken = set(labels) | set(reserved)
    for name in sorted(new, key=lambda name: (name in taken, name)):
        target = name
        while target in labels or target in reserved:
            target = prefix + target
        labels[target] = new[name]


def bits(value: Any) -> Any:
    """Doubles by their bits, so that NaN payloads and -0.0 count."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, list | tuple):
        return [bits(each) for each in value]
    if isinstance(value, dict):
        return {key: bits(each) for key, each in value.items()}
    return value


def assert_same(payload: bytes, tables: list[pa.Table]) -> int:
    """Every point, every field, in order; returns how many points there were."""
    expected = list(expected_rows(payload))
    found = [row for table in tables for row in found_rows(table)]
    assert len(found) == len(expected)
    for position, (want, have) in enumerate(zip(expected, found, strict=True)):
        assert have["chq_position"] == position
        for name, value in want.items():
            if name == "attributes":
                assert have[name] == value
            else:
                assert bits(have.get(name)) == bits(value), name
    return len(expected)
