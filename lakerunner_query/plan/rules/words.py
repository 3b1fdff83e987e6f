"""Rules that derive words from filters: token blooms prune segments before a file is fetched or opened.

A line filter looks for parts of words too, so that only words within its text count, cut off on both sides.
A label filter by equality looks for whole values, all words of which count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakerunner_query.gotext import regexp
from lakerunner_query.gotext.regexp_words import required_texts
from lakerunner_query.logql.lang.ast import FilterOp, LineFilter, Stage
from lakerunner_query.logql.lang.stages import row_of
from lakerunner_query.plan.logql import Pipeline, RunStages, Words
from lakerunner_query.plan.rules.filters import stored_matches
from lakerunner_query.plan.rules.matchers import MAX_TERMS, MAX_VALUES
from lakerunner_query.syntax import Matcher, MatchOp
from resources.lake.tokens import inner_tokens, tokens

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
