"""Tokens to tree: recursive descent, one method per construct, every error with its position.

Only log queries of a selector and line filters are built so far. All else that LogQL has is recognised
and refused with its name, because a stage that is silently skipped would answer a different question.
"""

from __future__ import annotations

from lakerunner_query.errors import ParseError, Position, UnsupportedError
from lakerunner_query.lang import regex
from lakerunner_query.lang.logql.ast import FilterOp, LineFilter, LogQuery
from lakerunner_query.lang.logql.lexer import tokenize
from lakerunner_query.lang.logql.tokens import DURATION, END, IDENTIFIER, NUMBER, STRING, Token
from lakerunner_query.lang.logql.vocabulary import AGGREGATIONS, STAGES
from lakerunner_query.lang.matcher import Matcher, MatchOp

MAX_TEXT = 131_072
"""Loki's own bound on a query text; keeps hostile input cheap."""
NO_MATCHER = (
    "queries require at least one regexp or equality matcher that does not have an empty-compatible value. "
    'For instance, app=~".*" does not meet this requirement, but app=~".+" will'
)


def parse(text: str) -> LogQuery:
    """The tree of a log query.

    >>> parse('{app="web"} |= "error"').stages[0].values
    ('error',)
    """
    if len(text) > MAX_TEXT:
        raise ParseError(f"input size too long ({len(text)} > {MAX_TEXT})")
    return _Parser(list(tokenize(text))).query()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def query(self) -> LogQuery:
        self._refuse_metric_query()
        matchers = self._selector()
        stages: list[LineFilter] = []
        while self._next.kind != END:
            stages.append(self._stage())
        _require_selective(matchers)
        return LogQuery(matchers, tuple(stages))

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += token.kind != END
        return token

    def _expect(self, *kinds: str) -> Token:
        token = self._take()
        if token.kind not in kinds:
            raise _unexpected(token, *kinds)
        return token

    def _refuse_metric_query(self) -> None:
        first = self._next
        if first.kind == IDENTIFIER and first.text in AGGREGATIONS:
            raise UnsupportedError(f"metric query ({first.text})", first.position)
        if first.kind in {NUMBER, DURATION, "(", "-", "+"}:
            raise UnsupportedError("metric query (expression)", first.position)

    def _selector(self) -> tuple[Matcher, ...]:
        self._expect("{")
        matchers: list[Matcher] = []
        while self._next.kind != "}":
            matchers.append(self._matcher())
            if self._next.kind not in {"}", ","}:
                raise _unexpected(self._next, "}", ",")
            if self._next.kind == ",":
                self._take()
                if self._next.kind == "}":
                    raise _unexpected(self._next, IDENTIFIER)
        self._take()
        return tuple(matchers)

    def _matcher(self) -> Matcher:
        name = self._expect(IDENTIFIER)
        op = MatchOp(self._expect(*MatchOp).kind)
        value = self._expect(STRING)
        if op.is_regex:
            _check_regex(value.text, value.position)
            _check_regex(regex.anchored(value.text), value.position)  # `\\Qx` swallows what is put behind it
        return Matcher(name.text, op, value.text, name.position)

    def _stage(self) -> LineFilter:
        token = self._take()
        if token.kind in set(FilterOp):
            return self._line_filter(token)
        if token.kind in {"|>", "!>"}:
            raise UnsupportedError(f"pattern line filter ({token.kind})", token.position)
        if token.kind == "|":
            raise self._stage_refused(token)
        if token.kind == "[":
            raise UnsupportedError("range over a log query", token.position)
        raise _unexpected(token)

    def _line_filter(self, operator: Token) -> LineFilter:
        op = FilterOp(operator.kind)
        values = [self._operand(op)]
        while self._next.kind == IDENTIFIER and self._next.text == "or":
            self._take()
            values.append(self._operand(op))
        return LineFilter(op, tuple(values), position=operator.position)

    def _operand(self, op: FilterOp) -> str:
        token = self._take()
        if token.kind == IDENTIFIER and token.text == "ip" and self._next.kind == "(":
            raise UnsupportedError("ip() line filter", token.position)
        if token.kind != STRING:
            raise _unexpected(token, STRING, "ip")
        if op.is_regex:
            _check_regex(token.text, token.position)
        return token.text

    def _stage_refused(self, pipe: Token) -> ParseError:
        token = self._next
        if token.kind == IDENTIFIER:
            kind = "stage" if token.text in STAGES else "label filter"
            return UnsupportedError(f"{kind} (| {token.text})", pipe.position)
        return _unexpected(token)


def _require_selective(matchers: tuple[Matcher, ...]) -> None:
    if not any(_refuses_empty(matcher) for matcher in matchers):
        raise ParseError(NO_MATCHER)


def _refuses_empty(matcher: Matcher) -> bool:
    matches_empty = regex.full_matches(matcher.value, [""])[0] if matcher.op.is_regex else not matcher.value
    return matches_empty == matcher.op.is_negative


def _check_regex(pattern: str, position: Position) -> None:
    try:
        regex.check(pattern)
    except regex.InvalidRegexError as error:
        raise ParseError(str(error), position) from error


def _unexpected(token: Token, *expected: str) -> ParseError:
    shown = token.kind if token.kind != IDENTIFIER or not token.text else IDENTIFIER
    tail = f", expecting {' or '.join(expected)}" if expected else ""
    return ParseError(f"syntax error: unexpected {shown}{tail}", token.position)
