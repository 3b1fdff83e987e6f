"""A LogQL stage is one row of facts and one row that runs it; hardly anybody else knows its class."""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from lakerunner_query.logql.lang import ast as logql
from lakerunner_query.logql.lang.aggregations import RANGE, VECTOR, RangeRow, VectorRow
from lakerunner_query.logql.lang.lexer import STAGES as KEYWORDS
from lakerunner_query.logql.lang.stages import STAGES, StageRow
from lakerunner_query.logql.metrics.counts import SAMPLE_ROWS, SampleRow
from lakerunner_query.logql.metrics.vectors import VECTOR_RUNS, VectorRun
from lakerunner_query.logql.stages.registry import RUNS, RunRow

ROOT = Path(__file__).resolve().parents[2] / "lakerunner_query"
CLASSES = get_args(logql.Stage)
MOST_MODULES = 4
"""Modules outside `logql/lang` that may name the class of a stage."""


@pytest.mark.parametrize("table", [STAGES, RUNS], ids=["facts", "runs"])
def test_every_stage_has_exactly_one_row(table: tuple[StageRow | RunRow, ...]) -> None:
    assert Counter(row.stage for row in table) == Counter(CLASSES)


def test_every_keyword_is_a_stage() -> None:
    words = Counter(row.keyword for row in STAGES if row.keyword)
    assert words == Counter(KEYWORDS - {"unwrap"})
    assert {row.stage for row in STAGES if not row.keyword} == {logql.LineFilter, logql.LabelFilter}


def test_every_aggregation_has_a_row_of_facts_and_one_that_computes_it() -> None:
    of_numbers = {name for name, row in RANGE.items() if row.of_numbers}
    assert SAMPLE_ROWS.keys() == of_numbers - {"absent_over_time"}
    assert VECTOR_RUNS.keys() == VECTOR.keys()
    for name, row in SAMPLE_ROWS.items():
        assert [row.sums is not None, row.extreme is not None, row.is_quantile].count(True) == 1, name


@pytest.mark.parametrize("row", [StageRow, RunRow, RangeRow, VectorRow, SampleRow, VectorRun])
def test_rows_have_no_defaults(row: type) -> None:
    missing = dataclasses.MISSING
    assert row.__dataclass_params__.frozen  # type: ignore[attr-defined]
    with_default = [
        one.name
        for one in dataclasses.fields(row)
        if one.default is not missing or one.default_factory is not missing
    ]
    assert not with_default


def test_few_modules_name_the_class_of_a_stage() -> None:
    names = {one.__name__ for one in CLASSES}
    modules: dict[str, list[str]] = {name: [] for name in names}
    for path in ROOT.rglob("*.py"):
        if path.is_relative_to(ROOT / "logql" / "lang"):
            continue
        for name in _imported(ast.parse(path.read_text())) & names:
            modules[name].append(str(path.relative_to(ROOT)))
    crowded = {name: found for name, found in modules.items() if len(found) > MOST_MODULES}
    assert not crowded


def _imported(tree: ast.Module) -> set[str]:
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "lakerunner_query.logql.lang.ast"
        for alias in node.names
    }
