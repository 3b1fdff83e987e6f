"""A view turns stored times, ids and values into those that engines compute with.

    stored    value_scaled 25  base 1700  exponent 2  double null     view    value 17.25
    stored    rollup_count 1  last_scaled 7  all others null              view    sum 7.0  min 7.0  max 7.0

Values are integers in the files, and nulls of rollups are defaults. The expressions say what
`resources/lake/metric_values.py` and `resources/lake/rollup_columns.py` do, in the SQL of each engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakerunner_assets.tables.columns import kind_of
from resources.lake import rollup_columns as rollups
from resources.lake.columns import CHQ_TIMESTAMP, CHQ_TSNS, Segments, column
from resources.lake.metric_values import BASE, DOUBLE, EXPONENT, SCALED, VALUE_COLUMNS

VALUE = "value"
_TWO_63, _TWO_64 = "9223372036854775808", "18446744073709551616"
_TIMES = {
    Segments.LOGS: (CHQ_TSNS, False),
    Segments.TRACES: ("span_start_ns", False),
    Segments.METRICS: (CHQ_TIMESTAMP, True),
    Segments.ROLLUPS: (CHQ_TIMESTAMP, True),
}
_ROLLED = {
    "sum": rollups.SUM,
    "min": rollups.MIN,
    "max": rollups.MAX,
    "first": rollups.FIRST,
    "last": rollups.LAST,
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """Spellings in which engines differ."""

    wide: str
    """Type of integers of 128 bits."""
    from_ns: str
    from_ms: str
    hexadecimal: str
    half: str
    """Half of a bigint, rounded down."""
    quote: str


DIALECTS = {
    "duckdb": Dialect(
        "HUGEINT", "make_timestamp_ns({0})", "make_timestamp({0} * 1000)", "lower(hex({0}))",
        "({0} >> 1)", '"',
    ),
    "spark": Dialect(
        "DECIMAL(38, 0)", "timestamp_micros({0} DIV 1000)", "timestamp_millis({0})", "lower(hex({0}))",
        "shiftright({0}, 1)", "`",
    ),
    "trino": Dialect(
        "DECIMAL(38, 0)", "from_unixtime_nanos({0})", "from_unixtime_nanos({0} * 1000000)",
        "lower(to_hex({0}))", "bitwise_right_shift_arithmetic({0}, 1)", '"',
    ),
}  # fmt: skip


def view_query(columns: Sequence[str], dataset: str, dialect: str, source: str) -> str:
    """Return the query of a view over a table with these columns; `source` is SQL that names the table."""
    form, kind = DIALECTS[dialect], kind_of(dataset)
    quoted = [f"{form.quote}{name}{form.quote}" for name in columns if name not in _stored_values(kind)]
    ids = _id_columns(columns, kind)
    plain = [
        f"{form.hexadecimal.format(name)} AS {name}" if name.strip('"`') in ids else name for name in quoted
    ]
    time, is_ms = _TIMES[kind]
    computed = [f"{(form.from_ms if is_ms else form.from_ns).format(time)} AS event_time"]
    if kind is Segments.METRICS:
        computed.append(f"{value_expression()} AS {VALUE}")
    if kind is Segments.ROLLUPS:
        computed.append(f"{rollups.COUNT} AS {_name('count', form)}")
        computed += [f"{rolled_expression(c, form)} AS {_name(n, form)}" for n, c in _ROLLED.items()]
        mean = f"{rolled_expression(rollups.SUM, form)} / nullif({rollups.COUNT}, 0)"
        computed.append(f"{mean} AS {_name('avg', form)}")
    return f"SELECT\n  {(',' + chr(10) + '  ').join([*computed, *plain])}\nFROM {source}"


def view_statement(columns: Sequence[str], dataset: str, dialect: str, source: str, view: str) -> str:
    return f"CREATE OR REPLACE VIEW {view} AS\n{view_query(columns, dataset, dialect, source)};"


def value_expression() -> str:
    """Return SQL for the value of a sample, the same in all dialects."""
    return f"coalesce({DOUBLE}, ({SCALED} + {BASE}) / pow(10, {EXPONENT}))"


def rolled_expression(name: str, form: Dialect) -> str:
    """Return SQL for a value of a rollup, decoded and filled as `rollup_columns.filled` does."""
    power, scaled = f"pow(10, {_number(rollups.EXPONENT)})", rollups.SCALED[name]
    if name == rollups.LAST:
        whole = _last()
    elif name == rollups.SUM:
        middle = form.half.format(_wrapped(f"{_wide(_ends(), form)} * {_number(rollups.COUNT)}", form))
        whole = _wrapped(f"{_wide(middle, form)} + {scaled}", form)
    else:
        whole = f"({scaled} + {_first() if name == rollups.MIN else _last()})"
    parts = [f"CASE WHEN {scaled} IS NOT NULL THEN {whole} / {power} END", name]
    if name in rollups.BY_LAST:
        parts.append(rolled_expression(rollups.LAST, form))
    return f"coalesce({', '.join(parts)})"


def _stored_values(kind: Segments) -> frozenset[str]:
    """Return the columns that values are computed from."""
    if kind is Segments.METRICS:
        return frozenset(VALUE_COLUMNS)
    return frozenset(rollups.STORED) if kind is Segments.ROLLUPS else frozenset()


def _id_columns(columns: Sequence[str], kind: Segments) -> frozenset[str]:
    names = ("trace_id", "span_id", "span_trace_id", "span_parent_span_id")
    known = [name for name in names if name in columns]
    return frozenset(name for name in known if column(name, kind).kind.endswith("bytes"))


def _name(name: str, form: Dialect) -> str:
    return f"{form.quote}{name}{form.quote}"


def _number(name: str) -> str:
    return f"coalesce({name}, 0)"


def _last() -> str:
    return f"({_number(rollups.SCALED[rollups.LAST])} + {_number(rollups.BASE)})"


def _first() -> str:
    return f"({_last()} + {_number(rollups.SCALED[rollups.FIRST])})"


def _ends() -> str:
    return f"({_first()} + {_last()})"


def _wide(number: str, form: Dialect) -> str:
    return f"CAST({number} AS {form.wide})"


def _wrapped(number: str, form: Dialect) -> str:
    """Return SQL for a wide number as 64 bits hold it."""
    two_64, two_63 = (f"CAST('{text}' AS {form.wide})" for text in (_TWO_64, _TWO_63))
    return f"CAST((({number}) % {two_64} + {two_64} + {two_63}) % {two_64} - {two_63} AS BIGINT)"
