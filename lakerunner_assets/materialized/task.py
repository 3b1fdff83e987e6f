"""A Spark task derives the metrics of one hour and puts them into the lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lakerunner_assets.materialized.preset import ORIGIN, derive
from lakerunner_assets.materialized.rule_cells import RuleOutcome, RuleTask
from lakerunner_assets.materialized.rules import derive_rules, rules_origin
from lakerunner_assets.materialized.spans import Hour
from lakerunner_assets.metric_hours.task import HourAnswer, HourUnit, fetch, run_unit, write_hour
from lakerunner_query.protocol.units import SegmentRef
from resources.lake.layout import Signal
from resources.objects.client import ObjectStore


@dataclass(frozen=True, slots=True)
class DeriveUnit(HourUnit):
    own: tuple[SegmentRef, ...]
    """Segments of the hour."""
    beside: tuple[SegmentRef, ...]
    """Segments of its neighbours with records near it."""
    signal: Signal = Signal.TRACES
    with_preset: bool = True
    rules: tuple[RuleTask, ...] = ()
    most_series: int = 0
    """Series that a rule may have in an hour."""


@dataclass(frozen=True, slots=True)
class DeriveAnswer(HourAnswer):
    """Segment of the preset, if it has samples, and that of the rules."""

    origins: tuple[str, ...] = ()
    """Origins of the segments."""
    records: int = 0
    """Distinct spans of the hour, or rows of its segments where only rules are derived."""
    rules: tuple[RuleOutcome, ...] = ()


def materialize(payload: bytes) -> bytes:
    """Derive one encoded unit; return an encoded answer."""
    return run_unit(payload, DeriveUnit, DeriveAnswer, _derive)


def _derive(unit: DeriveUnit, lake: ObjectStore, folder: Path) -> DeriveAnswer:
    here = fetch(lake, (*unit.own, *unit.beside), folder)
    own, beside = here[: len(unit.own)], here[len(unit.own) :]
    records = sum(one.rows for one in unit.own)
    made: list[tuple[str, list[pa.Table]]] = []
    outcomes: tuple[RuleOutcome, ...] = ()
    if unit.with_preset:
        tables, records = derive(Hour(unit.hour_ns, _paths(own, folder), _paths(beside, folder)))
        made.append((ORIGIN, tables))
    if unit.rules:
        tables, outcomes = derive_rules(
            unit.rules, unit.signal, own, beside, unit.hour_ns, unit.most_series, folder
        )
        made.append((rules_origin(unit.signal), tables))
    filled = [(origin, tables) for origin, tables in made if tables]
    return DeriveAnswer(
        unit.batch_id,
        tuple(write_hour(unit, origin, tables, lake, folder) for origin, tables in filled),
        origins=tuple(origin for origin, _ in filled),
        records=records,
        rules=outcomes,
    )


def _paths(refs: Sequence[SegmentRef], folder: Path) -> list[Path]:
    return [folder / ref.key for ref in refs]
