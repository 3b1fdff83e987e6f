"""The demo from the first second to the last: download, start, set up, generate and watch, say goodbye."""

from __future__ import annotations

import time
from dataclasses import dataclass

from lakerunner_cli.accounts import LOCAL_BUCKET, Desk, bucket_profile, create_key, create_org, open_desk
from lakerunner_cli.demo.farewell import Times, farewell
from lakerunner_cli.demo.generator import Generator
from lakerunner_cli.demo.screen import Screen
from lakerunner_cli.demo.stack import fetch_parts, start_stack
from lakerunner_cli.demo.watch import Watcher
from lakerunner_cli.upload import Destination
from resources.lake.layout import Signal
from resources.objects.store import open_store
from resources.settings import Settings

ORG, COLLECTOR = "demo", "shop"
LOOK_EVERY_S = 1.0
PATIENCE_S = 180.0  # how much longer than asked we wait for the first answer


@dataclass(frozen=True, slots=True)
class Plan:
    seconds: float
    keep: bool
    seed: int


def tell(plan: Plan, settings: Settings, screen: Screen) -> int:
    """0 when queries were answered, 1 when the time ran out before."""
    began = time.monotonic()
    fetch_parts(settings, screen.say)
    fetched = time.monotonic()
    settings = start_stack(settings, screen.say)
    ready = time.monotonic()
    screen.say(f"stack ready: download {fetched - began:.1f} s, start {ready - fetched:.1f} s")
    with open_desk(settings) as desk:
        read_key = set_up(desk, settings)
        generator = Generator(_destination(desk, settings), settings, plan.seed)
        viewing = Viewing(ready)
        _run(generator, Watcher(desk, settings, ORG, read_key), plan, screen, viewing)
    times = Times(fetched - began, ready - fetched, viewing.first_answer)
    for text in farewell(settings, ORG, read_key, times):
        screen.say(text)
    return 0 if viewing.first_answer is not None else 1


def set_up(desk: Desk, settings: Settings) -> str:
    """The organisation, the bucket, and a read key that is this demo's own."""
    create_org(desk, ORG)
    bucket_profile(desk, LOCAL_BUCKET, settings)
    return create_key(desk, ORG, "read", f"demo-{time.time_ns()}", "7d")


def _destination(desk: Desk, settings: Settings) -> Destination:
    profile = bucket_profile(desk, LOCAL_BUCKET, settings)
    store = open_store(profile.url, settings, profile.credentials_ref)
    return Destination(store, profile.bucket, ORG, COLLECTOR, Signal.LOGS)


@dataclass(slots=True)
class Viewing:
    """What has been seen so far; survives a Ctrl-C at any moment."""

    ready: float
    first_answer: float | None = None


def _run(generator: Generator, watcher: Watcher, plan: Plan, screen: Screen, viewing: Viewing) -> None:
    generator.start()
    try:
        _watch(generator, watcher, plan, screen, viewing)
    except KeyboardInterrupt:
        screen.leave_block()
        screen.say("interrupted")
    finally:
        screen.leave_block()
        generator.stop()
        watcher.close()


def _watch(generator: Generator, watcher: Watcher, plan: Plan, screen: Screen, viewing: Viewing) -> None:
    while not _over(time.monotonic() - viewing.ready, viewing.first_answer, plan):
        seen = watcher.look()
        elapsed = time.monotonic() - viewing.ready
        if viewing.first_answer is None and seen.answer:
            viewing.first_answer = elapsed
            screen.say(f"first answer after {elapsed:.1f} s: {seen.answer[0]}")
        screen.show(elapsed, generator.made, seen)
        time.sleep(LOOK_EVERY_S)


def _over(elapsed: float, first_answer: float | None, plan: Plan) -> bool:
    if plan.keep:
        return False
    return elapsed >= plan.seconds + (0 if first_answer is not None else PATIENCE_S)
