"""The canonical text of a tree: what EXPLAIN shows and what equal queries have in common.

Parsing the printed text gives an equal tree (a property test holds this). Strings are always printed in
double quotes.
"""

from __future__ import annotations

from lakerunner_query.lang.logql.ast import LineFilter, LogQuery
from lakerunner_query.lang.logql.strings import quote
from lakerunner_query.lang.matcher import Matcher


def to_text(query: LogQuery) -> str:
    """One line, single spaces.

    >>> from lakerunner_query.lang.logql.parser import parse
    >>> to_text(parse('{a="b",c!~`x`}|="e"or"f"'))
    '{a="b", c!~"x"} |= "e" or "f"'
    """
    selector = "{" + ", ".join(map(matcher_text, query.matchers)) + "}"
    return " ".join((selector, *map(filter_text, query.stages)))


def matcher_text(matcher: Matcher) -> str:
    return f"{matcher.name}{matcher.op.value}{quote(matcher.value)}"


def filter_text(line: LineFilter) -> str:
    return f"{line.op.value} " + " or ".join(map(quote, line.values))
