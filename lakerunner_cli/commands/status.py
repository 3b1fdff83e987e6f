"""`lakerunner status`: show the components, the pipeline and its tiers.

The first table comes from the supervisor's state file and is there even if everything else is broken; the
rows about the pipeline and its tiers come from the index, if it answers.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from resources.settings import Settings

NAME = "status"
HELP = "Show components, ports, uptime and restarts (exit code 1 if not everything is ready)."


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def run(args: Namespace, settings: Settings) -> int:
    return 0 if show(settings, as_json=args.json) else 1


def show(settings: Settings, as_json: bool) -> bool:
    """Print; return True if the stack runs and every component is ready."""
    from lakerunner_cli import pipeline_rows
    from lakerunner_cli.stack import view
    from lakerunner_cli.stack.orphans import find_orphans
    from lakerunner_cli.stack.paths import StackPaths
    from lakerunner_cli.stack.state import UNSEEN_S, is_running, read_state, seconds_unseen

    paths = StackPaths(settings.data_dir)
    running, state = is_running(paths), read_state(paths.state)
    unseen_s = seconds_unseen(paths) if running and state is not None else 0.0
    if as_json:
        shown: dict[str, object] = {"running": False, "ready": False}
        if state is not None:
            shown = view.as_json(state, running)
            shown["ready"] = shown["ready"] and unseen_s < UNSEEN_S
        if running:
            rows, tiers, problem = pipeline_rows.read_rows(settings)
            shown["pipeline"] = pipeline_rows.as_json(rows, problem)
            shown["tiers"] = pipeline_rows.tiers_as_json(tiers, problem)
        print(json.dumps(shown))
    elif state is None or not running:
        print(f"no stack is running on {paths.root}; start one with `lakerunner up`")
        if orphans := find_orphans(paths):
            names = ", ".join(orphans.values())
            print(f"! left behind by a killed supervisor: {names}; `lakerunner down` stops them")
    else:
        rows, tiers, problem = pipeline_rows.read_rows(settings)
        lines = [*view.table(state), *pipeline_rows.table(rows, problem), *pipeline_rows.tier_table(tiers)]
        if unseen_s >= UNSEEN_S:
            lines.append(
                f"! the supervisor has shown no sign of life for {unseen_s:.0f} s: the table is that old"
            )
        print("\n".join(lines))
    return running and state is not None and state.ready and unseen_s < UNSEEN_S
