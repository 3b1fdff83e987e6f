"""How assets are named: tier first, then signal, as they appear in the Dagster UI."""

from __future__ import annotations

from enum import StrEnum

from dagster import AssetKey

from resources.lake.layout import Signal


class Tier(StrEnum):
    RAW = "raw"
    COOKED = "cooked"


def asset_key(tier: Tier, signal: Signal) -> AssetKey:
    """`raw/logs`. Plain strings: an enum inside a key passes every check until a run is created."""
    return AssetKey([tier.value, signal.value])


def cook_job_name(signal: Signal) -> str:
    return f"cook_{signal.value}"
