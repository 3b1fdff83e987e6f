"""Turns the arguments of a back-fill into assets and partitions, without side effects.

    acme metrics 2026-01-02T05 2026-01-02T07 --tiers rollups
    →  rollup/10s … rollup/1d of 2026-01-02-05:00|acme and 2026-01-02-06:00|acme

Days are not named: Dagster takes the days that the hours lie in, and builds them after the hours. It refuses
a day of which hours have no partition yet, so hours of such a day go by themselves; lineage builds the day
when it is over.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from lakerunner_assets.keys import Tier, asset_key, rollup_key
from lakerunner_assets.partitions import partition_key
from lakerunner_cli.command import CommandError
from resources.lake.frequency import DAY, ROLLUPS, rollup_of
from resources.lake.layout import Signal
from resources.lake.signals import FACTS
from resources.lake.timecut import DAY_NS, HOUR_NS, from_datetime, to_datetime

EVERYONE = "all"
ROLLUPS_TIER = "rollups"
TIERS = (
    Tier.RAW.value, Tier.COOKED.value, Tier.COMPACTED.value, Tier.MATERIALIZED.value, Tier.RECORDED.value,
    ROLLUPS_TIER,
)  # fmt: skip
FORMATS = ("%Y-%m-%dT%H", "%Y-%m-%d")
ALLOW_LOSS_TAG, FORCE_TAG = "lakerunner/allow_loss", "lakerunner/force"
AssetPath = tuple[str, ...]
DAY_ROLLUP: AssetPath = tuple(rollup_key(rollup_of(DAY)).path)


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """The arguments, not yet checked against the existing partitions."""

    orgs: tuple[str, ...]
    signal: Signal
    start_ns: int
    end_ns: int
    tiers: tuple[str, ...]
    allow_loss: bool
    force: bool


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions that Dagster has."""

    orgs: tuple[str, ...]
    first_ns: int
    """Start of the first hour, which is the horizon."""
    last_ns: int
    """Start of the newest hour."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One asset back-fill."""

    assets: tuple[AssetPath, ...]
    partitions: tuple[str, ...]
    tags: dict[str, str]
    title: str


def parse_request(
    orgs: str, signal: str, start: str, end: str, tiers: str, *, allow_loss: bool, force: bool
) -> BackfillRequest:
    chosen = Signal(signal)
    request = BackfillRequest(
        tuple(dict.fromkeys(name.strip() for name in orgs.split(",") if name.strip())),
        chosen,
        parse_hour(start),
        parse_hour(end),
        parse_tiers(tiers, chosen),
        allow_loss,
        force,
    )
    if not request.orgs:
        raise CommandError(f"no organisation given; a name, several with commas, or `{EVERYONE}`")
    if request.end_ns <= request.start_ns:
        raise CommandError(
            f"TO ({format_hour(request.end_ns)}) must be later than FROM ({format_hour(request.start_ns)})"
        )
    if allow_loss and Tier.COOKED.value not in request.tiers:
        raise CommandError("--allow-loss says how `cooked` is rebuilt, and that tier is not among --tiers")
    if force and not {ROLLUPS_TIER, Tier.MATERIALIZED.value, Tier.RECORDED.value} & set(request.tiers):
        raise CommandError(
            "--force says how `rollups` are rebuilt, `materialized` and `recorded`; none is chosen"
        )
    return request


def parse_hour(text: str) -> int:
    """Parse an hour in UTC; return its start.

    >>> parse_hour("2026-01-02T05") - parse_hour("2026-01-02") == 5 * HOUR_NS
    True
    """
    for form in FORMATS:
        try:
            return from_datetime(dt.datetime.strptime(text, form).replace(tzinfo=dt.UTC))
        except ValueError:
            continue
    raise CommandError(f"{text!r} is no hour: expected 2026-01-02T05 or 2026-01-02, in UTC")


