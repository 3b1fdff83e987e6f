"""A PromQL function is one row of facts and one row that binds its implementation, and nothing else.

lang/functions.py        "rate": PromFunction(OF_MATRIX, STABLE, BY_SERIES, …)
functions/registry.py    "rate": _rollup(growth_function, Function.RATE)
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path

import numpy as np
import pytest

from lakerunner_query.errors import QueryError
from lakerunner_query.promql.aggregation import AGGREGATORS
from lakerunner_query.promql.context import Options
from lakerunner_query.promql.evaluate import evaluate
from lakerunner_query.promql.functions.registry import IMPLEMENTATIONS, Implementation
from lakerunner_query.promql.lang.ast import Type
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.functions import (
    AGGREGATIONS,
    FUNCTIONS,
    AggregationOperator,
    PromFunction,
    Signature,
    Syntax,
)
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Series, Steps
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid

QUERY = Path(__file__).resolve().parents[2] / "lakerunner_query"
ROWS = {"promql/lang/functions.py", "promql/functions/registry.py"}
AGGREGATION_ROWS = {"promql/lang/functions.py", "promql/aggregation.py"}
OTHER_LANGUAGES = (
    "logql", "traceql", "gotext", "api/loki", "lakeql", "plan/lakeql", "worker/tables", "api/postgres",
    "plan/rewrite_logql", "plan/rewrite_traceql", "rules/unit_test",
)  # fmt: skip
"""Folders of languages that have functions of the same names."""
OTHER_MEANINGS: Mapping[str, str] = {
    "delta": "a temporality; a Parquet encoding",
    "end": "a parameter of HTTP requests; `@ end()`",
    "group": "a group of rules: a parameter of HTTP requests, a field of answers",
    "increase": "a value of derived metrics",
    "info": "a kind of annotation",
    "range": "a parameter of duration expressions; a kind of query",
    "scalar": "a type of expressions and results",
    "start": "a parameter of HTTP requests; `@ start()`",
    "step": "a parameter of HTTP requests and of duration expressions",
    "time": "a parameter of HTTP requests",
    "timestamp": "a word of messages and of answers",
    "vector": "a type of expressions and results",
    "avg": "a column of rollups",
    "changes": "a field of the differences of two traces",
    "count": "a column of rollups; a field of answers",
    "max": "a column of rollups; an operation of duration expressions",
    "min": "a column of rollups; an operation of duration expressions",
    "quantile": "the label of summaries",
    "rate": "a field of the service map",
    "sum": "a column of rollups; a type of metrics",
}
"""Names that are words of something else as well, and may stand anywhere but in the planner."""
ARGUMENTS = {Type.VECTOR: "m", Type.MATRIX: "m[5m]", Type.SCALAR: "0.5", Type.STRING: '"a"'}


def test_every_function_has_an_implementation_or_is_known_from_the_query() -> None:
    from_query = {name for name, one in FUNCTIONS.items() if one.syntax.value is not None}
    assert set(IMPLEMENTATIONS) == set(FUNCTIONS) - from_query
    assert list(FUNCTIONS) == sorted(FUNCTIONS)
    assert list(IMPLEMENTATIONS) == sorted(IMPLEMENTATIONS)


def test_every_aggregation_operator_has_an_implementation() -> None:
    assert list(AGGREGATORS) == list(AGGREGATIONS) == sorted(AGGREGATIONS)


def test_the_facts_load_neither_numpy_nor_kernels() -> None:
    program = (
        "import sys, lakerunner_query.promql.lang.functions\n"
        "print([name for name in ('numpy', 'numba', 'pyarrow') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("row", [PromFunction, Signature, Syntax, AggregationOperator, Implementation])
def test_no_fact_of_a_row_has_a_default(row: type) -> None:
    defaults = [
        one.name for one in fields(row) if one.default is not MISSING or one.default_factory is not MISSING
    ]
    assert not defaults, f"{row.__name__} can be written without {defaults}"


@pytest.mark.parametrize(("names", "rows"), [(FUNCTIONS, ROWS), (AGGREGATIONS, AGGREGATION_ROWS)])
def test_the_rows_are_all_that_names_a_function(names: Mapping[str, object], rows: set[str]) -> None:
    scattered = {
        name: sorted(elsewhere)
        for name, found in _modules_by_literal(names).items()
        if (elsewhere := {one for one in found - rows if not _is_other_word(name, one)})
    }
    assert not scattered, f"write a column of {sorted(rows)} instead: {scattered}"


def _is_other_word(name: str, module: str) -> bool:
    return name in OTHER_MEANINGS and not module.startswith("plan/")


def _modules_by_literal(names: Mapping[str, object]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(QUERY.rglob("*.py")):
        module = path.relative_to(QUERY).as_posix()
        if not module.startswith(OTHER_LANGUAGES):
            for literal in _literals(path):
                if literal in names:
                    found[literal].add(module)
    return found


def _literals(path: Path) -> Iterator[str]:
    """Texts in the code of a module, docstrings left out."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


class _Recorder:
    """A source of one series that records which functions it might answer from rollups."""

    def __init__(self) -> None:
        self.functions: set[Function] = set()

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        times = np.arange(from_ms + 10_000, to_ms + 1, 10_000)
        labels = [(("__name__", "m"), ("instance", "i"), ("job", "j"), ("le", "1"))]
        return Series(labels, np.array([0, len(times)]), times, np.arange(len(times), dtype=np.float64))

    def over_windows(self, function: Function, matchers: Sequence[Matcher], grid: Grid) -> None:
        self.functions.add(function)


@pytest.mark.parametrize("name", sorted(IMPLEMENTATIONS))
def test_the_rollup_function_of_a_row_is_what_the_source_is_asked_for(name: str) -> None:
    source, steps = _Recorder(), Steps(600_000, 60_000, 2)
    signature = FUNCTIONS[name].signature
    needed = signature.arguments[:-1] if signature.variadic else signature.arguments
    arguments = [ARGUMENTS[kind] for kind in needed]
    expr = bind(parse(f"{name}({', '.join(arguments)})"), steps.start_ms, steps.end_ms, steps.step_ms)
    try:
        evaluate(expr, steps, source, Options())
    except QueryError as error:
        pytest.fail(f"{name}: {error}")
    expected = IMPLEMENTATIONS[name].rollup
    assert source.functions - {Function.INSTANT} == (set() if expected is None else {expected})
