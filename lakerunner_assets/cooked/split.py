"""Decoded rows are cut by event hour; those outside the time range are set apart.

All vectorised: one sort-free pass over the time column, one filter per hour that occurs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lakerunner_assets.cooked.units import Unit
from lakerunner_assets.spec import SignalSpec
from resources.lake.columns import CHQ_QUARANTINE_REASON
from resources.lake.timecut import HOUR_NS, cut

if TYPE_CHECKING:
    import pyarrow as pa

Place = tuple[str, int]


class HourBuffers:
    """Buffers of decoded rows per dataset and hour, bounded together.

    Rows of the object being read are known, so that a failing one can be forgotten.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._tables: dict[Place, list[pa.Table]] = defaultdict(list)
        self._bytes: dict[Place, int] = defaultdict(int)
        self._marks: dict[Place, tuple[int, int]] = {}
        self.spilled = False
        """True if rows of the current object left the buffers."""

    def begin(self) -> None:
        """Start an object: everything until now stays whatever happens to it."""
        self._marks = {place: (len(tables), self._bytes[place]) for place, tables in self._tables.items()}
        self.spilled = False

    def forget(self) -> None:
        """Drop the rows of the current object."""
        for place in list(self._tables):
            tables, size = self._marks.get(place, (0, 0))
            del self._tables[place][tables:]
            self._bytes[place] = size

    def add(self, dataset: str, hour_ns: int, table: pa.Table) -> None:
        self._tables[dataset, hour_ns].append(table)
        self._bytes[dataset, hour_ns] += table.nbytes

    def full(self) -> bool:
        return sum(self._bytes.values()) >= self._max_bytes

    def largest(self) -> Place:
        return max(self._bytes, key=lambda place: self._bytes[place])

    def filled(self) -> list[Place]:
        """Return places with rows, in a fixed order (parts are numbered by it)."""
        return sorted(place for place, tables in self._tables.items() if tables)

    def take(self, dataset: str, hour_ns: int) -> list[pa.Table]:
        place = (dataset, hour_ns)
        tables = self._tables.pop(place)
        kept, _ = self._marks.get(place, (0, 0))
        self.spilled = self.spilled or len(tables) > kept
        self._marks.pop(place, None)
        self._bytes.pop(place)
        return tables


if TYPE_CHECKING:
    import pyarrow as pa

REASON_COLUMN = CHQ_QUARANTINE_REASON
BEFORE_HORIZON = "before the horizon"
TOO_FAR_AHEAD = "too far ahead of its arrival"
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Split:
    tables: dict[tuple[str, int], pa.Table]
    """Rows by (dataset, hour)."""
    counts: dict[int, int]
    """Live rows per event hour."""
    quarantined: int


def split_rows(table: pa.Table, spec: SignalSpec, unit: Unit, arrival_hour_ns: int) -> Split:
    """Split the rows of one decoded slice by dataset and hour."""
    times = _nanoseconds(table.column(spec.time_column).to_numpy(), spec.time_unit_ns)
    early = times <= unit.horizon_ns
    late = times > arrival_hour_ns + HOUR_NS + unit.future_tolerance_ns
    live = ~(early | late)
    hours = cut(times, HOUR_NS)
    tables: dict[tuple[str, int], pa.Table] = {}
    counts: dict[int, int] = {}
    for hour in np.unique(hours[live]).tolist():
        mask = live & (hours == hour)
        counts[hour] = int(mask.sum())
        if not unit.targets or hour in unit.targets:
            tables[spec.dataset, hour] = _filter(table, mask)
    if unit.target is not None and not live.all():
        reasons = np.where(early, BEFORE_HORIZON, TOO_FAR_AHEAD)
        tables[spec.quarantine_dataset, arrival_hour_ns] = _quarantine(table, ~live, reasons)
    return Split(tables, counts, int((~live).sum()))


def _nanoseconds(times: npt.NDArray[np.int64], unit_ns: int) -> npt.NDArray[np.int64]:
    """Convert times; those that nanoseconds cannot hold are clipped, outside of any accepted range."""
    furthest = (2**63 - 1) // unit_ns
    return np.clip(times, -furthest, furthest) * unit_ns if unit_ns > 1 else times


def _filter(table: pa.Table, mask: Mask) -> pa.Table:
    import pyarrow as pa

    return table if mask.all() else table.filter(pa.array(mask))


def _quarantine(table: pa.Table, mask: Mask, reasons: npt.NDArray[np.str_]) -> pa.Table:
    import pyarrow as pa

    kept = _filter(table, mask)
    return kept.append_column(REASON_COLUMN, pa.array(reasons[mask].tolist(), pa.string()))
