"""Every operator on every kind of operand, every function on every kind of argument.

list(promql_operators())[0]     up + up
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from lakerunner_query.promql.lang.ast import Type
from lakerunner_query.promql.lang.functions import AGGREGATIONS, FUNCTIONS
from lakerunner_query.vectors.rows import ARITHMETIC, COMPARISONS, SETS, TRIMS

OPERANDS = (
    "up", "size", "nhcb", "mixed", "ghist", "odd", "nothing", "vector(NaN)", "2", "-Inf", "NaN", "time()",
    "scalar(up)", '"text"', "up[5m]", "size[10m:1m]", "(up)", "-size", "temp smoothed", "mixed @ start()",
)  # fmt: skip
ARGUMENTS: dict[Type, tuple[str, ...]] = {
    Type.VECTOR: (
        "up",
        "size",
        "nhcb",
        "mixed",
        "ghist",
        "odd",
        "lat_bucket",
        "nothing",
        "vector(NaN)",
        "{job!=''}",
    ),
    Type.MATRIX: (
        "temp[5m]",
        "size[5m]",
        "mixed[10m]",
        "nhcb[10m:1m]",
        "odd[30m]",
        "nothing[1m]",
        "requests_total[5m] anchored",
    ),
    Type.SCALAR: ("0", "1", "-1", "0.5", "NaN", "Inf", "-Inf", "1e308", "9.3e18", "time()", "scalar(up)"),
    Type.STRING: (
        '"job"',
        '""',
        '"é"',
        '"\\xff"',
        '"(.*)"',
        '"("',
        '"$1"',
        '"__name__"',
        '"' + "9" * 5000 + '"',
    ),
}
MODIFIERS = (
    "",
    " bool",
    " on (job)",
    " ignoring (instance)",
    " on (job) group_left (zone)",
    " on (job) group_right ()",
    " fill (1)",
)


def promql_operators() -> Iterator[str]:
    """Yield all pairs of operands with all operators, and a modifier in turn."""
    operators = (*ARITHMETIC, *COMPARISONS, *SETS, *TRIMS)
    modifiers = itertools.cycle(MODIFIERS)
    for op, left, right in itertools.product(operators, OPERANDS, OPERANDS):
        yield f"{left} {op}{next(modifiers)} {right}"


def promql_calls(chance: random.Random, count: int) -> Iterator[str]:
    """Yield calls of all functions and aggregations, each with `count` choices of arguments or fewer."""
    for name, function in FUNCTIONS.items():
        kinds = function.signature.arguments
        for _ in range(min(count, 12 ** max(1, len(kinds)))):
            shown = [_argument(chance, kind) for kind in kinds]
            extra = (
                [chance.choice(ARGUMENTS[kinds[-1]]) for _ in range(chance.choice((0, 0, 1, 2)))]
                if kinds
                else []
            )
            yield f"{name}({', '.join([*shown, *extra][: chance.choice((9, 9, 9, len(shown), 1))])})"
    for name, operator in AGGREGATIONS.items():
        for _ in range(count):
            inner = _argument(chance, Type.VECTOR)
            parameter = operator.parameter
            before = f"{_argument(chance, parameter)}, " if parameter else ""
            yield f"{name}{chance.choice(('', ' by (job)', ' without (instance, le)'))} ({before}{inner})"


def _argument(chance: random.Random, kind: Type) -> str:
    """Return an argument of this type, of twenty one of another."""
    if chance.random() < 0.05:
        kind = chance.choice(tuple(ARGUMENTS))
    return chance.choice(ARGUMENTS[kind])
