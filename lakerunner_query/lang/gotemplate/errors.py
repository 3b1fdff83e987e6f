"""What is wrong with a template, spelled as Go spells it: `template: line:1: unclosed action`."""

from __future__ import annotations

from lakerunner_query.errors import QueryError


class TemplateSyntaxError(QueryError):
    """The text is not a template; `line` is 1-based and counts inside the template."""

    status = 400
    code = "parse_error"

    def __init__(self, name: str, line: int, reason: str) -> None:
        super().__init__(f"template: {name}:{line}: {reason}")
        self.line = line
        self.reason = reason
