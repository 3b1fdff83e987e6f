"""The tokens of a template."""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.lang.gotemplate.quoting import quote

ERROR, END, TEXT, LEFT, RIGHT = "error", "EOF", "text", "{{", "}}"
SPACE, FIELD, VARIABLE, IDENTIFIER, DOT = "space", "field", "variable", "identifier", "."
STRING, RAW_STRING, CHARACTER, NUMBER, COMPLEX = "string", "raw string", "character", "number", "complex"
BOOL, NIL, PIPE, DECLARE, ASSIGN, OPEN, CLOSE, CHAR = "bool", "nil", "|", ":=", "=", "(", ")", "char"
KEYWORDS = frozenset(
    {"block", "break", "continue", "define", "else", "end", "if", "range", "template", "with", NIL}
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    """One of the kinds above, or a keyword."""
    text: str
    position: int
    line: int

    @property
    def is_keyword(self) -> bool:
        return self.kind in KEYWORDS

    def __str__(self) -> str:
        """As Go shows a token in an error."""
        if self.kind in {END, ERROR}:
            return self.text
        if self.is_keyword or self.kind == DOT:
            return f"<{self.text}>"
        return quote(self.text[:10]) + "..." if len(self.text.encode()) > 10 else quote(self.text)
