"""The demo's shop goes on at a low rate, as a component of the stack.

`lakerunner demo` leaves a plan in the data directory; the supervisor runs this module while there is one.
Without it every question about the last five minutes would be empty soon after the demo.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from lakerunner_cli.accounts import LOCAL_BUCKET, bucket_profile, open_index
from lakerunner_cli.demo.generator import Generator
from lakerunner_cli.stack.paths import PRIVATE_UMASK, StackPaths
from lakerunner_cli.upload import Destination
from resources.lake.layout import Signal
from resources.objects.store import open_store
from resources.settings import Settings

ORG, COLLECTOR = "demo", "shop"
EVERY_S = 10
"""One second of the shop's telemetry every ten seconds."""
LOOK_S = 1.0


def leave_shop(settings: Settings, seed: int) -> None:
    """Let the shop go on; the supervisor sees the plan within a few seconds."""
    plan = StackPaths(settings.data_dir).shop_plan
    plan.parent.mkdir(mode=PRIVATE_UMASK ^ 0o777, exist_ok=True)
    aside = plan.with_suffix(".tmp")
    aside.write_text(json.dumps({"seed": seed}))
    aside.replace(plan)


def close_shop(settings: Settings) -> bool:
    """End the shop of an earlier demo; return False if there was none."""
    plan = StackPaths(settings.data_dir).shop_plan
    was_there = plan.is_file()
    plan.unlink(missing_ok=True)
    return was_there


def shop_destination(settings: Settings) -> Destination:
    with open_index(settings) as index:
        profile = bucket_profile(index, LOCAL_BUCKET, settings)
    store = open_store(profile.url, settings, profile.credentials_ref)
    return Destination(store, profile.bucket, ORG, COLLECTOR, Signal.LOGS)


def run_shop(settings: Settings, plan: Path) -> None:
    """Generate while the plan is there; what cannot be put now is announced with what comes next."""
    seed = int(json.loads(plan.read_text())["seed"])
    generator = Generator(shop_destination(settings), settings, seed, EVERY_S)
    generator.start()
    problem = ""
    while plan.is_file() and generator.is_alive():
        StackPaths(settings.data_dir).shop_beat.touch()
        if generator.output.problem != problem:
            problem = generator.output.problem
            print(problem or "the shop's telemetry arrives again", flush=True)
        time.sleep(LOOK_S)
    generator.stop()


if __name__ == "__main__":
    _settings = Settings.load()
    run_shop(_settings, StackPaths(_settings.data_dir).shop_plan)
