"""Two rulers share the groups; whoever is killed is replaced, and receivers miss nothing."""

from __future__ import annotations

import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import psycopg
import pytest
import zstandard

from lakerunner_query.ruler.samples import HEAD
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import AlertRule, RuleGroup
from resources.index.account_types import StorageProfile
from resources.index.postgres import PostgresIndex
from resources.index.ruling_types import AlertChange, AlertState, GroupRecord
from resources.proto.parsing import parse
from resources.proto.prometheus import WriteRequest
from resources.settings import Settings
from tests.support.patience import wait_for
from tests.support.query.lake import Lake, start_workers
from tests.support.query.ruler_process import ReceiverServer, RulerProcess, receiver_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]
GROUPS, INTERVAL_MS, LEASE_S = 12, 1_000, 3.0
KILLS = int(os.environ.get("RULER_KILLS", "8"))
TOGGLE = "vector(time()) % 8 < 4"
"""True for four seconds of eight."""


@dataclass
class Site:
    settings: Settings
    index: PostgresIndex
    alertmanager: ReceiverServer
    webhook: ReceiverServer
    bucket: Path

    def records(self) -> list[GroupRecord]:
        return self.index.group_records("acme")

    def owners(self) -> set[str]:
        return {one.owner for one in self.records()}

    def changes(self) -> list[AlertChange]:
        return self.index.alert_changes("acme", 0, 2**62, 1_000_000)[::-1]

    def wait_until_all_are_evaluated(self) -> None:
        """Wait until every group was evaluated after now."""
        now_ms = time.time() * 1000
        wait_for(
            lambda: (
                len(found := self.records()) == GROUPS and all(one.evaluated_ms > now_ms for one in found)
            ),
            "an evaluation of every group",
        )


@pytest.fixture
def site(index_dsn: str, postgres_index: PostgresIndex, tmp_path: Path) -> Iterator[Site]:
    lake = Lake(tmp_path / "lake", postgres_index)
    lake.folder.mkdir()
    lake.add_org("acme", "key-acme")
    groups = [
        RuleGroup(
            f"group-{n}", (AlertRule("Toggle", TOGGLE, labels={"group": str(n)}),), interval_ms=INTERVAL_MS
        )
        for n in range(GROUPS)
    ]
    postgres_index.change_rules("acme", [put_of(one, "test.yaml") for one in groups], None)
    bucket = tmp_path / "raw"
    bucket.mkdir()
    postgres_index.put_storage_profile(StorageProfile("raw", f"file://{bucket}"))
    with receiver_server(failing=7) as alertmanager, receiver_server(failing=5) as webhook:
        for stack in start_workers(tmp_path / "data", lake.folder, 1):
            settings = replace(
                stack.settings, index_dsn=index_dsn, ruler_lease_s=LEASE_S, ruler_delay_s=0.0,
                ruler_alertmanagers=alertmanager.url, ruler_webhooks=webhook.url + "/hook",
                query_timeout_s=30.0, log_level="WARNING",
                ruler_store_s=1.0,
            )  # fmt: skip
            yield Site(settings, postgres_index, alertmanager, webhook, bucket)


def test_killed_rulers_are_replaced_and_nothing_is_lost(site: Site) -> None:
    rng = random.Random(16)
    rulers = [RulerProcess(site.settings) for _ in range(2)]
    try:
        site.wait_until_all_are_evaluated()
        wait_for(lambda: len(site.owners()) == 2, "both processes own groups")
        for _ in range(KILLS):
            victim = rulers.pop(rng.randrange(2))
            victim.kill()
            site.wait_until_all_are_evaluated()
            rulers.append(RulerProcess(site.settings))
            wait_for(lambda: len(site.owners()) == 2, "the new process owns groups")
            seconds = rng.uniform(0, 2)
            resumed = time.monotonic() + seconds
            wait_for(lambda: time.monotonic() > resumed)  # noqa: B023 - called at once
        site.wait_until_all_are_evaluated()
    finally:
        for ruler in rulers:
            ruler.stop()
    assert {one.error for one in site.records()} == {""}
    check_history(site)
    deliver_the_rest(site)
    check_delivery(site)
    check_samples(site)
    assert sum(one.missed for one in site.records()) > 0, (
        "a kill costs some evaluations, and they are counted"
    )
    assert all(one.owner in {"", *site.owners()} for one in site.records())


