"""A compaction run reports totals for metadata and checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lakerunner_assets.compacted.policy import MIB
from lakerunner_assets.compacted.units import MergeAnswer, MergeUnit, Output
from lakerunner_assets.publish import UnbalancedError, new_segment
from resources.index.types import Claim, Publication


def merged_publication(
    claim: Claim, unit: MergeUnit, answer: MergeAnswer, *, settled: bool = False
) -> Publication:
    """Build the publication of a merge: inputs retire, outputs live, no version moves.

    It is refused unless every row that went in is accounted for.
    """
    _balance(unit, answer)
    return Publication(
        claim=claim,
        segments=tuple(
            new_segment(
                claim,
                output.segment,
                frequency_ms=claim.frequency_ms,
                width_ns=output.width_ns,
                level=unit.generation,
                settled=settled,
            )
            for output in answer.outputs
        ),
        retire=tuple(source.segment_id for source in unit.sources),
        frequency_ms=claim.frequency_ms,
    )


def overlaps(outputs: Sequence[Output]) -> list[str]:
    """Name outputs of one merge and window whose sort keys overlap; there should be none."""
    found: list[str] = []
    ordered = sorted(outputs, key=lambda o: (o.segment.hour_ns, o.width_ns, o.first_key))
    for before, after in pairwise(ordered):
        same_window = (before.segment.hour_ns, before.width_ns) == (after.segment.hour_ns, after.width_ns)
        if same_window and after.first_key < before.last_key:
            found.append(f"{before.segment.segment_id} and {after.segment.segment_id}")
    return found


def _balance(unit: MergeUnit, answer: MergeAnswer) -> None:
    indexed = sum(source.rows for source in unit.sources)
    in_segments = sum(output.segment.facts.rows for output in answer.outputs)
    accounted = answer.rows_written + answer.duplicates
    if not indexed == answer.rows_read == accounted or in_segments != answer.rows_written:
        raise UnbalancedError(
            f"batch {unit.batch_id}: {indexed} rows in the index, {answer.rows_read} read, "
            f"{answer.rows_written} written and {answer.duplicates} duplicates, {in_segments} in new segments"
        )


SIZES = (1, 8, 64, 512)
"""Borders of the groups in the picture of sizes, MiB."""


@dataclass(slots=True)
class Report:
    merges: int = 0
    segments_before: int = 0
    segments_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows_before: int = 0
    rows_after: int = 0
    duplicates: int = 0
    settled: int = 0
    task_seconds: float = 0.0
    largest_fan_in: int = 0
    sizes_before: Counter[str] = field(default_factory=Counter)
    sizes_after: Counter[str] = field(default_factory=Counter)
    overlapping: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    outage: str = ""
    """Error of the object store or of a worker's disk."""
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, unit: MergeUnit, answer: MergeAnswer) -> None:
        self.merges += 1
        self.segments_before += len(unit.sources)
        self.segments_after += len(answer.outputs)
        self.bytes_before += unit.bytes
        self.bytes_after += sum(output.segment.facts.bytes for output in answer.outputs)
        self.rows_before += sum(source.rows for source in unit.sources)
        self.rows_after += answer.rows_written
        self.duplicates += answer.duplicates
        self.task_seconds += answer.seconds
        self.largest_fan_in = max(self.largest_fan_in, len(unit.sources))
        self.sizes_before.update(_size(source.bytes) for source in unit.sources)
        self.sizes_after.update(_size(output.segment.facts.bytes) for output in answer.outputs)
        self.overlapping += overlaps(answer.outputs)

    @property
    def fan_in(self) -> float:
        return self.segments_before / max(1, self.merges)

    @property
    def shrunk_to(self) -> float:
        """Return the bytes written for each byte read."""
        return self.bytes_after / max(1, self.bytes_before)

    def picture(self) -> str:
        """Draw segments by size before and after, as Markdown."""
        lines = ["| segment size | before | after |", "|---|---|---|"]
        lines += [
            f"| {size} | {_bar(self.sizes_before[size])} | {_bar(self.sizes_after[size])} |"
            for size in _NAMES
        ]
        return "\n".join(lines)


_NAMES = (*(f"< {size} MiB" for size in SIZES), "full")


def _size(size: int) -> str:
    return next((f"< {bound} MiB" for bound in SIZES if size < bound * MIB), "full")


def _bar(count: int, most: int = 30) -> str:
    return f"{'▇' * min(count, most)} {count}" if count else ""


def shorten(texts: Sequence[str], most: int = 100) -> list[str]:
    return [text[:1000] for text in texts[:most]]
