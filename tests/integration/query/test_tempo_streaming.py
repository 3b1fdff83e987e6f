"""Tempo's streaming API over gRPC, on the port of the HTTP API, which must say the same."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import httpx
import pytest
import uvicorn
from google.protobuf.json_format import ParseDict
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakerunner_query.app import create_app
from resources.grpc.server import bind
from resources.http_server import host_check, server_options
from resources.lake.layout import Signal
from resources.proto.tempo import STREAMING
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.lake import start_workers
from tests.support.query.signals_lake import put

pytestmark = pytest.mark.integration
START = HOUR // SECOND
WINDOW = {"start": START, "end": START + 3600}
TRACES = 30


def spans(org: str) -> bytes:
    """A trace each minute or two: a request and what it called."""
    request = ExportTraceServiceRequest()
    for trace in range(1, TRACES + 1):
        for span, (service, name) in enumerate((("web", "GET /"), ("cart", f"get {org}")), 1):
            group = request.resource_spans.add()
            put(group.resource, "service.name", service)
            one = group.scope_spans.add().spans.add(name=name, kind=2)
            one.trace_id, one.span_id = bytes(15) + bytes([trace]), bytes(7) + bytes([span])
            one.parent_span_id = bytes(7) + b"\x01" if span == 2 else b""
            one.start_time_unix_nano = HOUR + trace * 100 * SECOND + span
            one.end_time_unix_nano = one.start_time_unix_nano + trace * 1_000_000
            put(one, "width", trace)
            put(one, "http.method", "GET")
    return request.SerializeToString()


@dataclass(frozen=True)
class Api:
    """A running query API."""

    port: int
    lake: Lake
    app: Any

    def http(self, path: str, **params: object) -> Any:
        answer = httpx.get(
            f"http://127.0.0.1:{self.port}/tempo/api{path}",
            params={name: str(value) for name, value in {**WINDOW, **params}.items()},
            headers={"api-key": "key-acme"},
            timeout=PATIENCE_S,
        )
        answer.raise_for_status()
        return answer.json()

    def stream(
        self, method: str, request: str, answer: str, key: str = "key-acme", **fields: Any
    ) -> list[Any]:
        """Ask; return all messages of the answer."""
        metadata = [("authorization", f"Bearer {key}")] if key else []
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            ask = channel.unary_stream(
                f"/tempopb.StreamingQuerier/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=STREAMING[answer].FromString,
            )
            return list(ask(STREAMING[request](**fields), metadata=metadata, timeout=PATIENCE_S))

    def search(self, **fields: Any) -> list[Any]:
        return self.stream("Search", "SearchRequest", "SearchResponse", **{**WINDOW, **fields})


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("streaming")
    lake = lake_in(folder)
    lake.index.create_organisation("other")
    for org in ("acme", "other"):
        for role in ("read", "write"):
            name = f"key-{org}" if role == "read" else f"writer-{org}"
            lake.index.create_api_key(org, role, name, hashlib.sha256(name.encode()).digest(), None)
        lake.arrive(org, spans(org), HOUR, signal=Signal.TRACES, org=org)
        lake.cook(Signal.TRACES)
    data = folder / "data"
    data.mkdir()
    for stack in start_workers(data, folder / "lake", 2):
        with serving(stack.settings, lake) as found:
            yield found


class serving:  # noqa: N801 - a context
    """The API behind uvicorn in a thread, as `lakerunner query-api` runs it."""

    def __init__(self, settings: Any, lake: Lake) -> None:
        self._app = create_app(settings, lake.index)
        self._listener = bind("127.0.0.1", 0)
        guarded = host_check(self._app, settings, settings.query_host)
        options = server_options(settings, self._app.state.grpc) | {"log_level": "warning"}
        self._server = uvicorn.Server(uvicorn.Config(guarded, **options))
        run = lambda: self._server.run(sockets=[self._listener])  # noqa: E731
        self._thread = threading.Thread(target=run)
        self.api = Api(self._listener.getsockname()[1], lake, self._app)

    def __enter__(self) -> Api:
        self._thread.start()
        wait_for(lambda: self._server.started, "the API listens")
        return self.api

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)


def without_metrics(message: Any) -> Any:
    message.ClearField("metrics")
    return message


@pytest.mark.parametrize(
    ("fields", "params"),
    [
        ({"Query": "{}"}, {"q": "{}"}),
        (
            {"Query": "{ span.width > 20 } | select(span.width)"},
            {"q": "{ span.width > 20 } | select(span.width)"},
        ),
        (
            {"Query": '{} >> { name = "get acme" }', "Limit": 3},
            {"q": '{} >> { name = "get acme" }', "limit": 3},
        ),
        ({"Query": "{}", "SpansPerSpanSet": 1, "Limit": 50}, {"q": "{}", "spss": 1, "limit": 50}),
        ({"Query": '{ name = "get other" }'}, {"q": '{ name = "get other" }'}),
        (
            {"Tags": {"http.method": "GET", "service.name": "web"}},
            {"tags": "http.method=GET service.name=web"},
        ),
        ({"MinDurationMs": 5, "MaxDurationMs": 9}, {"minDuration": "5ms", "maxDuration": "9ms"}),
    ],
)
def test_a_search_sends_each_trace_once_and_then_all_as_http_does(
    api: Api, fields: dict[str, Any], params: dict[str, Any]
) -> None:
    *parts, last = api.search(**fields)
    over_http = api.http("/search", **params)
    assert without_metrics(last) == without_metrics(ParseDict(over_http, STREAMING["SearchResponse"]()))
    sent = [trace.traceID for part in parts for trace in part.traces]
    assert sent == [trace.traceID for trace in last.traces]


def test_a_search_tells_its_progress(api: Api) -> None:
    *parts, last = api.search(Query="{}", Limit=100)
    assert len(last.traces) == TRACES
    done = [part.metrics.completedJobs for part in [*parts, last]]
    assert parts
    assert done == sorted(done)
    assert all(0 < one.metrics.completedJobs <= one.metrics.totalJobs for one in [*parts, last])
    assert last.metrics.completedJobs == last.metrics.totalJobs
    assert last.metrics.inspectedSpans > 0


def test_the_health_check_of_grafana(api: Api) -> None:
    """It asks for one trace of the last quarter of an hour, of which there is none here."""
    (only,) = api.search(Query="{}", start=START + 90_000, end=START + 90_900, Limit=1)
    assert list(only.traces) == []


CART = '{ resource.service.name = "cart" }'


@pytest.mark.parametrize(
    ("method", "path", "fields", "params"),
    [
        ("SearchTags", "/search/tags", {}, {}),
        ("SearchTags", "/search/tags", {"scope": "intrinsic"}, {"scope": "intrinsic"}),
        ("SearchTagsV2", "/v2/search/tags", {}, {}),
        ("SearchTagsV2", "/v2/search/tags", {"scope": "span"}, {"scope": "span"}),
        ("SearchTagValues", "/search/tag/width/values", {"tagName": "width"}, {}),
        ("SearchTagValuesV2", "/v2/search/tag/span.width/values", {"tagName": "span.width"}, {}),
        ("SearchTagValuesV2", "/v2/search/tag/name/values", {"tagName": "name", "query": CART}, {"q": CART}),
    ],
)
def test_tags_and_values_equal_those_of_http(
    api: Api, method: str, path: str, fields: dict[str, Any], params: dict[str, Any]
) -> None:
    request = f"{method.removesuffix('V2')}Request"
    (found,) = api.stream(method, request, f"{method}Response", **{**WINDOW, **fields})
    assert found.metrics.totalJobs
    over_http = ParseDict(api.http(path, **params), STREAMING[f"{method}Response"]())
    assert without_metrics(found) == without_metrics(over_http)
    assert found != STREAMING[f"{method}Response"]()


@pytest.mark.parametrize(
    "q", ["{} | rate() by (resource.service.name)", "{} | quantile_over_time(duration, .5)"]
)
def test_metrics_equal_those_of_http(api: Api, q: str) -> None:
    ns = {name: value * SECOND for name, value in WINDOW.items()}
    (found,) = api.stream(
        "MetricsQueryRange", "QueryRangeRequest", "QueryRangeResponse", query=q, step=60 * SECOND, **ns
    )
    over_http = ParseDict(
        api.http("/metrics/query_range", q=q, step="60s"), STREAMING["QueryRangeResponse"]()
    )
    assert found.series
    assert without_metrics(found) == without_metrics(over_http)
    (found,) = api.stream("MetricsQueryInstant", "QueryInstantRequest", "QueryInstantResponse", query=q, **ns)
    over_http = ParseDict(api.http("/metrics/query", q=q), STREAMING["QueryInstantResponse"]())
    assert found.series
    assert without_metrics(found) == without_metrics(over_http)


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"Query": "{ name = }"}, "INVALID_ARGUMENT", "line 1"),
        ({"Query": "{}", "Limit": 1_000_000}, "INVALID_ARGUMENT", "exceeds max limit"),
        ({"Query": "{}", "start": 9, "end": 5}, "INVALID_ARGUMENT", "start must be before end"),
        ({"Query": "{}", "key": ""}, "UNAUTHENTICATED", "no API key"),
        ({"Query": "{}", "key": "wrong"}, "UNAUTHENTICATED", "unknown, revoked or expired"),
        ({"Query": "{}", "key": "writer-acme"}, "PERMISSION_DENIED", "queries need read or admin"),
    ],
)
def test_what_is_refused(api: Api, fields: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        api.search(**fields)
    assert caught.value.code().name == code
    assert text in caught.value.details()


def test_another_organisation_sees_its_own_spans(api: Api) -> None:
    (*_, last) = api.search(Query='{ name = "get other" }', key="key-other")
    assert len(last.traces) == 20
    (*_, last) = api.search(Query='{ name = "get acme" }', key="key-other")
    assert len(last.traces) == 0


def test_health_other_methods_and_http_1_share_the_port(api: Api) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{api.port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = health.Check(health_pb2.HealthCheckRequest(service="tempopb.StreamingQuerier"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export")(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "telemetry goes to the ingress" in caught.value.details()
    assert httpx.get(f"http://127.0.0.1:{api.port}/tempo/ready").text == "ready"
    assert api.http("/status/buildinfo")["version"].startswith("2.")


def test_a_client_that_leaves_ends_its_query(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, ended, began = api.app.state.services.engine, threading.Event(), threading.Event()

    async def run(*_: Any) -> Any:
        import asyncio

        try:
            began.set()
            await asyncio.sleep(PATIENCE_S)
            yield ()
        finally:
            ended.set()

    monkeypatch.setattr(engine, "run", run)
    with grpc.insecure_channel(f"127.0.0.1:{api.port}") as channel:
        ask = channel.unary_stream("/tempopb.StreamingQuerier/Search")
        call = ask(STREAMING["SearchRequest"](Query="{}", **WINDOW).SerializeToString(),
                   metadata=[("api-key", "key-acme")])  # fmt: skip
        assert began.wait(PATIENCE_S)
        call.cancel()
        assert ended.wait(PATIENCE_S)
