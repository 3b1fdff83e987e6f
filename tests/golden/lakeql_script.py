"""Scripts of LakeQL, in the manner of sqllogictest: statements with their rows, or with the error they raise.

    # the words behind `query` are the types of columns (T text, I integer, R number, B boolean, Z time,
    # L list or map), then `rowsort` if the order is free, `ordered` if not, and `within 0.02` for a tolerance
    query TI rowsort
    SELECT severity, count(*) FROM logs GROUP BY 1

Nothing more: the rows must be those of plain DuckDB over the same rows. `----` and another statement is what
DuckDB is asked in its place, `---- rows` and lines with tabs are the rows themselves, where `NULL` is null
and `(empty)` the empty text. `partial` behind `query` asserts that workers
aggregate, `first` that they limit.

    with {"parameters": [1, "x"]}
    query I ordered
    SELECT $1 + 1
    ---- rows
    2

    statement error line 1, col 15: the table secrets is not known
    SELECT * FROM secrets

What follows `error` is a regular expression that the message matches from its place on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakerunner_query.errors import QueryError
from tests.support.query.signals_lake import Asked
from tests.support.query.sql_results import kind_of, row_difference, rows_of, run_plain

LETTERS = {
    "T": ("text",), "I": ("integer",), "R": ("number",), "B": ("bool",), "Z": ("timestamp", "date32[day]"),
}  # fmt: skip
FORMS = {"partial": "parts", "first": "first rows"}


@dataclass(frozen=True)
class Case:
    """A record of a script."""

    file: str
    line: int
    head: str
    sql: str
    expected: str | None
    is_literal: bool
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def is_error(self) -> bool:
        return self.head.startswith("statement error")


def read_cases(path: Path) -> Iterator[Case]:
    line = 1
    for block in re.split(r"\n[ \t]*\n", path.read_text()):
        lines = [one for one in block.split("\n") if not one.startswith("#")]
        begin = line + next((n for n, one in enumerate(block.split("\n")) if one and one[0] != "#"), 0)
        line += block.count("\n") + 2
        lines = [one for one in lines if one.strip()]
        if lines:
            yield _case(path.stem, begin, lines)


def _case(file: str, line: int, lines: list[str]) -> Case:
    options = json.loads(lines.pop(0)[5:]) if lines[0].startswith("with ") else {}
    head = lines.pop(0)
    if not head.startswith(("query ", "statement error ")):
        raise ValueError(f"{file}:{line}: a record begins with `query` or `statement error`, not {head!r}")
    cut = next((n for n, one in enumerate(lines) if one.startswith("----")), len(lines))
    expected = "\n".join(lines[cut + 1 :]) if cut < len(lines) else None
    is_literal = cut < len(lines) and lines[cut].split()[1:] == ["rows"]
    return Case(file, line, head, "\n".join(lines[:cut]), expected, is_literal, options)


def check(case: Case, asked: Asked, database: duckdb.DuckDBPyConnection) -> None:
    """Run a record and fail with what is different."""
    if "parameters" in case.options:
        case.options["parameters"] = tuple(case.options["parameters"])
    if case.is_error:
        _check_error(case, asked)
        return
    _, letters, *words = case.head.split()
    found = asked.table(case.sql, **case.options)
    _check_types(letters, found)
    for word in words:
        if word in FORMS:
            assert FORMS[word] in asked.forms, asked.forms
    tolerance = float(words[words.index("within") + 1]) if "within" in words else 1e-9
    wanted = (
        _literal(case.expected or "", found)
        if case.is_literal
        else rows_of(run_plain(database, case.expected or case.sql))
    )
    assert wanted or "empty" in words, "an expected result is empty only where the record says `empty`"
    problem = row_difference(rows_of(found), wanted, ordered="rowsort" not in words, tolerance=tolerance)
    assert not problem, problem


def _check_error(case: Case, asked: Asked) -> None:
    with pytest.raises(QueryError) as raised:
        asked.table(case.sql, **case.options)
    pattern = case.head.removeprefix("statement error ")
    message = str(raised.value).removeprefix("parse error at ").removeprefix("parse error : ")
    assert re.match(pattern, message), f"{message!r} does not begin as {pattern!r}"


def _check_types(letters: str, found: pa.Table) -> None:
    kinds = [kind_of(one.type) for one in found.schema]
    assert len(kinds) == len(letters), f"{len(kinds)} columns, {letters} expected: {found.schema.names}"
    for letter, kind, name in zip(letters, kinds, found.schema.names, strict=True):
        is_nested = kind not in {each for one in LETTERS.values() for each in one}
        assert (letter == "L" and is_nested) or kind in LETTERS.get(letter, ()), f"{name} is {kind}"


def _literal(text: str, found: pa.Table) -> list[tuple[Any, ...]]:
    rows = [line.split("\t") for line in text.split("\n") if line]
    return [tuple(map(_value, row, [kind_of(one.type) for one in found.schema])) for row in rows]


def _value(text: str, kind: str) -> Any:
    if text == "NULL":
        return None
    if kind == "text":
        return text.replace("(empty)", "")
    return (
        pa.scalar(text)
        .cast({"integer": pa.int64(), "number": pa.float64(), "bool": pa.bool_()}[kind])
        .as_py()
    )
