"""LogQL, Loki's language.

`parse` gives the tree of a log query (selector and line filters so far), `to_text` prints it in canonical
form. Whatever else the language has is recognised by the lexer and refused by name and position.
"""

from lakerunner_query.lang.logql.ast import FilterOp, LineFilter, LogQuery
from lakerunner_query.lang.logql.parser import parse
from lakerunner_query.lang.logql.printer import to_text
from lakerunner_query.lang.matcher import Matcher, MatchOp

__all__ = ["FilterOp", "LineFilter", "LogQuery", "MatchOp", "Matcher", "parse", "to_text"]
