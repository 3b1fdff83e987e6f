"""The fuzzer of receivers in its short form: no crash, no status that the documentation does not name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from benchmarks import fuzz_checks
from benchmarks.fuzz_receivers import fuzz


def test_mutated_payloads_crash_nothing_and_a_run_continues_where_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "batches.jsonl"
    for cases in (400, 1000):
        (record,) = asyncio.run(fuzz(4, cases, file))
        assert (record.value, record.counters["cases"]) == (0, cases)
    batches = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["batch"], line["cases"]) for line in batches] == [(0, 400), (1, 600)]
    assert {"200", "202", "204", "400"} <= set(record.counters)


def test_opening_and_checking_refuse_and_never_fail() -> None:
    record = fuzz_checks.fuzz(4, 3000, None, print)
    assert record.value == 0
    assert {"taken", "refused", "malformed"} <= set(record.counters)
