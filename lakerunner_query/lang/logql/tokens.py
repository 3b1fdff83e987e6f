"""What the lexer hands to the parser.

Kinds follow the names that Loki shows in its messages (`IDENTIFIER`, `STRING`, `$end`), so that error texts
read the same. Operators and the words of the language are their own kind, as they are spelled.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.errors import Position

IDENTIFIER = "IDENTIFIER"
STRING = "STRING"
NUMBER = "NUMBER"
DURATION = "DURATION"
BYTES = "BYTES"
RANGE = "RANGE"
FLAG = "PARSER_FLAG"
END = "$end"

SYMBOLS = (
    *("|=", "|~", "|>", "!>", "!~", "!=", "=~", "==", ">=", "<="),
    *"{}(),.=|><+-*/%^",
)
"""Longest first where one is the beginning of another."""


@dataclass(slots=True)
class Token:
    kind: str
    text: str
    """The source text; of strings the value, of a range what stands between the brackets."""
    position: Position
