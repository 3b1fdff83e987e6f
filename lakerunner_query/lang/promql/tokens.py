"""What the lexer hands to the parser, and how error messages name it.

Operators, keywords and punctuation have their own (lower case) spelling as their kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.gotext.strconv import quote_promql
from lakerunner_query.lang.promql.ast import Span

IDENTIFIER = "identifier"
METRIC_IDENTIFIER = "metric identifier"
"""A name with a colon in it."""
STRING = "string"
NUMBER = "number"
DURATION = "duration"
END = "end of input"

SET_OPERATORS = frozenset({"and", "or", "unless"})
COMPARISONS = frozenset({"==", "!=", "<=", "<", ">=", ">"})
OPERATORS = SET_OPERATORS | COMPARISONS | frozenset("+-*/%^@") | {"</", ">/", "=~", "!~", "atan2"}
PARAMETRIC = frozenset({"topk", "bottomk", "count_values", "quantile", "limitk", "limit_ratio"})
EXPERIMENTAL_AGGREGATORS = frozenset({"limitk", "limit_ratio"})
AGGREGATORS = PARAMETRIC | {"sum", "avg", "count", "min", "max", "group", "stddev", "stdvar"}
FILLS = frozenset({"fill", "fill_left", "fill_right"})
MODIFIERS = FILLS | {
    *(
        "offset",
        "smoothed",
        "anchored",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "bool",
    )
}
OF_DURATIONS = frozenset({"step", "range", "max_of", "min_of"})
CONTEXT_CALLS = OF_DURATIONS | {"start", "end"}
"""Keywords that are function names in front of a parenthesis."""
WORDS = {"and", "or", "unless", "atan2"} | AGGREGATORS | MODIFIERS | CONTEXT_CALLS
SPECIAL_NUMBERS = frozenset({"inf", "nan"})

METRIC_NAMES = (WORDS - {"atan2", "bool", "on", "ignoring", "group_left", "group_right"}) | {
    IDENTIFIER,
    METRIC_IDENTIFIER,
}
"""What may stand as a metric name outside braces."""
LABEL_NAMES = (WORDS - {"without"}) | {IDENTIFIER, METRIC_IDENTIFIER}
"""What may stand as a label name in `by (...)` and its like."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    """As written."""
    span: Span

    def described(self) -> str:
        """As error messages name it.

        >>> Token("by", "BY", Span(0, 2)).described(), Token(NUMBER, "12", Span(0, 2)).described()
        ('<BY>', 'number "12"')
        """
        match self.kind:
            case "end of input":
                return self.kind
            case "identifier" | "metric identifier":
                return f"{self.kind} {quote_promql(self.text)}"
            case "string" | "number" | "duration":
                return f"{self.kind} {_shortened(self.text)}"
        if self.kind in MODIFIERS:
            return f"<{self.text}>"
        if self.kind in OPERATORS:
            return f"<op:{self.text}>"
        return f"<aggr:{self.text}>" if self.kind in AGGREGATORS else _shortened(self.text)


def _shortened(text: str) -> str:
    return (
        f"{quote_promql(text[:10])}..."
        if len(text.encode(errors="surrogateescape")) > 10
        else quote_promql(text)
    )
