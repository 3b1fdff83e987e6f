"""Parquet whose bytes lie is refused with a reason, before a row of it is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakerunner_assets.decode.errors import DecodeError, MalformedError, TooLargeError
from resources.lake import streams
from resources.lake.columns import CHQ_FINGERPRINT, CHQ_STREAM_ID, CHQ_TID, CHQ_TSNS, CHQ_VALUE_EXPONENT
from resources.lake.layout import Signal
from resources.lake.segment_file import MappedColumn
from tests.support.decode.hostile_parquet import forged, out_of_range, own_segment, repeated_rows, written
from tests.support.decoding import decode_object


def rows_in(data: bytes, signal: Signal = Signal.LOGS) -> int:
    return sum(part.table.num_rows for part in decode_object(bytes(data), signal=signal, name="x.parquet"))


@pytest.mark.parametrize("column", ["message", "n"])
def test_a_dictionary_index_out_of_range_is_malformed(column: str) -> None:
    with pytest.raises(MalformedError, match=r"out of bounds|Unexpected end"):
        rows_in(out_of_range(written(repeated_rows()), column))


@pytest.mark.parametrize("column", ["attr_n", "resource_service_name", "log_level", CHQ_STREAM_ID])
def test_so_it_is_in_a_segment_of_our_own(tmp_path: Path, column: str) -> None:
    """Such texts were a segmentation fault where the segment is written."""
    data = out_of_range(forged(own_segment(tmp_path), shuffled), column)
    with pytest.raises(MalformedError, match=r"out of bounds|Unexpected end"):
        rows_in(data)


def shuffled(table: pa.Table) -> pa.Table:
    """Mix the rows, so that indices are no runs."""
    return table.take(pa.array(np.random.default_rng(1).permutation(len(table))))


def renamed(name: str, to: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.rename_columns([to if each == name else each for each in table.column_names])


def replaced(name: str, values: Callable[[pa.Table], Any]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, values(table))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (replaced(CHQ_TSNS, lambda table: pa.array(["soon"] * len(table))), "chq_tsns.*string.*int64"),
        (replaced(CHQ_FINGERPRINT, lambda table: pa.nulls(len(table), pa.int64())), "chq_fingerprint.*null"),
        (renamed("log_message", "other"), "other"),
        (lambda table: table.drop_columns(["log_message"]), "log_message"),
        (renamed("attr_n", "chq_surprise"), "chq_surprise"),
        (replaced("attr_n", lambda table: pa.array([[1]] * len(table))), "attr_n"),
        (lambda table: table.append_column(CHQ_TSNS, table.column(CHQ_TSNS)), "twice"),
    ],
)
def test_columns_of_a_forged_segment_are_those_of_the_format(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], words: str
) -> None:
    with pytest.raises(MalformedError, match=words):
        rows_in(forged(own_segment(tmp_path), change))


@pytest.mark.parametrize(
    "odd",
    [{"scope": "elsewhere"}, {"key": 7}, {"kind": "whatever"}, {"kind": "string"}, {"column": "chq_tsns"}],
)
def test_the_label_map_of_a_forged_segment_is_checked(tmp_path: Path, odd: dict[str, Any]) -> None:
    def spoil(found: tuple[MappedColumn, ...]) -> tuple[MappedColumn, ...]:
        return tuple(dataclasses.replace(each, **odd) if each.column == "attr_n" else each for each in found)

    with pytest.raises(MalformedError, match=r"label map|attr_n"):
        rows_in(forged(own_segment(tmp_path), label_map=spoil))


@pytest.mark.parametrize(
    "facts",
    [{"series_offset": 1 << 62}, {"series_length": -1}, {"rows": 5}, {"series_offset": "x"}, {"dataset": 3}],
)
def test_facts_of_a_forged_segment_are_checked(tmp_path: Path, facts: dict[str, Any]) -> None:
    with pytest.raises(MalformedError, match="segment"):
        rows_in(forged(own_segment(tmp_path), facts=facts))


def test_streams_of_a_forged_segment_have_the_ids_of_their_labels(tmp_path: Path) -> None:
    """Rows under another id would be in no answer: a segment that cannot be read, published as done."""

    def spoil(raw: bytes) -> bytes:
        return streams.encode(
            dataclasses.replace(each, labels=(("service_name", "other"),)) for each in streams.decode(raw)
        )

    with pytest.raises(MalformedError, match="is not the id of the labels"):
        rows_in(forged(own_segment(tmp_path), block=spoil))


@pytest.mark.parametrize(
    "change",
    [
        replaced(CHQ_TID, lambda table: pa.array([5] * len(table))),
        replaced("metric_name", lambda table: pa.array(["down"] * len(table))),
        replaced(CHQ_VALUE_EXPONENT, lambda table: pa.array([-1] * len(table), pa.int32())),
        replaced(CHQ_VALUE_EXPONENT, lambda table: pa.array([400] * len(table), pa.int32())),
    ],
)
def test_samples_of_a_forged_segment_are_those_of_their_series(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    with pytest.raises(MalformedError):
        rows_in(forged(own_segment(tmp_path, Signal.METRICS), change), Signal.METRICS)


def test_a_segment_written_again_is_still_taken(tmp_path: Path) -> None:
    for signal in (Signal.LOGS, Signal.METRICS):
        assert rows_in(forged(own_segment(tmp_path, signal)), signal) == 999


def long_text_in_a_dictionary() -> pa.Table:
    codes = pa.array(np.zeros(800_000, np.int32))
    return pa.table({"message": pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 60_000]))})


def columns_of_one_number() -> pa.Table:
    column = pa.array(np.ones(1 << 17, np.int64))
    return pa.table({f"n{number}": column for number in range(70)})


@pytest.mark.parametrize("make", [long_text_in_a_dictionary, columns_of_one_number])
def test_a_small_file_that_unfolds_to_very_much_is_refused(make: Callable[[], pa.Table]) -> None:
    """The first would be 48 GB of messages."""
    data = written(make(), compression="zstd")
    assert len(data) < 1 << 17
    with pytest.raises(TooLargeError, match="unfolds to more than"):
        rows_in(bytes(data))


def test_row_counts_that_lie_are_refused() -> None:
    data = bytes(written(repeated_rows(77_777), use_dictionary=False))
    truth = compact(77_777)
    places = [at for at in range(len(data)) if data.startswith(truth, at)]
    file, first, _, second, _, group = places  # the others are statistics
    for at in (file, first, second, group):
        for lie in (77_776, 77_778, 1_000_000):
            with pytest.raises(DecodeError, match="Parquet"):
                rows_in(data[:at] + compact(lie)[:3] + data[at + 3 :])


def compact(number: int) -> bytes:
    """Thrift's integer: zigzag, seven bits a byte."""
    number <<= 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
