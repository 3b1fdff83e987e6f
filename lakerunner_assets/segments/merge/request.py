"""Requests and results of merges, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lakerunner_assets.segments.written import WrittenSegment


class MergeKind(StrEnum):
    """The kind of rows, which decides their order and what is computed anew."""

    LOGS = "logs"
    TRACES = "traces"
    SAMPLES = "samples"
    ROLLUP = "rollup"


class SourceError(ValueError):
    """A source of a merge is damaged, or of another kind."""

    def __init__(self, path: Path, what: object) -> None:
        super().__init__(f"{path}: {what}")


@dataclass(frozen=True, slots=True)
class Window:
    """A partition rows may go to: those of `(start_ns, start_ns + width_ns]`."""

    start_ns: int
    width_ns: int

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.width_ns


@dataclass(frozen=True, slots=True)
class MergeRequest:
    kind: MergeKind
    sources: Sequence[Path]
    folder: Path
    """Outputs are written here, as `tbl_<segment id>.parquet`."""
    org: str
    collector: str
    dataset: str
    target: Window
    """Window of rows that are in no window of `carve`."""
    carve: Sequence[Window]
    """Windows that get segments of their own; usually none."""
    generation: int
    target_bytes: int
    """Size from which an output ends, at the border of a row group."""
    memory_bytes: int
    """Budget for decoded rows."""
    name: Callable[[Window, int], str]
    """Segment id of part n of a window."""


@dataclass(frozen=True, slots=True)
class MergedSegment:
    path: Path
    window: Window
    part: int
    facts: WrittenSegment
    first_key: str
    last_key: str
    """Sort keys as text that compares like the keys themselves."""


@dataclass(frozen=True, slots=True)
class MergeResult:
    segments: tuple[MergedSegment, ...]
    rows_read: int
    rows_written: int
    duplicates: int
