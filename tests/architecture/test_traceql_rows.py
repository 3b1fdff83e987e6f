"""A row of TraceQL says everything about its intrinsic, function, ranking, aggregate or hint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import pytest

from lakerunner_query.traceql.lang.ast import AggregateOp
from lakerunner_query.traceql.lang.functions import AGGREGATES, HINTS, METRICS_FUNCTIONS, RANKINGS
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS
from lakerunner_query.traceql.lang.lexer import KEYWORDS

REGISTRIES = {
    "intrinsics": INTRINSICS,
    "metrics functions": METRICS_FUNCTIONS,
    "rankings": RANKINGS,
    "aggregates": AGGREGATES,
    "hints": HINTS,
}


@pytest.mark.parametrize("rows", REGISTRIES.values(), ids=REGISTRIES)
def test_no_fact_of_a_row_has_a_default(rows: Mapping[str, Any]) -> None:
    for row in rows.values():
        known = [one for one in fields(row) if one.default is not MISSING]
        assert not known + [one for one in fields(row) if one.default_factory is not MISSING]


def test_every_spelling_stands_in_one_row() -> None:
    spellings = [spelling for row in INTRINSICS.values() for spelling in row.spellings]
    assert len(spellings) == len(set(spellings))


def test_every_function_and_aggregate_is_a_word_of_the_language() -> None:
    assert {*METRICS_FUNCTIONS, *RANKINGS, *AGGREGATES} <= KEYWORDS
    assert set(AGGREGATES) == set(AggregateOp)


def test_hints_are_no_words_of_the_language() -> None:
    assert not set(HINTS) & KEYWORDS
