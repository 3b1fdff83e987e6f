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
from lakerunner_assets.materialized.standing import NotAddableError, Standing
from lakerunner_assets.metric_hours.task import (
    HourAnswer,
    HourFault,
    HourUnit,
    fetch,
    run_unit,
    write_hour,
)
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
    standing: Standing | None = None
    """Cells derived before; `own` is what was added since. None: `own` is all."""


@dataclass(frozen=True, slots=True)
class DeriveAnswer(HourAnswer):
    """Segment of the preset, if it has samples, and that of the rules."""

    origins: tuple[str, ...] = ()
    """Origins of the segments."""
    records: int = 0
    """Distinct spans of the hour, or rows of its segments where only rules are derived."""
    rules: tuple[RuleOutcome, ...] = ()
    can_grow: bool = False
    """True if records can be added to what was derived."""


def materialize(payload: bytes) -> bytes:
    """Derive one encoded unit; return an encoded answer."""
    return run_unit(payload, DeriveUnit, DeriveAnswer, _derive_or_refuse)


def _derive_or_refuse(unit: DeriveUnit, lake: ObjectStore, folder: Path) -> DeriveAnswer:
    try:
        return _derive(unit, lake, folder)
    except NotAddableError as error:  # the next plan is a whole derivation
        return DeriveAnswer(unit.batch_id, fault=HourFault.GONE, error=str(error))


def _derive(unit: DeriveUnit, lake: ObjectStore, folder: Path) -> DeriveAnswer:
    before = () if unit.standing is None else unit.standing.segments
    here = fetch(lake, (*unit.own, *unit.beside, *before), folder)
    ends = len(unit.own), len(unit.own) + len(unit.beside)
    own, beside = here[: ends[0]], here[ends[0] : ends[1]]
    standing = None if unit.standing is None else Standing(unit.standing.rules, tuple(here[ends[1] :]))
    records = sum(one.rows for one in unit.own)
    made: list[tuple[str, list[pa.Table]]] = []
    outcomes: tuple[RuleOutcome, ...] = ()
    can_grow = False
    if unit.with_preset:
        tables, records = derive(Hour(unit.hour_ns, _paths(own, folder), _paths(beside, folder)))
        made.append((ORIGIN, tables))
    if unit.rules:
        derived = derive_rules(
            unit.rules, unit.signal, own, beside, unit.hour_ns, unit.most_series, folder, standing
        )
        outcomes, can_grow = derived.outcomes, derived.can_grow
        made.append((rules_origin(unit.signal), derived.tables))
    filled = [(origin, tables) for origin, tables in made if tables]
    return DeriveAnswer(
        unit.batch_id,
        tuple(write_hour(unit, origin, tables, lake, folder) for origin, tables in filled),
        origins=tuple(origin for origin, _ in filled),
        records=records,
        rules=outcomes,
        can_grow=can_grow,
    )


def _paths(refs: Sequence[SegmentRef], folder: Path) -> list[Path]:
    return [folder / ref.key for ref in refs]
