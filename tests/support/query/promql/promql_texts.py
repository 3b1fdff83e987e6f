"""Hypothesis strategies: PromQL texts that are right by construction, and texts that hardly ever are."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

_NAMES = st.sampled_from(["up", "a:b", "sum", "by", "offset", "fill", "step", "smoothed", "min_of", "x_1"])
_LABELS = st.sampled_from(["job", "on", "offset", "le", '"http.path"', "'ä b'"])
_DURATIONS = st.sampled_from(["5m", "1h30m", "300", "0x1f", "1d", "1y2w", "90s", "1ms", "1_000"])
_DURATION_EXPRESSIONS = st.recursive(
    _DURATIONS | st.sampled_from(["step()", "range()", "STEP()"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%^"), inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-{text}"),
        st.tuples(st.sampled_from(["max_of", "min_of"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
    ),
    max_leaves=4,
)
_RANGES = _DURATIONS | _DURATION_EXPRESSIONS.map(lambda text: f"1s + ({text})")
_OFFSETS = (
    _DURATIONS
    | _DURATIONS.map(lambda text: f"-{text}")
    | _DURATION_EXPRESSIONS.map(lambda text: f"-({text})")
)
_TIMES = st.sampled_from(["0", "1234.567", "-3", "1h", "start()", "end()", "0xA"])
_STRINGS = st.text(max_size=8)
_QUOTED = st.one_of(
    _STRINGS.filter(lambda s: "`" not in s and "\ufffd" not in s).map(lambda s: f"`{s}`"),
    _STRINGS.map(lambda s: '"' + "".join(f"\\U{ord(char):08x}" for char in s) + '"'),
    st.binary(max_size=6).map(lambda raw: "'" + "".join(f"\\x{byte:02X}" for byte in raw) + "'"),
)
_EXACT = st.tuples(_LABELS, st.sampled_from(["=", "!="]), _QUOTED).map("".join)
_REGEX = st.tuples(
    _LABELS, st.sampled_from(["=~", "!~"]), st.sampled_from(['"a|b"', "`x.*`", "'(?i)é+'"])
).map("".join)
_MATCHERS = st.lists(_EXACT | _REGEX, max_size=3).map(lambda parts: "{" + ", ".join(parts) + "}")
_NUMBERS = st.one_of(
    st.floats(0, allow_nan=False, allow_infinity=False).map(repr),
    st.integers(0, 2**70).map(str),
    st.sampled_from(["Inf", "0x1F", "010", "1_000.5", ".5", "5.", "1h", "2w"]),
)


def _selectors() -> SearchStrategy[str]:
    named = st.tuples(_NAMES, st.just("") | _MATCHERS).map("".join)
    nameless = st.tuples(st.sampled_from(['{__name__="x"', '{"é x"']), _MATCHERS).map(
        lambda t: f"{t[0]}, {t[1][1:]}"
    )
    return named | nameless


def _shifted(behind: SearchStrategy[str]) -> SearchStrategy[str]:
    at = st.just("") | _TIMES.map(lambda time: f" @ {time}")
    offset = st.just("") | _OFFSETS.map(lambda text: f" offset {text}")
    reach = st.sampled_from(["", "", " anchored", " smoothed"])
    return st.one_of(st.tuples(behind, at, reach, offset), st.tuples(behind, reach, offset, at)).map("".join)


def _matching() -> SearchStrategy[str]:
    labels = st.lists(_LABELS, max_size=2, unique=True).map(", ".join)
    # never without parentheses: those of an operand would be taken for them
    group = st.sampled_from(["", " group_left ()", " group_right ()", " group_left (included)"])
    fill = st.sampled_from(["", "", " fill(0)", " fill_left(-1e9)", " fill_right(5m) fill_left(0.25)"])
    pairing = st.tuples(st.sampled_from([" on", " ignoring"]), labels, group).map(
        lambda t: f"{t[0]} ({t[1]}){t[2]}"
    )
    return st.tuples(st.just("") | pairing, fill).map("".join)


def _grown(inner: SearchStrategy[str]) -> SearchStrategy[str]:
    arithmetic = st.tuples(
        inner, st.sampled_from(["+", "-", "*", "/", "%", "^", "atan2", "</", ">/"]), _matching(), inner
    )
    compared = st.tuples(
        inner, st.sampled_from(["==", "!=", "<=", ">", "== bool", "< bool"]), _matching(), inner
    )
    sets = st.tuples(inner, st.sampled_from(["and", "OR", "unless", "and on (job)", "or ignoring ()"]), inner)
    grouping = st.tuples(st.sampled_from(["by", "WITHOUT"]), st.lists(_LABELS, max_size=2).map(", ".join))
    modifier = st.just("") | grouping.map(lambda t: f" {t[0]} ({t[1]}) ")
    reduced = st.tuples(st.sampled_from(["sum", "AVG", "group"]), modifier, inner, modifier).map(
        lambda t: f"{t[0]}{t[1]}({t[2]}){'' if t[1] else t[3]}"
    )
    chosen = st.tuples(st.sampled_from(["topk", "quantile", "limit_ratio"]), _NUMBERS, inner)
    return st.one_of(
        st.tuples(arithmetic.map(" ".join)).map("".join),
        compared.map(" ".join),
        sets.map(" ".join),
        reduced,
        chosen.map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-{text}"),
        inner.map(lambda text: f"abs({text})"),
        st.tuples(inner, _QUOTED).map(lambda t: f"label_replace({t[0]}, {t[1]}, '$1', \"s\", `(.*)`)"),
        st.tuples(inner, _RANGES, st.just("") | _RANGES).map(
            lambda t: f"max_over_time(({t[0]})[{t[1]}:{t[2]}])"
        ),
        st.tuples(inner, st.sampled_from("+*/"), _NUMBERS).map(" ".join),
    )


_RATES = st.tuples(_shifted(st.tuples(_selectors(), _RANGES).map(lambda t: f"{t[0]}[{t[1]}]"))).map(
    lambda t: f"rate({t[0]})"
)
VECTORS = st.recursive(_shifted(_selectors()) | _RATES, _grown, max_leaves=5)
"""Expressions that give an instant vector."""

_TOKENS = """
    ( ) [ ] { } , : + - * / % ^ @ == != <= >= < > </ >/ =~ !~ = ! and or unless atan2 sum topk by without on
    ignoring group_left group_right fill fill_left bool offset smoothed anchored start end step range max_of
    5m 1h30m 1 0 0x 1_ 1e 1.5.5 .5 Inf "a" 'b' `c` "\\ "\\xff" '\\u12' foo bar:baz rate abs info {a="b"} [5m]
    [5m:] () (1) é ; $ # _ \\
"""
SOUPS = st.lists(st.sampled_from([*_TOKENS.split(), " ", "\n", "\ufffd"]), max_size=12).map("".join)
"""Texts made of the language's pieces in any order."""
