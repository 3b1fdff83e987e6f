"""`StreamFilter` selects streams by their stream table, and segments by their token bloom.

Matchers run before any row is read. An absent label has the empty value, as in Prometheus; regular
expressions run on distinct values only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from lakerunner_query.gotext import regexp
from lakerunner_query.plan.logql import ReadStreams, Words
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.syntax import Matcher
from lakerunner_query.worker.shared.lru import ByteLru
from lakerunner_query.worker.shared.segment_file import SegmentUnreadableError
from resources.lake.streams import Labels, Stream
from resources.lake.tokens import TokenBloom, token_hash
from resources.objects.errors import StoreError

BYTES_PER_WORD = 4
MOST_VERDICTS = 2000
"""Label sets that are remembered of a query; those of one segment are mostly in the next one, too."""
_verdicts: ByteLru[tuple[tuple[Matcher, ...], ...], dict[Labels, bool]] = ByteLru(16)


@dataclass(frozen=True, slots=True)
class WordHashes:
    """Words that a segment must hold, each hashed once for all segments."""

    alternatives: tuple[tuple[int, ...], ...]
    label: str

    @classmethod
    def of(cls, words: Words) -> WordHashes:
        return cls(tuple(tuple(map(token_hash, way)) for way in words.alternatives), words.label)

    def may_be_in(self, bloom: TokenBloom) -> bool:
        return any(all(map(bloom.may_contain_hash, way)) for way in self.alternatives)


class TokenBlooms:
    """Token blooms of segments, each read once and cached.

    A bloom that cannot be read or is damaged excludes nothing: opening the segment tells whether it is
    readable.
    """

    def __init__(self, max_bytes: int) -> None:
        self._blooms: ByteLru[str, TokenBloom] = ByteLru(max_bytes, _bloom_bytes)

    def has(self, segment: SegmentRef) -> bool:
        return not segment.bloom_length or segment.key in self._blooms

    def may_hold(
        self, segment: SegmentRef, words: Sequence[WordHashes], read: Callable[[int, int], bytes]
    ) -> bool:
        """Tell whether a row with all words is possible; `read(offset, length)` reads the object."""
        if not words or not segment.bloom_length:
            return True
        try:
            bloom = self._blooms.get_or_make(
                segment.key,
                lambda: TokenBloom.from_bytes(read(segment.bloom_offset, segment.bloom_length)),
            )
        except (SegmentUnreadableError, StoreError, OSError, ValueError):
            return True
        return all(each.may_be_in(bloom) for each in words)


def _bloom_bytes(bloom: TokenBloom) -> int:
    return len(bloom.words) * BYTES_PER_WORD


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """Rows in `[start_ns, end_ns)` of streams that satisfy all matchers."""

    matchers: tuple[Matcher, ...]
    start_ns: int
    end_ns: int
    narrowing: tuple[Matcher, ...] = ()
    """Matchers for streams that have such a label."""
    words: tuple[WordHashes, ...] = ()
    """Words that a segment must hold."""
    _known: dict[Labels, bool] = field(default_factory=dict, compare=False, repr=False)
    """Label sets that were looked at, also for other queries with these matchers."""

    @classmethod
    def of(cls, source: ReadStreams, start_ns: int, end_ns: int) -> StreamFilter:
        words = tuple(map(WordHashes.of, source.words))
        known = _verdicts.get_or_make((source.matchers, source.narrowing), dict)
        return cls(source.matchers, start_ns, end_ns, source.narrowing, words, known)

    def selects_any(self, streams: Iterable[Stream]) -> bool:
        """Tell whether a stream may have matching rows; mostly the first one tells."""
        known, start_ns, end_ns = self._known, self.start_ns, self.end_ns
        return any(
            stream.min_ns < end_ns and stream.max_ns >= start_ns and known.get(stream.labels, False)
            for stream in streams
        ) or bool(self.select(streams))

    def select(self, streams: Iterable[Stream]) -> tuple[Stream, ...]:
        """Return streams that may have matching rows."""
        there = in_range(streams, self.start_ns, self.end_ns)
        known, found = self._known, dict[Labels, bool]()
        verdicts = [known.get(stream.labels) for stream in there]
        if None not in verdicts:
            return tuple(stream for stream, fits in zip(there, verdicts, strict=True) if fits)
        unknown = [stream for stream, fits in zip(there, verdicts, strict=True) if fits is None]
        if unknown:
            fitting = {stream.labels for stream in self._fitting(unknown)}
            found = {stream.labels: stream.labels in fitting for stream in unknown}
            if len(known) < MOST_VERDICTS:
                known.update(found)
        return tuple(s for s in there if known.get(s.labels, False) or found.get(s.labels, False))

    def _fitting(self, streams: Sequence[Stream]) -> list[Stream]:
        chosen = matching(streams, self.matchers)
        for matcher in self.narrowing:
            fitting = {id(stream) for stream in matching(chosen, [matcher])}
            chosen = [s for s in chosen if id(s) in fitting or not has_label(s, matcher.name)]
        return chosen

    def words_in_rows(self, stream_labels: Collection[str]) -> list[WordHashes]:
        """Return words that the token bloom knows: it does not have the values of stream labels."""
        return [each for each in self.words if each.label not in stream_labels]


def matching(streams: Iterable[Stream], matchers: Sequence[Matcher]) -> list[Stream]:
    """Return streams whose labels satisfy every matcher."""
    chosen = list(streams)
    for matcher in matchers:
        values = [label_of(stream, matcher.name) for stream in chosen]
        matches = _matches(matcher, list(dict.fromkeys(values)))
        chosen = [stream for stream, value in zip(chosen, values, strict=True) if matches[value]]
    return chosen


def in_range(streams: Iterable[Stream], start_ns: int, end_ns: int) -> list[Stream]:
    """Return streams with a row that may lie in `[start_ns, end_ns)`."""
    return [s for s in streams if s.min_ns < end_ns and s.max_ns >= start_ns]


def has_label(stream: Stream, name: str) -> bool:
    return any(label == name for label, _ in stream.labels)


def label_of(stream: Stream, name: str) -> str:
    return next((value for label, value in stream.labels if label == name), "")


def _matches(matcher: Matcher, distinct: list[str]) -> dict[str, bool]:
    if matcher.op.is_regex:
        hits = regexp.full_matches(matcher.value, distinct)
    else:
        hits = [value == matcher.value for value in distinct]
    is_negative = matcher.op.is_negative
    return {value: hit != is_negative for value, hit in zip(distinct, hits, strict=True)}
