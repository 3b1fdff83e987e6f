"""Segments that could not be merged, left alone for a while: retrying them at once would be a hot loop.

Kept among the gauges, where the next run and the planner see them, and a person too:

    lakerunner_compact_held_until_seconds{signal="logs",segment="8f…"} 1767225600
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from resources.index.contract import PipelineIndex
from resources.lake.layout import Signal

HELD_S = 3600.0
_NAME = "lakerunner_compact_held_until_seconds"
_PATTERN = re.compile(rf'^{_NAME}{{signal="([a-z]+)",segment="([0-9a-f]+)"}}$')


def hold(index: PipelineIndex, signal: Signal, segment_ids: Iterable[str], now_s: float) -> None:
    index.set_gauges({_gauge(signal, segment_id): now_s + HELD_S for segment_id in segment_ids})


def held(index: PipelineIndex, signal: Signal, now_s: float) -> frozenset[str]:
    """Segments of the signal that are not to be touched now."""
    found: set[str] = set()
    for name, until in index.counters().items():
        match = _PATTERN.match(name)
        if match and match[1] == signal.value and until > now_s:
            found.add(match[2])
    return frozenset(found)


def _gauge(signal: Signal, segment_id: str) -> str:
    return f'{_NAME}{{signal="{signal.value}",segment="{segment_id}"}}'
