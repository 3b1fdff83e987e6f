"""Interleaved rounds of contenders, and the record that is made of them."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.report import Record

Contender = Callable[[], float]
"""Does the whole work once and says its CPU seconds."""


@dataclass(frozen=True, slots=True)
class Target:
    """A line of the table of targets: both figures are ratios to a peer."""

    id: str
    what: str
    must: float
    aim: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Rows per CPU-second, of every round."""

    rows: int
    seconds: Mapping[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        return self.rows / statistics.median(self.seconds[name])

    def best(self, name: str) -> float:
        return self.rows / min(self.seconds[name])


def interleaved(contenders: Mapping[str, Contender], rows: int, rounds: int) -> Rates:
    """A, B, C, A, B, C: what slows the machine for a while slows all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            seconds[name].append(run())
    return Rates(rows, seconds)


def compared(
    target: Target, rates: Rates, ours: str, peer: str, unit: str, counters: Mapping[str, Any]
) -> Record:
    """Medians against each other; bests beside them."""
    ratio = rates.median(ours) / rates.median(peer)
    return Record(
        target.id,
        target.what,
        rates.median(ours),
        unit,
        must=target.must,
        aim=target.aim,
        ok=ratio >= target.must,
        peer=peer,
        peer_value=rates.median(peer),
        ratio=ratio,
        counters={
            "ratio": round(ratio, 2),
            "best": round(rates.best(ours)),
            "peer_best": round(rates.best(peer)),
            "rounds": len(rates.seconds[ours]),
            "load": round(os.getloadavg()[0], 2),
            **counters,
        },
    )


def smaller(
    target: Target, value: float, peer: str, peer_value: float, unit: str, counters: Mapping[str, Any]
) -> Record:
    """Bytes against bytes: less is better."""
    ratio = value / peer_value
    return Record(
        target.id, target.what, value, unit, must=target.must, aim=target.aim, ok=ratio <= target.must,
        peer=peer, peer_value=peer_value, ratio=ratio,
        counters={"ratio": round(ratio, 3), "peer_value": round(peer_value, 3), **counters},
    )  # fmt: skip


def missing(target: Target, unit: str, reason: str, peer: str = "", value: float | None = None) -> Record:
    """A target that could not be compared, or not measured at all."""
    return Record(
        target.id, target.what, value, unit, must=target.must, aim=target.aim, peer=peer, reason=reason
    )
