"""The index as the ruler changes it, and as queries see the alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from resources.index.account_types import StorageProfile
from resources.index.rule_contract import RuleIndex
from resources.index.ruling_types import (
    AlertChange,
    AlertCorrection,
    ChangedInput,
    Freshness,
    GroupRecord,
    Notice,
    RecordedState,
    SealedSamples,
    StoredNotice,
    WaitingNotices,
)
from resources.index.types import ObjectNotice
from resources.lake.layout import PrefixMapping


class AlertIndex(Protocol):
    """States of alerts, as the query API shows them."""

    def group_records(self, org: str) -> list[GroupRecord]:
        """Return the last evaluation of each group; groups of deleted rules may be among them."""

    def alert_changes(self, org: str, from_ms: int, to_ms: int, limit: int) -> list[AlertChange]:
        """List changes of states between two times (both inclusive), the newest first."""

    def alert_corrections(self, org: str, from_ms: int, to_ms: int, limit: int) -> list[AlertCorrection]:
        """List corrections that overlap an interval (both inclusive), those that end last first."""

    def recorded_state(self, org: str) -> RecordedState:
        """Return how recording rules went, ordered by group and metric, and how far behind they are."""

    def waiting_notices(self, org: str = "") -> list[WaitingNotices]:
        """Count by receiver what it has yet to take; no name: of all organisations."""


class RulerIndex(AlertIndex, RuleIndex, Protocol):
    """Groups of rules and notifications, as `ruler` processes change them."""

    def beat_ruler(self, owner: str, lease_s: float) -> list[str]:
        """Extend the lease of a process; return all processes that live, sorted."""

    def withdraw_ruler(self, owner: str) -> None:
        """End the lease of a process: its groups are free at once."""

    def claim_groups(self, owner: str, groups: Mapping[int, str]) -> list[GroupRecord]:
        """Claim those groups (rule → organisation) whose owner does not live; return them as stored.

        A process that lost sight of a group of its own claims it anew.
        """

    def release_groups(self, owner: str, rule_ids: Sequence[int]) -> None:
        """Free groups for others."""

    def write_evaluation(
        self,
        record: GroupRecord,
        changes: Sequence[AlertChange],
        notices: Sequence[Notice],
        samples: bytes = b"",
    ) -> bool:
        """Store an evaluation with all that follows from it; False, and nothing, if the claim was lost."""

    def seal_samples(self, seal: str, age_s: float, most: int, lease_s: float) -> SealedSamples | None:
        """Choose the samples of the next raw object, for whoever writes it within the lease.

        An object whose writer ended comes first, under its own seal; then the organisation whose samples
        wait longest, if they do for `age_s`.
        """

    def finish_samples(self, sealed: SealedSamples, notice: ObjectNotice) -> None:
        """Register the object and delete its samples, together; repeated, it changes nothing."""

    def forget_samples(self, age_s: float) -> int:
        """Delete samples that nobody could write for so long; return of how many evaluations."""

    def storage_profiles(self) -> dict[str, StorageProfile]: ...

    def prefix_mappings(self) -> list[PrefixMapping]: ...

    def organisations(self) -> list[str]:
        """List the names of enabled organisations, sorted."""

    def changed_inputs(self, org: str, after_ms: int, settled_s: float, most: int) -> list[ChangedInput]:
        """List what was published after a time and at least `settled_s` ago, the oldest first."""

    def changes_of_rule(self, rule_id: int, from_ms: int, to_ms: int) -> list[AlertChange]:
        """List the changes of a group's alerts in an interval, and the last one of each alert before it."""

    def corrections_of_rule(self, rule_id: int, from_ms: int, to_ms: int) -> list[AlertCorrection]:
        """List the corrections of a group that overlap an interval (both inclusive), in order."""

    def write_check(
        self, record: GroupRecord, interval: tuple[int, int] | None, found: Sequence[AlertCorrection]
    ) -> bool:
        """Replace the corrections that overlap an interval, and note `checked_ms`; False: the claim was lost.

        Without an interval, corrections stay as they are.
        """

    def claim_notices(self, receiver: str, most: int, lease_s: float) -> list[StoredNotice]:
        """Claim the oldest notices of a receiver; none while somebody sends to it, or it is put off."""

    def finish_notices(self, notices: Sequence[StoredNotice]) -> None:
        """Delete what was sent; a notice that was replaced meanwhile waits again."""

    def put_off_notices(self, notices: Sequence[StoredNotice], error: str, delay_s: float) -> None:
        """Let a receiver that took nothing rest."""

    def forget_ruling(self, live: Sequence[int], group_s: float, change_s: float, notice_s: float) -> int:
        """Delete what is too old; return how many notices.

        Groups that do not live and changed records go after `group_s`, changes of alerts and corrections
        after `change_s`, notices after `notice_s`.
        """

    def add_counters(self, amounts: Mapping[str, float]) -> None:
        """Add to the sums that `/metrics` of the ingress shows."""

    def freshness(self, orgs: Sequence[str], window_s: float) -> list[Freshness]:
        """Tell for how long the oldest arrival of the last `window_s` has waited to be seen, if one waits.

        Derived metrics show it when its hour was derived anew. One that failed before is not waited for.
        """
