"""Cuts decoded rows by event hour, and sets aside those outside the accepted time range.

All vectorised: one sort-free pass over the time column, one filter per hour that occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lakerunner_assets.cooked.units import Unit
from lakerunner_assets.spec import SignalSpec
from resources.lake.timecut import HOUR_NS, cut

if TYPE_CHECKING:
    import pyarrow as pa

REASON_COLUMN = "chq_quarantine_reason"
BEFORE_HORIZON = "before the horizon"
TOO_FAR_AHEAD = "too far ahead of its arrival"
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Split:
    tables: dict[tuple[str, int], pa.Table]
    """(dataset, hour) → rows."""
    counts: dict[int, int]
    """Live rows per event hour."""
    quarantined: int


def split_rows(table: pa.Table, spec: SignalSpec, unit: Unit, arrival_hour_ns: int) -> Split:
    """Rows of one decoded slice by where they belong."""
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
            tables[spec.dataset, hour] = _filtered(table, mask)
    if unit.target is not None and not live.all():
        reasons = np.where(early, BEFORE_HORIZON, TOO_FAR_AHEAD)
        tables[spec.quarantine_dataset, arrival_hour_ns] = _quarantined(table, ~live, reasons)
    return Split(tables, counts, int((~live).sum()))


def _nanoseconds(times: npt.NDArray[np.int64], unit_ns: int) -> npt.NDArray[np.int64]:
    """Times that nanoseconds cannot say are as far away as they can: outside of any accepted range."""
    furthest = (2**63 - 1) // unit_ns
    return np.clip(times, -furthest, furthest) * unit_ns if unit_ns > 1 else times


def _filtered(table: pa.Table, mask: Mask) -> pa.Table:
    import pyarrow as pa

    return table if mask.all() else table.filter(pa.array(mask))


def _quarantined(table: pa.Table, mask: Mask, reasons: npt.NDArray[np.str_]) -> pa.Table:
    import pyarrow as pa

    kept = _filtered(table, mask)
    return kept.append_column(REASON_COLUMN, pa.array(reasons[mask].tolist(), pa.string()))
