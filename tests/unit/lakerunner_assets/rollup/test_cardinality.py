"""Cardinalities: near the exact numbers, the same however the series arrive, and stored soundly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasketches import hll_sketch, hll_union, tgt_hll_type
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.rollup import label_values
from lakerunner_assets.rollup.cardinality import day_rows, hour_rows, write
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake import series
from resources.lake.cardinality import (
    SCHEMA,
    STANDARD_ERROR,
    CardinalityError,
    deserialize,
    merge_sketches,
    read,
)
from resources.lake.frequency import CARDINALITY_DATASET, DAY, HOUR
from resources.lake.segment_file import read_facts
from resources.lake.streams import Labels, canonical, stream_id
from resources.lake.terms import term

HOUR_NS = HOUR * 1_000_000
END = 500_000 * HOUR
IDENTITY = SegmentIdentity("org", "col", CARDINALITY_DATASET, END * 1_000_000 - HOUR_NS, "0" * 32)


def table_of(label_sets: Sequence[Labels]) -> pa.Table:
    """As it comes out of a segment with one row per series."""
    rows = np.arange(len(label_sets))
    ones, zeros = np.ones_like(rows), np.zeros_like(rows)
    numbers = {
        "tid": np.array([stream_id(labels) for labels in label_sets], np.int64),
        "row": rows,
        "rows": ones,
    }
    numbers |= {"first_ms": zeros, "last_ms": zeros, "base": zeros, "exponent": zeros}
    return series.read_table(series.encode(series.build(label_sets, numbers)), len(label_sets))


def up(instance: object, **labels: str) -> Labels:
    return canonical({"__name__": "up", "instance": str(instance), **labels})


def exact(label_sets: Sequence[Labels]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], set[object]] = defaultdict(set)
    for labels in label_sets:
        name = dict(labels).get("__name__", "")
        found[name, ""].add(labels)
        for label, value in labels:
            if label != "__name__":
                found[name, label].add(value)
    return {key: len(values) for key, values in found.items()}


def estimates(table: pa.Table) -> dict[tuple[str, str], float]:
    rows = table.select(["metric_name", "label", "estimate"]).to_pylist()
    return {(row["metric_name"], row["label"]): row["estimate"] for row in rows}


names = st.sampled_from(["", "up", "cpu", "ü", "a\x00b"])
label_maps = st.dictionaries(
    st.sampled_from(["a", "b", "job", "é"]), st.sampled_from(["", "1", "2", "x", "é", "up", "a"]), max_size=4
)
series_sets = st.lists(
    st.builds(lambda name, labels: canonical({"__name__": name, **labels}), names, label_maps),
    max_size=30,
    unique=True,
)


@settings(max_examples=60)
@given(series_sets, st.integers(1, 4))
def test_small_numbers_are_exact_over_overlapping_tables(label_sets: list[Labels], parts: int) -> None:
    tables = [table_of(label_sets[part::parts]) for part in range(parts)] + [table_of(label_sets[:5])]
    found = hour_rows(tables, END)
    assert {key: round(value, 3) for key, value in estimates(found).items()} == exact(label_sets)
    assert found.schema == SCHEMA
    keys = list(estimates(found))
    assert keys == sorted(keys)
    assert set(found.column("chq_timestamp").to_pylist()) <= {END}
    assert set(found.column("frequency_ms").to_pylist()) <= {HOUR}


@pytest.mark.parametrize("size", [100, 390, 3000, 40_000])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_estimates_are_within_three_standard_errors(size: int, seed: int) -> None:
    """A label with a value per series, one with a tenth of that, one with a single value."""
    label_sets = [up(f"{seed}-{n}", shard=str(n // 10), job="web") for n in range(size)]
    found = estimates(hour_rows([table_of(label_sets)], END))
    numbers = exact(label_sets)
    assert found.keys() == numbers.keys()
    for key, number in numbers.items():
        assert abs(found[key] - number) <= max(3 * STANDARD_ERROR * number, 0.01), key


@pytest.mark.parametrize("size", [9, 300, 384, 391, 770, 5000])
def test_order_and_grouping_do_not_matter_for_the_estimate(size: int) -> None:
    random = np.random.default_rng(size)
    label_sets = [up(n, job=str(n % 7)) for n in range(size)]
    whole = hour_rows([table_of(label_sets)], END)
    for parts in (1, 2, 5):
        shuffled = [label_sets[n] for n in random.permutation(size)]
        tables = [table_of(shuffled[part::parts] + shuffled[: size // 3]) for part in range(parts - 1)]
        tables.append(table_of(shuffled))
        assert estimates(hour_rows(tables, END)) == estimates(whole)


@pytest.mark.parametrize("size", [5, 380, 1000, 20_000])
def test_a_day_is_the_union_of_its_hours(size: int) -> None:
    """Half of each hour's series are those of the hour before; one metric lives for an hour only."""
    label_sets = [up(n) for n in range(size)]
    step = max(size // 8, 1)
    hours = [label_sets[start : start + 2 * step] for start in range(0, size, step)]
    hours[-1] = [*hours[-1], canonical({"__name__": "brief", "x": "y"})]
    tables = [hour_rows([table_of(hour)], END + n * HOUR) for n, hour in enumerate(hours)]
    day = day_rows(tables, END)
    at_once = hour_rows([table_of([*label_sets, hours[-1][-1]])], END)
    assert estimates(day) == estimates(at_once)
    assert estimates(day) == estimates(day_rows(tables[::-1], END))
    assert set(day.column("frequency_ms").to_pylist()) == {DAY}
    assert day.schema == SCHEMA


def test_sketches_are_plain_datasketches() -> None:
    """Another reader can go on with them: strings and ids are fed as they are."""
    label_sets = [up(n) for n in range(2000)]
    rows = {row["label"]: row for row in hour_rows([table_of(label_sets)], END).to_pylist()}
    by_hand = hll_union(12)
    for _ in range(2):
        sketch = hll_sketch(12, tgt_hll_type.HLL_4)
        for n in range(2000):
            sketch.update(str(n))
        by_hand.update(sketch)
    stored = hll_sketch.deserialize(rows["instance"]["sketch"])
    assert (stored.lg_config_k, stored.tgt_type) == (12, tgt_hll_type.HLL_4)
    assert stored.get_estimate() == by_hand.get_estimate() == rows["instance"]["estimate"]
    by_hand.update(stored)
    assert by_hand.get_estimate() == stored.get_estimate()
    assert (
        merge_sketches([rows["instance"]["sketch"], rows["instance"]["sketch"]]).get_estimate()
        == stored.get_estimate()
    )


def test_series_in_steps_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    label_sets = [canonical({"__name__": f"m{n % 3}", "pod": str(n % 50)}) for n in range(150)]
    label_sets.append(canonical({"pod": "nameless"}))
    whole = hour_rows([table_of(label_sets)], END)
    monkeypatch.setattr(label_values, "STEP", 7)
    assert estimates(hour_rows([table_of(label_sets)], END)) == estimates(whole)


def test_slices_and_joined_tables_are_read_as_they_look() -> None:
    """Joined dictionaries may hold a text twice, and slices keep the entries of all rows."""
    label_sets = [up(n % 5, job=str(n)) for n in range(40)]
    joined = pa.concat_tables([table_of(label_sets[:20]), table_of(label_sets[20:])])
    assert estimates(hour_rows([joined], END)) == estimates(hour_rows([table_of(label_sets)], END))
    part = table_of(label_sets).slice(7, 11)
    assert {key: round(value) for key, value in estimates(hour_rows([part], END)).items()} == exact(
        label_sets[7:18]
    )


def test_a_segment_is_read_back(tmp_path: Path) -> None:
    table = hour_rows([table_of([up(n, job="web") for n in range(1000)])], END)
    path = tmp_path / "cardinality.parquet"
    facts = write(table, path, IDENTITY)
    assert facts is not None
    assert read(path).equals(table)
    assert (facts.rows, facts.row_groups, facts.bytes) == (3, 1, path.stat().st_size)
    assert (facts.min_ns, facts.max_ns) == ((END - HOUR + 1) * 1_000_000, END * 1_000_000)
    assert facts.terms == (term("metric_name", "up"),)
    assert (facts.metric_names, facts.label_names, facts.object_ids) == (("up",), (), ())
    assert (facts.series_length, facts.bloom_length) == (0, 0)
    stored = read_facts(pq.read_metadata(path))
    assert (stored.dataset, stored.segment_id, stored.rows) == (CARDINALITY_DATASET, "0" * 32, 3)
    assert (stored.min_ns, stored.max_ns, stored.source_objects) == (facts.min_ns, facts.max_ns, ())


def test_a_day_covers_its_day(tmp_path: Path) -> None:
    day = day_rows([hour_rows([table_of([up(1)])], END)], END)
    facts = write(day, tmp_path / "day.parquet", IDENTITY)
    assert facts is not None
    assert facts.min_ns == (END - DAY + 1) * 1_000_000


def test_equal_inputs_give_equal_bytes(tmp_path: Path) -> None:
    for number in range(2):
        tables = [table_of([up(n, job=str(n % 9)) for n in range(start, start + 600)]) for start in (0, 300)]
        write(day_rows([hour_rows(tables, END)], END), tmp_path / str(number), IDENTITY)
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


def test_nothing_is_not_written(tmp_path: Path) -> None:
    for empty in (hour_rows([], END), day_rows([], END), hour_rows([table_of([])], END)):
        assert empty.schema == SCHEMA
        assert write(empty, tmp_path / "x", IDENTITY) is None
    assert list(tmp_path.iterdir()) == []


def test_rows_out_of_order_are_not_written(tmp_path: Path) -> None:
    table = hour_rows([table_of([up(1), canonical({"__name__": "cpu"})])], END)
    for wrong in (table.take([1, 0, 2]), table.take([0, 0])):
        with pytest.raises(CardinalityError, match="row 1 is not behind"):
            write(wrong, tmp_path / "x", IDENTITY)
    with pytest.raises(ValueError, match="'logs', expected 'metrics-cardinality'"):
        write(table, tmp_path / "x", replace(IDENTITY, dataset="logs"))
    assert list(tmp_path.iterdir()) == []


def test_damaged_segments_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    write(hour_rows([table_of([up(n) for n in range(500)])], END), path, IDENTITY)
    raw = path.read_bytes()
    plain = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"a": [1]}), plain)
    for content in (b"", raw[:-9], raw[len(raw) // 2 :], plain.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(CardinalityError, match=r"c\.parquet"):
            read(path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing")


def test_sketches_of_another_kind_are_refused() -> None:
    other_size, other_form = hll_sketch(10, tgt_hll_type.HLL_4), hll_sketch(12, tgt_hll_type.HLL_8)
    for sketch in (b"", b"\x00" * 40, other_size.serialize_compact(), other_form.serialize_compact()):
        with pytest.raises(CardinalityError, match=f"sketch of {len(sketch)} bytes"):
            deserialize(sketch)
        table = hour_rows([table_of([up(1)])], END).slice(0, 1)
        table = table.set_column(5, SCHEMA.field("sketch"), pa.array([sketch], pa.binary()))
        with pytest.raises(CardinalityError, match="sketch of"):
            day_rows([table], END)
