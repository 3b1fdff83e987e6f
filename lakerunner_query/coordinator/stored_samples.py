"""Stored samples for the engine: remote read and federation ask for series, not for an expression.

They take the path of every query. Workers encode each series; here they are put in the order of labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lakerunner_query.coordinator.engine import Cut, Limits, PreparedQuery, all_at_once, hour_affinity
from lakerunner_query.coordinator.locate import METRICS, Lookup, samples_query
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.plan.promql import Reads
from lakerunner_query.plan.slices import SampleSliceSizes, rows_to_read
from lakerunner_query.protocol.answers import NewestSample, SamplesAnswer
from lakerunner_query.protocol.units import Missing, SamplesForm, SamplesUnit, SeriesSelector, segment_ref
from lakerunner_query.vectors.vector import Labels

MAX_BYTES = 256 << 20
"""Encoded samples that one answer may hold in memory."""
SLOW = "narrow the time range, or select fewer series"
SIZES = SampleSliceSizes()


@dataclass(frozen=True, slots=True)
class SamplesRequest:
    """Parameters of a question for stored samples; series of several selectors are united."""

    org: str
    selectors: tuple[SeriesSelector, ...]
    form: SamplesForm
    query: int = 0
    """Number of the query in its request."""
    timeout_s: float = 0.0


@dataclass(slots=True)
class StoredSamples:
    """Series in the order of their labels: messages, or newest samples."""

    messages: list[bytes] = field(default_factory=list)
    newest: list[NewestSample] = field(default_factory=list)
    samples: int = 0
    missing: dict[str, Missing] = field(default_factory=dict)
    """Segments that could not be read."""


SamplesQuery = PreparedQuery[SamplesRequest, tuple[Reads, ...], SamplesAnswer, StoredSamples]


def plan_samples(_text: str, request: SamplesRequest, _: Limits) -> tuple[Reads, ...]:
    return tuple(Reads(one.matchers, one.from_ms, one.to_ms) for one in request.selectors)


def look_up_samples(plan: tuple[Reads, ...], request: SamplesRequest) -> Lookup:
    return Lookup(tuple(samples_query(request.org, reads) for reads in plan))


def cut_samples(query: SamplesQuery, workers: int, limits: Limits) -> Cut:
    """Make a unit of each selector, or a shard of its series for each worker where there is much to read."""
    return all_at_once(list(_units(query, workers, limits)))


def _units(query: SamplesQuery, workers: int, limits: Limits) -> Iterator[SamplesUnit]:
    request = query.request
    for selector, reads, segments in zip(request.selectors, query.plan, query.segments, strict=True):
        if not segments:
            continue
        count = workers if rows_to_read([(reads, segments)]) > SIZES.at_least else 1
        affinity = hour_affinity(request.org, METRICS, segments)
        chosen = tuple(map(segment_ref, segments))
        for number in range(count):
            yield SamplesUnit(
                affinity, selector, chosen, request.form, request.query, number, count,
                limits.max_series, limits.max_points,
            )  # fmt: skip


@dataclass(slots=True)
class SamplesMerge:
    """Unites the series of all units; equal ones have equal messages."""

    messages: dict[Labels, tuple[bytes, ...]] = field(default_factory=dict)
    newest: dict[Labels, NewestSample] = field(default_factory=dict)
    size: int = 0
    found: StoredSamples = field(default_factory=StoredSamples)

    @property
    def is_full(self) -> bool:
        return False

    @property
    def is_small(self) -> bool:
        """Label sets take long to sort."""
        return not self.messages and not self.newest

    def add(self, answer: SamplesAnswer) -> None:
        self.found.missing.update((lost.segment_id, lost) for lost in answer.report.missing)
        self.found.samples += answer.samples
        self.messages.update((one.labels, one.messages) for one in answer.series)
        self.newest.update((one.labels, one) for one in answer.newest)
        self.size += sum(len(message) for one in answer.series for message in one.messages)
        if self.size > MAX_BYTES:
            raise LimitExceededError(f"the answer has more than {MAX_BYTES} bytes of samples: {SLOW}")

    def result(self) -> StoredSamples:
        found = self.found
        found.messages = [message for _, each in sorted(self.messages.items()) for message in each]
        found.newest = [one for _, one in sorted(self.newest.items())]
        return found


def merge_samples(_query: SamplesQuery, _: Limits) -> SamplesMerge:
    return SamplesMerge()
