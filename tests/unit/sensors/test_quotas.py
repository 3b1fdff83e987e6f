"""What may be cooked now: shares of organisations, and when reading pauses."""

from __future__ import annotations

from collections.abc import Sequence

from resources.index.contract import Grouping
from resources.index.memory import MemoryIndex
from resources.index.types import BatchPlan, Intake, ObjectNotice, PendingObject
from resources.lake.layout import Signal
from resources.lake.options import OrgOptions
from resources.settings import Settings
from sensors.ingest import plan_batches
from sensors.quotas import Quotas, messages_to_read, quotas


def objects(*sizes: int, org: str = "acme") -> list[PendingObject]:
    return [PendingObject(n, org, "c", Signal.LOGS, 0, size, 0, 0) for n, size in enumerate(sizes)]


def limited(limit: int, used: int) -> Quotas:
    return quotas({"acme": OrgOptions(ingest_bytes_per_minute=limit)}, {"acme": used})


def sizes(found: list[PendingObject]) -> list[int]:
    return [obj.size for obj in found]


def test_without_a_limit_everything_goes() -> None:
    found = quotas({"acme": OrgOptions()}, {"acme": 10**15})
    assert sizes(found.within(objects(1, 2, 3))) == [1, 2, 3]
    assert found.exhausted() == []


def test_what_is_left_of_the_minute_goes_in_order_and_nothing_overtakes() -> None:
    assert sizes(limited(100, 70).within(objects(20, 20, 5))) == [20]


def test_an_object_larger_than_a_share_goes_when_anything_of_a_share_is_left() -> None:
    assert sizes(limited(100, 0).within(objects(500, 1))) == [500]
    assert sizes(limited(100, 99).within(objects(500, 1))) == [500]
    assert sizes(limited(100, 100).within(objects(500, 1))) == []


def test_what_waits_for_its_share_hides_nobody_else() -> None:
    index = MemoryIndex()
    for org in ("acme", "good"):
        index.create_organisation(org)
    index.put_org_setting("acme", "ingest_bytes_per_minute", 100)
    sizes_of = {"acme": [60, 60, 60], "good": [5]}
    for org, found in sizes_of.items():
        notices = [
            ObjectNotice("raw", f"{org}/{n}", org, "c", Signal.LOGS, 0, size) for n, size in enumerate(found)
        ]
        index.take_in(Intake("k", tuple(notices)))
    shown: list[list[str]] = []
    real = index.plan_batches

    def narrow(signal: Signal, group: Grouping, held_back: Sequence[str] = ()) -> int:
        """As if no more than two objects were looked at."""

        def two(pending: Sequence[PendingObject]) -> Sequence[BatchPlan]:
            shown.append([obj.org for obj in pending[:2]])
            return group(pending[:2])

        return real(signal, two, held_back)

    index.plan_batches = narrow  # type: ignore[method-assign]
    assert plan_batches(index, Settings(), Signal.LOGS) == 2
    assert shown == [["acme", "acme"], ["good"]]
    assert index.pending_bytes(Signal.LOGS) == 60 + 5, "what waits for its share is nobody's backlog"


def test_a_used_up_share_hides_its_organisation_only() -> None:
    found = limited(100, 100)
    assert found.exhausted() == ["acme"]
    assert sizes(found.within([*objects(1), *objects(9, org="beta")])) == [9]


def test_reading_pauses_while_too_much_is_pending() -> None:
    assert messages_to_read(99, 100, 5000) == 5000
    assert messages_to_read(100, 100, 5000) == 0
