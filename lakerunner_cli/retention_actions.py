"""`lakerunner admin retention …`: how long an organisation's telemetry is kept, tier by tier."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from lakerunner_cli.accounts import Desk
from lakerunner_cli.command import CommandError
from resources.lake.layout import Signal
from resources.lake.retention import NOTICE_S, RAW, SEGMENTS, TIERS

MAX_DAYS = 36_500


def retention_set(desk: Desk, args: Namespace) -> int:
    _require(desk, args.org)
    signal, tier = Signal(args.signal), _tier(args)
    if not 1 <= args.days <= MAX_DAYS:
        raise CommandError(f"{args.days} days: expected 1 to {MAX_DAYS}")
    desk.put_retention(args.org, signal, tier, args.days)
    hours = NOTICE_S / 3600
    print(f"{args.org}: {signal.value} {tier} are kept for {args.days} days; deletes from {hours:g} h after")
    print("the last change on. See what would go: lakerunner sweep --dry-run")
    return 0


def retention_remove(desk: Desk, args: Namespace) -> int:
    _require(desk, args.org)
    signal, tier = Signal(args.signal), _tier(args)
    if not desk.remove_retention(args.org, signal, tier):
        raise CommandError(f"{args.org} has no retention of {signal.value} {tier}")
    print(f"{args.org}: {signal.value} {tier} are kept for ever")
    return 0


def retention_list(desk: Desk, args: Namespace) -> int:
    if args.org:
        _require(desk, args.org)
    for found in desk.retentions():
        if args.org in {"", found.org}:
            young = "" if found.stood_s >= NOTICE_S else "  (deletes nothing yet)"
            print(f"{found.org}  {found.signal.value}  {found.tier}  {found.keep_days} days{young}")
    return 0


def _tier(args: Namespace) -> str:
    allowed = TIERS if args.signal == Signal.METRICS.value else (RAW, SEGMENTS)
    if args.tier not in allowed:
        raise CommandError(f"tier {args.tier!r} of {args.signal}: expected one of {', '.join(allowed)}")
    return str(args.tier)


def _require(desk: Desk, org: str) -> None:
    """Also a disabled one: its data still ages."""
    if org not in desk.all_organisations():
        raise CommandError(f"no organisation {org!r}; `lakerunner admin org create {org}`")


RETENTION_ACTIONS: dict[str, Callable[[Desk, Namespace], int]] = {
    "retention set": retention_set,
    "retention remove": retention_remove,
    "retention list": retention_list,
}
