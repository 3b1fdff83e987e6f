"""The index counts what changed in datasets that other engines read as tables.

    version   17         18                  19
    changes   + a, + b   + c (merged), - a, - b   + d
    snapshot  17: a, b                       19: c, d

A publication of such a dataset raises its version and says which segments came and went. A snapshot of the
table names the version that it equals. The file of a segment stays until no readable snapshot names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OpenTable:
    """Dataset of an organisation that other engines read."""

    table_id: int
    org: str
    dataset: str
    version: int
    """Number of publications that changed the dataset since the table was opened."""
    committed: int
    """Version of the newest snapshot; -1 before the first."""
    waited_s: float
    """Time since the first change that is in no snapshot."""
    committed_s: float
    """Age of the newest snapshot, infinite before the first."""
    held: int
    """Retired segments whose files older snapshots name."""


@dataclass(frozen=True, slots=True)
class TableSegment:
    """Segment as a table registers it."""

    segment_id: str
    key: str
    hour_ns: int
    width_ns: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Difference between two versions of a dataset, as of one moment."""

    table_id: int
    version: int
    is_whole: bool
    """True if `added` lists everything that is live, whatever was known."""
    added: tuple[TableSegment, ...]
    removed: tuple[TableSegment, ...]
    segments: int
    """Number of all live segments."""
    rows: int
    """Rows of all live segments."""


class TableIndex(Protocol):
    """Open tables, as runs and commands see and change them."""

    def list_tables(self, org: str = "") -> list[OpenTable]:
        """List open tables by organisation and dataset; no name: of all organisations."""

    def add_table(self, org: str, dataset: str) -> bool:
        """Count changes of a dataset from now on; False if somebody asked for that before."""

    def remove_table(self, org: str, dataset: str) -> bool:
        """Count no more, and let go of all files."""

    def table_changes(self, org: str, dataset: str, known: tuple[int, int] | None) -> TableChanges | None:
        """Return what changed since a known (table, version); everything if that is none of this index.

        None: the table is not open.
        """

    def note_commit(self, table_id: int, version: int, oldest: int) -> None:
        """Record the version of the newest snapshot, and that of the oldest that can still be read."""
