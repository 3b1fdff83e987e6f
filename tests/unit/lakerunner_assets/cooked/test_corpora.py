"""Every payload of the corpora goes in as a raw object; every record, point and span is found again.

Through the whole cooking path: as OTLP JSON and as protobuf, into segments (or the quarantine, for most of
them are old), and back out of the Parquet files with exact values, against the protobuf runtime.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import json_format

from lakerunner_assets.signals import SIGNALS
from resources.lake.layout import Signal
from tests.support.cooking_lake import HOUR, Lake, lake_in
from tests.support.decode import metric_oracle, oracle, span_messages
from tests.support.decode.metric_oracle import bits
from tests.support.decode.oracle import found_rows
from tests.support.decoding import decode_object
from tests.unit.lakerunner_assets.decode.test_json_otlp import corpus, expected

Rows = list[dict[str, Any]]
ORACLES: dict[Signal, Callable[[bytes, int], Iterable[dict[str, Any]]]] = {
    Signal.LOGS: oracle.expected_rows,
    Signal.METRICS: lambda payload, _arrival: metric_oracle.expected_rows(payload),
    Signal.TRACES: span_messages.expected_rows,
}


def payloads(signal: Signal) -> list[tuple[str, bytes, bytes]]:
    """(file, JSON, protobuf); a YAML date is the text that it was written as, more or less."""
    found = []
    for name, kind, document in corpus():
        if kind is not signal:
            continue
        text = json.dumps(document, default=str)
        try:
            wire = expected(json.loads(text), signal).SerializeToString()
        except json_format.ParseError:
            continue  # not OTLP JSON: counted below
        if wire:
            found.append((name, text.encode(), wire))
    return found


def rows_of_segments(lake: Lake, signal: Signal) -> dict[tuple[int, int], dict[str, Any]]:
    """Every row of live and quarantined segments by (object, position), with original attribute names."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for dataset in (signal.value, f"{signal.value}-quarantine"):
        for segment, table in lake.segments(dataset):
            path = lake.folder / "lake" / segment.key
            rows = _read_back(path, signal)
            ids = zip(table["chq_object"].to_pylist(), table["chq_position"].to_pylist(), strict=True)
            for place, row in zip(ids, rows, strict=True):
                assert place not in found, f"{place} is there twice"
                found[place] = row
    return found


def _read_back(path: Path, signal: Signal) -> Rows:
    data = path.read_bytes()
    tables: list[pa.Table] = [part.table for part in decode_object(data, signal=signal, max_bytes=1 << 30)]
    assert sum(table.num_rows for table in tables) == pq.read_metadata(path).num_rows
    return [row for table in tables for row in found_rows(table)]


@pytest.mark.parametrize("shape", ["json", "protobuf"])
@pytest.mark.parametrize("signal", list(SIGNALS))
def test_every_row_of_every_payload_is_found_again(signal: Signal, shape: str, tmp_path: Path) -> None:
    given = payloads(signal)
    lake = lake_in(tmp_path)
    for name, text, wire in given:
        lake.arrive(name, text if shape == "json" else wire, signal=signal)
    lake.cook(signal)
    lake.cook(signal)
    assert lake.waiting() == (0, 0), lake.report.failed
    found = rows_of_segments(lake, signal)
    compared: Counter[str] = Counter()
    for number, (name, _, wire) in enumerate(given, start=1):
        arrival = _arrival(lake, name, signal)
        for position, want in enumerate(ORACLES[signal](wire, arrival)):
            have = found.pop((number, position))
            different = [key for key, value in want.items() if bits(have.get(key)) != bits(value)]
            assert not different, (name, position, {k: (have.get(k), want[k]) for k in different})
            compared["rows"] += 1
        compared["files"] += 1
    assert not found
    assert compared["files"] == len(given) > 70
    assert compared["rows"] > 100


def _arrival(lake: Lake, name: str, signal: Signal) -> int:
    """As the task takes it: the file's time, inside its arrival hour."""
    from resources.lake.timecut import HOUR_NS

    path = next((lake.folder / "raw" / f"otel-raw/acme/c/{signal.value}").rglob(name))
    return min(max(path.stat().st_mtime_ns // 1000 * 1000, HOUR + 1), HOUR + HOUR_NS)
