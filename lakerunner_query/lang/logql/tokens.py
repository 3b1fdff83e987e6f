"""What the lexer hands to the parser, and how messages name it.

Operators, keywords and the words of calls are their own kind, spelled in lower case.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.errors import Position
from lakerunner_query.lang.logql.vocabulary import CALLS, CONVERSIONS

IDENTIFIER = "IDENTIFIER"
STRING = "STRING"
NUMBER = "NUMBER"
DURATION = "DURATION"
BYTES = "BYTES"
RANGE = "RANGE"
FLAG = "FUNCTION_FLAG"
END = "$end"

SYMBOLS = (
    *("|=", "|~", "|>", "!>", "!~", "!=", "=~", "==", ">=", "<="),
    *"{}()],.=|><+-*/%^",
)
"""Longest first where one is the beginning of another."""
_SHOWN = {
    **{word: word.upper() for word in CALLS - {"ip", "label_replace"}},
    **{word: f"{word.upper()}_CONV" for word in CONVERSIONS},
}


@dataclass(slots=True)
class Token:
    kind: str
    text: str
    """The source text; of strings the value, of a range what stands between the brackets."""
    position: Position


def shown(kind: str) -> str:
    """A kind as Loki's messages name it.

    >>> shown("rate"), shown("bytes"), shown("json"), shown("|=")
    ('RATE', 'BYTES_CONV', 'json', '|=')
    """
    return _SHOWN.get(kind, kind)
