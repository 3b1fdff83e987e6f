"""Filters: `|= "a" or "b"` on lines, `| level="error" and (took > 1s or size > 1MB)` on labels.

Texts are compared for every row, absent ones as empty. Numbers, durations and sizes need the label, which
`__error__` is not to them; a value that is none keeps the row and gives it `__error__="LabelFilterErr"`,
unless it has an error already. The
right side of an `or` is looked at only where the left does not hold, so only there it can fail; `and` always
looks at both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import ParseError
from lakerunner_query.gotext.conversions import convert_values, duration_ns, number, size
from lakerunner_query.gotext.regexp import anchor, literal
from lakerunner_query.logql.frame import LogFrame, absent, column_of, has_text, holds
from lakerunner_query.logql.kernels.addresses import holding_rows
from lakerunner_query.logql.kernels.logfmt import matching_rows
from lakerunner_query.logql.kernels.strings import containing_rows, text_of
from lakerunner_query.logql.lang.ast import (
    ERROR,
    ERROR_DETAILS,
    CompareOp,
    LabelAnd,
    LabelCompare,
    LabelCondition,
    LabelFilter,
    LabelIp,
    LabelMatch,
    LabelOr,
    LineFilter,
    Unit,
)
from lakerunner_query.logql.stages.extract import LABEL_FILTER, mark_failed
from lakerunner_query.logql.stages.pattern_regexp import filter_pattern
from lakerunner_query.syntax import Matcher, MatchOp
from resources.arrays import Doubles, Flags, UInt64s

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressPatternError(ValueError):
    """Text in `ip("…")` that is no address, range or prefix."""


@dataclass(frozen=True, slots=True)
class AddressRange:
    """Addresses from the first to the last, of IPv4 or IPv6."""

    first: Address
    last: Address

    def find_in(self, texts: pa.StringArray) -> Flags:
        """Flag texts that hold an address of the range: 10.0.0.0/8 is in "client 10.0.0.7:80"."""
        text = text_of(texts)
        is_v6 = self.first.version == 6
        found: Flags = holding_rows(text.data, text.offsets, is_v6, _halves(self.first), _halves(self.last))
        return found


def address_range(pattern: str) -> AddressRange:
    """Parse an address, a range `a-b`, or a prefix."""
    try:
        if "-" in pattern:
            first, last = map(ipaddress.ip_address, pattern.split("-"))
            return AddressRange(first, last)
        if "/" in pattern:
            network = ipaddress.ip_network(pattern, strict=False)
            return AddressRange(network[0], network[-1])
        address = ipaddress.ip_address(pattern)
    except ValueError:
        raise AddressPatternError(f"ip: invalid pattern: {pattern}") from None
    return AddressRange(address, address)


def _halves(address: Address) -> UInt64s:
    return np.array([int(address) >> 64, int(address) & (1 << 64) - 1], np.uint64)


def line_filter(frame: LogFrame, stage: LineFilter) -> LogFrame:
    return frame.keep(matching_lines(frame.line, stage))


def matching_lines(lines: pa.StringArray, stage: LineFilter) -> Flags:
    """Flag the lines that match any alternative, or for a negative operator none."""
    found = np.zeros(len(lines), np.bool_)
    for flags in _alternatives(lines, stage):
        found |= flags
    return ~found if stage.op.is_negative else found


def _alternatives(lines: pa.StringArray, stage: LineFilter) -> Iterator[Flags]:
    for value in stage.values:
        if stage.op.is_pattern:
            pattern = filter_pattern(value, stage.position)
            text = text_of(lines)
            about = pattern.parts, pattern.literals, pattern.literal_offsets
            yield matching_rows(text.data, text.offsets, *about)
        elif stage.op.is_regex and literal(value) is None:
            yield pc.match_substring_regex(lines, value).to_numpy(False)
        else:
            needle = np.frombuffer(value.encode() or b"\0", np.uint8)[: len(value.encode())]
            text = text_of(lines)
            yield containing_rows(text.data, text.offsets, needle)
    for value in stage.ips:
        try:
            yield address_range(value).find_in(lines)
        except AddressPatternError as error:
            raise ParseError(str(error), stage.position) from None


_CONVERT: dict[Unit, Callable[[str], float]] = {
    Unit.NUMBER: number,
    Unit.DURATION: duration_ns,
    Unit.BYTES: size,
}
_COMPARE: dict[CompareOp, Callable[[Doubles, float], Flags]] = {
    CompareOp.EQUAL: np.equal,
    CompareOp.NOT_EQUAL: np.not_equal,
    CompareOp.GREATER: np.greater,
    CompareOp.GREATER_EQUAL: np.greater_equal,
    CompareOp.LESS: np.less,
    CompareOp.LESS_EQUAL: np.less_equal,
}


def label_filter(frame: LogFrame, stage: LabelFilter) -> LogFrame:
    frame, passes = test_rows(frame, stage.condition)
    return frame.keep(passes)


def test_rows(frame: LogFrame, condition: LabelCondition) -> tuple[LogFrame, Flags]:
    """Return the frame with errors of conversions, and flags of the rows that meet the condition."""
    return _test(frame, condition, np.ones(frame.count, np.bool_))


def _test(frame: LogFrame, condition: LabelCondition, rows: Flags) -> tuple[LogFrame, Flags]:
    """Test these rows only: the others can neither pass nor fail."""
    match condition:
        case LabelMatch(matcher):
            return frame, rows & matches(frame, matcher)
        case LabelCompare():
            return _compare(frame, condition, rows)
        case LabelIp():
            return frame, rows & _has_address(frame, condition)
        case LabelAnd(left, right):
            frame, first = _test(frame, left, rows)
            frame, second = _test(frame, right, rows)
            return frame, first & second
        case LabelOr(left, right):
            frame, first = _test(frame, left, rows)
            frame, second = _test(frame, right, rows & ~first)
            return frame, first | second


def matches(frame: LogFrame, matcher: Matcher) -> Flags:
    """Flag rows that a matcher of texts matches; filters never see the details of an error."""
    hidden = matcher.name == ERROR_DETAILS
    column = absent(frame.count) if hidden else column_of(frame, matcher.name)
    found = holds(column, lambda values: _text_test(values, matcher))
    return ~found if matcher.op.is_negative else found


def _text_test(values: pa.StringArray, matcher: Matcher) -> pa.BooleanArray:
    if matcher.op in {MatchOp.EQUAL, MatchOp.NOT_EQUAL}:
        return pc.equal(values, matcher.value)
    return pc.match_substring_regex(values, anchor(matcher.value))


def _compare(frame: LogFrame, condition: LabelCompare, rows: Flags) -> tuple[LogFrame, Flags]:
    is_hidden = condition.name in {
        ERROR,
        ERROR_DETAILS,
    }  # Loki has these beside the labels: only texts see them
    column = column_of(frame, condition.name)
    if is_hidden or not len(column.values):
        return frame, np.zeros(frame.count, np.bool_)
    found = convert_values(column.values, _CONVERT[condition.unit])
    bound = round(condition.value * 1e9) if condition.unit is Unit.DURATION else condition.value
    by_code = _COMPARE[condition.op](found.numbers, bound)
    wrong = np.zeros(len(by_code), np.bool_)
    wrong[list(found.failures)] = True
    there = rows & (column.codes >= 0)
    fails = there & wrong[column.codes]
    if fails.any():
        fresh = np.flatnonzero(fails & ~has_text(frame, ERROR)).astype(np.int64)
        text_of_code = [found.failures.get(code, "") for code in range(len(by_code))]
        frame = mark_failed(frame, fresh, LABEL_FILTER, column.codes[fresh], text_of_code)
    return frame, there & (by_code | wrong)[column.codes]


def _has_address(frame: LogFrame, condition: LabelIp) -> Flags:
    """Flag rows that hold an address; one with an error is kept, one without the label is not."""
    column = column_of(frame, condition.name)
    wanted = address_range(condition.pattern)
    found = holds(column, lambda values: pa.array(wanted.find_in(values)))
    there = column.codes >= 0
    return has_text(frame, ERROR) | (there & (~found if condition.negative else found))
