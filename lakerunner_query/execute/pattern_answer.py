"""What a worker answers to a `PatternsUnit`: what lines have in common, and how many there are when."""

from __future__ import annotations

import msgspec

from lakerunner_query.execute.work import UnitReport


class LinePattern(msgspec.Struct, frozen=True):
    """Lines of one shape and level."""

    text: str
    """`<_>` stands for what differs."""
    level: str
    counts: tuple[tuple[int, int], ...]
    """Bucket, by its number since 1970, and lines."""


class PatternsAnswer(msgspec.Struct, frozen=True):
    patterns: tuple[LinePattern, ...] = ()
    report: UnitReport = UnitReport()


def encode_patterns_answer(answer: PatternsAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


def decode_patterns_answer(body: bytes) -> PatternsAnswer:
    return msgspec.msgpack.decode(body, type=PatternsAnswer)
