"""What a worker answers to a `ShardUnit`, and whether the shards together say what one worker would say.

Vectors travel as bytes that the coordinator does not look into: it hands them to the worker that evaluates
the rest. What it looks at is what only all series together decide: limits, the order of annotations, and
whether histograms are to be read as if somebody spoke of resets.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag

import msgspec

from lakerunner_query.execute.metric_answer import Note
from lakerunner_query.execute.work import Missing, UnitReport


class Trait(IntFlag):
    """Of what a selector found: things that change how other series of it are read."""

    NOTHING = 0
    HINTED = 1
    """Files speak of resets of histograms."""
    UNHINTED = 2
    """There are native histograms, and nobody speaks of their resets."""
    NATIVE = 4
    """There are native histograms."""
    UNITED = 8
    """There are stored series, and classic ones derived from histograms."""


class ShardPart(msgspec.Struct, frozen=True):
    """One of the parts of `plan.shards.per_series`."""

    vector: bytes
    notes: tuple[Note, ...] = ()


class ShardAnswer(msgspec.Struct, frozen=True):
    parts: tuple[ShardPart, ...]
    traits: int = 0
    """All of any selector."""
    series: int = 0
    samples: int = 0
    """The most that one selector had to look at."""
    opened: tuple[str, ...] = ()
    """Segments whose files were read."""
    report: UnitReport = UnitReport()


def encode_shard_answer(answer: ShardAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


def decode_shard_answer(body: bytes) -> ShardAnswer:
    return msgspec.msgpack.decode(body, type=ShardAnswer)


def agree(answers: Sequence[ShardAnswer], max_series: int, max_samples: int) -> bool:
    """Whether nothing is in doubt; 0: any number. If something is, one worker has to say it."""
    traits = Trait.NOTHING
    for answer in answers:
        traits |= Trait(answer.traits)
    if Trait.HINTED | Trait.UNHINTED in traits or Trait.UNITED | Trait.NATIVE in traits:
        return False
    if 0 < max_series < sum(answer.series for answer in answers):
        return False
    if 0 < max_samples < sum(answer.samples for answer in answers):
        return False
    each = zip(*(answer.parts for answer in answers), strict=True)
    return all(notes_together([part.notes for part in parts]) is not None for parts in each)


def notes_together(shards: Sequence[tuple[Note, ...]]) -> tuple[Note, ...] | None:
    """Annotations of one part in the order in which one worker comes to them; None where that is not told.

    Each shard comes to its annotations in the order of its series. If each says the beginning of what the
    longest says, everything that one says comes behind the same others in all.
    """
    longest = max(shards, key=len, default=())
    return longest if all(longest[: len(notes)] == notes for notes in shards) else None


def report_together(answers: Sequence[ShardAnswer]) -> UnitReport:
    """As one worker would report it; what is missing or open in several shards is one segment."""
    missing: dict[str, Missing] = {}
    for answer in answers:
        missing.update((lost.segment_id, lost) for lost in answer.report.missing)
    return UnitReport(
        missing=tuple(missing.values()),
        segments_opened=len({name for answer in answers for name in answer.opened}),
        rows_considered=sum(answer.report.rows_considered for answer in answers),
        bytes_fetched=sum(answer.report.bytes_fetched for answer in answers),
    )
