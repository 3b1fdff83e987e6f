"""Times as callers write them."""

from __future__ import annotations

import pytest

from lakerunner_query.api.shared.times import duration_ns, moment_ns
from lakerunner_query.errors import InvalidRequestError

NOW = 1_767_225_600_123_456_789


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1767225600", 1_767_225_600 * 10**9),
        (1767225600, 1_767_225_600 * 10**9),
        ("1767225600.5", 1_767_225_600_500_000_000),
        ("1767225600.123456789", NOW),
        ("1767225600123", 1_767_225_600_123_000_000),
        ("1767225600123456", 1_767_225_600_123_456_000),
        ("1767225600123456789", NOW),
        ("2026-01-01T00:00:00.123456789Z", NOW),
        ("2026-01-01T02:00:00.123456789+02:00", NOW),
        ("now", NOW),
        ("now-1h", NOW - 3600 * 10**9),
        ("now+1m30s", NOW + 90 * 10**9),
        ("e-1h", 7 - 3600 * 10**9),
        ("0", 0),
        ("-1", -(10**9)),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert moment_ns(text, NOW, 7) == expected


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "now-", "1e40", "2026-13-01T00:00:00Z", "9999-01-01T00:00:00Z", "e1", "nan", "now-5x"],
)
def test_not_a_moment(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        moment_ns(text, NOW, 7)


def test_relative_to_an_end_that_is_not_known() -> None:
    with pytest.raises(InvalidRequestError, match="only be a start"):
        moment_ns("e-1h", NOW)


@pytest.mark.parametrize("text", ["1" * 200_000, "now-" + "1" * 20_000 + "x", "now-" + "1h" * 50])
def test_a_text_too_long_for_a_time_is_not_looked_at(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="characters; expected at most 64"):
        moment_ns(text, NOW)
    with pytest.raises(InvalidRequestError, match="characters; expected at most 64"):
        duration_ns(text.removeprefix("now-"))


def test_durations() -> None:
    assert duration_ns("1h30m5s7ms") == 5_405_007_000_000
    with pytest.raises(InvalidRequestError):
        duration_ns("5 minutes")
