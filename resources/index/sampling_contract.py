"""The index as samplers change it: claims, steps, batches to export; and as their decisions are explained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from resources.index.sampling_types import (
    DeadTraces,
    ExportLetter,
    Rows,
    SamplerRecord,
    SamplingStep,
    StoredBatch,
    StoredDecision,
    WaitingBatches,
)


class DecisionIndex(Protocol):
    """Decisions and exports of an organisation, for those who look at them."""

    def find_decisions(self, org: str, trace_id: bytes) -> list[StoredDecision]:
        """Return what each sampler of the organisation decided about a trace."""

    def waiting_batches(self, org: str) -> list[WaitingBatches]:
        """Count what destinations have yet to take, and what they refused, by sampler."""

    def dead_traces(self, org: str, limit: int) -> list[DeadTraces]:
        """List what destinations refused, the newest first."""


class SamplerIndex(DecisionIndex, Protocol):
    """Index as `sampler` processes change it."""

    def claim_sampler(self, org: str, name: str, owner: str, lease_s: float) -> SamplerRecord | None:
        """Claim a sampler, which is made if there is none; None while somebody else holds it."""

    def beat_sampler(self, record: SamplerRecord, lease_s: float) -> bool:
        """Extend the lease; False: somebody else has claimed it since."""

    def release_sampler(self, record: SamplerRecord) -> None:
        """Free a sampler for others at once."""

    def write_step(self, step: SamplingStep) -> bool:
        """Store decisions, checkpoint and batches together; False, and nothing, if the claim was lost."""

    def known_decisions(self, record: SamplerRecord, packed: bytes) -> Rows:
        """Return the decisions there are about these traces (ids one behind the other), in any order."""

    def decided_since(self, record: SamplerRecord, sequence: int, most: int) -> Iterator[Rows]:
        """Return decisions of this commit and later ones, in blocks of at most `most`."""

    def kept_elsewhere(self, record: SamplerRecord, packed: bytes, within_s: float) -> bytes:
        """Return the ids that other samplers of the organisation decided to keep within that time."""

    def claim_batch(self, record: SamplerRecord, destination: str, lease_s: float) -> StoredBatch | None:
        """Claim the oldest batch that is due; None when there is none."""

    def beat_batch(self, batch: StoredBatch, lease_s: float) -> bool:
        """Extend the lease of a batch; False: somebody else claimed it."""

    def finish_batch(self, batch: StoredBatch, dead: ExportLetter | None = None) -> bool:
        """Delete a batch that was sent, and keep what was refused of it; False if the claim was lost."""

    def put_off_batch(
        self,
        batch: StoredBatch,
        error: str,
        delay_s: float,
        left: tuple[bytes, int] | None = None,
        dead: ExportLetter | None = None,
    ) -> None:
        """Let a batch rest that was not taken, or the body and traces that are `left` of it."""

    def retry_dead(self, org: str, letter_id: int) -> bool:
        """Make refused traces due again; False where there is no such letter."""

    def forget_sampling(self, keep_s: float, letter_s: float, limit: int) -> int:
        """Delete at most `limit` decisions and letters that are older; return how many decisions."""
