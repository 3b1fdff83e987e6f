"""Questions to the catalog are parsed as PostgreSQL, checked, and written anew.

Every table and every function has to stand in a list: nothing else gets into the tree that runs, and nothing
of the client's text does.

>>> names = Names(frozenset({"pg.pg_class"}), frozenset({"pgf_format_type"}))
>>> read_question("SELECT relname FROM pg_catalog.pg_class WHERE relname ~ '^l'", names).tree.sql("duckdb")
"SELECT relname FROM pg.pg_class AS pg_class WHERE REGEXP_MATCHES(relname, '^l')"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import cast

from sqlglot import Dialect, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from lakerunner_query.api.postgres.messages import NOT_SUPPORTED, SqlError
from lakerunner_query.errors import Position
from lakerunner_query.lakeql.views import RELATIONS

MAX_TEXT = 100_000
_POSTGRES = Dialect.get_or_raise("postgres")
_QUOTED = re.compile(r'"[^"\\]*"')
_STATEMENT_WORDS = frozenset({TokenType.SELECT, TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE})
_MAYBE = re.compile(
    r"\bpg_|information_schema|\bversion\s*\(|\bcurrent_(?!date|time)|\b(?:session_)?user\b|set_config"
    r"|_privilege|\btxid_|::\s*reg|obj_description|format_type|\bto_reg|\binet_",
    re.IGNORECASE,
)
_REGISTERED = {
    "pg.pg_attribute": "lake_attributes",
    "info.columns": "lake_all_columns",
    "pg.pg_settings": "settings",
}
"""Tables that differ between organisations or sessions."""
_FUNCTIONS = frozenset({
    "abs", "and", "any", "any_value", "array", "array_agg", "array_all", "array_any", "array_concat",
    "array_contains", "array_length", "array_size", "array_to_string", "avg", "between", "case", "cast",
    "ceil", "coalesce", "concat", "concat_ws", "count", "current_date", "current_timestamp", "dense_rank",
    "exists", "explode", "exploding_generate_series", "extract", "first_value", "floor", "generate_series",
    "generate_subscripts", "greatest", "group_concat", "hex", "if", "initcap", "lag", "last_value", "lead",
    "least", "left", "length", "logical_and", "logical_or", "lower", "ltrim", "max", "md5", "min", "mod",
    "nullif", "or", "position", "rank", "regexp_i_like", "regexp_like", "regexp_replace", "replace", "right",
    "round", "row_number", "rtrim", "split_part", "starts_with", "str_position", "string_to_array",
    "substring", "sum", "trim", "try_cast", "unnest", "upper", "xor",
})  # fmt: skip
"""Functions of sqlglot that mean the same in DuckDB, by their names there."""
_ANONYMOUS = frozenset({
    "all", "array_position", "ascii", "btrim", "chr", "generate_subscripts", "now", "strpos", "translate",
})  # fmt: skip
_CURRENT: Mapping[type[exp.Expr], str] = {
    exp.CurrentUser: "pgf_current_user",
    exp.SessionUser: "pgf_current_user",
    exp.CurrentSchema: "pgf_current_schema",
    exp.CurrentRole: "pgf_current_user",
    exp.CurrentVersion: "pgf_version",
}
_REG = re.compile(r"^(?:pg_catalog\.)?reg(class|type|namespace|role|proc|procedure)$")
_SIMPLE_TYPES = {
    "name": "VARCHAR", '"char"': "VARCHAR", "char": "VARCHAR", "cstring": "VARCHAR", "text": "VARCHAR",
    "varchar": "VARCHAR", "json": "VARCHAR", "jsonb": "VARCHAR", "inet": "VARCHAR", "regconfig": "VARCHAR",
    "information_schema.sql_identifier": "VARCHAR", "oid": "BIGINT", "xid": "BIGINT", "int8": "BIGINT",
    "int4": "INTEGER", "int2": "SMALLINT", "bool": "BOOLEAN", "text[]": "VARCHAR[]", "name[]": "VARCHAR[]",
    '"char"[]': "VARCHAR[]", "oid[]": "BIGINT[]", "oidvector": "BIGINT[]", "int2vector": "SMALLINT[]",
    "int2[]": "SMALLINT[]", "int4[]": "INTEGER[]", "int8[]": "BIGINT[]",
}  # fmt: skip
_OPERATORS: Mapping[str, Callable[[exp.Expr, exp.Expr], exp.Expr]] = {
    "~": lambda left, right: exp.RegexpLike(this=left, expression=right),
    "~*": lambda left, right: exp.RegexpILike(this=left, expression=right),
    "!~": lambda left, right: exp.Not(this=exp.RegexpLike(this=left, expression=right)),
    "!~*": lambda left, right: exp.Not(this=exp.RegexpILike(this=left, expression=right)),
    "=": lambda left, right: exp.EQ(this=left, expression=right),
    "<>": lambda left, right: exp.NEQ(this=left, expression=right),
    "~~": lambda left, right: exp.Like(this=left, expression=right),
    "||": lambda left, right: exp.DPipe(this=left, expression=right),
    "+": lambda left, right: exp.Add(this=left, expression=right),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CatalogQuery:
    """A question, checked and rewritten; session values are put in when it runs."""

    tree: exp.Query
    types: tuple[int, ...]
    registered: frozenset[str]


_SESSION_FUNCTIONS = frozenset(
    {"current_setting", "set_config", "pg_backend_pid", "current_database", "current_catalog"}
)


def _is_current(node: exp.Expr) -> bool:
    return node.key in {"currentdatabase", "currentcatalog"}


@dataclass(frozen=True, slots=True)
class Names:
    """Tables and functions that the catalog has."""

    tables: frozenset[str]
    macros: frozenset[str]


def may_be_question(text: str) -> bool:
    """Tell cheaply what is certainly for the lake."""
    return len(text) <= MAX_TEXT and _MAYBE.search(text) is not None


def read_question(text: str, names: Names) -> CatalogQuery | None:
    """Return a statement that is for the catalog; None: it is not."""
    return _Reading(names).read(text)


class _Reading:
    def __init__(self, names: Names) -> None:
        self._names = names.tables | frozenset(_REGISTERED)
        self._macros = names.macros

    def read(self, text: str) -> CatalogQuery | None:
        try:
            trees = [tree for tree in _parsed(text) if tree is not None]
        except (SqlglotError, RecursionError) as error:
            if re.search(r"\bpg_catalog\.|\binformation_schema\.", text, re.IGNORECASE):
                raise _syntax_error(error) from error
            return None
        tree = trees[0] if len(trees) == 1 else None
        if not isinstance(tree, exp.Query) or not self._is_for_catalog(tree):
            return None
        refused = next(tree.find_all(exp.DML, exp.DDL, exp.Command, exp.Into), None)
        if refused is not None and not isinstance(refused, exp.Query):
            raise SqlError("25006", "cannot write in a read-only transaction")
        registered: set[str] = set()
        _name_columns(tree)
        rewritten = replace_all(tree, lambda node: self._rewritten(node, registered))
        parameters = list(rewritten.find_all(exp.Parameter, exp.Placeholder))
        count = max((int(str(one.this)) for one in parameters if str(one.this).isdigit()), default=0)
        return CatalogQuery(
            cast("exp.Query", rewritten), _parameter_types(parameters, count), frozenset(registered)
        )

    def _is_for_catalog(self, tree: exp.Query) -> bool:
        common = {one.alias.lower() for one in tree.find_all(exp.CTE)}
        tables = [one for one in tree.find_all(exp.Table) if isinstance(one.this, exp.Identifier)]
        real = [one for one in tables if one.db or one.name.lower() not in common]
        known = [one for one in real if self._place(one) is not None]
        strangers = [one for one in real if self._place(one) is None]
        if known and strangers:
            name = strangers[0].name
            if name.lower() in RELATIONS:
                raise SqlError(NOT_SUPPORTED, "a statement reads the catalog or the lake, not both")
            raise SqlError("42P01", f'relation "{name}" does not exist')
        if known or strangers:
            return bool(known) or any(one.db.lower() in {"pg_catalog", "information_schema"} for one in real)
        if any(isinstance(one.this, exp.Func) for one in tree.find_all(exp.Table)):
            return any(f"pgf_{one.this.name.lower()}" in self._macros for one in tree.find_all(exp.Table))
        return any(self._is_of_postgres(node) for node in tree.walk())

    def _is_of_postgres(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Func) and not isinstance(node, exp.Cast):
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
            if f"pgf_{name.lower()}" in self._macros or name.lower() in _SESSION_FUNCTIONS:
                return True
        is_name = isinstance(node, exp.Cast) and _REG.match(_type_name(node.to)) is not None
        return is_name or type(node) in _CURRENT or _is_current(node)

    def _place(self, table: exp.Table) -> str | None:
        schema = {"pg_catalog": "pg", "information_schema": "info", "": "pg"}.get(table.db.lower())
        name = f"{schema}.{table.name.lower()}"
        return name if name in self._names else None

    def _rewritten(self, node: exp.Expr, registered: set[str]) -> exp.Expr:
        if isinstance(node, exp.Table):
            return self._table(node, registered)
        if isinstance(node, exp.Lock):
            raise SqlError("25006", "cannot execute SELECT FOR UPDATE in a read-only transaction")
        found = next((change for kind, change in _CHANGES if isinstance(node, kind)), None)
        if found is not None:
            return found(node)
        return self._function(node) if isinstance(node, exp.Func) else node

    def _table(self, node: exp.Table, registered: set[str]) -> exp.Expr:
        if not isinstance(node.this, exp.Identifier):  # a function, which is checked as one
            return _function_in_from(node)
        place = self._place(node)
        if place is None:
            if node.db:
                raise SqlError("42P01", f'relation "{node.db}.{node.name}" does not exist')
            return node
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
        node = node.copy()
        if place in _REGISTERED:
            registered.add(_REGISTERED[place])
            node.set("db", None)
            node.set("this", exp.to_identifier(_REGISTERED[place]))
        else:
            schema, _, name = place.partition(".")
            node.set("db", exp.to_identifier(schema))
            node.set("this", exp.to_identifier(name))
        node.set("catalog", None)
        node.set("alias", alias)
        return node

    def _function(self, node: exp.Func) -> exp.Expr:
        if type(node) in _CURRENT:
            return exp.Anonymous(this=_CURRENT[type(node)])
        if _is_current(node):
            node = exp.Anonymous(this="current_database")
        given = node.expressions
        if isinstance(node, exp.Anonymous):
            name = node.name.lower()
            if name in _SESSION_FUNCTIONS:
                return exp.Anonymous(this="session_value", expressions=[exp.Literal.string(name), *given])
            if name == "json_build_object":
                return exp.cast(exp.Anonymous(this="json_object", expressions=given), "text")
            if f"pgf_{name}" not in self._macros:
                if name in {*_ANONYMOUS, "json_object", "session_value"} or name in self._macros:
                    return node
                node = exp.func(name, *given, dialect="postgres")
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.sql_name().lower()
        if f"pgf_{name}" in self._macros:
            first = [] if isinstance(node, exp.Anonymous) else [node.args.get("this")]
            return exp.Anonymous(
                this=f"pgf_{name}",
                expressions=[one for one in (*first, *node.expressions) if one is not None],
            )
        if not isinstance(node, exp.Anonymous) and (name in _FUNCTIONS or node.key in _FUNCTIONS):
            return node
        raise SqlError("42883", f"function {name} does not exist in the catalog of this server")


def _parsed(text: str) -> list[exp.Expr | None]:
    """Parse a text; behind a dot and behind AS, words of statements are names, as in PostgreSQL."""
    tokens = _POSTGRES.tokenize(text)
    for before, token in pairwise(tokens):
        if before.token_type in {TokenType.DOT, TokenType.ALIAS} and token.token_type in _STATEMENT_WORDS:
            token.token_type = TokenType.IDENTIFIER
    return _POSTGRES.parser().parse(tokens, text)


def replace_all(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return a copy in which every node has been changed, children before their parents."""
    tree = tree.copy()
    for node in reversed(list(tree.bfs())):
        changed = change(node)
        if changed is node:
            continue
        if node is tree:
            tree = changed
            tree.pop()
        else:
            node.replace(changed)
    return tree


