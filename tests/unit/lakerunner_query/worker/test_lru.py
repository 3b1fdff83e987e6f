"""`ByteLru` keeps the most recently used values within its bound, and makes a value where it is absent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.worker.shared.lru import ByteLru

STEPS = st.lists(st.tuples(st.sampled_from(["put", "get", "forget"]), st.integers(0, 5), st.integers(0, 6)))


@given(STEPS, st.integers(0, 12), st.integers(0, 2))
def test_the_last_used_values_within_the_bound_stay(
    steps: list[tuple[str, int, int]], bound: int, least: int
) -> None:
    cache: ByteLru[int, bytes] = ByteLru(bound, len, min_entries=least)
    expected: dict[int, bytes] = {}
    for step, key, size in steps:
        if step == "put":
            expected.pop(key, None)
            expected[key] = bytes(size)
            cache.put(key, bytes(size))
            while sum(map(len, expected.values())) > bound and len(expected) > least:
                del expected[next(iter(expected))]
        elif step == "get":
            assert cache.get(key) == expected.get(key)
            if key in expected:
                expected[key] = expected.pop(key)
        else:
            cache.forget(key)
            expected.pop(key, None)
        assert cache.weight == sum(map(len, expected.values()))
        assert {key: cache.peek(key) for key in range(6) if key in cache} == expected


def test_without_a_size_entries_are_counted() -> None:
    cache: ByteLru[str, str] = ByteLru(2)
    assert [cache.get_or_make(key, key.upper) for key in "aba"] == ["A", "B", "A"]
    assert cache.get_or_make("c", lambda: "C") == "C"
    assert [key in cache for key in "abc"] == [True, False, True]
    cache.forget_where(lambda key: key > "a")
    assert [key in cache for key in "abc"] == [True, False, False]


def test_what_fails_to_be_made_is_not_kept() -> None:
    cache: ByteLru[str, int] = ByteLru(2)
    for _ in range(2):
        try:
            cache.get_or_make("a", lambda: 1 // 0)
        except ZeroDivisionError:
            continue
        raise AssertionError("the error was swallowed")
    assert "a" not in cache


def test_threads_see_one_bound() -> None:
    cache: ByteLru[int, bytes] = ByteLru(100, len)

    def use(seed: int) -> None:
        for step in range(500):
            key = (seed * 31 + step * 7) % 40
            assert len(cache.get_or_make(key, lambda: bytes(9))) == 9
            cache.forget((key + 1) % 40)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(use, range(4)))
    assert cache.weight <= 100
    cache.forget_where(lambda _: True)
    assert cache.weight == 0
