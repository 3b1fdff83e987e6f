"""`parse` turns a text into one checked statement, or raises an error with its position.

Grafana's macros become functions of their own names, so that positions stay: `$__timeFilter(t)` is read as
`___timeFilter(t)` and replaced in the tree. `now()` and its kin become the time of the query, one for all.
What the tree may hold stands in `whitelist`.

>>> parse("SELECT message FROM logs WHERE severity = 'ERROR'", Context(0, 0, 0)).tree.sql("duckdb")
"SELECT message FROM logs WHERE severity = 'ERROR'"
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from lakerunner_query.errors import Position
from lakerunner_query.lakeql.macros import (
    DIALECT,
    MACRO,
    Context,
    LakeQLError,
    position_of,
    replace_functions,
    replace_macros,
    timestamp,
)
from lakerunner_query.lakeql.views import RELATIONS
from lakerunner_query.lakeql.whitelist import SCHEMAS, check

MAX_TEXT, MAX_DEPTH = 200_000, 200
"""Characters of a statement, and levels of its tree."""

_FIRST_WORD = re.compile(r"(?:[\s(]|--[^\n]*+\n)*+([A-Za-z]++)\b")
_SQL = frozenset({"select", "with", "values", "from", "show", "describe", "desc", "explain", "table"})
_OTHER_SQL = frozenset({
    "insert", "update", "delete", "create", "drop", "alter", "copy", "set", "pragma", "attach", "detach",
    "install", "load", "call", "truncate", "grant", "merge", "export", "import", "begin", "commit",
})  # fmt: skip


class Kind(Enum):
    """Forms of statements."""

    QUERY = "query"
    EXPLAIN = "explain"


@dataclass(frozen=True, slots=True)
class Statement:
    """A checked statement; its tree is never changed."""

    kind: Kind
    tree: exp.Query
    text: str
    parameters: int
    """Highest number of a parameter `$n`."""


def is_sql(text: str) -> bool:
    """Tell SQL from PromQL and LogQL by its first word; words of statements that write are SQL, too."""
    found = _FIRST_WORD.match(text)
    if found is None:
        return False
    rest = text[found.end() :].lstrip()
    return found[1].lower() in _SQL or (found[1].lower() in _OTHER_SQL and rest[:1].isalpha())


def parse(text: str, context: Context, parameters: tuple[object, ...] | None = None) -> Statement:
    """Parse and check one statement; `parameters` are put in as literals, None leaves them as nulls."""
    if len(text) > MAX_TEXT:
        raise LakeQLError(f"the statement has {len(text)} characters, more than {MAX_TEXT}")
    kind, body = _without_explain(_spell_macros(text))
    tree = _one_tree(body)
    if isinstance(tree, exp.Show | exp.Describe):
        tree = _listing(tree, text)
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(tree)
    if not isinstance(tree, exp.Query):
        raise LakeQLError(
            f"{_first_word(body)} is no statement of LakeQL, which only reads: SELECT, WITH, VALUES, "
            "EXPLAIN, SHOW TABLES, DESCRIBE",
            Position(1, 1),
        )
    tree = replace_functions(replace_macros(tree, context, text), context.now_ns, text)
    given = tree.find_all(exp.Parameter, exp.Placeholder)
    highest = max((int(one.name) for one in given if one.name.isdigit()), default=0)
    tree = _bind_parameters(tree, parameters, text)
    check(tree, text)
    _leave_out_schemas(tree)
    return Statement(kind, tree, text, highest)


def _leave_out_schemas(tree: exp.Query) -> None:
    """Name a column by its table alone.

    >>> tree = sqlglot.parse_one("SELECT public.logs.message FROM public.logs", read=DIALECT)
    >>> _leave_out_schemas(tree); tree.sql(DIALECT)
    'SELECT logs.message FROM public.logs'
    """
    aliases = {one.alias.lower() for one in tree.find_all(exp.Table, exp.Subquery) if one.alias}
    for column in tree.find_all(exp.Column):
        db = column.db.lower()
        if db and db in SCHEMAS - aliases and not column.catalog and column.table.lower() in RELATIONS:
            column.set("db", None)


def _first_word(text: str) -> str:
    found = _FIRST_WORD.match(text)
    return found[1].upper() if found else "this"


def _spell_macros(text: str) -> str:
    """Spell `$__name` outside of quotes as `___name`, which is as long."""
    pieces = re.split(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")", text)
    return "".join(piece if piece[:1] in {"'", '"'} else piece.replace("$__", MACRO) for piece in pieces)


def _without_explain(text: str) -> tuple[Kind, str]:
    found = re.match(r"\s*EXPLAIN\b", text, re.IGNORECASE)
    if not found:
        return Kind.QUERY, text
    return Kind.EXPLAIN, " " * found.end() + text[found.end() :]


def _one_tree(text: str) -> exp.Expr:
    try:
        trees = [tree for tree in sqlglot.parse(text, read=DIALECT) if tree is not None]
    except ParseError as error:
        raise _parse_error(error) from error
    except TokenError as error:
        raise LakeQLError(str(error).splitlines()[0]) from error
    except RecursionError as error:
        raise LakeQLError("the statement is nested too deeply") from error
    except (IndexError, AttributeError, KeyError, TypeError, ValueError) as error:  # of the parser itself
        raise LakeQLError("the statement cannot be read", Position(1, 1)) from error
    if not trees:
        raise LakeQLError("the statement is empty", Position(1, 1))
    if len(trees) > 1:
        raise LakeQLError("one statement at a time: there is something behind the semicolon")
    if _depth(trees[0]) > MAX_DEPTH:
        raise LakeQLError(f"the statement is nested more than {MAX_DEPTH} levels deep")
    return trees[0]


def _parse_error(error: ParseError) -> LakeQLError:
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    reason = str(first.get("description") or error).splitlines()[0].rstrip(".")
    if "SENTINEL" in reason:
        reason = "the statement ends too early"
    elif "<" in reason:
        reason = "something is missing"
    near = str(first.get("highlight") or "")
    # the parser counts to the end of the token
    place = Position(int(line), max(1, int(column) - max(0, len(near) - 1))) if line and column else None
    return LakeQLError(f"{reason} near {near!r}" if near else reason, place)


def _depth(tree: exp.Expr) -> int:
    deepest, level = 0, [tree]
    while level:
        deepest += 1
        level = [child for node in level for child in node.iter_expressions()]
    return deepest


def _listing(tree: exp.Expr, text: str) -> exp.Query:
    """Turn SHOW TABLES and DESCRIBE into queries of the catalogue."""
    if isinstance(tree, exp.Show):
        if tree.name.upper() not in {"TABLES", "ALL TABLES"}:
            raise LakeQLError(f"SHOW {tree.name} is not known: SHOW TABLES is", Position(1, 1))
        query = "SELECT table_name AS name, comment FROM information_schema.tables ORDER BY 1"
    elif isinstance(tree.this, exp.Table):
        check(exp.select("*").from_(tree.this.copy()), text)
        name = exp.Literal.string(tree.this.name.lower()).sql(DIALECT)
        query = (
            "SELECT column_name, data_type AS column_type, comment FROM information_schema.columns "
            f"WHERE table_name = {name} ORDER BY ordinal_position"
        )
    else:
        raise LakeQLError("DESCRIBE takes the name of a table", position_of(tree, text) or Position(1, 1))
    made = sqlglot.parse_one(query, read=DIALECT)
    assert isinstance(made, exp.Query)  # noqa: S101 - our own text
    for one in made.walk():
        one.meta.clear()
    return made


def _bind_parameters(tree: exp.Query, values: tuple[object, ...] | None, text: str) -> exp.Query:
    def replace(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Parameter | exp.Placeholder):
            return node
        if not node.name.isdigit():
            raise LakeQLError(f"parameters are $1, $2, …, not {node.sql(DIALECT)}", position_of(node, text))
        if values is None:
            return exp.null()
        if not 0 < int(node.name) <= len(values):
            raise LakeQLError(f"there is no value for ${node.name}: {len(values)} were given")
        return literal(values[int(node.name) - 1])

    found = tree.transform(replace)
    assert isinstance(found, exp.Query)  # noqa: S101 - a query stays one
    return found


def literal(value: object) -> exp.Expr:
    """Return the literal of a Python value."""
    match value:
        case None:
            return exp.null()
        case bool():
            return exp.true() if value else exp.false()
        case float() if not math.isfinite(value):
            return exp.cast(exp.Literal.string(str(value)), "DOUBLE")
        case int() | float():
            found: exp.Expr = exp.Literal.number(abs(value))
            return exp.Neg(this=found) if value < 0 else found
        case str():
            return exp.Literal.string(value)
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo else value
            return timestamp(moment.replace(tzinfo=None))
    raise LakeQLError(
        f"a parameter is a text, a number, a time, true, false or null, not {type(value).__name__}"
    )


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the parts of a condition all of which must hold."""
    if condition is None:
        return
    inner = condition.this if isinstance(condition, exp.Where | exp.Paren) else condition
    if isinstance(inner, exp.And):
        yield from conjuncts(inner.left)
        yield from conjuncts(inner.right)
    elif isinstance(condition, exp.Where | exp.Paren):
        yield from conjuncts(inner)
    else:
        yield inner