def _function_in_from(node: exp.Table) -> exp.Expr:
    """Name the column of a function in FROM as PostgreSQL does: by the alias."""
    node.set("db", None)
    node.set("catalog", None)
    alias = node.args.get("alias")
    if alias is None or alias.args.get("columns"):
        return node
    if "array" in node.this.sql_name().lower():  # a function of one value
        return exp.select(exp.alias_(node.this, alias.this)).subquery(alias.this)
    alias.set("columns", [alias.this.copy()])
    return node


def _name_columns(tree: exp.Query) -> None:
    """Give results without a name the one that PostgreSQL gives them."""
    for select in tree.find_all(exp.Select):
        for one in select.expressions:
            if not isinstance(one, exp.Column | exp.Alias | exp.Star) and not one.is_star:
                one.replace(exp.alias_(one.copy(), _result_name(one), quoted=True))


def _result_name(one: exp.Expr) -> str:
    if isinstance(one, exp.Cast):
        inner = _result_name(one.this)
        return inner if inner != "?column?" else _type_name(one.to).rpartition(".")[2]
    one = one.expression if isinstance(one, exp.Dot) else one
    found = "?column?"
    if isinstance(one, exp.Column | exp.Identifier | exp.Anonymous):
        found = one.name
    elif isinstance(one, exp.Case | exp.Coalesce | exp.Exists | exp.Array):
        found = one.key
    elif isinstance(one, exp.Func):
        found = _CURRENT.get(type(one), one.sql_name()).removeprefix("pgf_")
    return found.lower() if isinstance(one, exp.Func) else found


