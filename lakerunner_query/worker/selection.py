"""Which streams a query wants: matchers run on the stream table, before any row is read.

An absent label has the empty value, as in Prometheus. Regexes go through RE2 on distinct values only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lakerunner_query.gotext import regexp
from lakerunner_query.syntax import Matcher
from lakerunner_query.worker.blooms import Needles
from resources.lake.streams import Stream


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows in `[start_ns, end_ns)` of streams that satisfy all matchers."""

    matchers: tuple[Matcher, ...]
    start_ns: int
    end_ns: int
    narrowing: tuple[Matcher, ...] = ()
    """Only for streams that have such a label."""
    needles: tuple[Needles, ...] = ()
    """Words that a segment must hold."""

    def streams(self, found: Iterable[Stream]) -> tuple[Stream, ...]:
        """Those that may have wanted rows."""
        chosen = select(in_range(found, self.start_ns, self.end_ns), self.matchers)
        for matcher in self.narrowing:
            fitting = {id(stream) for stream in select(chosen, [matcher])}
            chosen = [s for s in chosen if id(s) in fitting or not has_label(s, matcher.name)]
        return tuple(chosen)

    def words_beside(self, names: Collection[str]) -> list[Needles]:
        """What the token bloom can be asked: values of labels of streams, which have these, are not in it."""
        return [needle for needle in self.needles if needle.label not in names]


def select(streams: Iterable[Stream], matchers: Sequence[Matcher]) -> list[Stream]:
    """Streams whose labels satisfy every matcher."""
    chosen = list(streams)
    for matcher in matchers:
        values = [label_of(stream, matcher.name) for stream in chosen]
        wanted = _verdicts(matcher, list(dict.fromkeys(values)))
        chosen = [stream for stream, value in zip(chosen, values, strict=True) if wanted[value]]
    return chosen


def in_range(streams: Iterable[Stream], start_ns: int, end_ns: int) -> list[Stream]:
    """Streams with a row that may lie in `[start_ns, end_ns)`."""
    return [s for s in streams if s.min_ns < end_ns and s.max_ns >= start_ns]


def has_label(stream: Stream, name: str) -> bool:
    return any(label == name for label, _ in stream.labels)


def label_of(stream: Stream, name: str) -> str:
    return next((value for label, value in stream.labels if label == name), "")


def _verdicts(matcher: Matcher, distinct: list[str]) -> dict[str, bool]:
    if matcher.op.is_regex:
        hits = regexp.full_matches(matcher.value, distinct)
    else:
        hits = [value == matcher.value for value in distinct]
    is_negative = matcher.op.is_negative
    return {value: hit != is_negative for value, hit in zip(distinct, hits, strict=True)}
