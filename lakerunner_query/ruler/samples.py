"""Series of alerts go into the lake as raw objects, as pushes do.

An evaluation stores its samples in the index, in its own transaction. Some seconds later all that an
organisation has there becomes one object of remote write, which is put under the name of its seal, and
registered in the transaction that deletes the samples. Whoever repeats this after a crash makes the same
object again, so that no sample is lost, and none comes twice.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lakerunner_query.rules.documents import AlertRule, Rule
from lakerunner_query.rules.evaluation import RecordedSample, RuleOutcome
from lakerunner_query.windows.functions import STALE_BITS
from resources.index.ruling_contract import RulerIndex
from resources.index.ruling_types import SealedSamples
from resources.lake.layout import RULER, Signal
from resources.lake.timecut import to_datetime
from resources.notifications.raw_objects import (
    NoPlaceError,
    Owner,
    Place,
    choose_place,
    compress,
    marker,
    named_object,
    with_short_timeouts,
)
from resources.notifications.references import Registry
from resources.objects.errors import AlreadyExistsError, StoreError
from resources.objects.store import open_store
from resources.proto.prometheus import WriteRequest
from resources.settings import Settings, SettingsError

HEAD = marker("prometheus.WriteRequest")
SUFFIX = ".binpb.zst"
MOST_EVALUATIONS = 10_000
"""Evaluations whose samples share an object."""
LEASE_S = 30.0
"""Seconds after which another process writes a sealed object; more than a put takes."""
_STALE_VALUE = b"\x09" + STALE_BITS.to_bytes(8, "little")
"""Field `value` of a sample that ends its series: as a float, a NaN may lose some of its bits."""
_log = logging.getLogger(__name__)


def alert_samples(rules: Sequence[Rule], outcomes: Sequence[RuleOutcome]) -> Iterator[RecordedSample]:
    """Yield what is stored of an evaluation: recorded metrics come from `recorded/metrics`."""
    for rule, outcome in zip(rules, outcomes, strict=True):
        if isinstance(rule, AlertRule):
            yield from outcome.samples


def encode(samples: Iterable[RecordedSample]) -> bytes:
    """Encode samples as one message of remote write; without any it is empty."""
    request = WriteRequest()
    for sample in samples:
        series = request.timeseries.add()
        for name, value in sample.labels:
            series.labels.add(name=name, value=value)
        if isinstance(sample.value, float):
            series.samples.add(value=sample.value, timestamp=sample.at_ms)
        else:
            series.samples.add(timestamp=sample.at_ms)
            series.samples[0].MergeFromString(_STALE_VALUE)
    return bytes(request.SerializeToString())


@dataclass(slots=True)
class SampleWriter:
    """Writes the samples that wait in the index, one object after the other; it blocks."""

    settings: Settings
    index: RulerIndex
    counts: Counter[str] = field(default_factory=Counter)

    def write_some(self) -> bool:
        """Write one object; False: none is due, or none can be written now."""
        sealed = self.index.seal_samples(
            secrets.token_hex(16), self.settings.ruler_store_s, MOST_EVALUATIONS, LEASE_S
        )
        if sealed is None:
            return False
        try:
            place = self._put(sealed)
        except (NoPlaceError, OSError, SettingsError, StoreError) as error:
            self.counts["lakerunner_ruler_store_failures_total"] += 1
            _log.error(
                "alert series of %s are not stored, next attempt in %g s: %s", sealed.org, LEASE_S, error
            )
            return False
        self.index.finish_samples(sealed, place.notice)
        self.counts["lakerunner_ruler_stored_objects_total"] += 1
        return True

    def _put(self, sealed: SealedSamples) -> Place:
        data = compress(HEAD, sealed.parts)
        place = self._place(sealed, len(data))
        profile = place.profile
        store = open_store(profile.url, with_short_timeouts(self.settings), profile.credentials_ref)
        try:
            return place.with_etag(store.put_new(place.record.key, data))
        except AlreadyExistsError:  # a process wrote it, and ended before it was registered
            there = store.head(place.record.key)
            notice = replace(place.notice, size=there.size, etag=there.etag)
            return replace(place, notice=notice)

    def _place(self, sealed: SealedSamples, size: int) -> Place:
        profiles, mappings = self.index.storage_profiles(), tuple(self.index.prefix_mappings())
        registry = Registry(profiles, mappings, frozenset(self.index.organisations()))
        owner, sealed_at = Owner(sealed.org, RULER, Signal.METRICS), to_datetime(sealed.sealed_ns)
        record = named_object(owner, f"{sealed_at:%M%S%f}-{sealed.seal}{SUFFIX}", size, sealed_at, "ruler")
        return choose_place(record, owner, registry, self.settings.receiver_bucket)
