"""Label sets of OTLP points against sets worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from lakerunner_assets.decode.dispatch import Place
from lakerunner_assets.decode.otlp.metric_labels import SeriesTable
from lakerunner_assets.decode.otlp.metrics import decode_metrics
from resources.lake.options import DecodeOptions, MetricNaming
from resources.lake.streams import canonical, labels_from_text, labels_to_text, stream_id
from tests.support.decode.messages import TEXT

PROMETHEUS = DecodeOptions()
VERBATIM = DecodeOptions(metric_naming=MetricNaming.VERBATIM)
TYPED = DecodeOptions(type_and_unit_labels=True)


def request(
    own: dict[str, Any],
    resource: dict[str, Any] | None = None,
    scope: dict[str, Any] | None = None,
    about: tuple[str, str, str] = ("", "", ""),
) -> ExportMetricsServiceRequest:
    message = ExportMetricsServiceRequest()
    group = message.resource_metrics.add()
    _put(group.resource.attributes, resource or {})
    scoped = group.scope_metrics.add(schema_url=about[2])
    scoped.scope.name, scoped.scope.version = about[:2]
    _put(scoped.scope.attributes, scope or {})
    metric = scoped.metrics.add(name="http.requests", unit="s")
    metric.sum.is_monotonic = True
    _put(metric.sum.data_points.add(as_int=1).attributes, own)
    return message


def _put(attributes: Any, pairs: dict[str, Any]) -> None:
    for key, value in pairs.items():
        found = attributes.add(key=key).value
        kind = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}[type(value)]
        setattr(found, kind, value)


def labels(message: ExportMetricsServiceRequest, options: DecodeOptions = PROMETHEUS) -> dict[str, str]:
    table = decode_metrics(message.SerializeToString(), Place(1, 0, 1), options).table
    (text,), (tid,) = table["chq_series"].to_pylist(), table["chq_tid"].to_pylist()
    found = labels_from_text(text)
    assert found == canonical(dict(found))
    assert tid == stream_id(found)
    assert dict(found).get("__name__") == table["metric_name"].to_pylist()[0]
    return dict(found)


NAME = {"__name__": "http_requests_seconds_total"}


@pytest.mark.parametrize(
    ("own", "resource", "expected"),
    [
        pytest.param({}, {}, {}, id="nothing but the name"),
        pytest.param(
            {"http.method": "GET", "code": 200, "ok": True, "share": 0.5},
            {},
            {"http_method": "GET", "code": "200", "ok": "true", "share": "0.5"},
            id="values as text",
        ),
        pytest.param(
            {"a_b": "2", "a.b": "1", "a-b": "0"}, {}, {"a_b": "0;1;2"}, id="joined in the order of keys"
        ),
        pytest.param({"a.b": "", "a_b": "x", "c": ""}, {}, {"a_b": "x"}, id="empty is absent"),
        pytest.param(
            {"pod": "a"},
            {"pod": "b", "node": "n", "a.b": "1", "a_b": "2"},
            {"pod": "a", "resource_pod": "b", "node": "n", "a_b": "1;2"},
            id="a resource gives way",
        ),
        pytest.param({"pod": ""}, {"pod": "b"}, {"pod": "b"}, id="an empty attribute leaves the name free"),
        pytest.param(
            {"pod": "a", "resource.pod": "r"},
            {"pod": "b"},
            {"pod": "a", "resource_pod": "r", "resource_resource_pod": "b"},
            id="until a name is free",
        ),
        pytest.param(
            {"pod": "a"},
            {"pod": "b", "resource_pod": "c"},
            {"pod": "a", "resource_pod": "c", "resource_resource_pod": "b"},
            id="a free name first",
        ),
        pytest.param(
            {},
            {"service.name": "web", "service.namespace": "shop", "service.instance.id": "i-1"},
            {
                "job": "shop/web",
                "instance": "i-1",
                "service_name": "web",
                "service_namespace": "shop",
                "service_instance_id": "i-1",
            },
            id="job and instance",
        ),
        pytest.param(
            {}, {"service.name": "web"}, {"job": "web", "service_name": "web"}, id="job without namespace"
        ),
        pytest.param(
            {}, {"service.namespace": "shop"}, {"service_namespace": "shop"}, id="no job without service"
        ),
        pytest.param(
            {"job": "batch", "instance": "x"},
            {"service.name": "web", "job": "r"},
            {
                "job": "web",
                "exported_job": "batch",
                "instance": "x",
                "resource_job": "r",
                "service_name": "web",
            },
            id="job belongs to the resource",
        ),
        pytest.param(
            {"__name__": "own"},
            {"__name__": "res"},
            {"exported___name__": "own", "resource___name__": "res"},
            id="the name belongs to the metric",
        ),
        pytest.param({"__type__": "t"}, {}, {"__type__": "t"}, id="a type that was sent"),
    ],
)
def test_labels_of_attributes(own: Any, resource: Any, expected: dict[str, str]) -> None:
    assert labels(request(own, resource)) == NAME | expected


def test_labels_of_scopes() -> None:
    message = request(
        {"otel.scope.name": "own"}, {}, {"short": True, "name": "inner"}, ("lib", "1.2", "https://s")
    )
    assert labels(message) == NAME | {
        "otel_scope_name": "lib",
        "otel_scope_version": "1.2",
        "otel_scope_schema_url": "https://s",
        "otel_scope_short": "true",
        "otel_scope_otel_scope_name": "inner",
        "exported_otel_scope_name": "own",
    }


def test_verbatim_names() -> None:
    message = request(
        {"http.method": "GET", "http_method": "x"}, {"k8s.pod": "p"}, {"a.b": "c"}, ("l", "", "")
    )
    assert labels(message, VERBATIM) == {
        "__name__": "http.requests",
        "http.method": "GET",
        "http_method": "x",
        "k8s.pod": "p",
        "otel_scope_name": "l",
        "otel_scope_a.b": "c",
    }


def test_type_and_unit_when_switched_on() -> None:
    message = request({"__unit__": "own"})
    assert labels(message, TYPED) == NAME | {
        "__type__": "counter",
        "__unit__": "seconds",
        "exported___unit__": "own",
    }
    assert labels(message) == NAME | {"__unit__": "own"}


def test_type_unit_and_temporality_are_not_identity() -> None:
    message = ExportMetricsServiceRequest()
    scope = message.resource_metrics.add().scope_metrics.add()
    scope.metrics.add(name="x_seconds_total", unit="s").gauge.data_points.add()
    for temporality in (1, 2):
        metric = scope.metrics.add(name="x", unit="s")
        metric.sum.is_monotonic, metric.sum.aggregation_temporality = True, temporality
        metric.sum.data_points.add()
    table = decode_metrics(message.SerializeToString(), Place(1, 0, 1), DecodeOptions()).table
    assert len(set(table["chq_tid"].to_pylist())) == 1
    assert len(table["chq_series"].chunk(0).dictionary) == 1
    assert table["metric_original_name"].to_pylist() == [None, "x", "x"]


def test_the_order_of_attributes_is_not_identity() -> None:
    message = request({"a": "1", "b": "2"})
    points = message.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points
    _put(points.add().attributes, {"b": "2", "a": "1"})
    _put(points.add().attributes, {"a": "2", "b": "1"})
    tids = decode_metrics(message.SerializeToString(), Place(1, 0, 1), DecodeOptions()).table["chq_tid"]
    first, second, third = tids.to_pylist()
    assert first == second != third


def test_points_that_differ_in_one_thing_only_are_told_apart() -> None:
    """Equal bytes everywhere else: whatever is coded once must not be taken for its neighbour."""
    base: dict[str, Any] = {"own": {"a": "1"}, "resource": {"r": "1"}, "about": ("lib", "1", "https://1")}
    changes: list[dict[str, Any]] = [
        {},
        {"own": {"a": "2"}},
        {"resource": {"r": "2"}},
        {"scope": {"s": "2"}},
        {"about": ("lib2", "1", "https://1")},
        {"about": ("lib", "2", "https://1")},
        {"about": ("lib", "1", "https://2")},
        {},
    ]
    message = ExportMetricsServiceRequest()
    for change in changes:
        message.MergeFrom(request(**{**base, **change}))
    table = decode_metrics(message.SerializeToString(), Place(1, 0, 1), PROMETHEUS).table
    expected = [labels(request(**{**base, **change})) for change in changes]
    assert [dict(labels_from_text(text)) for text in table["chq_series"].to_pylist()] == expected
    assert len(set(table["chq_tid"].to_pylist())) == 7


def test_metrics_of_one_name_that_differ_in_kind_or_unit_are_told_apart() -> None:
    message = ExportMetricsServiceRequest()
    scope = message.resource_metrics.add().scope_metrics.add()
    scope.metrics.add(name="x", unit="1").gauge.data_points.add()
    for monotonic in (True, False):
        metric = scope.metrics.add(name="x", unit="1")
        metric.sum.is_monotonic = monotonic
        metric.sum.data_points.add()
    scope.metrics.add(name="x", unit="By").gauge.data_points.add()
    scope.metrics.add(name="y", unit="1").gauge.data_points.add()
    table = decode_metrics(message.SerializeToString(), Place(1, 0, 1), PROMETHEUS).table
    names = ["x_ratio", "x_total", "x", "x_bytes", "y_ratio"]
    assert table["metric_name"].to_pylist() == names
    assert [dict(labels_from_text(text)) for text in table["chq_series"].to_pylist()] == [
        {"__name__": name} for name in names
    ]


PAIRS = st.dictionaries(TEXT, TEXT, max_size=5)


@given(PAIRS, PAIRS, PAIRS, TEXT)
def test_text_and_id_are_those_of_the_canonical_set(
    own: dict[str, str], resource: dict[str, str], scope: dict[str, str], name: str
) -> None:
    table = SeriesTable(lambda key: key or "key_")
    sides = (
        table.own([table.attribute(key, value) for key, value in own.items()]),
        table.owner(list(resource.items()), list(scope.items()), {}),
    )
    code = table.add(*sides, table.family(name, "gauge", ""))
    found = labels_from_text(table.texts[code])
    assert found == canonical(dict(found))
    assert table.texts[code] == labels_to_text(found)
    assert table.ids[code] == stream_id(found)
    values = [*own.values(), *resource.values(), *scope.values(), name]
    assert len(found) >= sum(1 for value in values if value)  # no label displaces another
