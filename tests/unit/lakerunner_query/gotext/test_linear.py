"""Reading a text takes time in proportion to its length, whatever it holds.

Label values come from anybody, may be megabytes long, and Python's `re` holds the GIL while it backtracks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from lakerunner_query.gotext import conversions, durations, numbers, regexp, strconv
from lakerunner_query.gotext.template.numbers import NumberError, constant
from lakerunner_query.gotext.time import UTC_ZONE
from lakerunner_query.gotext.time_parse import TimeParseError, parse_time
from lakerunner_query.promql.functions.histograms import parse_bound

N, MANY = 40_000, 1_000_000
FAULTS = (ValueError, TimeParseError, NumberError)
HOSTILE: tuple[Callable[[int], str], ...] = (
    lambda n: "1" * n + "x",
    lambda n: "1_" * (n // 2),
    lambda n: "1_" * (n // 2) + "1x",
    lambda n: "-" * n,
    lambda n: "1h" * (n // 2),
    lambda n: "1h" * (n // 2) + "x",
    lambda n: "0x" + "f" * n + "g",
    lambda n: "0x" + "1_" * (n // 2) + "p",
    lambda n: "1." * (n // 2),
    lambda n: "0." + "1" * n,
    lambda n: "0." + "1" * n + "s",
    lambda n: "0" * n + "s",
    lambda n: "1e" + "1" * n,
    lambda n: "1," * (n // 2) + "kx",
    lambda n: " " * n + "1",
    lambda n: "1" + " " * n + "x",
)
READERS: dict[str, Callable[[str], object]] = {
    "number": conversions.number,
    "duration": conversions.duration_ns,
    "size": conversions.size,
    "to_int": conversions.to_int,
    "to_float": conversions.to_float,
    "nanoseconds": durations.nanoseconds,
    "range": durations.range_nanoseconds,
    "milliseconds": durations.milliseconds,
    "byte_count": durations.byte_count,
    "read_number": numbers.read_number,
    "bound": parse_bound,
    "constant": lambda text: constant(0, text, "number"),
    "complex": lambda text: constant(0, text + "i", "complex"),
    "time": lambda text: parse_time("2006-01-02 15:04:05.999 MST", text, UTC_ZONE),
    "unquote": lambda text: strconv.unquote(f'"{text}"'),
}


@pytest.mark.parametrize("name", READERS)
def test_hostile_values_are_read_in_linear_time(name: str) -> None:
    check_growth(READERS[name], HOSTILE)


def test_a_template_may_have_any_layout() -> None:
    check_growth(
        lambda text: parse_time(text, text + "!", UTC_ZONE), (lambda n: " " * n, lambda n: "ab" * (n // 2))
    )


def test_escapes_are_read_in_linear_time() -> None:
    hostile = (
        lambda n: "\\x4" * (n // 3),
        lambda n: "\\\\" * (n // 2),
        lambda n: "\\xff" * (n // 4),
        lambda n: "\\" * n,
    )
    for read in (strconv.GO.unquote, strconv.PROMQL.unquote, strconv.LOGQL.unquote):
        check_growth(lambda text, read=read: read(f'"{text}"'), hostile)  # type: ignore[misc]


def test_patterns_are_taken_apart_in_linear_time() -> None:
    hostile = (
        *(
            lambda n, part=part: part * (n // len(part))
            for part in ("[", "(?<a", "\\Q", "\\p{", "[[:a:", "(?")
        ),
        lambda n: "[" + "[:a:]" * (n // 5),
    )
    check_growth(lambda text: [token[0] for token in regexp.tokens(text)], hostile)  # type: ignore[arg-type]


def check_growth(read: Callable[[str], object], hostile: tuple[Callable[[int], str], ...]) -> None:
    """Compare a length with twice the length, then with a million characters."""
    for make in hostile:
        single, double = (min(seconds(read, make(n)) for _ in range(3)) for n in (N, 2 * N))
        assert double < 3 * single + 0.05, f"{make(12)}: {single:.3f} s, twice as long {double:.3f} s"
        whole = seconds(read, make(MANY))
        assert whole < 3 * MANY / N * single + 0.5, f"{make(12)}: {single:.3f} s, a million {whole:.3f} s"


def seconds(read: Callable[[str], object], text: str) -> float:
    before = time.thread_time()
    with suppress(*FAULTS):
        read(text)
    return time.thread_time() - before
