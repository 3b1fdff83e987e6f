"""Series of alerts in raw objects: once each, whatever ends a writer half-way, and with their ends."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from lakerunner_query.ruler.samples import HEAD, LEASE_S
from lakerunner_query.rules.documents import AlertRule, RuleGroup
from resources.index.account_types import StorageProfile
from resources.index.rule_types import DropRule, RuleKind
from resources.lake.layout import Signal
from resources.proto.parsing import parse
from resources.proto.prometheus import WriteRequest
from resources.settings import Settings
from tests.support.query.lake import BASE, Lake
from tests.support.query.ruled_lake import RuledLake

BASE_MS, MINUTE = BASE // 1_000_000, 60_000
ON = AlertRule("On", "vector(1)", labels={"team": "a"})
OFF = AlertRule("Off", "vector(time()) % 120 == 0", 0)
Stored = tuple[str, str, str, int, float | None]


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[RuledLake]:
    lake = Lake(tmp_path / "lake")
    lake.folder.mkdir()
    (tmp_path / "raw").mkdir()
    lake.add_org("acme", "key-acme")
    lake.index.put_storage_profile(StorageProfile("raw", f"file://{tmp_path}/raw"))
    found = RuledLake(lake, tmp_path / "scratch", Settings(data_dir=tmp_path, ruler_store_s=0.0))
    yield found
    found.close()


def run(ruled: RuledLake, *rules: AlertRule, minutes: tuple[int, ...]) -> None:
    ruled.apply("acme", "f.yaml", RuleGroup("g", rules, interval_ms=MINUTE))
    ruled.look()
    for minute in minutes:
        ruled.evaluate(BASE_MS + minute * MINUTE)


def stored(ruled: RuledLake) -> list[Stored]:
    """Every sample of registered objects: name, alert, state, minute and value; None ends a series."""
    found: list[Stored] = []
    for one in ruled.lake.index.pending_objects("acme", Signal.METRICS, 0, 2**62):
        assert one.collector == "ruler"
    for path in sorted((ruled.lake.folder.parent / "raw").rglob("*.zst")):
        body = zstandard.decompress(path.read_bytes())
        assert body.startswith(HEAD)
        for series in parse(WriteRequest, body.removeprefix(HEAD)).timeseries:
            labels = {label.name: label.value for label in series.labels}
            assert list(labels) == sorted(labels)
            (sample,) = series.samples
            value = None if math.isnan(sample.value) else sample.value
            minute = (sample.timestamp - BASE_MS) // MINUTE
            state = labels.get("alertstate", "")
            found.append((labels["__name__"], labels["alertname"], state, minute, value))
    return found


def test_alerts_are_stored_with_their_ends(ruled: RuledLake) -> None:
    run(ruled, OFF, minutes=(0, 1))
    ruled.store()
    assert stored(ruled) == [
        ("ALERTS", "Off", "firing", 0, 1.0), ("ALERTS_FOR_STATE", "Off", "", 0, BASE_MS / 1000),
        ("ALERTS", "Off", "firing", 1, None), ("ALERTS_FOR_STATE", "Off", "", 1, None),
    ]  # fmt: skip


def test_quiet_alerts_store_nothing(ruled: RuledLake) -> None:
    run(ruled, AlertRule("Never", "vector(1) > 1"), minutes=(0, 1))
    ruled.store()
    assert stored(ruled) == []


def test_a_writer_that_ends_before_it_registers_doubles_nothing(
    ruled: RuledLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(ruled, ON, minutes=(0, 1))
    index = ruled.lake.index
    with monkeypatch.context() as killed:
        killed.setattr(index, "finish_samples", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            ruled.ruler.samples.write_some()
    assert index.pending_objects("acme", Signal.METRICS, 0, 2**62) == []
    once = stored(ruled)
    assert len(once) == 4
    ruled.evaluate(BASE_MS + 2 * MINUTE)
    later = index._clock() + LEASE_S + 1
    index._clock = lambda: later  # type: ignore[method-assign]
    ruled.store()
    assert sorted(stored(ruled)) == sorted([*once, *((*one[:3], 2, one[4]) for one in once[:2])])
    assert len(index.pending_objects("acme", Signal.METRICS, 0, 2**62)) == 2


def test_a_store_that_is_away_is_asked_again(ruled: RuledLake) -> None:
    folder = ruled.lake.folder.parent / "raw"
    folder.rmdir()
    folder.write_text("no folder")
    run(ruled, ON, minutes=(0,))
    ruled.store()
    assert ruled.ruler.counts["lakerunner_ruler_store_failures_total"] == 1
    folder.unlink()
    folder.mkdir()
    index = ruled.lake.index
    later = index._clock() + LEASE_S + 1
    index._clock = lambda: later  # type: ignore[method-assign]
    ruled.store()
    assert len(stored(ruled)) == 2


def test_series_of_rules_that_are_gone_end(ruled: RuledLake) -> None:
    run(ruled, ON, AlertRule("Gone", "vector(1)"), minutes=(0,))
    ruled.apply("acme", "f.yaml", RuleGroup("g", (ON,), interval_ms=MINUTE))
    ruled.look()
    ruled.evaluate(BASE_MS + MINUTE)
    ruled.store()
    ends = [(one[0], one[1], one[3]) for one in stored(ruled) if one[4] is None]
    assert ends == [("ALERTS", "Gone", 1), ("ALERTS_FOR_STATE", "Gone", 1)]


def test_series_of_a_group_that_is_deleted_end(ruled: RuledLake) -> None:
    run(ruled, ON, minutes=(0,))
    ruled.lake.index.change_rules("acme", [DropRule(RuleKind.GROUP, "f.yaml", "g")], None)
    ruled.look()
    ruled.store()
    ends = [(one[0], one[1], one[3]) for one in stored(ruled) if one[4] is None]
    assert ends == [("ALERTS", "On", 1), ("ALERTS_FOR_STATE", "On", 1)]
    ruled.look()
    ruled.store()
    assert len(stored(ruled)) == 4
