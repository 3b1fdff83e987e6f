"""Grouping pending objects and packing tasks: pure decisions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lakerunner_assets.cooked.plan import BatchBounds, group_pending, pack
from resources.index.types import PendingObject, RawObject
from resources.lake.layout import Signal

NOW = 10**12
BOUNDS = BatchBounds(max_bytes=100, max_objects=3, max_age_ns=1000)


def pending(object_id: int, size: int = 10, age: int = 0, **more: object) -> PendingObject:
    return replace(PendingObject(object_id, "acme", "c", Signal.LOGS, 0, size, 0, NOW - age), **more)  # type: ignore[arg-type]


def ids(objects: list[PendingObject]) -> list[tuple[int, ...]]:
    return [plan.object_ids for plan in group_pending(objects, BOUNDS, NOW)]


def test_a_young_small_group_waits() -> None:
    assert ids([pending(1), pending(2)]) == []


def test_age_of_the_oldest_object_makes_a_group_ripe() -> None:
    assert ids([pending(1, age=1000), pending(2)]) == [(1, 2)]


def test_count_and_bytes_close_a_batch_and_the_rest_waits() -> None:
    assert ids([pending(i) for i in range(1, 5)]) == [(1, 2, 3)]
    assert ids([pending(1, size=60), pending(2, size=60)]) == [(1,)]


def test_an_object_larger_than_the_bound_travels_alone() -> None:
    assert ids([pending(1, size=500), pending(2, size=10, age=1000)]) == [(1,), (2,)]


def test_groups_never_mix_organisation_collector_or_hour() -> None:
    mixed = [
        pending(1, age=1000),
        pending(2, age=1000, org="beta"),
        pending(3, age=1000, collector="d"),
        pending(4, age=1000, arrival_hour_ns=1),
    ]
    assert ids(mixed) == [(1,), (2,), (3,), (4,)]


def test_an_object_that_failed_before_goes_alone_at_once() -> None:
    assert ids([pending(1, tries=1), pending(2, age=1000), pending(3)]) == [(1,), (2, 3)]


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2000), st.sampled_from("ab")), max_size=30))
def test_no_object_is_in_two_batches_and_every_old_one_is_in_one(objects: list[tuple[int, int, str]]) -> None:
    found = [pending(i, size, age, org=org) for i, (size, age, org) in enumerate(objects)]
    planned = [object_id for batch in ids(found) for object_id in batch]
    assert len(planned) == len(set(planned))
    assert {p.object_id for p in found if NOW - p.registered_at_ns >= 1000} <= set(planned)


@given(st.lists(st.integers(0, 300), max_size=40))
def test_packing_keeps_every_object_once_and_bins_within_bounds(sizes: list[int]) -> None:
    objects = [RawObject(i, "b", str(i), size, "", 0, 0) for i, size in enumerate(sizes)]
    bins = pack(objects, 100)
    assert sorted(o.object_id for bin_ in bins for o in bin_) == list(range(len(sizes)))
    assert all(len(bin_) == 1 or sum(o.size for o in bin_) <= 100 for bin_ in bins)
