"""`lakerunner sweep`: delete expired and unneeded data now, or show it.

The pipeline's sweeper does the same every ten minutes. Exit code 0: done; 1: something was in the way (the
lines with `!`); 3: another sweep is running, nothing was done.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from resources.settings import Settings

if TYPE_CHECKING:
    from lakerunner_cli.progress import Progress

NAME = "sweep"
HELP = (
    "Delete what is past its retention and files that nothing needs "
    "(exit code 1 if something was in the way, 3 if another sweep is running)."
)
BUSY = 3


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="print what would go, change nothing")
    parser.add_argument("--org", default="", help="of this organisation only")
    parser.add_argument(
        "--all-orphans",
        action="store_true",
        help="delete old unknown files even where there are more of them than segments",
    )


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_assets.sweep.act import sweep
    from lakerunner_assets.sweep.plan import Policy
    from lakerunner_cli.accounts import open_index
    from lakerunner_cli.command import CommandError

    policy = Policy.of(settings, all_orphans=args.all_orphans)
    bars = Bars()
    with open_index(settings) as index:
        if args.org and args.org not in index.all_organisations():
            raise CommandError(f"no organisation {args.org!r}")
        report = sweep(index, settings, policy, org=args.org, dry_run=args.dry_run, tell=bars.tell)
    bars.close()
    print("\n".join(report.lines()))
    if report.busy:
        return BUSY
    return 1 if report.problems else 0


class Bars:
    """One progress bar per step."""

    def __init__(self) -> None:
        self._what = ""
        self._bar: Progress | None = None

    def tell(self, what: str, done: int, total: int) -> None:
        from lakerunner_cli.progress import Progress

        if self._bar is None or what != self._what:
            self.close()
            self._what, self._bar = what, Progress(what, total)
        self._bar.at(done)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
