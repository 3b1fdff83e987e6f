"""LogQL, Loki's language.

`parse_expr` gives the tree of any query, `parse` that of a query for log lines, `print_query` the canonical
text of a tree. What is no query is refused with Loki's words and the position.
"""

from lakerunner_query.logql.lang.ast import Expr, FilterOp, LineFilter, LogQuery
from lakerunner_query.logql.lang.parser import parse, parse_expr
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.syntax import Matcher, MatchOp

__all__ = [
    "Expr",
    "FilterOp",
    "LineFilter",
    "LogQuery",
    "MatchOp",
    "Matcher",
    "parse",
    "parse_expr",
    "print_query",
]
