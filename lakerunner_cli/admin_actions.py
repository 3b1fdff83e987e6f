"""What each `lakerunner admin` verb does, given the index and the parsed arguments."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable

import psycopg

from lakerunner_cli.accounts import Desk, create_key, create_org
from lakerunner_cli.command import CommandError
from resources.index.types import StorageProfile
from resources.lake.layout import NAME, PrefixMapping, Signal, valid_name
from resources.lake.options import OptionError
from resources.lake.retention import NOTICE_S
from resources.lake.signals import FACTS
from resources.objects.backend import scheme_of

# << `lakerunner admin retention …`: how long an organisation's telemetry is kept, tier by tier.

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
    allowed = FACTS[Signal(args.signal)].tiers
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


def org_create(desk: Desk, args: Namespace) -> int:
    print(
        f"organisation {args.org} {'created' if create_org(desk, args.org) else 'was there and is enabled'}"
    )
    return 0


def org_list(desk: Desk, args: Namespace) -> int:  # noqa: ARG001 - one signature for all
    for org in desk.organisations():
        print(org)
    return 0


def key_create(desk: Desk, args: Namespace) -> int:
    """The key alone on stdout, so that a script can capture it."""
    _require_org(desk, args.org)
    try:
        print(create_key(desk, args.org, args.role, args.name, args.expires))
    except psycopg.errors.UniqueViolation as error:
        raise CommandError(f"{args.org} has a live key named {args.name!r}; revoke it first") from error
    return 0


def key_revoke(desk: Desk, args: Namespace) -> int:
    revoked = desk.revoke_api_key(args.org, args.name)
    print(f"revoked {revoked} key(s) named {args.name!r} of {args.org}")
    return 0 if revoked else 1


def bucket_add(desk: Desk, args: Namespace) -> int:
    scheme_of(args.url)
    desk.put_storage_profile(StorageProfile(args.bucket, args.url, args.credentials))
    print(f"bucket {args.bucket} is at {args.url}")
    return 0


def bucket_list(desk: Desk, args: Namespace) -> int:  # noqa: ARG001 - one signature for all
    for profile in desk.storage_profiles().values():
        print(f"{profile.bucket}  {profile.url}  {profile.credentials_ref}".rstrip())
    return 0


def prefix_add(desk: Desk, args: Namespace) -> int:
    _require_org(desk, args.org)
    if args.bucket not in desk.storage_profiles():
        raise CommandError(f"bucket {args.bucket!r} is not registered; `lakerunner admin bucket add` first")
    if not valid_name(args.collector) or not args.prefix:
        raise CommandError(f"expected a prefix, and a collector that matches {NAME.pattern}")
    signal = Signal(args.signal) if args.signal else None
    desk.put_prefix_mapping(PrefixMapping(args.bucket, args.prefix, args.org, args.collector, signal))
    print(f"{args.bucket}/{args.prefix} belongs to {args.org}")
    return 0


def prefix_list(desk: Desk, args: Namespace) -> int:  # noqa: ARG001 - one signature for all
    for m in desk.prefix_mappings():
        print(
            f"{m.bucket}/{m.prefix}  {m.org}  {m.collector}  {m.signal.value if m.signal else 'by file name'}"
        )
    return 0


def parked_list(desk: Desk, args: Namespace) -> int:
    parked = desk.parked_objects(args.org)
    for each in parked:
        place = f"{each.bucket}/{each.key}"
        print(f"{each.object_id}  {each.org}  {each.signal}  {each.tries} tries  {place}\n    {each.error}")
    print(f"{len(parked)} parked")
    return 0


def parked_retry(desk: Desk, args: Namespace) -> int:
    retried = desk.retry_parked(args.org, args.ids or None)
    print(f"{retried} object(s) of {args.org} will be tried again")
    return 0 if retried or not args.ids else 1


def rejected_list(desk: Desk, args: Namespace) -> int:
    found = desk.objects_with_rejects(args.org)
    for each in found:
        counts = f"{each.rejected} rejected, {each.rows} queryable"
        print(f"{each.object_id}  {each.org}  {each.signal}  {counts}  {each.bucket}/{each.key}")
        print(f"    {each.first_error}")
    print(f"{len(found)} object(s), {sum(each.rejected for each in found)} record(s)")
    return 0


def setting_set(desk: Desk, args: Namespace) -> int:
    _require_org(desk, args.org)
    try:
        value = json.loads(args.value)
    except ValueError:
        value = args.value
    try:
        desk.put_org_setting(args.org, args.name, value)
    except OptionError as error:
        raise CommandError(str(error)) from error
    print(f"{args.org}: {args.name} = {json.dumps(value)}")
    return 0


def setting_remove(desk: Desk, args: Namespace) -> int:
    _require_org(desk, args.org)
    if args.name not in desk.org_settings(args.org):
        raise CommandError(f"{args.org} did not set {args.name!r}")
    desk.put_org_setting(args.org, args.name, None)
    print(f"{args.org}: {args.name} is the default again")
    return 0


def setting_list(desk: Desk, args: Namespace) -> int:
    _require_org(desk, args.org)
    for name, value in desk.org_settings(args.org).items():
        print(f"{name} = {json.dumps(value)}")
    return 0


def _require_org(desk: Desk, org: str) -> None:
    if org not in desk.organisations():
        raise CommandError(f"no enabled organisation {org!r}; `lakerunner admin org create {org}`")


ACTIONS: dict[str, Callable[[Desk, Namespace], int]] = {
    "org create": org_create,
    "org list": org_list,
    "key create": key_create,
    "key revoke": key_revoke,
    "bucket add": bucket_add,
    "bucket list": bucket_list,
    "prefix add": prefix_add,
    "prefix list": prefix_list,
    "parked list": parked_list,
    "parked retry": parked_retry,
    "rejected list": rejected_list,
    "setting set": setting_set,
    "setting remove": setting_remove,
    "setting list": setting_list,
    **RETENTION_ACTIONS,
}
