"""Unions of stored sketches estimate what all of them counted, within the error that is documented."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from datasketches import hll_sketch

from lakerunner_query.lakeql.sketches import add_sketch_functions, estimates, unions
from resources.duckdb import DuckLimits, DuckSession
from resources.lake.cardinality import FORM, LOG_REGISTERS, STANDARD_ERROR, settle


def sketch_of(items: range) -> bytes:
    found = hll_sketch(LOG_REGISTERS, FORM)
    for one in items:
        found.update(one)
    return bytes(settle(found).serialize_compact())


def lists(*each: list[bytes | None] | None) -> pa.Array:
    return pa.array(each, pa.list_(pa.binary()))


@pytest.mark.parametrize("count", [3, 100, 3_000, 60_000])
def test_overlapping_hours_count_once(count: int) -> None:
    hours = [sketch_of(range(part * count // 4, part * count // 4 + count)) for part in range(5)]
    exact = 2 * count
    (found,) = estimates(lists([*hours, None])).to_pylist()
    assert found == pytest.approx(exact, rel=3 * STANDARD_ERROR)
    assert found < 0.6 * sum(hll_sketch.deserialize(one).get_estimate() for one in hours)


def test_parts_are_united_in_any_order() -> None:
    rng = random.Random(5)
    hours = [sketch_of(range(begin, begin + rng.randrange(1, 9_000))) for begin in range(0, 90_000, 5_000)]
    (whole,) = estimates(lists(hours)).to_pylist()
    for _ in range(5):
        rng.shuffle(hours)
        at = rng.randrange(1, len(hours))
        parts = unions(lists(hours[:at], hours[at:])).to_pylist()
        assert estimates(lists(parts)).to_pylist() == [whole]


def test_nothing_counts_as_nothing() -> None:
    assert estimates(lists(None, [], [None])).to_pylist() == [0.0, 0.0, 0.0]
    assert unions(lists(None, [], [None])).to_pylist() == [None, None, None]


def test_what_is_no_sketch_is_refused(tmp_path: Path) -> None:
    session = DuckSession(DuckLimits(64, 1, tmp_path, ()))
    add_sketch_functions(session)
    add_sketch_functions(session)  # of another scanner of the process
    with session.cursor() as cursor, pytest.raises(duckdb.Error, match="sketch of 3 bytes"):
        cursor.execute("SELECT lake_cardinality(['abc'::BLOB])").fetchall()
    session.close()
