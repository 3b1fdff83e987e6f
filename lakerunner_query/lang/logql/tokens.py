"""What the lexer hands to the parser.

Kinds follow the names Loki's own parser shows in its messages (`IDENTIFIER`, `STRING`, `$end`), so that
error texts read the same. Operators are their own kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.errors import Position

IDENTIFIER = "IDENTIFIER"
STRING = "STRING"
NUMBER = "NUMBER"
DURATION = "DURATION"
FLAG = "PARSER_FLAG"
END = "$end"

OPERATORS = (
    *("|=", "|~", "|>", "!>", "!~", "!=", "=~", "==", ">=", "<="),
    *"{}()[],.=|><+-*/%^@:",
)
"""Longest first where one is the beginning of another."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    """The source text; for strings the unquoted value."""
    position: Position
