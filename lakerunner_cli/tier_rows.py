"""Tiers as `lakerunner status` shows them: what is stored, what is left to merge, roll up and delete."""

from __future__ import annotations

from dataclasses import asdict

from lakerunner_cli.pipeline_rows import size
from lakerunner_cli.stack.view import duration
from resources.index.sweeping_types import TierNumbers, TierStatus

HEADER = (
    f"{'organisation':<20} {'dataset':<18} {'segments':>8} {'bytes':>9} {'rows':>13} {'mean':>9} "
    f"{'unmerged':>17} {'due':>6} {'longest':>7} {'newest':>7} {'retired':>9}"
)


def table(status: TierStatus) -> list[str]:
    """Lines for a person; nothing as long as there is nothing."""
    lines = [_line(tier) for tier in status.tiers]
    orphans = [
        f"! {each.org}: {each.files:,} files ({size(each.bytes)}) in the lake that the index does not know"
        for each in status.orphans
    ]
    return [*(["", HEADER] if lines else []), *lines, *orphans]


def as_json(status: TierStatus, problem: str) -> dict[str, object]:
    if problem:
        return {"error": problem}
    return {
        "rows": [{**asdict(tier), "mean_bytes": mean_bytes(tier)} for tier in status.tiers],
        "orphans": [asdict(each) for each in status.orphans],
    }


def mean_bytes(tier: TierNumbers) -> int:
    return tier.bytes // tier.segments if tier.segments else 0


def _line(tier: TierNumbers) -> str:
    unmerged = f"{tier.unsettled:,} / {size(tier.unsettled_bytes)}" if tier.unsettled else "-"
    newest = "-" if tier.newest_ns is None else duration(max(0.0, tier.newest_s))
    due = f"{tier.due:>6,} {duration(tier.due_s):>7}" if tier.due else f"{'-':>6} {'-':>7}"
    retired = size(tier.retired_bytes) if tier.retired else "-"
    kept = f"{tier.segments:>8,} {size(tier.bytes):>9} {tier.rows:>13,} {size(mean_bytes(tier)):>9}"
    return f"{tier.org:<20} {tier.dataset:<18} {kept} {unmerged:>17} {due} {newest:>7} {retired:>9}"