def _operator(node: exp.Operator) -> exp.Expr:
    name = str(node.args["operator"]).rpartition(".")[2]
    make = _OPERATORS.get(name)
    if make is None:
        raise SqlError("42883", f"operator {name} does not exist in the catalog of this server")
    return make(node.this, node.expression)


def _bare_function(node: exp.Expr) -> exp.Expr:
    """Leave out the schema of a function."""
    return node.expression if isinstance(node.expression, exp.Func) else node


def _is_flat_array(text: str) -> bool:
    """Tell whether a text is an array of texts, of which those in quotes may hold braces.

    >>> _is_flat_array('{a,"b {c}"}'), _is_flat_array("{a,{b}}"), _is_flat_array("a")
    (True, False, False)
    """
    inside = _QUOTED.sub("", text[1:-1])
    return text[:1] + text[-1:] == "{}" and not set(inside) & set('{}"\\')


def _array(node: exp.Expr) -> exp.Expr:
    """Turn the text of an array into an array."""
    if not node.is_string:
        return node
    is_cast = isinstance(node.parent, exp.Cast) and node.parent.to.is_type("array")
    if re.fullmatch(r"\{[\w,]*\}", node.name) is None and not (is_cast and _is_flat_array(node.name)):
        return node
    parts = re.findall(r'"([^"]*)"|([^,"]+)', node.name[1:-1])
    return exp.Array(expressions=[exp.Literal.string(quoted or plain) for quoted, plain in parts])


