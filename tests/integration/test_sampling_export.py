"""Kept traces arrive as they were: at Datadog's test agent, at the ingress over OTLP, and in files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakerunner_sampling.export.datadog import DatadogSender, Version
from lakerunner_sampling.export.otlp import OtlpGrpcSender, OtlpHttpSender, payload
from lakerunner_sampling.export.senders import FileSender, Outcome
from lakerunner_sampling.follower import Follower, open_catalog
from lakerunner_sampling.loader import EXPORTS, Loader, pack, unpack
from lakerunner_sampling.policies.hashing import threshold_of
from lakerunner_sampling.shapes import CanonicalShape
from resources.duckdb import DuckLimits, DuckSession
from tests.support.datadog_agent import TestAgent, running_agent
from tests.support.ingress_process import Ingress
from tests.support.span_tables import NAME, SpanRow, append, catalog_properties, make_table, trace_id

pytestmark = pytest.mark.integration
BIG = 0xFEDCBA9876543210_0123456789ABCDEF


@dataclass
class Table:
    """A small table and its loader."""

    loader: Loader
    session: DuckSession

    def spans(self, *numbers: int, first: int = 1, last: int = 3, late: bool = False) -> pa.Table:
        wanted = [
            {"trace_id": trace_id(one), "first_sequence": first, "last_sequence": last, "is_late": late,
             "policy": "errors", "reason": "status", "probability": 0.25, "threshold": threshold_of(0.25)}
            for one in numbers
        ]  # fmt: skip
        traces = unpack(pack(pa.Table.from_pylist(wanted, EXPORTS)))
        return pa.concat_tables(self.loader.load(traces))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    folder = tmp_path_factory.mktemp("spans")
    table = make_table(folder, buckets=4)
    web = {"http.request.method": "GET", "http.route": "/cart", "ünï": "é"}
    append(
        table,
        SpanRow(BIG, 1, 0.0, 2.0, attributes=web, state="ot=rv:ffffffffffffff,x=y"),
        SpanRow(BIG, 2, 0.5, 0.5, parent=1, name="load"),
        *(SpanRow(number, number, number / 100) for number in range(10, 30)),
    )
    append(table, SpanRow(BIG, 3, 1.0, 0.1, parent=2, service="db", error=True), SpanRow(7, 1, 1.0))
    append(table, SpanRow(BIG, 4, 9.0, parent=1), SpanRow(10, 99, 9.0))
    session = DuckSession(DuckLimits(128, 2, folder / "spill", (folder,)))
    follower = Follower(open_catalog("lakerunner", catalog_properties(folder)), NAME, "canonical")
    follower.refresh()
    yield Table(Loader(follower, CanonicalShape(), session, folder / "decoded"), session)
    session.close()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestAgent]:
    with running_agent(tmp_path_factory.mktemp("agent")) as found:
        yield found


def test_spans_are_loaded_by_trace_and_commit(table: Table) -> None:
    def ids(spans: pa.Table) -> list[tuple[bytes, bytes]]:
        return list(zip(spans["trace_id"].to_pylist(), spans["span_id"].to_pylist(), strict=True))

    whole = ids(table.spans(BIG, 10))
    expected = [(10, 10), (10, 99), (BIG, 1), (BIG, 2), (BIG, 3), (BIG, 4)]
    assert whole == [(trace_id(one), span.to_bytes(8, "big")) for one, span in expected]
    late = ids(table.spans(BIG, 10, first=3, late=True))
    assert late == [(trace_id(one), span.to_bytes(8, "big")) for one, span in ((10, 99), (BIG, 4))]
    assert len(ids(table.spans(BIG, last=2))) == 3


@pytest.mark.parametrize("version", list(Version))
def test_datadogs_agent_takes_traces(table: Table, agent: TestAgent, version: Version) -> None:
    agent.clear()
    sender = DatadogSender.to("agent", agent.url, table.session, version)
    spans = table.spans(BIG, 7)
    assert sender.send(sender.encode(spans), 2, "1").outcome is Outcome.TAKEN
    sender.close()
    small, big = sorted(agent.traces(), key=len)
    root = big[0]
    assert (root["trace_id"], root["span_id"], root["parent_id"]) == (BIG & (1 << 64) - 1, 1, 0)
    assert (root["service"], root["name"], root["resource"], root["type"]) == (
        "shop", "http.server.request", "GET /cart", "web",
    )  # fmt: skip
    assert root["duration"] == 2_000_000_000
    assert root["meta"]["_dd.p.tid"] == "fedcba9876543210"
    assert root["meta"]["ünï"] == "é"
    assert root["meta"]["host.name"] == "h1"
    assert root["meta"]["span.kind"] == "server"
    assert root["meta"]["w3c.tracestate"] == "ot=rv:ffffffffffffff;th:c,x=y"
    assert root["metrics"] == {
        "_sampling_priority_v1": 2, "_dd.rule_psr": 0.25, "_sample_rate": 0.25, "_top_level": 1,
    }  # fmt: skip
    inner = {one["span_id"]: one for one in big}
    assert inner[2]["metrics"] == {}
    assert (inner[2]["resource"], inner[2]["parent_id"], inner[3]["error"]) == ("load", 1, 1)
    assert inner[3]["metrics"] == {"_top_level": 1}, "a service of its own"
    assert inner[3]["meta"]["error.message"] == "failed"
    assert small[0]["metrics"]["_sampling_priority_v1"] == 2


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_agent_takes_otlp(table: Table, agent: TestAgent, protocol: str) -> None:
    agent.clear()
    spans = table.spans(BIG, 7)
    sender = (
        OtlpHttpSender("o", f"http://127.0.0.1:{agent.otlp_port}/v1/traces")
        if protocol == "http"
        else OtlpGrpcSender("o", f"http://127.0.0.1:{agent.grpc_port}")
    )
    for number in range(2):
        reply = sender.send(sender.encode(spans), 2, str(number))
        assert reply.outcome is Outcome.TAKEN, reply
    sender.close()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_ingress_takes_otlp(table: Table, ingress: Ingress, protocol: str) -> None:
    spans = table.spans(BIG, *range(10, 30))
    sender = (
        OtlpHttpSender("o", f"{ingress.url}/v1/traces", ingress.key)
        if protocol == "http"
        else OtlpGrpcSender("o", f"http://127.0.0.1:{ingress.settings.ingress_grpc_port}", ingress.key)
    )
    reply = sender.send(sender.encode(spans), 21, "1")
    assert reply.outcome is Outcome.TAKEN, reply
    sender.close()
    found = ExportTraceServiceRequest.FromString(b"".join(ingress.objects("traces").values()))
    assert found == ExportTraceServiceRequest.FromString(payload(spans))
    sent = [one for group in found.resource_spans for scope in group.scope_spans for one in scope.spans]
    assert len(sent) == spans.num_rows
    assert {one.trace_state for one in sent} == {"ot=rv:ffffffffffffff;th:c,x=y", "ot=th:c"}
    wrong = OtlpHttpSender("o", f"{ingress.url}/v1/traces", {"Authorization": "Bearer no"})
    assert wrong.send(wrong.encode(spans), 21, "2").outcome is Outcome.LATER, "a key can be mended"
    wrong.close()


def test_the_grpc_client_reports_errors_and_connects_again(table: Table, ingress: Ingress) -> None:
    spans = table.spans(7)
    url = f"http://127.0.0.1:{ingress.settings.ingress_grpc_port}"
    refused = OtlpGrpcSender("o", url, {"Authorization": "Bearer no"})
    reply = refused.send(refused.encode(spans), 1, "1")
    assert reply.outcome is Outcome.LATER
    assert "UNAUTHENTICATED" in reply.error or "PERMISSION" in reply.error
    refused.close()
    sender = OtlpGrpcSender("o", url, ingress.key)
    assert sender.send(b"\xff\xff", 1, "1").outcome is Outcome.REFUSED
    large = pa.concat_tables([spans] * 20_000)
    assert sender.send(sender.encode(large), 1, "1").outcome is Outcome.TAKEN, "more than its windows"
    sender.close()
    assert sender.send(sender.encode(spans), 1, "1").outcome is Outcome.TAKEN
    sender.close()
    assert OtlpGrpcSender("o", "http://127.0.0.1:9").send(b"", 1, "1").outcome is Outcome.LATER


def test_files_replace_themselves(table: Table, tmp_path: Path) -> None:
    sender = FileSender("file", tmp_path / "out")
    spans = table.spans(BIG)
    for _ in range(2):
        assert sender.send(sender.encode(spans), 1, "7-0").outcome is Outcome.TAKEN
    (path,) = (tmp_path / "out").iterdir()
    assert pq.read_table(path)["name"].to_pylist() == ["GET /", "load", "GET /", "GET /"]
    (tmp_path / "file").write_text("")
    assert FileSender("file", tmp_path / "file").send(b"", 1, "1").outcome is Outcome.LATER
