"""Traces that a query selects are among its candidates, whatever the spans."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lakerunner_query.plan.trace_demands import deciding_span, fields_of_requirement, index_terms
from lakerunner_query.traceql.frame import NAME, SERVICE, Frame
from lakerunner_query.traceql.lang.conditions import analyse
from lakerunner_query.traceql.lang.parser import parse
from lakerunner_query.traceql.spansets import evaluate_pipeline
from lakerunner_query.worker.spans.candidates import meets
from lakerunner_query.worker.spans.rows import (
    END,
    KIND,
    PARENT,
    SPAN,
    START,
    STATUS,
    TRACE,
    Wanted,
    frame_of,
    stored_name,
)
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION
from resources.lake.terms import term, wildcard

QUERIES = (
    '{ span.a = "x" }', '{ .a = "x" || .b > 3 }', '{ .a != "x" && status = error }', '{ .b = nil }',
    '{ .a =~ "x|y" } >> { status = error }', '{ .a = "z" } && { .b < 2 }', '{ .a = "x" } || { .b = 5 }',
    '{ !(.a = "x") } | count() > 1', '{ !(!.a) }', '{ .a = "x" } !> { kind = client }', '{ .b * 2 = 4 }',
    '{ .a = "x" } &>> { .b = 1 }',
    '({ .a = "x" } | by(.b)) && ({ kind = server })', "{ nestedSetParent = -1 }",
    '{ name = "n1" && duration > 3ns }',
    '{ nestedSetParent < 0 && .a = "x" }', '{ .a = "absent" }', "{ .b >= 0 && .b <= 1 } | avg(.b) > 0",
)  # fmt: skip


def spans(seed: int) -> pa.Table:
    """Random spans of some traces, as they come from segments."""
    rng = random.Random(seed)
    rows: list[dict[str, object]] = []
    for trace in range(12):
        for place in range(rng.randrange(1, 6)):
            parent = rng.randrange(place) + 1 if place and rng.random() < 0.9 else 0
            rows.append(
                {
                    TRACE: trace.to_bytes(16, "big"), SPAN: (place + 1).to_bytes(8, "big"),
                    PARENT: parent.to_bytes(8, "big") if parent else None,
                    KIND: rng.choice(["server", "client", "internal"]),
                    STATUS: rng.choice(["unset", "error"]),
                    START: place, END: place + rng.randrange(9), CHQ_OBJECT: 1, CHQ_POSITION: len(rows),
                    "span_name": rng.choice(["n1", "n2"]),
                    stored_name("record", "string", "a"): rng.choice(["x", "y", "z", None]),
                    stored_name("resource", "string", "a"): rng.choice(["x", None, None]),
                    stored_name("record", "int", "b"): rng.choice([0, 1, 2, 5, None]),
                }
            )  # fmt: skip
    ids = {TRACE: pa.binary(16), SPAN: pa.binary(8), PARENT: pa.binary(8)}
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return pa.table({name: pa.array(values, ids.get(name)) for name, values in columns.items()})


def frame(table: pa.Table, text: str) -> Frame:
    facts = analyse(parse(text))
    demand = deciding_span(facts.requirement)
    fields = [*facts.reads, *facts.selects, *(fields_of_requirement(demand) if demand else ())]
    return frame_of(table, Wanted.of((*fields, NAME, SERVICE)))


@pytest.mark.parametrize("text", QUERIES)
def test_what_matches_is_a_candidate(text: str) -> None:
    query = parse(text)
    demand = deciding_span(analyse(query).requirement)
    decided = 0
    for seed in range(40):
        whole = frame(spans(seed), text)
        matched = set(evaluate_pipeline(whole, analyse(query).pipelines[0]).traces.tolist())
        if demand is not None:
            candidates = set(np.unique(whole.trace_of[meets(whole, demand)]).tolist())
            assert matched <= candidates
            decided += len(candidates) < whole.traces
    assert demand is None or decided, "the demand tells nothing"


def test_demands_on_trees_and_whole_traces_are_left_to_whole_traces() -> None:
    for text in ("{ nestedSetParent = -1 }", "{ traceDuration > 1s }", "{}", "{ span:childCount > 2 }"):
        assert deciding_span(analyse(parse(text)).requirement) is None, text


def test_the_most_promising_demand_decides() -> None:
    text = '{ status = error } >> { span.user.id = "u-7" }'
    demand = deciding_span(analyse(parse(text)).requirement)
    assert demand is not None
    assert [field.name for field in fields_of_requirement(demand)] == ["user.id"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{ resource.service.name = "a" }', [{("service_name", "a"), ("service_name", "unknown_service")}]),
        ('{ name = "n" && kind = client }', [{("span_name", "n")}, {("span_kind", "client")}]),
        ('{ name = "n" || name = "m" }', [{("span_name", "n"), ("span_name", "m")}]),
        ('{ name = "n" || status = error }', [{("span_name", "n"), ("span_status_code", "error")}]),
        ('{ name = "n" || .a = 1 }', []),
        ("{ kind = unspecified }", []),
        ("{ status != error }", []),
        ('{ .service.name = "a" }', []),
        ('{ nestedSetParent < 0 && name = "n" }', [{("span_name", "n")}]),
    ],
)
def test_a_demand_names_terms_of_segments(text: str, wanted: list[set[tuple[str, str]]]) -> None:
    demand = deciding_span(analyse(parse(text)).requirement)
    assert demand is not None
    expected = [{term(*pair) for pair in each} | {wildcard(field) for field, _ in each} for each in wanted]
    assert [set(each) for each in index_terms(demand)] == expected