def _quotient(node: exp.Expr) -> exp.Expr:
    """Divide integers as PostgreSQL does."""
    kinds = (exp.Cast, exp.Literal, exp.Paren)
    if not all(isinstance(one, kinds) and _is_integer(one) for one in (node.this, node.expression)):
        return node
    return exp.IntDiv(this=node.this, expression=node.expression)


def _is_integer(one: exp.Expr) -> bool:
    if isinstance(one, exp.Cast):
        return one.to.this.name in {"INT", "BIGINT", "SMALLINT"}
    return _is_integer(one.this) if isinstance(one, exp.Paren) else one.is_int


def _format(node: exp.Expr) -> exp.Expr:
    """Spell `format('%I.%s', a, b)` as a concatenation."""
    text, given = node.this, iter(node.expressions)
    if not text.is_string:
        raise SqlError(NOT_SUPPORTED, "the catalog of this server knows format() of a constant text only")
    parts: list[exp.Expr] = [exp.Literal.string("")]
    for piece in re.split(r"(%[sIL%])", text.name):
        if piece[:1] != "%" or piece == "%%":
            parts.append(exp.Literal.string(piece[:1] if piece == "%%" else piece))
            continue
        value = next(given, None)
        if value is None:
            raise SqlError("22023", "too few arguments for format()")
        plain = exp.Coalesce(this=exp.cast(value, "text"), expressions=[exp.Literal.string("")])
        quoted = {"%I": "pgf_quote_ident", "%L": "pgf_quote_literal"}.get(piece)
        parts.append(exp.Anonymous(this=quoted, expressions=[plain]) if quoted else plain)
    return reduce(lambda left, right: exp.DPipe(this=left, expression=right), parts)


