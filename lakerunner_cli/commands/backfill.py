"""`lakerunner backfill ORG SIGNAL FROM TO`: rebuild hours, tier by tier, as one back-fill of Dagster.

The command starts it and watches; ^C ends the watching only. Exit code 0: every partition was built; 1: some
were not; 130: the watching was interrupted.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from lakerunner_cli.command import CommandError
from resources.settings import Settings

if TYPE_CHECKING:
    from lakerunner_cli.backfill.dagster_api import Dagster
    from lakerunner_cli.backfill.request import Launch

NAME = "backfill"
HELP = "Rebuild hours of an organisation, tier by tier (exit code 1 if a partition was not built)."
POSITIONAL = ("org", "signal", "from", "to")
INTERRUPTED = 130
HOURS_TO_ASK = 24


def configure(parser: ArgumentParser) -> None:
    hour = "2026-01-02T05 or 2026-01-02 (UTC); the hour named 05 holds (05:00, 06:00]"
    parser.add_argument("org", nargs="?", metavar="ORG", help="a name, several with commas, or `all`")
    parser.add_argument("signal", nargs="?", metavar="SIGNAL", choices=("logs", "metrics", "traces"))
    parser.add_argument("from", nargs="?", metavar="FROM", help=f"first hour: {hour}")
    parser.add_argument("to", nargs="?", metavar="TO", help="the hour after the last one")
    parser.add_argument(
        "--tiers",
        default="",
        help="some of raw,cooked,compacted,materialized,recorded,rollups; default: all of the signal",
    )
    parser.add_argument(
        "--allow-loss", action="store_true", help="cook what is left where raw objects are gone"
    )
    parser.add_argument("--force", action="store_true", help="build rollups that are current, too")
    parser.add_argument("--yes", action="store_true", help="do not ask before 24 hours or more are rebuilt")
    parser.add_argument("--detach", action="store_true", help="start it and return")
    parser.add_argument(
        "--dagster-url", default="", metavar="URL", help="Dagster's webserver; default: the local stack's"
    )
    parser.add_argument("--follow", default="", metavar="IDS", help="watch what was started before")
    parser.add_argument("--cancel", default="", metavar="IDS", help="end back-fills and their runs")


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.backfill.dagster_api import Dagster

    if args.follow or args.cancel:
        if args.org or (args.follow and args.cancel):
            raise CommandError("--follow and --cancel take ids of back-fills and nothing else")
        dagster = Dagster(args.dagster_url or webserver_url(settings))
        ids = [each for each in (args.cancel or args.follow).split(",") if each]
        return (
            _cancel(dagster, ids) if args.cancel else _follow(dagster, ids, _where(args, settings, dagster))
        )
    missing = [name.upper() for name in POSITIONAL if not getattr(args, name)]
    if missing:
        raise CommandError(
            f"{' and '.join(missing)} missing; as in `lakerunner backfill acme logs 2026-01-02 2026-01-03`"
        )
    return _start(args, settings)


def webserver_url(settings: Settings) -> str:
    """Return the webserver of the stack that runs on the data directory, with its key as the password."""
    from lakerunner_cli.stack.paths import StackPaths
    from lakerunner_cli.stack.state import Phase, is_running, read_state

    paths = StackPaths(settings.data_dir)
    state = read_state(paths.state)
    if state is None or not is_running(paths):
        raise CommandError(
            f"no stack is running on {paths.root}; start one with `lakerunner up`, "
            "or name Dagster's webserver with --dagster-url"
        )
    webserver = state.components.get("webserver")
    if webserver is None:
        raise CommandError("this stack runs without Dagster's webserver; `lakerunner up` starts everything")
    if webserver.phase is not Phase.READY:
        raise CommandError(f"Dagster's webserver is {webserver.phase.value}; `lakerunner status` says more")
    scheme, _, place = webserver.address.partition("://")
    return f"{scheme}://lakerunner:{quote(settings.require('webserver_token'), safe='')}@{place}"


def _start(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.backfill.dagster_api import Dagster
    from lakerunner_cli.backfill.request import assets_of, parse_request, plan_launches

    request = parse_request(
        args.org,
        args.signal,
        getattr(args, "from"),
        args.to,
        args.tiers,
        allow_loss=args.allow_loss,
        force=args.force,
    )
    dagster = Dagster(args.dagster_url or webserver_url(settings))
    ids, where = [], _where(args, settings, dagster)
    launches = plan_launches(request, dagster.partitions_of(assets_of(request.signal, request.tiers)[0]))
    if not args.yes and not _agreed(launches):
        print("nothing was started")
        return 1
    for launch in launches:
        ids.append(dagster.launch(launch))
        print(f"back-fill {ids[-1]}: {launch.title}; {len(launch.partitions):,} hours of each asset")
        print(dagster.backfill_url(ids[-1]))
    if args.detach:
        print(_how_to(ids, where))
        return 0
    return _follow(dagster, ids, where)


def _agreed(launches: Sequence[Launch]) -> bool:
    """Ask a person before a day or more is rebuilt; a script has to say so in advance."""
    hours = max((len(launch.partitions) for launch in launches), default=0)
    if hours < HOURS_TO_ASK:
        return True
    titles = "; ".join(
        f"{launch.title}, {len(launch.partitions):,} hours of each asset" for launch in launches
    )
    if not sys.stdin.isatty():
        raise CommandError(f"this rebuilds {titles}. Nobody is there to ask: add --yes")
    return input(f"This rebuilds {titles}. Go on? [y/N] ").strip().lower() in {"y", "yes"}


def _follow(dagster: Dagster, ids: Sequence[str], where: str) -> int:
    """Watch one after the other; they run side by side."""
    from lakerunner_cli.backfill.follow import Bars, follow, summary

    succeeded = True
    try:
        for backfill_id in ids:
            state = follow(dagster, backfill_id, Bars())
            print("\n".join(summary(dagster, backfill_id, state)))
            succeeded = succeeded and state.has_succeeded
    except KeyboardInterrupt:
        print("\nit goes on: " + " ".join(dagster.backfill_url(each) for each in ids))
        print(_how_to(ids, where))
        return INTERRUPTED
    return 0 if succeeded else 1


def _cancel(dagster: Dagster, ids: Sequence[str]) -> int:
    for backfill_id in ids:
        dagster.cancel(backfill_id)
        print(f"back-fill {backfill_id} ends, with its runs: {dagster.backfill_url(backfill_id)}")
    return 0


def _where(args: Namespace, settings: Settings, dagster: Dagster) -> str:
    """Return the option with which another shell finds the same webserver; it never shows a key."""
    return f"--dagster-url {dagster.url}" if args.dagster_url else f"--data-dir {settings.data_dir}"


def _how_to(ids: Sequence[str], where: str) -> str:
    which = f"{','.join(ids)} {where}"
    return f"watch it:  lakerunner backfill --follow {which}\ncancel it: lakerunner backfill --cancel {which}"
