"""Functions of single stages: parse, print and check them, and say what they do with labels.

Faults are looked for when the whole text is known to be a query. `stages.py` puts the functions together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lakerunner_query.errors import InvalidQueryError, Position
from lakerunner_query.gotext.regexp import InvalidCapturesError, check_captures
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.logql.lang.ast import (
    EXTRACTED,
    SPECIAL,
    Assign,
    Drop,
    Extraction,
    Json,
    Keep,
    LabelFormat,
    LineFormat,
    Logfmt,
    Pattern,
    Regexp,
    Rename,
    Stage,
)
from lakerunner_query.logql.lang.conditions import matcher_text
from lakerunner_query.logql.lang.cursor import MATCH_OPS, Cursor, matcher_of
from lakerunner_query.logql.lang.lexer import FLAG, IDENTIFIER, STRING
from lakerunner_query.logql.lang.patterns import (
    InvalidPatternError,
    check_key,
    check_parser,
    key_of,
    path,
    steps_of,
)
from lakerunner_query.logql.lang.templates import (
    LINE_FUNCTION,
    runs_per_value,
    template_fault,
    template_labels,
)
from lakerunner_query.syntax import Matcher

Names = frozenset[str] | None
"""Names of labels; None stands for all there are."""
Steps = tuple[str | int, ...]


def no_fault(_: object) -> str:
    return ""


def word_only(stage: Callable[[Position], Stage]) -> Callable[[Cursor], Stage]:
    """Return a parser of a stage that is nothing but its keyword."""
    return lambda cursor: stage(cursor.take().position)


def json(cursor: Cursor) -> Json:
    word = cursor.take()
    return Json(_extractions(cursor, steps_of), word.position)


def json_text(stage: Json) -> str:
    return _with_items("json", map(_extraction_text, stage.extractions))


def json_fault(stage: Json) -> str:
    for extraction in stage.extractions:
        path(extraction.expression)
    return ""


def logfmt(cursor: Cursor) -> Logfmt:
    word = cursor.take()
    flags: set[str] = set()
    while flag := cursor.take_if(FLAG):
        flags.add(flag.text)
    extractions = _extractions(cursor, key_of)
    return Logfmt(extractions, "--strict" in flags, "--keep-empty" in flags, word.position)


def logfmt_text(stage: Logfmt) -> str:
    flags = (" --strict" if stage.strict else "") + (" --keep-empty" if stage.keep_empty else "")
    return _with_items(f"logfmt{flags}", map(_extraction_text, stage.extractions))


def logfmt_fault(stage: Logfmt) -> str:
    for extraction in stage.extractions:
        check_key(extraction.expression)
    return ""


def _extractions(cursor: Cursor, steps: Callable[[str], Steps]) -> tuple[Extraction, ...]:
    if cursor.next.kind != IDENTIFIER:
        return ()
    found = [_extraction(cursor, steps)]
    while cursor.take_if(","):
        found.append(_extraction(cursor, steps))
    return tuple(found)


def _extraction(cursor: Cursor, steps: Callable[[str], Steps]) -> Extraction:
    name = cursor.expect(IDENTIFIER)
    expression = cursor.expect(STRING) if cursor.take_if("=") else name
    return Extraction(name.text, expression.text, steps(expression.text), name.position)


def _extraction_text(extraction: Extraction) -> str:
    return f"{extraction.name}={LOGQL.quote(extraction.expression)}"


def regexp(cursor: Cursor) -> Regexp:
    word = cursor.take()
    expression = cursor.expect(STRING)
    try:
        check_captures(expression.text)
    except InvalidCapturesError as error:
        raise InvalidQueryError(f"invalid regexp parser: {error}", expression.position) from error
    return Regexp(expression.text, word.position)


def pattern(cursor: Cursor) -> Pattern:
    word = cursor.take()
    expression = cursor.expect(STRING)
    try:
        check_parser(expression.text)
    except InvalidPatternError as error:
        raise InvalidQueryError(f"invalid pattern parser: {error}", expression.position) from error
    return Pattern(expression.text, word.position)


def pattern_text(keyword: str, stage: Regexp | Pattern) -> str:
    return f"{keyword} {LOGQL.quote(stage.pattern)}"


def line_format(cursor: Cursor) -> LineFormat:
    word = cursor.take()
    return LineFormat(cursor.expect(STRING).text, word.position)


def line_format_text(stage: LineFormat) -> str:
    return f"line_format {LOGQL.quote(stage.template)}"


def line_format_fault(stage: LineFormat) -> str:
    return template_fault(stage.template, "line", "invalid line template")


def label_format(cursor: Cursor) -> LabelFormat:
    word = cursor.take()
    operations = [_operation(cursor)]
    while cursor.take_if(","):
        operations.append(_operation(cursor))
    return LabelFormat(tuple(operations), word.position)


def _operation(cursor: Cursor) -> Rename | Assign:
    name = cursor.expect(IDENTIFIER)
    cursor.expect("=")
    value = cursor.expect(IDENTIFIER, STRING)
    return Rename(name.text, value.text) if value.kind == IDENTIFIER else Assign(name.text, value.text)


def label_format_text(stage: LabelFormat) -> str:
    return _with_items("label_format", map(_operation_text, stage.operations))


def _operation_text(operation: Rename | Assign) -> str:
    value = operation.source if isinstance(operation, Rename) else LOGQL.quote(operation.template)
    return f"{operation.name}={value}"


def label_format_fault(stage: LabelFormat) -> str:
    seen: set[str] = set()
    for operation in stage.operations:
        if operation.name == "__error__":
            return f"{operation.name} cannot be formatted"
        if operation.name in seen:
            return f"multiple label name '{operation.name}' not allowed in a single format operation"
        seen.add(operation.name)
    for operation in stage.operations:
        if isinstance(operation, Assign):
            subject = f"invalid template for label '{operation.name}'"
            if reason := template_fault(operation.template, "label", subject):
                return reason
    return ""


def keep(cursor: Cursor) -> Keep:
    word = cursor.take()
    return Keep(_items(cursor), word.position)


def drop(cursor: Cursor) -> Drop:
    word = cursor.take()
    return Drop(_items(cursor), word.position)


def _items(cursor: Cursor) -> tuple[str | Matcher, ...]:
    found = [_item(cursor)]
    while cursor.take_if(","):
        found.append(_item(cursor))
    return tuple(found)


def _item(cursor: Cursor) -> str | Matcher:
    name = cursor.expect(IDENTIFIER)
    return matcher_of(cursor, name) if cursor.next.kind in MATCH_OPS else name.text


def names_text(keyword: str, stage: Keep | Drop) -> str:
    return _with_items(keyword, (one if isinstance(one, str) else matcher_text(one) for one in stage.items))


def _with_items(keyword: str, items: Iterable[str]) -> str:
    listed = ",".join(items)
    return f"{keyword} {listed}" if listed else keyword


def always(_: object) -> bool:
    return True


def never(*_: object) -> bool:
    return False


def no_condition(_: object) -> None:
    return None


def no_search(_: object) -> None:
    return None


def all_labels(_: object) -> None:
    return None


def no_names(*_: object) -> Names:
    return frozenset()


def any_label(*_: object) -> bool:
    """Return True: a parser may find any name in a line."""
    return True


def no_templates(_: object) -> tuple[tuple[str, str], ...]:
    return ()


def field_names(_: object, behind: Names) -> Names:
    """Return names that decide under which name a field goes: its own one may be taken."""
    return frozenset(name.removesuffix(EXTRACTED) for name in behind or ())


def logfmt_names(stage: Logfmt, behind: Names) -> Names:
    pairs = ((one.name, *map(str, one.path[:1])) for one in stage.extractions)
    return frozenset(name for pair in pairs for name in pair).union(field_names(stage, behind) or ())


def extracts(stage: Json | Logfmt, name: str) -> bool:
    if not stage.extractions:
        return True
    return any(name in {one.name, one.name + EXTRACTED} for one in stage.extractions)


def matcher_names(stage: Keep | Drop, _: Names) -> Names:
    return frozenset(item.name for item in stage.items if isinstance(item, Matcher))


def item_names(stage: Keep | Drop) -> frozenset[str]:
    return frozenset(item.name if isinstance(item, Matcher) else item for item in stage.items)


def keep_names(stage: Keep) -> Names:
    return SPECIAL | item_names(stage) if stage.items else None


def label_format_templates(stage: LabelFormat) -> tuple[tuple[str, str], ...]:
    return tuple((one.template, "label") for one in stage.operations if isinstance(one, Assign))


def label_format_names(stage: LabelFormat, _: Names) -> Names:
    names = {one.source for one in stage.operations if isinstance(one, Rename)}
    for template in label_format_templates(stage):
        read = template_labels(*template)
        if read is None:
            return None
        names |= read
    return frozenset(names)


def label_format_changes(stage: LabelFormat, name: str) -> bool:
    return any(
        name == one.name or (isinstance(one, Rename) and name == one.source) for one in stage.operations
    )


def label_format_reads_line(stage: LabelFormat) -> bool:
    return any(LINE_FUNCTION in text for text, _ in label_format_templates(stage))


def renames(stage: LabelFormat) -> bool:
    return any(isinstance(one, Rename) for one in stage.operations)


def label_format_can_fail(stage: LabelFormat) -> bool:
    return any(runs_per_value(text, name) for text, name in label_format_templates(stage))