def check_history(site: Site) -> None:
    """Alerts fire and end by turns, at the times of their condition."""
    known: dict[int, list[AlertChange]] = defaultdict(list)
    for change in site.changes():
        known[change.rule_id].append(change)
    assert len(known) == GROUPS
    for changes in known.values():
        states = [one.state for one in changes]
        expected = [AlertState.FIRING if n % 2 == 0 else AlertState.INACTIVE for n in range(len(states))]
        assert states == expected
        for one in changes:
            is_true = one.at_ms / 1000 % 8 < 4
            assert is_true == (one.state is AlertState.FIRING)


def check_samples(site: Site) -> None:
    """No sample of an evaluation that was stored is lost, none is there twice."""
    with psycopg.connect(site.settings.index_dsn) as connection:
        left = connection.execute("SELECT samples FROM lakerunner.alert_samples").fetchall()
        known = connection.execute("SELECT key FROM lakerunner.raw_object ORDER BY key").fetchall()
    assert len(known) > KILLS
    stored: Counter[tuple[str, int, bool]] = Counter()
    bodies = [zstandard.decompress((site.bucket / key).read_bytes()) for (key,) in known]
    for body in [*(one.removeprefix(HEAD) for one in bodies), *(bytes(row[0]) for row in left)]:
        for series in parse(WriteRequest, body).timeseries:
            labels = {one.name: one.value for one in series.labels}
            if labels["__name__"] == "ALERTS":
                (sample,) = series.samples
                stored[labels["group"], sample.timestamp, bool(np.isnan(sample.value))] += 1
    assert set(stored.values()) == {1}
    changed = {(one.labels["group"], one.at_ms, one.state is AlertState.INACTIVE) for one in site.changes()}
    assert changed <= stored.keys()
    for group, at_ms, is_end in stored:
        assert is_end == (at_ms / 1000 % 8 >= 4), (group, at_ms)


def deliver_the_rest(site: Site) -> None:
    """Let one more process send what those before left behind."""
    ruler = RulerProcess(site.settings)
    try:
        last_ms = max(change.at_ms for change in site.changes())
        wait_for(lambda: max(one.evaluated_ms for one in site.records()) > last_ms, "another evaluation")
        expected = expected_of(site, last_ms)
        wait_for(lambda: told_of(site.alertmanager) >= expected, "notifications to the Alertmanager")
        wait_for(lambda: told_of(site.webhook) >= expected, "notifications to the webhook")
    finally:
        ruler.stop()


def told_of(receiver: ReceiverServer) -> set[tuple[str, str, int]]:
    """Return group, state and time of all notifications."""
    found = set()
    for one in receiver.seen():
        starts, ends = milliseconds(one["startsAt"]), milliseconds(one["endsAt"])
        group = one["labels"]["group"]
        found.add((group, "firing", starts))
        if one.get("status", "resolved") == "resolved":
            found.add((group, "inactive", ends))
    return found


def expected_of(site: Site, until_ms: int) -> set[tuple[str, str, int]]:
    changes = [one for one in site.changes() if one.at_ms <= until_ms]
    return {(one.labels["group"], one.state.value, one.at_ms) for one in changes}


def milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def check_delivery(site: Site) -> None:
    """Both receivers heard of every beginning and every end, although each fails now and then."""
    with psycopg.connect(site.settings.index_dsn) as connection:
        tokens = connection.execute("SELECT max(token) FROM lakerunner.ruler_group").fetchone()
    assert tokens is not None
    assert tokens[0] > 1, "some group changed hands"
    assert site.alertmanager.requests > 0
    assert site.webhook.requests > 0