def _unlike_all(node: exp.Expr) -> exp.Expr:
    """Spell `x <> ALL (array)` as DuckDB does."""
    every = node.expression
    if not isinstance(every, exp.Anonymous) or every.name.lower() != "all" or len(every.expressions) != 1:
        return node
    return exp.Not(this=exp.ArrayContains(this=every.expressions[0], expression=node.this))


def _column(node: exp.Expr) -> exp.Expr:
    """Give system columns, which no table here has, a value; leave out schemas."""
    if node.args.get("db"):
        node = exp.column(node.this.copy(), node.args["table"].copy())
    return exp.Literal.number(0) if node.name.lower() in {"tableoid", "xmin", "ctid"} else node


def _type_name(kind: exp.Expr) -> str:
    return kind.sql("postgres").lower()


def _cast(node: exp.Cast) -> exp.Expr:
    name = _type_name(node.to)
    reg = _REG.match(name)
    if reg:
        kind = reg[1].removesuffix("edure")
        if isinstance(node.this, exp.Literal) and node.this.is_string and node.this.name.isdigit():
            return exp.Literal.number(node.this.name)
        is_text = isinstance(node.this, exp.Parameter | exp.Placeholder | exp.DPipe) or node.this.is_string
        function = f"pgf_to_reg{kind}" if is_text else f"pgf_name_of_reg{kind}"
        return exp.Anonymous(this=function, expressions=[node.this])
    simple = _SIMPLE_TYPES.get(name.removeprefix("pg_catalog."))
    if simple is not None:
        inner = node.this.name if isinstance(node.this, exp.Anonymous) else ""
        if simple == "BIGINT" and inner.startswith("pgf_name_of"):
            return node.this.expressions[0]  # type: ignore[no-any-return]
        if simple == "BIGINT" and inner == "pgf_to_regproc":
            return exp.Literal.number(0)  # no function here has an oid
        return exp.Cast(this=node.this, to=exp.DataType.build(simple, dialect="duckdb"))
    return node


def _parameter_types(parameters: Sequence[exp.Expr], count: int) -> tuple[int, ...]:
    found = [25] * count
    for one in parameters:
        if (
            isinstance(one.parent, exp.Cast)
            and one.parent.to.this.name in {"BIGINT", "INT"}
            and str(one.this).isdigit()
        ):
            found[int(str(one.this)) - 1] = 20
    return tuple(found)


def _syntax_error(error: Exception) -> SqlError:
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        place = Position(first["line"], max(1, first["col"] - len(first["highlight"] or "") + 1))
        return SqlError("42601", f"syntax error at or near {first['highlight']!r}", position=place)
    return SqlError("42601", "syntax error in a question to the catalog")


_CHANGES: tuple[tuple[type[exp.Expr], Callable[..., exp.Expr]], ...] = (
    (exp.Dot, _bare_function),
    (exp.Operator, _operator),
    (exp.Collate, lambda node: node.this),
    (exp.Cast, _cast),
    (exp.Literal, _array),
    (exp.Column, _column),
    (exp.Div, _quotient),
    (exp.Format, _format),
    (exp.NEQ, _unlike_all),
)
"""Changes of nodes that are the same for all questions."""
