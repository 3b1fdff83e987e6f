"""`check` refuses every node and function that is not listed here.

Lists name what may be, never what may not: a new construct of the parser or a new function of DuckDB is an
error until somebody adds it. Functions that read files, settings, or the environment, that wait, or whose
result has any size are not on the list.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cache

import sqlglot
from sqlglot import exp

from lakerunner_query.errors import ParseError, Position
from lakerunner_query.lakeql.macros import places_of
from lakerunner_query.lakeql.sketches import CARDINALITY
from lakerunner_query.lakeql.views import RELATIONS

CATALOGUE = {
    ("information_schema", "tables"): "information_schema.tables",
    ("information_schema", "columns"): "information_schema.columns",
    ("", "table_semantics"): "table_semantics",
}
"""Relations about the tables, by schema and name."""
SCHEMAS = frozenset({"", "public", "main", "lake"})
"""Schemas that the tables answer to."""
LANGUAGE_FUNCTIONS = frozenset({"promql", "logql", "traceql"})
ROW_FUNCTIONS = frozenset({"generate_series", "range", "unnest"})
MACROS = frozenset({"matches", "matches_any", "matches_term", "time_bucket", "date_bin", "histogram_bucket"})

_NODES = frozenset(
    """
    Add Alias Aliases All And Any AtTimeZone Between BitwiseAnd BitwiseLeftShift BitwiseNot BitwiseOr
    BitwiseRightShift BitwiseXor Boolean Bracket CTE Column Cube DPipe DataType DataTypeParam Distinct
    Div Dot EQ Escape Except Filter From GT GTE Glob Group GroupingSets Having ILike Identifier
    IgnoreNulls In IntDiv Intersect Interval Is JSONPath JSONPathKey JSONPathRoot JSONPathSubscript Join
    Lambda LT LTE Lateral Like Limit Literal Mod Mul NEQ Neg Not Null NullSafeEQ NullSafeNEQ Offset Or
    Order Ordered Paren PropertyEQ Qualify RespectNulls Rollup Select SimilarTo Slice Star Sub Subquery
    Table TableAlias Tuple Union Values Var Where Window WindowSpec With WithinGroup
    """.split()  # noqa: SIM905 - a list of three hundred lines
)
FUNCTIONS = frozenset(
    """
    abs acos acosh age any_value approx_cardinality approx_count_distinct approx_quantile approx_top_k
    approx_topk arg_max arg_min argmax argmin array_agg array_length array_slice array_to_string ascii
    asin asinh atan atan2 avg bit_and bit_count bit_length bit_or bit_xor bool_and bool_or cardinality
    cbrt ceil ceiling century char_length chr coalesce concat concat_ws contains corr cos cosh cot count
    count_if count_star countif covar_pop covar_samp cume_dist date_add date_bin date_diff date_part
    date_sub date_trunc datediff datepart datetrunc day dayname dayofmonth dayofweek dayofyear decade
    degrees dense_rank element_at ends_with entropy epoch epoch_ms epoch_ns epoch_us even exp extract favg
    first first_value flatten floor fmod format_bytes from_hex fsum gcd greatest grouping grouping_id hash
    hex hour histogram if ifnull instr isfinite isinf isnan isodow isoyear json_array json_array_length
    json_contains json_exists json_extract json_extract_path json_extract_path_text json_extract_string
    json_keys json_object json_type json_valid json_value kahan_sum kurtosis lag last last_day last_value
    lcase lcm lead least left len length levenshtein list list_aggregate list_any_value list_avg
    list_concat list_contains list_count list_distinct list_extract list_filter list_first list_has
    list_has_all list_has_any list_indexof list_last list_max list_median list_min list_position
    list_reverse list_reverse_sort list_slice list_sort list_sum list_transform list_unique list_value ln
    log log10 log2 lower lpad ltrim mad make_date make_time make_timestamp make_timestamp_ms
    make_timestamp_ns map map_contains map_entries map_extract map_extract_value map_from_entries map_keys
    map_values matches matches_any matches_term max max_by md5 mean median microsecond millisecond min
    min_by minute mod mode month monthname nth_value ntile nullif octet_length ord percent_rank
    percentile_cont percentile_disc pi position pow power prefix product quantile quantile_cont
    quantile_disc quarter radians rank regexp_escape regexp_extract regexp_extract_all regexp_full_match
    regexp_like regexp_matches regexp_replace regexp_split_to_array regr_count regr_intercept regr_r2
    regr_slope replace reverse right round round_even row row_number rpad rtrim second sem sha256 sign sin
    sinh skewness split_part sqrt starts_with stddev stddev_pop stddev_samp strftime string_agg
    string_split strlen strpos strptime struct_extract struct_pack substr substring suffix sum tan tanh
    time_bucket to_days to_hex to_hours to_json to_microseconds to_milliseconds to_minutes to_months
    to_seconds to_timestamp to_weeks to_years translate trim trunc try_strptime typeof ucase unhex unicode
    unnest upper url_decode url_encode var_pop var_samp variance week weekday weekofyear wavg year
    yearweek
    """.split()  # noqa: SIM905 - a list of three hundred lines
)
"""Functions by the names that DuckDB or LakeQL knows."""
_SYNTAX = frozenset({
    "Case", "Cast", "TryCast", "Exists", "Array", "ToMap", "Struct", "Extract", "Collate", "If", "Unnest",
    "Map", "VarMap", "List", "JSONExtract", "JSONExtractScalar", "Trim", "Substring",
})  # fmt: skip
"""Functions of the tree that stand for syntax."""
MAX_PADDING = 1_000
"""Longest text that `lpad` and `rpad` make."""
_SIZED = frozenset({"lpad", "rpad"})


_OWN = re.compile(r"scan_\d+", re.IGNORECASE)
"""Names of tables that stand for scans."""


def check(tree: exp.Query, text: str) -> None:
    """Raise the first thing that LakeQL does not have, with its place."""
    for node in tree.walk():
        if isinstance(node, exp.Table):
            _check_table(node, text)
        elif isinstance(node, exp.Func) and not isinstance(node, exp.And | exp.Or):
            _check_function(node, text)
        elif type(node).__name__ not in _NODES:
            raise _refused(f"{_spelled(node)} is not part of LakeQL", node, text)
        elif isinstance(node, exp.CTE) and _OWN.fullmatch(node.alias):
            raise _refused(f"the name {node.alias} is kept for LakeQL itself", node, text)
        elif isinstance(node, exp.With) and node.args.get("recursive"):
            raise _refused("WITH RECURSIVE is not part of LakeQL: it has no bound", node, text)
        elif isinstance(node, exp.DataType):
            _check_type(node, text)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            raise _refused("a table or join in parentheses is not part of LakeQL: leave them out", node, text)
        elif isinstance(node, exp.Select):
            _check_select(node, text)
        elif isinstance(node, exp.Join) and str(node.args.get("method") or "").upper() == "POSITIONAL":
            raise _refused("POSITIONAL JOIN is not part of LakeQL: rows have no position", node, text)


def cte_of(table: exp.Table) -> exp.CTE | None:
    """Return the common table expression that a name in FROM stands for; None: it is a table."""
    if table.db or isinstance(table.this, exp.Func):
        return None
    name, inside = table.name.lower(), table.parent
    child: exp.Expr = table
    while inside is not None:
        with_ = inside.args.get("with_") if isinstance(inside, exp.Query) else None
        if with_ is not None and child is not with_:
            for one in with_.expressions:
                if one.alias.lower() == name:
                    return _cte(one)
        if isinstance(inside, exp.With):
            for one in inside.expressions:
                if one is child:
                    break
                if one.alias.lower() == name:
                    return _cte(one)
        child, inside = inside, inside.parent
    return None


def _cte(node: exp.Expr) -> exp.CTE | None:
    return node if isinstance(node, exp.CTE) else None


def catalogue_name(table: exp.Table) -> str:
    """Return the relation of the catalogue, empty where the name is none of it."""
    return CATALOGUE.get((table.db.lower(), table.name.lower()), "")


def _check_table(node: exp.Table, text: str) -> None:
    extra = [key for key, value in node.args.items() if value and key not in {"this", "alias", "db", "joins"}]
    if extra:
        raise _refused(f"{extra[0].upper()} of a table is not part of LakeQL", node, text)
    if isinstance(node.this, exp.Func):
        name = _name(node.this)
        if name not in LANGUAGE_FUNCTIONS | ROW_FUNCTIONS:
            raise _refused(
                f"the table function {name} is not known"
                + _nearest(name, sorted(LANGUAGE_FUNCTIONS | ROW_FUNCTIONS)),
                node, text,
            )  # fmt: skip
        return
    if cte_of(node) is not None or catalogue_name(node):
        return
    if node.db.lower() not in SCHEMAS or node.catalog or node.name.lower() not in RELATIONS:
        full = ".".join(part for part in (node.catalog, node.db, node.name) if part)
        raise _refused(f"the table {full} is not known{_nearest(node.name, RELATIONS)}", node, text)


def _check_function(node: exp.Func, text: str) -> None:
    parent = node.parent
    if isinstance(parent, exp.Table) and parent.this is node:
        for given in node.expressions if _name(node) in LANGUAGE_FUNCTIONS else ():
            if not isinstance(given, exp.Literal | exp.Interval):
                raise _refused(f"{_name(node)}() takes texts, not expressions", node, text)
        return
    name = _name(node)
    if isinstance(node, exp.Anonymous):
        is_known = name in FUNCTIONS or name == CARDINALITY
    else:
        is_known = type(node).__name__ in _SYNTAX or type(node) in _classes()
    if not is_known:
        raise _refused(f"the function {name} is not known{_nearest(name, FUNCTIONS)}", node, text)
    if name in _SIZED or type(node).__name__ == "Pad":
        widths = [one for one in node.find_all(exp.Literal) if not one.is_string]
        if not widths or any(float(one.name) > MAX_PADDING for one in widths):
            raise _refused(f"{name} takes a width up to {MAX_PADDING}, as a number", node, text)


def _check_type(node: exp.DataType, text: str) -> None:
    if node.this in {exp.DataType.Type.USERDEFINED, exp.DataType.Type.UNKNOWN}:
        raise _refused(f"the type {node.sql('duckdb')} is not known", node, text)


def _check_select(node: exp.Select, text: str) -> None:
    for key, what in (
        ("into", "SELECT INTO"),
        ("locks", "FOR UPDATE"),
        ("sample", "SAMPLE"),
        ("pivots", "PIVOT"),
        ("hint", "a hint"),
        ("kind", "SELECT AS"),
        ("windows", ""),
    ):
        if node.args.get(key) and what:
            raise _refused(f"{what} is not part of LakeQL", node, text)  # fmt: skip


def _name(node: exp.Func) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else node.sql_name().lower()


def _spelled(node: exp.Expr) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


@cache
def _classes() -> frozenset[type[exp.Expr]]:
    """Return the node classes that the parser makes of the functions on the list."""
    found: set[type[exp.Expr]] = set()
    for name in sorted(FUNCTIONS):
        for arguments in ("", "a", "a, b", "a, b, c"):
            try:
                tree = sqlglot.parse_one(f"SELECT {name}({arguments})", read="duckdb")
            except sqlglot.ParseError:
                continue
            found.update(type(one) for one in tree.walk() if isinstance(one, exp.Func))
    return frozenset(found - {exp.Anonymous})


def names_like(name: str, known: Iterable[str]) -> str:
    """Return names that are spelled alike, as words; empty where there are none.

    >>> names_like("metric_nam", ["value", "metric_name"])
    'metric_name'
    """
    return " or ".join(difflib.get_close_matches(name.lower(), list(known), 2))


def _nearest(name: str, known: Iterable[str]) -> str:
    close = names_like(name, known)
    return f": did you mean {close}?" if close else ""


def _refused(reason: str, node: exp.Expr, text: str) -> ParseError:
    return ParseError(reason, _place(node, text))


def _place(node: exp.Expr, text: str) -> Position:
    """Return the place of a function's name, else of the first name inside, else of the statement."""
    offsets = list(_offsets(node, text))
    if not offsets:
        parent = node.parent
        return _place(parent, text) if parent is not None else Position(1, 1)
    offset = min(offsets)
    before = text[:offset]
    return Position(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def _offsets(node: exp.Expr, text: str) -> Iterator[int]:
    names = node.sql_names() if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous) else ()
    for name in names:
        for at in places_of(name, text):
            if text[at + len(name) :].lstrip().startswith("("):
                yield at
    for one in node.walk():
        if "start" in one.meta:
            yield one.meta["start"]