def format_hour(hour_ns: int) -> str:
    """Write an hour as a person types it.

    >>> format_hour(parse_hour("2026-01-02"))
    '2026-01-02T00'
    """
    return to_datetime(hour_ns).strftime(FORMATS[0])


def parse_tiers(text: str, signal: Signal) -> tuple[str, ...]:
    """Parse names of tiers; return them in the order of their builds. Empty means all."""
    has = {ROLLUPS_TIER: bool(FACTS[signal].rollups), Tier.RECORDED.value: FACTS[signal].has_samples}
    available = tuple(tier for tier in TIERS if has.get(tier, True))
    given = {name.strip() for name in text.split(",") if name.strip()} or set(available)
    unknown = sorted(given - set(available))
    if unknown:
        raise CommandError(
            f"{signal.value} have no tier {', '.join(unknown)}: expected some of {','.join(available)}"
        )
    return tuple(tier for tier in available if tier in given)


def plan_launches(request: BackfillRequest, known: Partitions) -> tuple[Launch, ...]:
    """Return one back-fill, or two when the range reaches from past days into the current one."""
    orgs = _orgs(request, known)
    _check_range(request, known)
    assets = assets_of(request.signal, request.tiers)
    hourly = tuple(path for path in assets if path != DAY_ROLLUP)
    over_ns = (known.last_ns + HOUR_NS) // DAY_NS * DAY_NS if hourly != assets else request.end_ns
    middle = min(max(over_ns, request.start_ns), request.end_ns)
    parts = ((assets, request.start_ns, middle), (hourly, middle, request.end_ns))
    return tuple(_launch(request, orgs, *part) for part in parts if part[1] < part[2])


def _launch(
    request: BackfillRequest, orgs: Sequence[str], assets: tuple[AssetPath, ...], start_ns: int, end_ns: int
) -> Launch:
    hours = range(start_ns, end_ns, HOUR_NS)
    whose = orgs[0] if len(orgs) == 1 else f"{len(orgs)} organisations"
    tags = {ALLOW_LOSS_TAG: request.allow_loss, FORCE_TAG: request.force}
    return Launch(
        assets,
        tuple(str(partition_key(org, hour)) for org in orgs for hour in hours),
        {name: "true" for name, chosen in tags.items() if chosen},
        f"{request.signal.value} of {whose}, {format_hour(start_ns)} to {format_hour(end_ns)}"[:100],
    )


def assets_of(signal: Signal, tiers: Sequence[str]) -> tuple[AssetPath, ...]:
    found = [asset_key(Tier(tier), signal) for tier in tiers if tier != ROLLUPS_TIER]
    if ROLLUPS_TIER in tiers:
        found += [rollup_key(rollup) for rollup in ROLLUPS]
    return tuple(tuple(key.path) for key in found)


def _orgs(request: BackfillRequest, known: Partitions) -> tuple[str, ...]:
    if request.orgs == (EVERYONE,):
        if not known.orgs:
            raise CommandError("there is nothing to rebuild: no organisation has sent anything yet")
        return known.orgs
    unknown = [org for org in request.orgs if org not in known.orgs]
    if unknown:
        raise CommandError(
            f"no partitions of {', '.join(unknown)}; there are some of: {', '.join(known.orgs) or 'nobody'} "
            "(an organisation has partitions from its first object on)"
        )
    return request.orgs


def _check_range(request: BackfillRequest, known: Partitions) -> None:
    end_ns = known.last_ns + HOUR_NS
    if request.start_ns < known.first_ns:
        raise CommandError(
            f"{format_hour(request.start_ns)} is before the horizon: "
            f"partitions begin at {format_hour(known.first_ns)} (setting `horizon`)"
        )
    if request.end_ns > end_ns:
        raise CommandError(
            f"TO ({format_hour(request.end_ns)}) is past the newest partition: "
            f"TO may be {format_hour(end_ns)} at most"
        )
