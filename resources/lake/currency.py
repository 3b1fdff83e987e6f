"""A rollup is current while its sources are what it was built from.

A pure decision over partitions seen at one moment: a rollup partition is current if it was built from exactly
the versions that its sources have, and they are current themselves. Late rows bump a version, so whatever was
built before them is not used again until it is built anew: a query takes the next finer frequency instead.

    samples 12:00 v3 → 10s built from 3, v7 → 1m built from 7: both current
    samples 12:00 v4 → 10s built from 3, v7 → 1m built from 7: neither
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from resources.index.types import Partition
from resources.lake.frequency import AS_SENT, ROLLUPS
from resources.lake.timecut import HOUR_NS, cut


def current_partitions(partitions: Iterable[Partition]) -> dict[int, set[int]]:
    """Return the starts of usable partitions by frequency, for one organisation and signal.

    What was deleted because of its age is not usable itself; what was built from it before still is.

    `partitions` must hold every source of the rollups asked about: all hours of a day.
    """
    by_frequency: dict[int, dict[int, Partition]] = defaultdict(dict)
    for partition in partitions:
        if partition.version > 0:
            by_frequency[partition.frequency_ms][partition.start_ns] = partition
    current = {AS_SENT: set(by_frequency[AS_SENT])}
    beginnings: set[int] = set(by_frequency[AS_SENT])
    for rollup in ROLLUPS:
        versions: dict[int, dict[int, int]] = defaultdict(dict)
        for start, source in by_frequency[rollup.source_ms].items():
            versions[cut(start + 1, rollup.partition_ns)][start] = source.version
        needed: dict[int, set[int]] = defaultdict(set)
        for start in beginnings:  # also hours that got their first rows and have no rollup at all yet
            needed[cut(start + 1, rollup.partition_ns)].add(start)
        current[rollup.frequency_ms] = {
            start
            for start, built in by_frequency[rollup.frequency_ms].items()
            if _same(built.built_from, versions[start]) and needed[start] <= current[rollup.source_ms]
        }
        if rollup.partition_ns == HOUR_NS:
            beginnings |= set(by_frequency[rollup.frequency_ms])
    return {
        frequency: {start for start in starts if not by_frequency[frequency][start].expired}
        for frequency, starts in current.items()
    }


def _same(built_from: Mapping[int, int], versions: Mapping[int, int]) -> bool:
    return dict(built_from) == dict(versions) and bool(versions)
