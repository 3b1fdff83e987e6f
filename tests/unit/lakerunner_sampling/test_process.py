"""A sampler decides complete traces, follows late spans, and goes on from its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.table import Table

from lakerunner_sampling.process import ClaimLostError
from resources.index.memory import MemoryIndex
from resources.index.sampling_types import StoredDecision
from tests.support.sampler import Driven
from tests.support.span_tables import SpanRow, append, make_table, trace_id


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_table(tmp_path)


@pytest.fixture
def index() -> MemoryIndex:
    found = MemoryIndex()
    found.create_organisation("acme")
    return found


@pytest.fixture
def driven(tmp_path: Path, table: Table, index: MemoryIndex) -> Iterator[Driven]:
    found = Driven(tmp_path, index)
    yield found
    found.close()


def decision(index: MemoryIndex, number: int) -> StoredDecision | None:
    return next(iter(index.find_decisions("acme", trace_id(number))), None)


def tick(table: Table, at_s: float) -> None:
    """Move the watermark: a trace of its own at that time."""
    append(table, SpanRow(1_000_000 + round(at_s), 1, at_s, 0.0))


def test_complete_traces_are_decided_and_kept_ones_exported(
    driven: Driven, table: Table, index: MemoryIndex
) -> None:
    append(table, SpanRow(1, 1, 0), SpanRow(2, 1, 0), SpanRow(3, 1, 0, for_s=6))
    append(table, SpanRow(1, 2, 1, parent=1), SpanRow(3, 2, 2, parent=1))
    with driven.claimed() as sampler:
        driven.catch_up()
        assert sampler.progress.sequence == 2
        early = decision(index, 3)
        assert early is not None
        assert (early.is_kept, early.policy, early.spans, early.sequence) == (True, "slow", 1, 1)
        assert (decision(index, 1), decision(index, 2)) == (None, None)
        tick(table, 11)
        driven.catch_up()
        assert decision(index, 1) is None, "not silent for long enough"
        tick(table, 14)
        driven.catch_up()
        found = [decision(index, number) for number in (1, 2, 3)]
        assert [one and (one.is_kept, one.spans, one.first_sequence, one.last_sequence) for one in found] == [
            (False, 2, 1, 2), (False, 1, 1, 1), (True, 2, 1, 2),
        ]  # fmt: skip
    assert driven.exported() == [(3, 1), (3, 2)]
    assert driven.exported() == []


def test_late_spans_of_kept_traces_are_exported_alone(
    driven: Driven, table: Table, index: MemoryIndex
) -> None:
    append(table, SpanRow(1, 1, 0, error=True))
    tick(table, 20)
    with driven.claimed():
        driven.catch_up()
        assert driven.index.waiting_batches("acme")
        append(table, SpanRow(1, 2, 1), SpanRow(1, 3, 2))
        tick(table, 40)
        driven.catch_up()
    found = decision(index, 1)
    assert found is not None
    assert (found.revision, found.spans, found.policy) == (2, 3, "errors")
    assert driven.exported() == [(1, 1), (1, 2), (1, 3)]


def test_late_spans_upgrade_dropped_traces(driven: Driven, table: Table, index: MemoryIndex) -> None:
    append(table, SpanRow(1, 1, 0), SpanRow(2, 1, 0), SpanRow(3, 1, 0))
    tick(table, 20)
    with driven.claimed():
        driven.catch_up()
        assert index.waiting_batches("acme") == []
        append(table, SpanRow(1, 2, 1, error=True), SpanRow(2, 2, 1), SpanRow(3, 2, 8, for_s=0.5))
        tick(table, 40)
        driven.catch_up()
    found = {number: decision(index, number) for number in (1, 2, 3)}
    assert {number: one and (one.is_kept, one.revision, one.spans) for number, one in found.items()} == {
        1: (True, 2, 2), 2: (False, 2, 2), 3: (True, 2, 2),
    }  # fmt: skip
    assert found[3] is not None
    assert found[3].policy == "slow", "from its first span to its last one"
    assert driven.exported() == [(1, 1), (1, 2), (3, 1), (3, 2)]


def test_a_process_that_takes_over_goes_on_exactly(tmp_path: Path, table: Table, index: MemoryIndex) -> None:
    """Undecided traces, late spans that wait, and limits are as the process before left them."""
    append(table, SpanRow(1, 1, 0, error=True), SpanRow(2, 1, 0), SpanRow(3, 1, 3, error=True))
    tick(table, 12)
    append(table, SpanRow(1, 2, 11), SpanRow(2, 2, 11, error=True), SpanRow(4, 1, 11))
    first = Driven(tmp_path, index)
    with first.claimed() as sampler:
        first.catch_up()
        state = sampler._state.everything().sort_by("trace_id")
    first.close()
    assert decision(index, 1)
    assert decision(index, 4) is None
    second = Driven(tmp_path, index, owner="two")
    with second.claimed() as sampler:
        assert sampler._state.everything().sort_by("trace_id").equals(state)
        assert sampler.progress.sequence == 3
        tick(table, 40)
        second.catch_up()
    second.close()
    found = {number: decision(index, number) for number in (1, 2, 3, 4)}
    assert {number: one and (one.is_kept, one.revision) for number, one in found.items()} == {
        1: (True, 2), 2: (True, 2), 3: (True, 1), 4: (False, 1),
    }  # fmt: skip
    assert second.exported() == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]


def test_a_process_that_lost_its_claim_decides_nothing(
    driven: Driven, table: Table, index: MemoryIndex
) -> None:
    append(table, SpanRow(1, 1, 0, error=True))
    tick(table, 20)
    with driven.claimed():
        now = index._clock() + 60
        index._clock = lambda: now
        assert index.claim_sampler("acme", "spans", "two", 60) is not None
        with pytest.raises(ClaimLostError):
            driven.catch_up()
    assert decision(index, 1) is None
    assert index.waiting_batches("acme") == []


def test_a_span_from_the_future_completes_no_trace(driven: Driven, table: Table, index: MemoryIndex) -> None:
    append(table, SpanRow(1, 1, 0), SpanRow(2, 1, 10.0**9))
    with driven.claimed() as sampler:
        driven.catch_up()
        assert sampler.progress.watermark_ns == table.refresh().snapshots()[0].timestamp_ms * 10**6


def test_two_samplers_of_an_organisation_export_a_trace_once(
    tmp_path: Path, table: Table, index: MemoryIndex
) -> None:
    append(table, SpanRow(1, 1, 0, error=True))
    tick(table, 20)
    for name, expected in (("us", [(1, 1)]), ("eu", [])):
        each = Driven(tmp_path, index, owner=name, name=name)
        with each.claimed() as sampler:
            each.catch_up()
            assert sampler.progress.sequence == 2
        assert each.exported() == expected
        each.close()
    assert len(index.find_decisions("acme", trace_id(1))) == 2
