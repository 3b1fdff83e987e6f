"""The oracle of the chaos benchmark says what the rules of rollups say, by hand."""

from __future__ import annotations

from benchmarks.samples import COUNTER, GAUGE, POINTS, SERIES, Bucket, Oracle, Point, points, samples_object

MS = 1_000_000


def point(ms: int, value: float, extra_ns: int = 0, metric: str = COUNTER) -> Point:
    return Point("acme", metric, "a", ms * MS + extra_ns, value)


def test_a_bucket_by_hand() -> None:
    oracle = Oracle([point(1, 5), point(1, 7, extra_ns=1), point(6, 2), point(10, 2), point(11, 9)])
    assert oracle.buckets(10) == {
        Bucket("acme", COUNTER, "a", 10, 3, 11.0, 2.0, 7.0, 7.0, 2.0, resets=1, reset_sum=7.0, changes=1),
        Bucket("acme", COUNTER, "a", 20, 1, 9.0, 9.0, 9.0, 9.0, 9.0, resets=0, reset_sum=0.0, changes=0),
    }


def test_points_of_different_objects_never_share_a_millisecond() -> None:
    first, second = points("acme", 0, 10**18), points("acme", 3, 10**18 + 1000 * MS)
    assert not {(p.metric, p.label, p.ms) for p in first} & {(p.metric, p.label, p.ms) for p in second}


def test_an_object_holds_its_points() -> None:
    made = points("acme", 5, 10**18)
    gauges = sum(metric == GAUGE for metric, _ in SERIES)
    assert len(made) == len(SERIES) * POINTS + gauges
    assert len({(p.metric, p.label, p.ms) for p in made}) == len(SERIES) * POINTS
    assert samples_object("shop", made).count(b"label") == len(made)
