"""A sampler over a small table and an index, which a test drives commit by commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lakerunner_sampling.aggregate import StateLimits
from lakerunner_sampling.dedup import Deduplicator
from lakerunner_sampling.follower import Follower, Position, open_catalog
from lakerunner_sampling.loader import Loader, unpack
from lakerunner_sampling.policies.documents import read_policies
from lakerunner_sampling.process import Sampler, SamplerOptions
from lakerunner_sampling.shapes import CanonicalShape
from resources.duckdb import DuckLimits, DuckSession
from resources.index.sampling_contract import SamplerIndex
from tests.support.span_tables import NAME, catalog_properties

POLICIES = b"""
policies:
  - {name: errors, type: status_code, status_code: {status_codes: [ERROR]}}
  - {name: slow, type: latency, latency: {threshold_ms: 5000}}
"""
SECOND = 10**9


@dataclass
class Driven:
    """A sampler of a test."""

    folder: Path
    index: SamplerIndex
    owner: str = "one"
    name: str = "spans"
    policies: bytes = POLICIES
    dedup_url: str = ""
    inactivity_s: int = 10
    destinations: Sequence[str] = ("file",)
    sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        self.follower = Follower(
            open_catalog("lakerunner", catalog_properties(self.folder)), NAME, "canonical"
        )
        self.limits = StateLimits(
            self.folder / f"scratch-{self.owner}", self.inactivity_s * SECOND, 600 * SECOND, 1000, 64, 1,
            (self.folder,),
        )  # fmt: skip
        options = SamplerOptions(
            "acme", self.name, read_policies(self.policies).policy_set(), "p1", CanonicalShape(), self.limits,
            tuple(self.destinations), 5.0, 0.05,
        )  # fmt: skip
        dedup = Deduplicator(self.index, 3600, self.dedup_url)
        self.sampler = Sampler(options, self.index, self.follower, dedup, self.owner)

    @contextmanager
    def claimed(self) -> Iterator[Sampler]:
        """Hold the claim with the state restored."""
        with self.sampler._claimed() as is_ours:
            assert is_ours
            self.sampler._restore()
            yield self.sampler

    def catch_up(self) -> None:
        """Decide all commits there are."""
        self.follower.refresh()
        for commit in self.follower.commits_after(Position(self.sampler._claim().sequence)):
            self.sampler.step(commit)

    @contextmanager
    def loader(self) -> Iterator[Loader]:
        session = DuckSession(DuckLimits(64, 1, self.folder / "spill", (self.folder,)))
        self.follower.refresh()
        yield Loader(self.follower, CanonicalShape(), session, self.folder / "decoded")
        session.close()

    def exported(self, destination: str = "file") -> list[tuple[int, int]]:
        """Take all batches out of the outbox; return traces and spans in order, with repetitions."""
        record = self.index.claim_sampler("acme", self.name, self.owner, 5.0)
        assert record is not None
        found: list[tuple[int, int]] = []
        with self.loader() as loader:
            while batch := self.index.claim_batch(record, destination, 60):
                for chunk in loader.load(unpack(batch.body)):
                    found += _pairs(chunk)
                self.index.finish_batch(batch)
        return sorted(found)

    def close(self) -> None:
        self.sampler.close()


def _pairs(spans: pa.Table) -> list[tuple[int, int]]:
    columns = spans["trace_id"].to_pylist(), spans["span_id"].to_pylist()
    return [
        (int.from_bytes(trace, "big"), int.from_bytes(span, "big"))
        for trace, span in zip(*columns, strict=True)
    ]
