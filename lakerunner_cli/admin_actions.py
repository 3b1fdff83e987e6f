"""The verbs of `lakerunner admin`; each takes the index and the parsed arguments."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable

import psycopg

from lakerunner_cli.accounts import CommandIndex, create_key, create_org
from lakerunner_cli.command import CommandError
from resources.index.account_types import StorageProfile
from resources.lake.layout import NAME, PrefixMapping, Signal, valid_name
from resources.lake.options import OptionError
from resources.lake.retention import NOTICE_S
from resources.lake.signals import FACTS
from resources.objects.backend import scheme_of

MAX_DAYS = 36_500


def retention_set(index: CommandIndex, args: Namespace) -> int:
    _require(index, args.org)
    signal, tier = Signal(args.signal), _tier(args)
    if not 1 <= args.days <= MAX_DAYS:
        raise CommandError(f"{args.days} days: expected 1 to {MAX_DAYS}")
    index.put_retention(args.org, signal, tier, args.days)
    hours = NOTICE_S / 3600
    print(f"{args.org}: {signal.value} {tier} are kept for {args.days} days; deletes from {hours:g} h after")
    print("the last change on. See what would go: lakerunner sweep --dry-run")
    return 0


def retention_remove(index: CommandIndex, args: Namespace) -> int:
    _require(index, args.org)
    signal, tier = Signal(args.signal), _tier(args)
    if not index.remove_retention(args.org, signal, tier):
        raise CommandError(f"{args.org} has no retention of {signal.value} {tier}")
    print(f"{args.org}: {signal.value} {tier} are kept for ever")
    return 0


def retention_list(index: CommandIndex, args: Namespace) -> int:
    if args.org:
        _require(index, args.org)
    for found in index.retentions():
        if args.org in {"", found.org}:
            young = "" if found.stood_s >= NOTICE_S else "  (deletes nothing yet)"
            print(f"{found.org}  {found.signal.value}  {found.tier}  {found.keep_days} days{young}")
    return 0


def _tier(args: Namespace) -> str:
    allowed = FACTS[Signal(args.signal)].tiers
    if args.tier not in allowed:
        raise CommandError(f"tier {args.tier!r} of {args.signal}: expected one of {', '.join(allowed)}")
    return str(args.tier)


def _require(index: CommandIndex, org: str) -> None:
    """Require an organisation, also a disabled one: its data still ages."""
    if org not in index.all_organisations():
        raise CommandError(f"no organisation {org!r}; `lakerunner admin org create {org}`")


RETENTION_ACTIONS: dict[str, Callable[[CommandIndex, Namespace], int]] = {
    "retention set": retention_set,
    "retention remove": retention_remove,
    "retention list": retention_list,
}


def org_create(index: CommandIndex, args: Namespace) -> int:
    print(
        f"organisation {args.org} {'created' if create_org(index, args.org) else 'was there and is enabled'}"
    )
    return 0


def org_list(index: CommandIndex, args: Namespace) -> int:  # noqa: ARG001 - one signature for all
    for org in index.organisations():
        print(org)
    return 0


def key_create(index: CommandIndex, args: Namespace) -> int:
    """Create a key and print it alone on stdout, so that a script can capture it."""
    _require_org(index, args.org)
    try:
        print(create_key(index, args.org, args.role, args.name, args.expires))
    except psycopg.errors.UniqueViolation as error:
        raise CommandError(f"{args.org} has a live key named {args.name!r}; revoke it first") from error
    return 0


def key_revoke(index: CommandIndex, args: Namespace) -> int:
    revoked = index.revoke_api_key(args.org, args.name)
    print(f"revoked {revoked} key(s) named {args.name!r} of {args.org}")
    return 0 if revoked else 1


def bucket_add(index: CommandIndex, args: Namespace) -> int:
    scheme_of(args.url)
    index.put_storage_profile(StorageProfile(args.bucket, args.url, args.credentials))
    print(f"bucket {args.bucket} is at {args.url}")
    return 0


def bucket_list(index: CommandIndex, args: Namespace) -> int:  # noqa: ARG001 - one signature for all
    for profile in index.storage_profiles().values():
        print(f"{profile.bucket}  {profile.url}  {profile.credentials_ref}".rstrip())
    return 0


def prefix_add(index: CommandIndex, args: Namespace) -> int:
    _require_org(index, args.org)
    if args.bucket not in index.storage_profiles():
        raise CommandError(f"bucket {args.bucket!r} is not registered; `lakerunner admin bucket add` first")
    if not valid_name(args.collector) or not args.prefix:
        raise CommandError(f"expected a prefix, and a collector that matches {NAME.pattern}")
    signal = Signal(args.signal) if args.signal else None
    index.put_prefix_mapping(PrefixMapping(args.bucket, args.prefix, args.org, args.collector, signal))
    print(f"{args.bucket}/{args.prefix} belongs to {args.org}")
    return 0


def prefix_list(index: CommandIndex, args: Namespace) -> int:  # noqa: ARG001 - one signature for all
    for m in index.prefix_mappings():
        print(
            f"{m.bucket}/{m.prefix}  {m.org}  {m.collector}  {m.signal.value if m.signal else 'by file name'}"
        )
    return 0


def parked_list(index: CommandIndex, args: Namespace) -> int:
    parked = index.parked_objects(args.org)
    for each in parked:
        place = f"{each.bucket}/{each.key}"
        print(f"{each.object_id}  {each.org}  {each.signal}  {each.tries} tries  {place}\n    {each.error}")
    print(f"{len(parked)} parked")
    return 0


def parked_retry(index: CommandIndex, args: Namespace) -> int:
    retried = index.retry_parked(args.org, args.ids or None)
    print(f"{retried} object(s) of {args.org} will be tried again")
    return 0 if retried or not args.ids else 1


def rejected_list(index: CommandIndex, args: Namespace) -> int:
    found = index.objects_with_rejects(args.org)
    for each in found:
        counts = f"{each.rejected} rejected, {each.rows} queryable"
        print(f"{each.object_id}  {each.org}  {each.signal}  {counts}  {each.bucket}/{each.key}")
        print(f"    {each.first_error}")
    print(f"{len(found)} object(s), {sum(each.rejected for each in found)} record(s)")
    return 0


def setting_set(index: CommandIndex, args: Namespace) -> int:
    _require_org(index, args.org)
    try:
        value = json.loads(args.value)
    except ValueError:
        value = args.value
    try:
        index.put_org_setting(args.org, args.name, value)
    except OptionError as error:
        raise CommandError(str(error)) from error
    print(f"{args.org}: {args.name} = {json.dumps(value)}")
    return 0


def setting_remove(index: CommandIndex, args: Namespace) -> int:
    _require_org(index, args.org)
    if args.name not in index.org_settings(args.org):
        raise CommandError(f"{args.org} did not set {args.name!r}")
    index.put_org_setting(args.org, args.name, None)
    print(f"{args.org}: {args.name} is the default again")
    return 0


def setting_list(index: CommandIndex, args: Namespace) -> int:
    _require_org(index, args.org)
    for name, value in index.org_settings(args.org).items():
        print(f"{name} = {json.dumps(value)}")
    return 0


def _require_org(index: CommandIndex, org: str) -> None:
    if org not in index.organisations():
        raise CommandError(f"no enabled organisation {org!r}; `lakerunner admin org create {org}`")


ACTIONS: dict[str, Callable[[CommandIndex, Namespace], int]] = {
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
