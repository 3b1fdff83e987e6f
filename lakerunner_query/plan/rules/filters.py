"""Rules about filters: fewer, cheaper, answered by storage, and words that prune segments.

A substring search costs a tenth of a regex, and no filter costs nothing. A label filter that no earlier stage
can have affected sees what is stored: labels of the stream, or structured metadata of the row. Words of
filters prune segments by their token blooms: of a line filter those within its text, of a label filter all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lakerunner_query.gotext import regexp
from lakerunner_query.gotext.regexp_words import required_texts
from lakerunner_query.logql.lang.ast import FilterOp, LabelMatch, LineFilter, Stage
from lakerunner_query.logql.lang.conditions import conjuncts
from lakerunner_query.logql.lang.stages import condition_of, row_of
from lakerunner_query.plan.logql import Nothing, Pipeline, RunStages, Words
from lakerunner_query.plan.rules.matchers import MAX_TERMS, MAX_VALUES
from lakerunner_query.syntax import Matcher, MatchOp
from resources.lake.tokens import inner_tokens, tokens

SPECIAL = "__"
"""Prefix of labels that stages make."""


def stream_narrowing(plan: RunStages) -> Pipeline:
    """`{a="x"} | b="y"` asks nothing of streams whose label b is not y; others may have b in metadata."""
    narrowing = tuple(dict.fromkeys(stored_matches(plan.stages)))
    return replace(plan, source=replace(plan.source, narrowing=narrowing))


def stored_matches(stages: Sequence[Stage]) -> Iterator[Matcher]:
    """Yield conditions on texts that every row must satisfy, on labels as they are stored."""
    for number, stage in enumerate(stages):
        condition = condition_of(stage)
        for one in conjuncts(condition) if condition is not None else ():
            if isinstance(one, LabelMatch) and is_stored(one.matcher, stages[:number]):
                yield one.matcher


def is_stored(matcher: Matcher, before: Sequence[Stage]) -> bool:
    name = matcher.name
    return not name.startswith(SPECIAL) and not any(
        row_of(stage).changes_label(stage, name) for stage in before
    )


_PLAIN = {FilterOp.REGEX: FilterOp.CONTAINS, FilterOp.NOT_REGEX: FilterOp.NOT_CONTAINS}
_ANYTHING = frozenset({".*", "(?s).*", "^.*"})


def literal_line_regex(plan: RunStages) -> Pipeline:
    """`|~ "timeout"` becomes `|= "timeout"`: a line regex without special characters is a search."""
    return _with_stages(plan, (_literal(s) if isinstance(s, LineFilter) else s for s in plan.stages))


def drop_always_true(plan: RunStages) -> Pipeline:
    """`|= ""` and `|~ ".*"` keep every line and go away."""
    return _with_stages(plan, (s for s in plan.stages if not _is_for_all(s) or _is_negative(s)))


def never_matching_line(plan: RunStages) -> Pipeline:
    """`!= ""` drops every line, since every line contains the empty text."""
    for one in plan.stages:
        if isinstance(one, LineFilter) and one.op.is_negative and _is_for_all(one):
            return Nothing(f"{one.op.value} of a text that is in every line")
    return plan


def line_filters_first(plan: RunStages) -> Pipeline:
    """`| json | level="error" |= "x"` becomes `|= "x" | json | level="error"`: neither changes lines."""
    found: list[Stage] = []
    others: list[Stage] = []
    for stage in plan.stages:
        if isinstance(stage, LineFilter):
            found.append(stage)
            continue
        others.append(stage)
        if row_of(stage).changes_line:
            found += others
            others = []
    return _with_stages(plan, (*found, *others))


def repeated_filters(plan: RunStages) -> Pipeline:
    """`|= "a" |= "a"` becomes `|= "a"`; also inside an `or` chain."""
    return _with_stages(plan, _without_repeats(plan.stages))


def _without_repeats(stages: Iterable[Stage]) -> Iterator[Stage]:
    seen: set[LineFilter] = set()
    for stage in stages:
        if not isinstance(stage, LineFilter):
            seen.clear()  # another line may stand there from here on
            yield stage
            continue
        once = replace(stage, values=tuple(dict.fromkeys(stage.values)))
        if once not in seen:
            seen.add(once)
            yield once


def _with_stages(plan: RunStages, stages: Iterable[Stage]) -> RunStages:
    return replace(plan, stages=tuple(stages))


def _literal(line: LineFilter) -> LineFilter:
    if line.op.is_regex and not line.ips and all(regexp.literal(value) is not None for value in line.values):
        return replace(line, op=_PLAIN[line.op])
    return line


def _is_negative(stage: Stage) -> bool:
    return isinstance(stage, LineFilter) and stage.op.is_negative


def _is_for_all(stage: Stage) -> bool:
    """Tell whether one of the values is in every line."""
    if not isinstance(stage, LineFilter) or stage.op.is_pattern:
        return False
    return any(not value or (stage.op.is_regex and value in _ANYTHING) for value in stage.values)


NOT_INDEXED = frozenset({"detected_level", "severity_text"})
"""Labels of rows whose words segments do not keep."""
_IDS = frozenset({"trace_id", "span_id"})
_MAYBE_A_NUMBER = re.compile(r"[+-]?[0-9.]*(e[+-]?[0-9]+)?|[+-]?(Inf|NaN)|true|false")
"""Spellings of numbers and flags, whose words segments do not keep."""
_CAPTURE = re.compile(r"<[^<>]*>")


def demanded_words(plan: RunStages) -> Pipeline:
    """`|= "id=7f3a "` asks for segments that hold the word 7f3a; `| trace_id="4bf9"` for the word 4bf9."""
    found = dict.fromkeys((*_of_lines(plan.stages), *_of_labels(plan.stages)))
    return replace(plan, source=replace(plan.source, words=tuple(found)[:MAX_TERMS]))


def find_idle_conditions(plan: RunStages) -> Iterator[str]:
    """Yield conditions that name a text and yet demand no whole word."""
    for stage in plan.stages:
        if row_of(stage).changes_line:
            return
        if isinstance(stage, LineFilter) and not stage.op.is_negative and _line_words(stage) is None:
            yield f"demanded-words: {stage.op.value} finds parts of words, blooms hold whole ones"
    for one in stored_matches(plan.stages):
        name, value = one.name, one.value
        if one.op is MatchOp.EQUAL and value and _label_words(one) is None:
            yield f"demanded-words: blooms do not hold what {name} is compared with"


def _of_lines(stages: Sequence[Stage]) -> Iterator[Words]:
    for stage in stages:
        if row_of(stage).changes_line:
            return
        if isinstance(stage, LineFilter) and not stage.op.is_negative:
            found = _line_words(stage)
            if found is not None:
                yield found


def _line_words(line: LineFilter) -> Words | None:
    if line.ips or len(line.values) > MAX_VALUES:
        return None
    ways = [way for value in line.values for way in _ways(line.op, value)]
    return Words(tuple(ways)) if ways and all(ways) else None


def _ways(op: FilterOp, value: str) -> list[tuple[str, ...]]:
    """Return the words of each way in which a line can match; an empty way where nothing is known."""
    if op is FilterOp.CONTAINS:
        return [_words([value])]
    if op is FilterOp.PATTERN:
        pieces = _CAPTURE.split(value)
        return [() if any("<" in piece for piece in pieces) else _words(pieces)]
    return [_words(way) for way in required_texts(value)] or [()]


def _words(fragments: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for text in fragments if _is_text(text) for word in inner_tokens(text)))


def _of_labels(stages: Sequence[Stage]) -> Iterator[Words]:
    for one in stored_matches(stages):
        found = _label_words(one)
        if found is not None:
            yield found


def _label_words(matcher: Matcher) -> Words | None:
    if matcher.name in NOT_INDEXED:
        return None
    values = _values(matcher)
    if not 0 < len(values) <= MAX_VALUES or not all(_is_indexed(matcher.name, value) for value in values):
        return None
    return Words(tuple(tuple(tokens(value)) for value in values), matcher.name)


def _values(matcher: Matcher) -> tuple[str, ...]:
    if matcher.op is MatchOp.EQUAL:
        return (matcher.value,)
    return (regexp.alternation(matcher.value) or ()) if matcher.op is MatchOp.REGEX else ()


def _is_indexed(name: str, value: str) -> bool:
    """Tell whether a row with this value has words in the bloom; columns of numbers are not in it."""
    if not _is_text(value) or not tokens(value):
        return False
    return name in _IDS or not _MAYBE_A_NUMBER.fullmatch(value)


def _is_text(value: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in value)
