"""Calls between services are counted in whole traces: spans whose parent is of another service.

    web  GET /           cart -> db    1
    └─ cart  cart.get    web -> cart   1
       └─ db  SELECT

The newest traces of the range count, up to a bound; notes say where it was reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from anyio.to_thread import run_sync

from lakerunner_query.coordinator.engine import Engine
from lakerunner_query.coordinator.languages import TRACE_SEARCH
from lakerunner_query.plan.traceql import TraceSearchRequest
from lakerunner_query.protocol.traces import FoundSpan, FoundTrace
from lakerunner_query.protocol.units import Missing
from lakerunner_query.traceql.lang.ast import (
    TRUE,
    Attribute,
    Intrinsic,
    Pipeline,
    Query,
    Scope,
    Select,
    SpansetFilter,
)
from lakerunner_query.traceql.lang.printer import print_query

MOST_TRACES = 2_000
SERVICE, PARENT, KIND = "service.name", "span:parentID", "kind"
ALL_SPANS = Query(
    Pipeline(
        (
            SpansetFilter(TRUE),
            Select((Attribute(SERVICE, Scope.RESOURCE), Intrinsic(PARENT), Intrinsic(KIND))),
        )
    )
)
Link = tuple[str, str]
"""Calling service and called one."""


@dataclass
class ServiceLinks:
    calls: Counter[Link] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    """Reasons why links may be missing: bounds that were met."""
    missing: dict[str, Missing] = field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        return bool(self.missing)


async def service_links(engine: Engine, org: str, start_ns: int, end_ns: int) -> ServiceLinks:
    """Count the calls between services in traces that overlap `[start_ns, end_ns]`."""
    most = min(MOST_TRACES, engine.limits.max_rows - 1)
    asked = TraceSearchRequest(org, start_ns, end_ns, most + 1, spans_per_set=0)
    prepared = await engine.prepare(TRACE_SEARCH, print_query(ALL_SPANS), asked)
    found = await engine.collect(prepared)
    calls = await run_sync(count_calls, found.traces[:most])
    is_cut = len(found.traces) > most
    notes = [f"only the newest {most} traces of the range are counted"] if is_cut else []
    return ServiceLinks(calls, notes, dict(found.missing))


def count_calls(traces: Sequence[FoundTrace]) -> Counter[Link]:
    calls: Counter[Link] = Counter()
    for trace in traces:
        for one in trace.sets:
            calls.update(_links(one.spans))
    return calls


def _links(spans: Sequence[FoundSpan]) -> list[Link]:
    """Return a link for each span whose parent is of another service.

    A client's and a server's span may share one id: the client is then the parent of the server's, and what
    names the id is below the server's.
    """
    facts = [{name: str(value.value or "") for name, value in span.attributes} for span in spans]
    clients: dict[str, str] = {}
    owners: dict[str, str] = {}
    for span, fact in zip(spans, facts, strict=True):
        service = fact.get(SERVICE, "")
        if fact.get(KIND) == "client":
            clients.setdefault(span.span_id, service)
        if fact.get(KIND) == "server" or span.span_id not in owners:
            owners[span.span_id] = service
    found = []
    for span, fact in zip(spans, facts, strict=True):
        is_shared = fact.get(KIND) == "server" and span.span_id in clients
        caller = clients[span.span_id] if is_shared else owners.get(fact.get(PARENT, ""))
        service = fact.get(SERVICE, "")
        if caller is not None and caller != service:
            found.append((caller, service))
    return found
