"""The chain of assets is data: each tier, its signals and its parents.

A tier that is not built is absent here. `tests/architecture` keeps a snapshot of every key with its parents,
so that a change of the graph is a change somebody saw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dagster import AssetsDefinition, AssetSpec

from lakerunner_assets.compacted.asset import compacted_asset
from lakerunner_assets.cooked.asset import cooked_asset
from lakerunner_assets.keys import Tier
from lakerunner_assets.materialized.asset import materialized_asset
from lakerunner_assets.raw.asset import raw_asset
from lakerunner_assets.recorded.asset import recorded_asset
from lakerunner_assets.rollup.asset import rollup_asset
from lakerunner_assets.signals import SIGNALS
from lakerunner_assets.spec import SignalSpec
from lakerunner_assets.tables.asset import tables_asset
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal

Asset = AssetsDefinition | AssetSpec
Factory = Callable[[SignalSpec, str], Asset]


@dataclass(frozen=True, slots=True)
class Link:
    tier: Tier
    signals: tuple[Signal, ...]
    parents: tuple[Tier, ...]
    make: Factory


CHAIN: tuple[Link, ...] = (
    Link(Tier.RAW, tuple(SIGNALS), (), raw_asset),
    Link(Tier.COOKED, tuple(SIGNALS), (Tier.RAW,), cooked_asset),
    Link(Tier.COMPACTED, tuple(SIGNALS), (Tier.COOKED,), compacted_asset),
    Link(Tier.MATERIALIZED, tuple(SIGNALS), (Tier.COOKED,), materialized_asset),
    Link(Tier.RECORDED, (Signal.METRICS,), (Tier.COOKED, Tier.MATERIALIZED), recorded_asset),
)
"""Tiers of every signal. Metrics have rollups beside it: 10s from cooked, each other from the one before.

Tables follow the segments of all of them.
"""


def build_assets(horizon: str) -> list[Asset]:
    """Build every asset of the chain."""
    tiers: list[Asset] = [link.make(SIGNALS[signal], horizon) for link in CHAIN for signal in link.signals]
    return [*tiers, *(rollup_asset(rollup, horizon) for rollup in ROLLUPS), tables_asset()]
