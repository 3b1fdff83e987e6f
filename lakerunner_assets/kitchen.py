"""What a run works with, whatever tier it works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakerunner_assets.heartbeat import Heartbeat
from resources.index.contract import PipelineIndex
from resources.index.types import Claim, PublishConflictError
from resources.settings import Settings
from resources.spark import SparkTasks


@dataclass(frozen=True, slots=True)
class Kitchen:
    index: PipelineIndex
    spark: SparkTasks
    settings: Settings
    heart: Heartbeat
    log: Callable[[str], None]


def unless_lost(kitchen: Kitchen, claim: Claim, change: Callable[[], None]) -> None:
    """A claim that ran out is with another run; that must not end this one and all it holds."""
    try:
        change()
    except PublishConflictError as lost:
        kitchen.log(f"batch {claim.batch_id} has another holder already: {lost}")


def abandon(kitchen: Kitchen, claim: Claim, error: str) -> None:
    """Work that is planned anew by whoever looks next."""
    unless_lost(kitchen, claim, lambda: kitchen.index.abandon(claim, error))
