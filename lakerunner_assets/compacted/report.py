"""What a compaction run did, for metadata and checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakerunner_assets.compacted.policy import MIB
from lakerunner_assets.compacted.publication import overlaps
from lakerunner_assets.compacted.units import MergeAnswer, MergeUnit

SIZES = (1, 8, 64, 512)
"""MiB: borders of the groups in the picture of sizes."""


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
    """Why the object store or a worker's disk failed."""
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
        """Bytes written for each byte read."""
        return self.bytes_after / max(1, self.bytes_before)

    def picture(self) -> str:
        """Segments by size before and after, as Markdown."""
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


def shortened(texts: Sequence[str], most: int = 100) -> list[str]:
    return [text[:1000] for text in texts[:most]]
