"""The kernels of the merge against what Python's own sort says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.segments.merge.label_sets import LabelSets, concatenate
from lakerunner_assets.segments.merge.merge_kernels import first_disorder, merge_runs, places_of, rows_up_to
from lakerunner_assets.segments.merge.output import printable
from resources.lake import streams

WORDS = st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1])
KEY = st.tuples(WORDS, WORDS, WORDS)
RUNS = st.lists(st.lists(KEY, max_size=9).map(sorted), min_size=1, max_size=6)


def keys_of(rows: list[tuple[int, ...]]) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, 3)


@given(RUNS, st.none() | KEY)
@settings(max_examples=100, deadline=None)
def test_runs_become_one_order_without_repeats(
    runs: list[list[tuple[int, ...]]], last: tuple[int, ...] | None
) -> None:
    rows = [key for run in runs for key in run]
    smallest = min(rows, default=(0, 0, 0))
    last = smallest if last is not None else None  # nothing that comes is less than what went before
    borders = np.cumsum([0, *map(len, runs)])
    order, repeated = merge_runs(keys_of(rows), borders, keys_of([last] if last else []))
    kept = [rows[row] for row in order.tolist()]
    assert kept == sorted(set(rows) - {last})
    assert sorted([*order.tolist(), *repeated.tolist()]) == list(range(len(rows)))
    assert order.tolist() == [rows.index(key) for key in kept], "of equal rows the first"


@given(st.lists(KEY, max_size=12).map(sorted), KEY)
@settings(max_examples=100, deadline=None)
def test_rows_up_to_a_bound(rows: list[tuple[int, ...]], bound: tuple[int, ...]) -> None:
    assert rows_up_to(keys_of(rows), keys_of([bound])) == sum(row <= bound for row in rows)
    assert sorted([printable(key) for key in keys_of(rows)]) == [printable(key) for key in keys_of(rows)]


def test_the_first_row_out_of_order_is_found() -> None:
    rows = [(1, 5, 0), (1, 5, 0), (1, 6, -3), (1, 6, -4), (0, 0, 0)]
    none = keys_of([])
    assert first_disorder(keys_of(rows[:3]), none) == -1
    assert first_disorder(keys_of(rows), none) == 3
    assert first_disorder(keys_of(rows), keys_of([(1, 5, 1)])) == 0
    assert first_disorder(none, keys_of(rows[:1])) == -1


def test_places_of_ids() -> None:
    known = np.array([-5, 3, 9])
    assert places_of(np.array([9, 9, -5, 4, 3, 10, -6]), known).tolist() == [2, 2, 0, -1, 1, -1, -1]
    assert places_of(np.array([1]), known[:0]).tolist() == [-1]


LABELS = st.dictionaries(st.sampled_from(["__name__", "a", 'é"\\\n']), st.sampled_from(["x", '"', "ü\t"]))


@given(st.lists(st.lists(LABELS, min_size=1, max_size=4), min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_label_sets_spell_and_tell_apart_like_labels(parts: list[list[dict[str, str]]]) -> None:
    sets = [[streams.canonical(labels) for labels in part] for part in parts]
    flat = [labels for part in sets for labels in part]
    whole = concatenate([_columnar(part) for part in sets])
    assert whole.labels() == flat
    assert whole.texts().to_pylist() == [streams.labels_to_text(labels) for labels in flat]
    assert whole.map_array().to_pylist() == [list(labels) for labels in flat]
    hashes = whole.hashes().tolist()
    assert len(set(hashes)) == len(set(flat)) == len(set(zip(hashes, flat, strict=True)))
    names = whole.metric_names().tolist()
    assert [whole.value_texts[code] if code >= 0 else "" for code in names] == [
        dict(labels).get("__name__", "") for labels in flat
    ]
    back = np.arange(len(flat))[::-1]
    assert whole.take(back).labels() == flat[::-1]
    pairs = {(name, value) for labels in flat for name, value in labels}
    assert {(n, v) for n, values in whole.values_by_name().items() for v in values} == pairs


def _columnar(sets: list[streams.Labels]) -> LabelSets:
    pairs = [pair for labels in sets for pair in labels]
    names, values = (sorted({pair[side] for pair in pairs}) for side in (0, 1))
    return LabelSets(
        np.cumsum([0, *map(len, sets)]),
        np.array([names.index(name) for name, _ in pairs], np.int32),
        np.array([values.index(value) for _, value in pairs], np.int32),
        tuple(names),
        tuple(values),
    )


@pytest.mark.parametrize("size", [0, 1])
def test_no_runs_or_empty_ones(size: int) -> None:
    order, repeated = merge_runs(keys_of([]), np.zeros(size + 1, np.int64), keys_of([]))
    assert len(order) == len(repeated) == 0
