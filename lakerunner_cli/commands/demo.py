"""`lakerunner demo`: a small shop's live telemetry, from raw objects to answers, unattended.

It starts the stack unless one runs, and leaves it running. Ctrl-C ends the generator and still prints the
next steps; the same seed gives the same lines for the same second.
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


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.demo.story import Plan, run_demo
    from lakerunner_cli.demo.watch import Screen

    plan = Plan(args.seconds, args.keep, args.seed)
    return run_demo(plan, settings, Screen(args.seconds))
