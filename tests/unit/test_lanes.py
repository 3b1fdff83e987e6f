"""The runner of `make test` adds up what all of its lanes say."""

from __future__ import annotations

import doctest

from tests import lanes


def test_the_example() -> None:
    assert doctest.testmod(lanes).failed == 0


def test_errors_and_skips_are_counted_and_lists_of_failures_joined() -> None:
    first = "FAILED a.py::one - x\n=== 1 failed, 3 passed, 1 skipped, 2 errors in 1.00s (0:00:01) ==="
    second = "ERROR b.py::two - y\n=== 5 passed, 1 error in 2.00s ==="
    assert lanes.together([first, second], 3.0).splitlines() == [
        "FAILED a.py::one - x",
        "ERROR b.py::two - y",
        "==== 1 failed, 8 passed, 1 skipped, 3 error in 3.00s ====",
    ]


def test_a_lane_that_died_adds_nothing() -> None:
    assert lanes.together(["Killed", "=== 5 passed in 2.00s ==="], 1.0) == "==== 5 passed in 1.00s ===="


def test_every_folder_with_tests_is_in_one_lane() -> None:
    folders = [folder for each in lanes.lanes().values() for folder in each]
    assert len(folders) == len(set(folders))
    assert set(folders) == {path.relative_to(lanes.ROOT).parts[0] for path in lanes.ROOT.rglob("test_*.py")}
