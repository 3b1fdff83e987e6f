"""The two kernels of the writer against plain Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.segments import token_bloom
from lakerunner_assets.segments.order import MAX_GROUP_ROWS, row_groups, row_order
from lakerunner_assets.segments.segment_kernels import radix_sorted
from lakerunner_assets.segments.token_bloom_kernels import token_hash as kernel_hash
from resources.lake.timecut import MINUTE_NS, cut
from resources.lake.tokens import MAX_BLOCKS, SALTS, TokenBloom, token_hash, tokens

WORDS = st.lists(st.text(max_size=40) | st.binary(max_size=20).map(bytes.hex), min_size=1, max_size=30)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=50))
@settings(deadline=None)
def test_radix_sort_is_a_stable_sort(keys: list[int]) -> None:
    order = radix_sorted(np.arange(len(keys)), np.array(keys, np.uint64))
    assert order.tolist() == sorted(range(len(keys)), key=keys.__getitem__)


INT64 = st.integers(-(2**63), 2**63 - 1)
ROWS = st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 3), INT64, st.integers(0, 2), st.integers(0, 9))


@given(st.lists(ROWS, min_size=1, max_size=40))
@settings(deadline=None)
def test_row_order_equals_sorting_tuples(rows: list[tuple[int, ...]]) -> None:
    order = row_order(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))
    expected = sorted(
        range(len(rows)),
        key=lambda i: (cut(rows[i][0], 5 * MINUTE_NS), rows[i][1], rows[i][2], rows[i][0], *rows[i][3:]),
    )
    assert [rows[i] for i in order] == [rows[i] for i in expected]


def test_row_groups_cover_all_rows_and_stay_small() -> None:
    times = np.sort(np.random.default_rng(1).integers(0, 60 * MINUTE_NS, 700_000))
    services = np.zeros(len(times), np.int64)
    groups = row_groups(times, services, 100.0, 30)
    assert groups[0][0] == 0
    assert groups[-1][1] == len(times)
    assert all(before[1] == after[0] for before, after in pairwise(groups))
    for start, end in groups:
        assert 0 < end - start <= MAX_GROUP_ROWS
        assert cut(int(times[start]), 5 * MINUTE_NS) == cut(int(times[end - 1]), 5 * MINUTE_NS)
    assert len(row_groups(times, services, 10_000.0, 30)) > 50  # heavy rows make smaller groups
    assert row_groups(times[:10], services[:10], 1.0, 30) == [(0, 10)]


def test_row_groups_end_between_services_with_enough_rows_on_both_sides() -> None:
    times = np.repeat([MINUTE_NS, 6 * MINUTE_NS], [240_000, 100_000])
    services = np.concatenate([np.repeat([0, 1, 2, 3], [40_000, 30_000, 130_000, 40_000]), np.zeros(100_000)])
    borders = [0, 70_000, 240_000, 340_000]  # 40,000 rows are too few, at either end of the slot
    assert row_groups(times, services.astype(np.int64), 100.0, 30) == list(pairwise(borders))
    assert row_groups(times, services.astype(np.int64), 100.0, 1000) == [(0, 240_000), (240_000, 340_000)]


@given(WORDS)
@settings(deadline=None)
def test_the_kernel_hashes_and_splits_as_the_reader_does(texts: list[str]) -> None:
    bloom = token_bloom.build(iter([pa.array(texts, pa.string())]))
    for text in texts:
        for token in tokens(text):
            raw = np.frombuffer(token.encode(), np.uint8)
            assert int(kernel_hash(raw, 0, len(raw))) == token_hash(token)
            assert bloom.may_contain(token)


LONG_WORDS = st.lists(st.tuples(st.sampled_from(["a", "_", "7", "é"]), st.integers(0, 150)), max_size=6)


@given(st.lists(LONG_WORDS.map(lambda parts: " ".join(letter * size for letter, size in parts)), min_size=1))
@settings(deadline=None, max_examples=60)
def test_the_filter_has_exactly_the_bits_of_all_tokens(texts: list[str]) -> None:
    """Words of every length, across the borders of what the kernel looks at together; rows without a gap."""
    words = [0] * (MAX_BLOCKS * 8)
    for token in {token for text in texts for token in tokens(text)}:
        value = token_hash(token)
        block = (value >> 32) & (MAX_BLOCKS - 1)
        for index, salt in enumerate(SALTS):
            words[block * 8 + index] |= 1 << (((value & 0xFFFFFFFF) * salt & 0xFFFFFFFF) >> 27)
    expected = token_bloom.fold(np.array(words, np.uint32))
    assert token_bloom.build(iter([pa.array(texts, pa.string())])).words.tolist() == expected.tolist()


def test_folding_keeps_answers_and_false_positives_are_rare() -> None:
    words = [f"w{n}" for n in range(20_000)]
    column = pa.array([" ".join(words[i : i + 10]) for i in range(0, len(words), 10)])
    bloom = token_bloom.build(iter([column, column.dictionary_encode()]))
    assert len(bloom.words) < MAX_BLOCKS * 8
    again = TokenBloom.from_bytes(bloom.to_bytes())
    assert all(again.may_contain(word) for word in words)
    wrong = sum(again.may_contain(f"absent{n}") for n in range(20_000))
    assert wrong / 20_000 < 0.02


def test_null_and_dictionary_values_that_no_row_uses_are_not_tokens() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int32()), pa.array(["used", "unused"]))
    bloom = token_bloom.build(
        iter([column, pa.array([None, "plain"]), pa.array([None, b"\x01" * 8], pa.binary(8))])
    )
    assert bloom.may_contain("used")
    assert bloom.may_contain("plain")
    assert bloom.may_contain("01" * 8)
    assert not bloom.may_contain("unused")
