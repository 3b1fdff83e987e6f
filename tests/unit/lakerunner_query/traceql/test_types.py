"""Values of several types under one key: no row's answer depends on the others that are read with it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from lakerunner_query.traceql.frame import Frame
from lakerunner_query.traceql.lang.ast import Intrinsic, Pipeline, ScalarFilter, Scope, Type
from lakerunner_query.traceql.lang.parser import parse
from lakerunner_query.traceql.shown import shown_fields
from lakerunner_query.traceql.spansets import evaluate_pipeline
from lakerunner_query.traceql.values import (
    Column,
    Part,
    calculate,
    compare_columns,
    dense,
    group_codes,
)
from lakerunner_query.worker.spans.columns import attribute_column, nested_attribute
from lakerunner_query.worker.spans.search import shown_values

ATTRIBUTES = pa.list_(pa.struct([("key", pa.string()), ("kind", pa.string()), ("value", pa.string())]))
EVENTS = pa.list_(pa.struct([("name", pa.string()), ("attributes", ATTRIBUTES)]))


def frame(mixed: Column, traces: int = 1) -> Frame:
    """Root spans with `span.mixed`, the same number in each trace."""
    size = mixed.size
    each = np.arange(size)
    return Frame(
        starts=np.linspace(0, size, traces + 1).astype(np.int64),
        trace_ids=np.zeros((traces, 16), np.uint8),
        span_ids=(each + 1).astype(np.uint64),
        parent_ids=np.zeros(size, np.uint64),
        start_ns=each,
        end_ns=each,
        kinds=np.zeros(size, np.int8),
        statuses=np.zeros(size, np.int8),
        attributes={(Scope.SPAN, "mixed"): mixed},
        plain={},
    )


def events(*spans: list[tuple[str, str]]) -> pa.Array:
    """Events of spans, each with `mixed` of a kind and value."""
    return pa.array(
        [
            [
                {"name": "e", "attributes": [{"key": "mixed", "kind": kind, "value": value}]}
                for kind, value in one
            ]
            for one in spans
        ],
        EVENTS,
    )


def test_arrays_of_several_types_and_maps_equal_nothing() -> None:
    opaque = attribute_column([("kvlist", pa.array(['{"a":1}', None]))], 2)
    assert opaque.present().tolist() == [True, False]
    for op in ("=", "!=", "<"):
        assert not compare_columns(opaque, op, opaque).any()


def test_a_power_that_is_too_large_makes_no_float_of_the_others() -> None:
    base = dense(Type.INTEGER, np.array([3, 10, 2]))
    exponent = dense(Type.INTEGER, np.array([2, 40, -1]))
    codes, values = group_codes(calculate(base, "^", exponent))
    assert [values[code] for code in codes] == [
        (Type.INTEGER, 9), (Type.FLOAT, 10.0**40), (Type.FLOAT, 0.5),
    ]  # fmt: skip


def test_division_by_zero_makes_no_value() -> None:
    left = dense(Type.INTEGER, np.array([7, -7, 5]))
    right = dense(Type.INTEGER, np.array([2, 2, 0]))
    for op, wanted in (("/", [3, -3]), ("%", [1, -1])):
        (part,) = calculate(left, op, right).parts
        assert (part.rows.tolist(), part.values.tolist()) == ([0, 1], wanted)


@pytest.mark.parametrize(
    ("aggregate", "facts"),
    [
        ("sum", [(Type.INTEGER, 2**53 + 3), (Type.FLOAT, 2.5)]),
        ("min", [(Type.INTEGER, 2), (Type.FLOAT, 0.5)]),
        ("max", [(Type.INTEGER, 2**53 + 1), (Type.FLOAT, 2.0)]),
        ("avg", [(Type.FLOAT, float(2**53 + 3) / 2), (Type.FLOAT, 1.25)]),
    ],
)
def test_an_aggregate_has_the_type_of_the_numbers_of_its_own_set(
    aggregate: str, facts: list[tuple[Type, float]]
) -> None:
    whole = Part(Type.INTEGER, np.array([0, 1, 2]), np.array([2**53 + 1, 2, 2]))
    rest = Part(Type.FLOAT, np.array([3]), np.array([0.5]))
    query = parse(f"{{}} | {aggregate}(span.mixed) > 0")
    assert isinstance(query.body, Pipeline)
    assert isinstance(query.body.stages[1], ScalarFilter)
    sets = evaluate_pipeline(frame(Column(4, (whole, rest)), traces=2), query.body)
    assert list(sets.facts[0][1]) == facts


def test_conditions_on_flags_show_flags_only() -> None:
    mixed = attribute_column(
        [("string", pa.array(["a", None, None])), ("bool", pa.array([None, True, False]))], 3
    )
    (shown,) = shown_fields(parse("{ span.mixed = true }"))
    assert [(row, one.value) for row, one in shown_values(shown.select(mixed))] == [(1, True), (2, False)]


def test_a_linked_trace_is_shown_however_its_id_is_written() -> None:
    (shown,) = shown_fields(parse('{ link:traceID = "00AB12" }'))
    assert shown.field == Intrinsic("link:traceID")
    ids = Column(1, (Part(Type.STRING, np.array([0, 0]), np.array([0, 1]), ("ab12", "cd"), True),))
    assert [one.value for _, one in shown_values(shown.select(ids))] == ["ab12"]


def test_events_keep_their_order_and_one_type_stands_for_all() -> None:
    lists = events(
        [("int", "5"), ("array", json.dumps([1, 2])), ("int", "4")],
        [("string", "x"), ("double", "0.5")],
        [("double", "0.5"), ("string", "x"), ("int", "7")],
        [],
    )
    column = nested_attribute(lists, "mixed")
    codes, values = group_codes(column)
    assert [values[code] for code in codes] == [
        (Type.INTEGER, (5, 1, 2, 4)), (Type.STRING, "x"), (Type.STRING, "x"), (None, "nil"),
    ]  # fmt: skip
    shown = {row: (one.type, one.value) for row, one in shown_values(column, is_repeated=True)}
    assert shown == {0: ("int", 4), 1: ("string", "x"), 2: ("string", "x")}


def test_the_order_of_other_spans_changes_no_group() -> None:
    lists = events([("string", "x"), ("int", "7")], [("int", "1")], [("string", "y")])
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        codes, values = group_codes(nested_attribute(lists.take(order), "mixed"))
        assert values[codes[order.index(0)]] == (Type.STRING, "x")
