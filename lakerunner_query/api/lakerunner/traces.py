"""`GET /api/v1/traces/{id}` answers one trace, assembled: tree, times, errors, findings, logs, exemplars."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from litestar import Request, Response, Router, get

from lakerunner_query.api.lakerunner.params import TraceQuery, read_query, trace_bounds
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import missing_warnings
from lakerunner_query.api.shared.services import Services
from lakerunner_query.assembly.otlp import SentTrace, plain_attributes, read_spans
from lakerunner_query.assembly.trace import AssembledTrace, assemble
from lakerunner_query.assembly.tree import NONE
from lakerunner_query.coordinator.languages import TRACE
from lakerunner_query.coordinator.spans import TraceRequest, WholeTraces
from lakerunner_query.coordinator.trace_context import TraceContext, read_context
from lakerunner_query.errors import InvalidRequestError, NotFoundError, SegmentsMissingError
from lakerunner_query.gotext.durations import duration_text
from lakerunner_query.serving import unless_gone
from lakerunner_query.traceql.values import SPAN_KINDS, STATUSES

API = "lakerunner-trace"
_TRACE_ID = re.compile(r"[0-9a-fA-F]{1,32}")
MOST_LISTED = 20
"""Spans that one finding names, and origins of errors."""


@get("/{trace_id:str}")
async def trace(request: Request[Any, Any, Any], services: Services, trace_id: str) -> Response[bytes]:
    """Return a trace with what its assembly found, its log lines and the exemplars that point at it."""
    data = await read_query(request, TraceQuery)
    return await unless_gone(request, _answer(services, caller(request.state).org, trace_id, data))


async def _answer(services: Services, org: str, text: str, data: TraceQuery) -> Response[bytes]:
    if not _TRACE_ID.fullmatch(text):
        raise InvalidRequestError(f"a trace id is up to 32 hexadecimal digits, not {text[:64]!r}")
    trace_id, engine = text.lower().rjust(32, "0"), services.engine
    first, last = trace_bounds(data, services.settings)
    with services.watch(API) as watch:
        stored = await engine.ask(TRACE, TraceRequest(org, (bytes.fromhex(trace_id),), first, last))
        if not stored.data.resource_spans:
            if stored.missing:
                raise SegmentsMissingError(missing_warnings(stored.missing)[0])
            raise NotFoundError(_not_found(trace_id, is_bounded=data.s is not None or data.e is not None))
        sent, found = await run_sync(_assemble, stored)
        around = await read_context(
            engine, org, trace_id, found.start_ns, found.end_ns,
            lines=data.logs, has_exemplars=data.exemplars,
        )  # fmt: skip
        body = _Rendering(trace_id, sent, found, stored, around, data.limit)
        answer = await run_sync(lambda: msgspec.json.encode(body.as_json()))
        watch.end(partial=body.is_partial)
    return Response(answer, media_type="application/json")


def _not_found(trace_id: str, *, is_bounded: bool) -> str:
    advice = "leave out s and e to look at all time" if is_bounded else "spans are found once they are stored"
    return f"there is no span of trace {trace_id}: {advice}"


def _assemble(stored: WholeTraces) -> tuple[SentTrace, AssembledTrace]:
    sent = read_spans(stored.data)
    return sent, assemble(sent.columns)


@dataclass
class _Rendering:
    """The answer; spans are told by their places in its list `spans`."""

    trace_id: str
    sent: SentTrace
    found: AssembledTrace
    stored: WholeTraces
    around: TraceContext
    limit: int
    rows: list[int] = field(init=False)
    """Rows that are shown: the first ones of the tree, read downwards."""
    places: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = self.found.tree.order[: self.limit]
        self.places = {row: place for place, row in enumerate(self.rows)}

    @property
    def is_partial(self) -> bool:
        return bool(self.stored.missing or self.around.missing or self.around.failures)

    def as_json(self) -> dict[str, object]:
        found, spans = self.found, self.found.spans
        missing = self.stored.missing | self.around.missing
        failures = [f"partial: {name}: {reason}" for name, reason in self.around.failures.items()]
        lines = list(_lines(self.around))
        return {
            "status": "partial" if self.is_partial else "complete",
            "trace_id": self.trace_id,
            "start": str(found.start_ns),
            "duration_ns": found.end_ns - found.start_ns,
            "root": self.places.get(found.root),
            "counts": {
                "spans": len(spans),
                "errors": sum(spans.errors),
                "roots": len(found.tree.roots),
                "orphans": len(found.tree.orphans),
                "duplicates": self.stored.duplicates,
                "services": len(set(spans.services)),
            },
            "findings": list(self._findings()),
            "services": [
                {"name": name, **{one: getattr(each, one) for one in each.__slots__}}
                for name, each in found.services().items()
            ],
            "critical_path": [
                {"span": self.places[one.row], **self._interval(one.start, one.end)}
                for one in found.critical_path
                if one.row in self.places
            ],
            "gaps": [
                {"span": self.places.get(one.row), **self._interval(one.start, one.end)}
                for one in found.gaps
                if one.row == NONE or one.row in self.places
            ],
            "errors": {
                "origins": self._shown(found.error_origins)[:MOST_LISTED],
                "path": self._shown(found.error_path),
            },
            "resources": [plain_attributes(one.resource.attributes) for one in self.sent.resources],
            "spans": list(self._spans(Counter(str(one["span_id"]) for one in lines))),
            "truncated": len(self.rows) < len(spans),
            "logs": {**_window(self.around), "lines": lines, "truncated": self.around.is_cut},
            "exemplars": list(_exemplars(self.around)),
            "warnings": missing_warnings(missing) + failures,
            "missing": list(missing.values()),
        }

    def _shown(self, rows: Iterable[int]) -> list[int]:
        return [self.places[row] for row in rows if row in self.places]

    def _interval(self, start_ns: int, end_ns: int) -> dict[str, int]:
        return {"offset_ns": start_ns - self.found.start_ns, "duration_ns": end_ns - start_ns}

    def _spans(self, lines: Mapping[str, int]) -> Iterator[dict[str, object]]:
        found, tree = self.found, self.found.tree
        skews = {one.row: one.width for one in found.skews}
        path = set(found.error_path)
        for row in self.rows:
            sent, span_id = self.sent.spans[row], found.spans.ids[row]
            span = sent.span
            yield {
                "span_id": span_id,
                "parent_span_id": found.spans.parent_ids[row],
                "parent": self.places.get(tree.parents[row]),
                "depth": tree.depths[row],
                "children": len(tree.children[row]),
                "service": found.spans.services[row],
                "name": span.name,
                "kind": _word(span.kind, SPAN_KINDS),
                "status": _word(span.status.code, STATUSES),
                "status_message": span.status.message,
                "start": str(found.spans.starts[row]),
                **self._interval(found.spans.starts[row], found.spans.ends[row]),
                "self_ns": found.self_ns[row],
                "critical_ns": found.critical_ns[row],
                "before_parent_ns": skews.get(row, 0),
                "is_error_path": row in path,
                "lines": lines.get(span_id, 0),
                "resource": sent.resource,
                "scope": {"name": sent.scope.name, "version": sent.scope.version},
                "attributes": plain_attributes(span.attributes),
                "events": [
                    {
                        "offset_ns": one.time_unix_nano - found.start_ns,
                        "name": one.name,
                        "attributes": plain_attributes(one.attributes),
                    }
                    for one in span.events
                ],
                "links": [
                    {
                        "trace_id": one.trace_id.hex(),
                        "span_id": one.span_id.hex(),
                        "attributes": plain_attributes(one.attributes),
                    }
                    for one in span.links
                ],
            }

    def _findings(self) -> Iterator[dict[str, object]]:
        found, tree, ids = self.found, self.found.tree, self.found.spans.ids
        if tree.orphans:
            text = f"the parent of {_counted(len(tree.orphans), 'span')} is not stored"
            yield self._finding("missing_parents", text, tree.orphans)
        if not tree.roots:
            yield self._finding("no_root", "no span was sent without a parent", tree.tops)
        if len(tree.roots) > 1:
            yield self._finding("several_roots", f"{len(tree.roots)} spans have no parent", tree.roots)
        if tree.cycles:
            text = f"{_counted(len(tree.cycles), 'circle')} of parents; a span of each stands at the top"
            yield self._finding("cycles", text, tree.cycles)
        if found.skews:
            most = max(found.skews, key=lambda one: one.width)
            names = found.spans.services
            text = (
                f"clocks disagree: {_counted(len(found.skews), 'span')} before the parent, up to "
                f"{duration_text(most.width)} ({names[most.row]} below {names[most.parent]})"
            )
            yield self._finding("clock_skew", text, [one.row for one in found.skews])
        shared = {one for one, count in Counter(ids).items() if one and count > 1}
        if shared:
            rows = [row for row, one in enumerate(ids) if one in shared]
            yield self._finding("shared_ids", f"{_counted(len(shared), 'id')} of several spans", rows)
        if self.stored.duplicates:
            text = f"{_counted(self.stored.duplicates, 'repetition')} of spans left out"
            yield self._finding("duplicates", text, [])

    def _finding(self, kind: str, text: str, rows: list[int]) -> dict[str, object]:
        return {"kind": kind, "text": text, "count": len(rows), "spans": self._shown(rows)[:MOST_LISTED]}


def _counted(count: int, what: str) -> str:
    """
    >>> _counted(1, "span"), _counted(2000, "span")
    ('1 span', '2,000 spans')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _word(number: int, words: tuple[str, ...]) -> str:
    """Return the word of a kind or status; a number that OTLP does not name is its digits."""
    return words[number] if 0 <= number < len(words) else str(number)


def _window(around: TraceContext) -> dict[str, str]:
    return {"s": str(around.start_ns), "e": str(around.end_ns)}


def _lines(around: TraceContext) -> Iterator[dict[str, object]]:
    """Yield lines as the logs API does, each with its span."""
    for row in around.lines.to_pylist():
        metadata = msgspec.json.decode(row["metadata"])
        yield {
            "timestamp": str(row["tsns"]),
            "span_id": metadata.get("span_id", ""),
            "message": row["line"],
            "labels": msgspec.json.decode(row["labels"]),
            "metadata": metadata,
            "id": f"{row['object']}:{row['position']}",
        }


def _exemplars(around: TraceContext) -> Iterator[dict[str, object]]:
    for series in around.exemplars:
        for one in series.exemplars:
            labels = dict(one.labels)
            yield {
                "span_id": labels.get("span_id", ""),
                "timestamp": str(one.time_ms),
                "value": one.value,
                "series": dict(series.labels),
                "labels": labels,
            }


traces_router = Router(
    "/api/v1/traces",
    route_handlers=[trace],
    guards=[require_reader],
    tags=["spans"],
)
