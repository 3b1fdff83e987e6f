"""`lakerunner demo`: a small shop's live telemetry, from raw objects to answers, unattended.

It starts the stack unless one runs, and leaves it running, with the shop at a tenth of its rate. Ctrl-C ends
the generator and still prints the next steps; the same seed gives the same lines for the same second.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from resources.settings import Settings

NAME = "demo"
HELP = "Start everything, generate a small shop's logs, and show the first answers."
SEED = 7


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to generate (default 60)")
    parser.add_argument("--keep", action="store_true", help="go on until Ctrl-C")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--stop", action="store_true", help="end the shop that an earlier demo left; the stack goes on"
    )


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.demo.standing import close_shop
    from lakerunner_cli.demo.story import Plan, run_demo
    from lakerunner_cli.demo.watch import Screen

    if args.stop:
        print("the shop is closed" if close_shop(settings) else f"no demo runs on {settings.data_dir}")
        return 0
    plan = Plan(args.seconds, args.keep, args.seed)
    return run_demo(plan, settings, Screen(args.seconds))
