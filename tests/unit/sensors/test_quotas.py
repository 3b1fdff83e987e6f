"""What may be cooked now: shares of organisations, and when reading pauses."""

from __future__ import annotations

from resources.index.types import PendingObject
from resources.lake.layout import Signal
from resources.lake.options import OrgOptions
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


def test_an_object_larger_than_a_share_goes_only_when_the_share_is_untouched() -> None:
    assert sizes(limited(100, 0).within(objects(500, 1))) == [500]
    assert sizes(limited(100, 1).within(objects(500, 1))) == []


def test_a_used_up_share_hides_its_organisation_only() -> None:
    found = limited(100, 100)
    assert found.exhausted() == ["acme"]
    assert sizes(found.within([*objects(1), *objects(9, org="beta")])) == [9]


def test_reading_pauses_while_too_much_is_pending() -> None:
    assert messages_to_read(99, 100, 5000) == 5000
    assert messages_to_read(100, 100, 5000) == 0
