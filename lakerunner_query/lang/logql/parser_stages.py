"""What may stand in a pipeline behind `|`: parsers, formats, label filters, `keep` and `drop`."""

from __future__ import annotations

from collections.abc import Callable

from lakerunner_query.errors import InvalidQueryError
from lakerunner_query.gotext.regexp import InvalidCapturesError, check_captures
from lakerunner_query.lang.logql.ast import (
    Assign,
    Decolorize,
    Drop,
    Extraction,
    Json,
    Keep,
    LabelCondition,
    LabelFilter,
    LabelFormat,
    LineFormat,
    Logfmt,
    Pattern,
    Regexp,
    Rename,
    Stage,
    Unpack,
)
from lakerunner_query.lang.logql.cursor import Cursor
from lakerunner_query.lang.logql.parser_filters import condition
from lakerunner_query.lang.logql.parser_selector import MATCH_OPS, matcher_of
from lakerunner_query.lang.logql.paths import key_of, steps_of
from lakerunner_query.lang.logql.patterns import InvalidPatternError, check_parser
from lakerunner_query.lang.logql.tokens import FLAG, IDENTIFIER, STRING, Token
from lakerunner_query.syntax import Matcher, Task


def stage(cursor: Cursor) -> Task[Stage]:
    """The stage whose `|` has been taken."""
    read = _STAGES.get(cursor.next.kind)
    if read is not None:
        return read(cursor, cursor.take())
    filtered: LabelFilter = yield label_filter(cursor)
    return filtered


def label_filter(cursor: Cursor) -> Task[LabelFilter]:
    if cursor.next.kind not in {IDENTIFIER, "("}:
        raise cursor.unexpected()
    start = cursor.next
    found: LabelCondition = yield condition(cursor)
    return LabelFilter(found, start.position)


def _json(cursor: Cursor, word: Token) -> Stage:
    return Json(_extractions(cursor, steps_of), word.position)


def _logfmt(cursor: Cursor, word: Token) -> Stage:
    flags: set[str] = set()
    while flag := cursor.take_if(FLAG):
        flags.add(flag.text)
    extractions = _extractions(cursor, key_of)
    return Logfmt(extractions, "--strict" in flags, "--keep-empty" in flags, word.position)


def _extractions(
    cursor: Cursor, taken_apart: Callable[[str], tuple[str | int, ...]]
) -> tuple[Extraction, ...]:
    if cursor.next.kind != IDENTIFIER:
        return ()
    found = [_extraction(cursor, taken_apart)]
    while cursor.take_if(","):
        found.append(_extraction(cursor, taken_apart))
    return tuple(found)


def _extraction(cursor: Cursor, taken_apart: Callable[[str], tuple[str | int, ...]]) -> Extraction:
    name = cursor.expect(IDENTIFIER)
    expression = cursor.expect(STRING) if cursor.take_if("=") else name
    return Extraction(name.text, expression.text, taken_apart(expression.text), name.position)


def _regexp(cursor: Cursor, word: Token) -> Stage:
    pattern = cursor.expect(STRING)
    try:
        check_captures(pattern.text)
    except InvalidCapturesError as error:
        raise InvalidQueryError(f"invalid regexp parser: {error}", pattern.position) from error
    return Regexp(pattern.text, word.position)


def _pattern(cursor: Cursor, word: Token) -> Stage:
    pattern = cursor.expect(STRING)
    try:
        check_parser(pattern.text)
    except InvalidPatternError as error:
        raise InvalidQueryError(f"invalid pattern parser: {error}", pattern.position) from error
    return Pattern(pattern.text, word.position)


def _unpack(_: Cursor, word: Token) -> Stage:
    return Unpack(word.position)


def _decolorize(_: Cursor, word: Token) -> Stage:
    return Decolorize(word.position)


def _line_format(cursor: Cursor, word: Token) -> Stage:
    return LineFormat(cursor.expect(STRING).text, word.position)


def _label_format(cursor: Cursor, word: Token) -> Stage:
    operations = [_operation(cursor)]
    while cursor.take_if(","):
        operations.append(_operation(cursor))
    return LabelFormat(tuple(operations), word.position)


def _operation(cursor: Cursor) -> Rename | Assign:
    name = cursor.expect(IDENTIFIER)
    cursor.expect("=")
    value = cursor.expect(IDENTIFIER, STRING)
    return Rename(name.text, value.text) if value.kind == IDENTIFIER else Assign(name.text, value.text)


def _keep(cursor: Cursor, word: Token) -> Stage:
    return Keep(_named(cursor), word.position)


def _drop(cursor: Cursor, word: Token) -> Stage:
    return Drop(_named(cursor), word.position)


def _named(cursor: Cursor) -> tuple[str | Matcher, ...]:
    found = [_name_or_matcher(cursor)]
    while cursor.take_if(","):
        found.append(_name_or_matcher(cursor))
    return tuple(found)


def _name_or_matcher(cursor: Cursor) -> str | Matcher:
    name = cursor.expect(IDENTIFIER)
    return matcher_of(cursor, name) if cursor.next.kind in MATCH_OPS else name.text


_STAGES: dict[str, Callable[[Cursor, Token], Stage]] = {
    "json": _json,
    "logfmt": _logfmt,
    "regexp": _regexp,
    "pattern": _pattern,
    "unpack": _unpack,
    "decolorize": _decolorize,
    "line_format": _line_format,
    "label_format": _label_format,
    "keep": _keep,
    "drop": _drop,
}
