"""Protocols of rules stand beside those of the index, which are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from resources.index.rule_types import RuleChange, RuleSet, StoredRule
from resources.index.ruling_types import RecordedOutcome


class RuleIndex(Protocol):
    """Rules of organisations and their versions."""

    def rules(self, org: str) -> RuleSet:
        """Return the live rules of an organisation, with their revision, as of one moment."""

    def change_rules(self, org: str, changes: Sequence[RuleChange], expected_revision: int | None) -> RuleSet:
        """Make all changes in order, or none, and return what is there afterwards.

        What changes nothing makes no version. `RulesChangedError` if the revision is not the expected one.
        """

    def rule_versions(self, org: str, rule_id: int) -> list[StoredRule]:
        """List the versions of a rule of this organisation, the newest first; a deletion is one."""

    def all_rules(self) -> list[StoredRule]:
        """List the live rules of all enabled organisations, ordered by them, kind, namespace and name."""

    def note_recorded_rules(self, org: str, outcomes: Sequence[RecordedOutcome]) -> None:
        """Record how rules went in an hour; a newer hour that is known already stays."""
