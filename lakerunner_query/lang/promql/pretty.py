"""Tree to text in lines of about a hundred characters, as `format_query` shows it.

sum by (job) (
  rate(errors_total{...}[5m])
)
"""

from __future__ import annotations

from lakerunner_query.lang.promql.ast import Aggregate, Binary, Call, Expr, Paren, Subquery, Unary, children
from lakerunner_query.lang.promql.printer import aggregator, operator, own_text, subquery_suffix
from lakerunner_query.syntax import Task, gathered, unwind

MAX_LINE = 100
"""Bytes; what is longer is split where it can be."""
_INDENT = "  "


def pretty(expr: Expr) -> str:
    return unwind(_Pretty(_texts(expr)).lines(expr, 0))


def _texts(expr: Expr) -> dict[int, str]:
    """The text in one line of each expression, by `id`."""
    found: dict[int, str] = {}
    waiting = [expr]
    order: list[Expr] = []
    while waiting:
        order.append(waiting.pop())
        waiting += children(order[-1])
    for one in reversed(order):
        found[id(one)] = own_text(one, [found[id(child)] for child in children(one)])
    return found


class _Pretty:
    def __init__(self, texts: dict[int, str]) -> None:
        self._texts = texts

    def lines(self, expr: Expr, level: int) -> Task[str]:
        indent = _INDENT * level
        text = self._texts[id(expr)]
        if isinstance(expr, Unary):
            operand: str = yield self.lines(expr.expr, level)
            return f"{indent}{expr.op}{operand.strip()}"
        if len(text.encode(errors="surrogateescape")) <= MAX_LINE:
            # Prometheus forgets the indentation of a short subquery
            return text if isinstance(expr, Subquery) else indent + text
        match expr:
            case Subquery():
                inner: str = yield self.lines(expr.expr, level)
                return inner + subquery_suffix(expr)
            case Binary():
                left: str = yield self.lines(expr.left, level + 1)
                right: str = yield self.lines(expr.right, level + 1)
                return f"{left}\n{indent}{operator(expr)}\n{right}"
            case Paren() | Call() | Aggregate():
                below: list[str] = yield gathered(self.lines(child, level + 1) for child in children(expr))
                inner = ",\n".join(below)
                return f"{indent}{_head(expr)}(\n{inner}\n{indent})"
        return indent + text


def _head(expr: Paren | Call | Aggregate) -> str:
    match expr:
        case Paren():
            return ""
        case Call():
            return expr.function
        case Aggregate():
            return aggregator(expr)
