"""Runs the demo: download, start, set up, generate and watch, print the next steps."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files

from lakerunner_cli.accounts import (
    LOCAL_BUCKET,
    CommandIndex,
    bucket_profile,
    create_key,
    create_org,
    open_index,
)
from lakerunner_cli.command import StackError
from lakerunner_cli.demo.answers import SLOW, SLOWEST, show_answers
from lakerunner_cli.demo.generator import Generator
from lakerunner_cli.demo.standing import ORG, close_shop, leave_shop, shop_destination
from lakerunner_cli.demo.tables import open_org_tables, show_tables
from lakerunner_cli.demo.watch import ORDERS, TIMEOUTS, Screen, Watcher
from lakerunner_cli.query_client import QueryClient
from lakerunner_cli.stack import jars
from lakerunner_cli.stack.lifecycle import detach
from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.stack.site import download_dir
from lakerunner_cli.stack.state import is_running
from lakerunner_cli.webhook import base_url
from resources.settings import Settings, process_environment

Announce = Callable[[str], None]


def fetch_parts(settings: Settings, announce: Announce) -> None:
    """Download Kafka's jars before the start, to time the two apart; the stack handles a failure."""
    cache = download_dir(settings)
    missing = jars.find_absent(jars.kafka_jars(), cache)
    if not missing:
        return
    try:
        jars.fetch(missing, cache, settings.maven_url, announce)
    except (OSError, StackError) as error:
        announce(f"download failed, the stack will try without: {error}")


def start_stack(settings: Settings, announce: Announce) -> Settings:
    """Start a stack unless one runs on this data directory; return its settings."""
    if is_running(StackPaths(settings.data_dir)):
        announce(f"using the stack that runs on {settings.data_dir}")
    else:
        detach(settings, [], announce)
    return Settings.load(process_environment() | {"LAKERUNNER_DATA_DIR": str(settings.data_dir)})


REQUESTS = "sum by (job, level) (rate(shop_requests_total[1m]))"


@dataclass(frozen=True, slots=True)
class Times:
    """Durations in seconds; `first_answer` counts from the moment the stack was ready."""

    download: float
    start: float
    first_answer: float | None

    def __str__(self) -> str:
        first = "none" if self.first_answer is None else f"{self.first_answer:.1f} s"
        return f"download {self.download:.1f} s, start {self.start:.1f} s, first answer {first}"


def closing_lines(settings: Settings, org: str, read_key: str, times: Times) -> list[str]:
    """Return the next steps: addresses, keys, and commands that work when pasted."""
    query_api = base_url(settings.query_host, settings.query_port)
    key = f"-H {shlex.quote(f'x-cardinalhq-api-key: {read_key}')}"
    loki = f"curl -sG {key} {query_api}/loki/api/v1/query_range --data-urlencode limit=5 --data-urlencode"
    prometheus = f"curl -sG {key} {query_api}/prometheus/api/v1/query --data-urlencode"
    sql = json.dumps({"q": SLOWEST})
    stream = f"""curl -sN {key} -H 'content-type: application/json' {query_api}/api/v1/logs/query -d"""
    return [
        "",
        f"time: {times}",
        f"Explore page   {query_api}/        (API key: {read_key})",
        f"Dagster        {base_url('127.0.0.1', settings.webserver_port)}/?key={settings.webserver_token}",
        f"query API      {query_api}   (organisation {org})",
        "",
        "Try it (the key is valid for 7 days):",
        f"  {loki} {shlex.quote(f'query={ORDERS}')}",
        f"  {loki} {shlex.quote(f'query={TIMEOUTS}')}",
        f"  {prometheus} {shlex.quote(f'query={REQUESTS}')}",
        f"""  {stream} '{{"q": "{{service_name=\\"frontend\\"}} |= \\" 502 \\"", "limit": 5}}'""",
        f"  curl -sN {key} -H 'content-type: application/json' -H 'accept: text/csv' "
        f"{query_api}/api/v1/query -d {shlex.quote(sql)}",
        f"  LAKERUNNER_QUERY_KEY={read_key} lakerunner query --traceql {shlex.quote(SLOW)}",
        f"  LAKERUNNER_QUERY_KEY={read_key} lakerunner sql",
        f"  LAKERUNNER_QUERY_KEY={read_key} lakerunner rules list",
        f"  lakerunner tables list --org {org}",
        f"  PGPASSWORD={read_key} psql -h {settings.query_host} -p {settings.query_postgres_port} lake",
        "",
        "The stack goes on running: `lakerunner status`, `lakerunner logs`, `lakerunner down`.",
        "So does the shop, at a tenth of its rate, until `lakerunner down` or `lakerunner demo --stop`.",
    ]


LOOK_EVERY_S = 1.0
PATIENCE_S = 180.0  # extra wait for the first answer


@dataclass(frozen=True, slots=True)
class Plan:
    """The arguments of the demo."""

    seconds: float
    keep: bool
    seed: int


def run_demo(plan: Plan, settings: Settings, screen: Screen) -> int:
    """Run the demo; return 0 if queries were answered, 1 if the time ran out before."""
    began = time.monotonic()
    fetch_parts(settings, screen.say)
    fetched = time.monotonic()
    settings = start_stack(settings, screen.say)
    ready = time.monotonic()
    screen.say(f"stack ready: download {fetched - began:.1f} s, start {ready - fetched:.1f} s")
    with open_index(settings) as index:
        read_key = set_up(index, settings)
        apply_rules(
            settings, create_key(index, ORG, "admin", f"demo-rules-{time.time_ns()}", "1h"), screen.say
        )
        open_org_tables(index, ORG)
        close_shop(settings)  # two of them would write the same series
        generator = Generator(shop_destination(settings), settings, plan.seed)
        viewing = Viewing(ready)
        _run(generator, Watcher(index, settings, ORG, read_key), plan, screen, viewing)
    leave_shop(settings, plan.seed)
    times = Times(fetched - began, ready - fetched, viewing.first_answer)
    show_answers(settings, read_key, screen)
    show_tables(settings, ORG, screen)
    for text in closing_lines(settings, ORG, read_key, times):
        screen.say(text)
    return 0 if viewing.first_answer is not None else 1


def set_up(index: CommandIndex, settings: Settings) -> str:
    """Create the organisation and the bucket; return a read key for this demo."""
    create_org(index, ORG)
    bucket_profile(index, LOCAL_BUCKET, settings)
    return create_key(index, ORG, "read", f"demo-{time.time_ns()}", "7d")


def apply_rules(settings: Settings, key: str, announce: Announce) -> None:
    """Make the shop's rules those of the organisation, as `lakerunner rules apply` does."""
    text = (files("lakerunner_cli.demo") / "rules.yaml").read_text()
    body = {"files": [{"name": "rules.yaml", "namespace": "demo", "text": text}], "language": "promql"}
    with closing(QueryClient(base_url(settings.query_host, settings.query_port), key)) as client:
        found = client.call("POST", "/api/v1/rules", body | {"prune": True, "dry_run": False})
    announce(f"rules: {', '.join(change['place'] for change in found['changes']) or 'as they were'}")


@dataclass(slots=True)
class Viewing:
    """The progress so far; survives a Ctrl-C at any moment."""

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
        screen.show(elapsed, generator.output, seen)
        time.sleep(LOOK_EVERY_S)


def _over(elapsed: float, first_answer: float | None, plan: Plan) -> bool:
    if plan.keep:
        return False
    return elapsed >= plan.seconds + (0 if first_answer is not None else PATIENCE_S)
