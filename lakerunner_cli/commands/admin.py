"""`lakerunner admin …`: organisations, keys, buckets, prefixes and parked objects.

Each noun and verb is a row of `ACTIONS`; the functions print a result and return an exit code. Heavy
imports stay inside `run`, because building the help text loads every command.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace, _SubParsersAction
from pathlib import Path
from typing import Any

from resources.settings import Settings

NAME = "admin"
HELP = "Set up organisations, API keys, buckets and prefixes; look at parked objects."
NOUNS = {
    "org": "organisations",
    "key": "API keys",
    "bucket": "where raw objects lie",
    "prefix": "whose objects lie under a key prefix",
    "parked": "objects given up on",
    "rejected": "records that could not be read, of objects whose other records could",
    "setting": "what an organisation chose about its telemetry",
    "retention": "how long telemetry is kept",
}


def configure(parser: ArgumentParser) -> None:
    nouns = parser.add_subparsers(metavar="NOUN", required=True)
    verbs = {noun: _verbs(nouns, noun, text) for noun, text in NOUNS.items()}
    _configure_org(verbs["org"])
    _configure_key(verbs["key"])
    _configure_bucket(verbs["bucket"], verbs["prefix"])
    _configure_parked(verbs["parked"])
    _verb(verbs["rejected"], "rejected list", "objects with such records").add_argument("--org", default="")
    _configure_setting(verbs["setting"])
    _configure_retention(verbs["retention"])


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.accounts import open_index
    from lakerunner_cli.admin_actions import ACTIONS

    with open_index(settings) as index:
        return ACTIONS[args.action](index, args)


Verbs = Any  # argparse's own type is private and generic


def _verbs(nouns: _SubParsersAction[ArgumentParser], noun: str, text: str) -> Verbs:
    return nouns.add_parser(noun, help=text).add_subparsers(metavar="VERB", required=True)


def _verb(verbs: Verbs, action: str, text: str) -> ArgumentParser:
    parser: ArgumentParser = verbs.add_parser(action.split()[1], help=text, description=text)
    parser.set_defaults(action=action)
    # the command has this option already; people type it last, where only the verb's parser sees it
    parser.add_argument("--data-dir", type=Path, default=SUPPRESS, help=SUPPRESS)
    return parser


def _configure_org(verbs: Verbs) -> None:
    _verb(verbs, "org create", "create it, or enable it again").add_argument("org", metavar="NAME")
    _verb(verbs, "org list", "names of enabled organisations")


def _configure_key(verbs: Verbs) -> None:
    create = _verb(verbs, "key create", "print a new key, once")
    create.add_argument("--org", required=True)
    create.add_argument("--role", choices=("read", "write", "admin"), default="read")
    create.add_argument("--name", required=True, help="unique among the organisation's live keys")
    create.add_argument("--expires", default="", metavar="30d", help="number and m, h, d or w; default never")
    revoke = _verb(verbs, "key revoke", "make a key stop working now")
    revoke.add_argument("--org", required=True)
    revoke.add_argument("--name", required=True)


def _configure_bucket(bucket: Verbs, prefix: Verbs) -> None:
    add = _verb(bucket, "bucket add", "register or change a bucket")
    add.add_argument("bucket", metavar="NAME", help="as notifications name it")
    add.add_argument(
        "url", metavar="URL", help="file:///dir, s3://bucket/prefix, gs://…, az://container/prefix"
    )
    add.add_argument(
        "--credentials", default="", metavar="REF", help="LAKERUNNER_CREDENTIALS_<REF>_* hold them"
    )
    _verb(bucket, "bucket list", "registered buckets")
    mapped = _verb(prefix, "prefix add", "objects under a prefix belong to an organisation")
    mapped.add_argument("bucket", metavar="BUCKET")
    mapped.add_argument("prefix", metavar="PREFIX")
    mapped.add_argument("--org", required=True)
    mapped.add_argument("--collector", default="default")
    mapped.add_argument("--signal", choices=("logs", "metrics", "traces"), help="default: by file name")
    _verb(prefix, "prefix list", "registered prefixes")


def _configure_parked(verbs: Verbs) -> None:
    listed = _verb(verbs, "parked list", "parked objects with their errors")
    listed.add_argument("--org", default="")
    retry = _verb(verbs, "parked retry", "try parked objects again")
    retry.add_argument("--org", required=True)
    retry.add_argument("ids", nargs="*", type=int, metavar="ID", help="default: all of the organisation")


def _configure_setting(verbs: Verbs) -> None:
    names = "index_attributes, metric_naming, type_and_unit_labels, fields, "
    names += "push_bytes_per_second, ingest_bytes_per_minute, span_metrics, derived_max_series"
    change = _verb(verbs, "setting set", "choose; objects cooked from now on obey")
    change.add_argument("org", metavar="ORG")
    change.add_argument("name", metavar="NAME", help=names)
    change.add_argument("value", metavar="VALUE", help="JSON; bare words are text")
    remove = _verb(verbs, "setting remove", "back to the default")
    remove.add_argument("org", metavar="ORG")
    remove.add_argument("name", metavar="NAME", help=names)
    _verb(verbs, "setting list", "what was chosen").add_argument("org", metavar="ORG")


def _configure_retention(verbs: Verbs) -> None:
    tiers = "raw, segments (as sent), and of metrics 10s, 1m, 5m, 1h, 1d"
    change = _verb(verbs, "retention set", "keep a tier for so many days; deletes from two hours later on")
    remove = _verb(verbs, "retention remove", "keep it for ever again")
    for parser in (change, remove):
        parser.add_argument("org", metavar="ORG")
        parser.add_argument("signal", metavar="SIGNAL", choices=("logs", "metrics", "traces"))
        parser.add_argument("tier", metavar="TIER", help=tiers)
    change.add_argument("days", metavar="DAYS", type=int)
    listed = _verb(verbs, "retention list", "what is kept for how long; all else is kept for ever")
    listed.add_argument("--org", default="")
