"""The storm knows when a day is sealed: from then on late rows have an hour carved out of it."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from benchmarks import chaos_old_day, chaos_sender
from benchmarks.chaos_debt import is_sealed
from benchmarks.chaos_progress import EVERY_DECK, KINDS, PROOFS
from benchmarks.chaos_sender import OLD_DAY, OLD_HOURS, Sender
from benchmarks.traffic import Traffic
from lakerunner_assets.compacted.due import due_rollups
from lakerunner_assets.cooked.plan import plan_all_now
from resources.index.types import DuePartition, LiveSegment
from resources.lake.frequency import AS_SENT, DAY, ROLLUPS, TEN_SECONDS
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS, cut
from resources.settings import Settings
from tests.support.cooking_lake import Lake, lake_in
from tests.support.rolling_lake import arrive, gauge

TODAY = 20_000 * DAY_NS


def segment(frequency_ms: int, width_ns: int = DAY_NS, *, settled: bool = True) -> LiveSegment:
    dataset = f"metrics-{frequency_ms}"
    return LiveSegment(
        dataset, dataset, "north", "c", Signal.METRICS, dataset, frequency_ms, TODAY, width_ns, 1, 1, 1,
        settled, 0,
    )  # fmt: skip


SEALED = [segment(AS_SENT), *(segment(r.frequency_ms) for r in ROLLUPS if r.frequency_ms != DAY)]


def due(org: str, start_ns: int) -> DuePartition:
    return DuePartition(org, Signal.METRICS, TEN_SECONDS, start_ns, 0.0)


def test_a_day_is_sealed_while_its_month_goes_on() -> None:
    """A segment of day-wide buckets is as wide as the day, and is not settled before the month is over."""
    assert is_sealed([*SEALED, segment(DAY, settled=False)], [], "north", TODAY)


def test_a_day_is_open_while_it_has_hours_or_owes_a_rollup() -> None:
    hours = [segment(each.frequency_ms, HOUR_NS) for each in SEALED]
    assert not is_sealed(hours, [], "north", TODAY)
    assert not is_sealed([*SEALED, segment(AS_SENT, HOUR_NS, settled=False)], [], "north", TODAY)
    assert not is_sealed([replace(SEALED[1], settled=False), *SEALED[2:]], [], "north", TODAY)
    assert not is_sealed(SEALED, [due("north", TODAY + 5 * HOUR_NS)], "north", TODAY)


def test_what_others_and_other_days_owe_keeps_no_day_open() -> None:
    others = [due("south", TODAY), due("north", TODAY - HOUR_NS), due("north", TODAY + DAY_NS)]
    assert is_sealed(SEALED, others, "north", TODAY)


class FakeTraffic:
    """Notes what is sent when."""

    orgs = ("north", "south")

    def __init__(self) -> None:
        self.moments: dict[str, list[int]] = {org: [] for org in self.orgs}

    def send(self, number: int, at_ns: int | None = None) -> None:
        if at_ns is not None:
            self.moments[self.orgs[number % 2]].append(at_ns)

    def send_samples(self, number: int, _at_ns: int | None = None) -> str:
        return f"{number}"


def test_rows_come_for_the_old_day_whenever_an_organisation_has_sealed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    traffic = FakeTraffic()
    sender = Sender(cast("Traffic", traffic), lambda: Settings(data_dir=Path("/nowhere")), random.Random(1))
    monkeypatch.setattr(chaos_sender, "hurry", lambda _: None)
    monkeypatch.setattr(chaos_sender, "LATE", 0.0)
    monkeypatch.setattr(chaos_sender, "LOOK_S", -1.0)
    sealed: list[str] = []
    monkeypatch.setattr(
        chaos_sender, "sealed_orgs", lambda _settings, _day, keys: [o for o in sealed if o in keys]
    )
    for _ in range(2 * 3 + 4):
        sender.send_one()
        sender.look()
    assert {org: len(moments) for org, moments in traffic.moments.items()} == {"north": 3, "south": 3}
    assert sender.reopened == 0
    sealed.append("south")
    sender.look()
    sealed.clear()
    for _ in range(2 * 3 + 4):
        sender.send_one()
        sender.look()
    assert {org: len(moments) for org, moments in traffic.moments.items()} == {"north": 3, "south": 6}
    assert sender.reopened == 1
    hours = sorted((moment - 1 - sender.old_day_ns) // HOUR_NS for moment in traffic.moments["south"])
    assert hours == sorted([*OLD_HOURS, *OLD_HOURS])


def test_a_day_is_sealed_by_doing_what_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day of this month, whose day-wide buckets stay open: a late row for it then needs a carving."""
    lake = lake_in(tmp_path)
    lake.settings = replace(lake.settings, seal_after_s=60, compact_close_s=30)
    lake.index._clock = lambda: time.time() - 3600  # quiet for an hour
    monkeypatch.setattr(chaos_old_day, "hurry", lambda _: None)
    day_ns = cut(time.time_ns(), DAY_NS) - OLD_DAY * DAY_NS
    for hour in OLD_HOURS:
        start_ns = day_ns + hour * HOUR_NS
        arrive(lake, f"{hour}", gauge([(start_ns + HOUR_NS // 2, 1.0)]), start_ns)
    assert not sealed_in(lake, day_ns)
    for _ in range(6):
        lake.index.plan_batches(Signal.METRICS, lambda pending: plan_all_now(pending, lake.settings))
        chaos_old_day.do_what_is_due(lake.run_context())
    assert sealed_in(lake, day_ns)


def sealed_in(lake: Lake, day_ns: int) -> bool:
    live = lake.index.live_in(Signal.METRICS, "acme", day_ns, day_ns + DAY_NS)
    return is_sealed(live, due_rollups(lake.index, Signal.METRICS), "acme", day_ns)


def test_a_carving_is_a_proof_of_its_own() -> None:
    assert set(KINDS.values()) == set(PROOFS) == {*EVERY_DECK, "carved"}
