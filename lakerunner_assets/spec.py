"""A `SignalSpec` holds the differences between signals as data and functions.

Tiers never ask which signal they work on; they call what the spec holds. The functions import their heavy
libraries when called, so that definitions load fast and offline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lakerunner_assets.segments.merge.request import MergeKind
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.lake.layout import Signal

if TYPE_CHECKING:
    import pyarrow as pa

    from lakerunner_assets.decode.dispatch import Decoders


class Write(Protocol):
    def __call__(
        self, tables: Sequence[pa.Table], path: Path, identity: SegmentIdentity
    ) -> WrittenSegment: ...


@dataclass(frozen=True, slots=True)
class SignalSpec:
    signal: Signal
    dataset: str
    time_column: str
    time_unit_ns: int
    """Nanoseconds of one step of the time column: metrics are cut on whole milliseconds."""
    decoders: Callable[[], Decoders]
    """Decoders by format."""
    write: Write
    merge_kind: MergeKind
    """Kind of its cooked rows in merges; rows of its rollups are `MergeKind.ROLLUP`."""
    sealed_datasets: frozenset[str]
    """Datasets whose days become one segment. Quarantined rows are not among them: they are read by hour."""
    warm_up_samples: Callable[[], Iterator[tuple[str, bytes]]]
    """Names and contents of small objects that run every kernel of the signal."""
    roles_in_words: Mapping[str, str]
    """Roles of foreign columns that a person asks about, with their words."""
    description: str

    @property
    def quarantine_dataset(self) -> str:
        return f"{self.dataset}-quarantine"
