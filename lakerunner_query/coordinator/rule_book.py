"""The rule book reads and changes an organisation's rules, by file or group.

All changes of a request are made together. Somebody else's change in between is told apart by the revision:
a request without one is tried again over the newer rules.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakerunner_query.coordinator.locate import NS_PER_MS, Locator, Lookup, samples_query
from lakerunner_query.coordinator.rules import active_rules
from lakerunner_query.errors import NotFoundError, QueryError
from lakerunner_query.plan.promql import Reads
from lakerunner_query.plan.suggestions import Suggestions, suggest
from lakerunner_query.rules.catalog import group_of
from lakerunner_query.rules.changes import Difference, differences, faults_of, new_names, place_of, repeated
from lakerunner_query.rules.checks import NAME
from lakerunner_query.rules.documents import RecordingRule, RuleGroup, RuleLanguage
from lakerunner_query.rules.rule_files import RuleFile, RuleFileError
from lakerunner_query.syntax import Matcher, MatchOp
from resources.index.rule_types import (
    DropRule,
    RuleChange,
    RuleKind,
    RulesChangedError,
    RuleSet,
    StoredRule,
)
from resources.lake.timecut import DAY_NS, cut

_ATTEMPTS = 20
_PAUSE_S = 0.02
"""Longest pause before the second attempt; later ones may wait longer."""
_RECENT_MS = 30 * 86_400_000
"""Age of metrics whose names a new derived metric must not have."""
_NAMES_AT_ONCE = 20
_LOOKUP_S = 10.0
MOST_ASKED = 500
"""Queries for which rules are suggested, the costliest of the log."""


class OutdatedRulesError(QueryError):
    """The rules are of another revision than the caller thinks."""

    status = 409
    code = "outdated_rules"


@dataclass(frozen=True, slots=True)
class Applied:
    """Changes that were made, or would be, and the revision of the rules afterwards."""

    revision: int
    differences: tuple[Difference, ...]


class RuleBook:
    """Rules of all organisations; every call names one."""

    def __init__(self, locator: Locator) -> None:
        self._locator = locator

    async def rules(self, org: str) -> RuleSet:
        return await self._locator.rules(org)

    async def apply(
        self,
        org: str,
        files: Sequence[tuple[str, RuleFile]],
        *,
        prune: bool = False,
        dry_run: bool = False,
        revision: int | None = None,
    ) -> Applied:
        """Make the rules of files those of the organisation; what is in no file stays unless it is pruned."""
        if faults := repeated(files):
            raise RuleFileError.of(faults)

        def plan(current: RuleSet) -> list[Difference]:
            return differences(current, files, prune=prune)

        return await self._change(org, plan, revision, dry_run=dry_run)

    async def suggest(self, org: str, since_ns: int, most_series: int) -> Suggestions:
        """Suggest derived metrics for what was asked, under names that nobody has."""
        current = await self._locator.rules(org)
        log = await self._locator.asked_queries(org, cut(since_ns, DAY_NS), MOST_ASKED)
        existing = active_rules(current)
        taken = {rule.record for rule in recording_rules(current)}
        while True:
            found = await asyncio.to_thread(suggest, log, existing, taken, most_series)
            names = [name for one in found.proposals for name in one.metric.series.values()]
            sent = await self._sent(org, names)
            if not sent:
                return found
            taken |= sent

    async def put_group(self, org: str, namespace: str, group: RuleGroup) -> None:
        """Add or replace one group; one of another family of languages is not replaced."""

        def plan(current: RuleSet) -> list[Difference]:
            old = find_group(current, namespace, group.name)
            if old is not None and _is_of_logs(group_of(old)) != _is_of_logs(group):
                other = group_of(old).language
                raise OutdatedRulesError(
                    f"{place_of(old)} is a group in {other}: delete it, or take another name"
                )
            return differences(current, [(namespace, RuleFile([(namespace, group)]))], prune=False)

        await self._change(org, plan, None)

    async def drop(self, org: str, chosen: Callable[[StoredRule], bool], missing: str) -> int:
        """Retire all rules that are chosen; nothing to retire is an error with this message."""
        for attempt in range(_ATTEMPTS):
            await _pause(attempt)
            current = await self._locator.rules(org)
            gone = [DropRule(one.kind, one.namespace, one.name) for one in current.rules if chosen(one)]
            if not gone:
                raise NotFoundError(missing)
            if await self._commit(org, gone, current.revision) is not None:
                return len(gone)
        raise _busy(org)

    async def _change(
        self,
        org: str,
        plan: Callable[[RuleSet], list[Difference]],
        revision: int | None,
        *,
        dry_run: bool = False,
    ) -> Applied:
        for attempt in range(_ATTEMPTS):
            await _pause(attempt)
            current = await self._locator.rules(org)
            if revision is not None and current.revision != revision:
                raise OutdatedRulesError(str(RulesChangedError(org, revision, current.revision)))
            found = tuple(await asyncio.to_thread(plan, current))
            await self._check(org, current, found)
            if dry_run or not found:
                return Applied(current.revision, found)
            changed = await self._commit(org, [one.change for one in found], current.revision)
            if changed is not None:
                return Applied(changed.revision, found)
        raise _busy(org)

    async def _check(self, org: str, current: RuleSet, changed: Sequence[Difference]) -> None:
        sent = await self._sent(org, new_names(changed))
        if faults := await asyncio.to_thread(faults_of, current, changed, sent):
            raise RuleFileError.of(faults)

    async def _sent(self, org: str, names: Sequence[str]) -> set[str]:
        """Return those of these metrics that somebody sent lately, as the index knows it by segment."""
        to_ms = time.time_ns() // NS_PER_MS
        found: set[str] = set()
        for at in range(0, len(names), _NAMES_AT_ONCE):
            alternatives = "|".join(names[at : at + _NAMES_AT_ONCE])
            named = Matcher(NAME, MatchOp.REGEX, alternatives)
            wanted = samples_query(org, Reads((named,), to_ms - _RECENT_MS, to_ms), names=True)
            deadline = asyncio.get_running_loop().time() + _LOOKUP_S
            (segments,) = (await self._locator.look_up(Lookup((wanted,)), deadline)).segments
            found |= {name for one in segments if not one.origin for name in one.metric_names}
        return found & set(names)

    async def _commit(self, org: str, changes: Sequence[RuleChange], revision: int) -> RuleSet | None:
        """Return the rules afterwards; None where somebody else was faster."""
        try:
            return await self._locator.change_rules(org, changes, revision)
        except RulesChangedError:
            return None


async def _pause(attempt: int) -> None:
    """Let others finish first, who changed the rules meanwhile; tools send several groups at a time."""
    if attempt:
        await asyncio.sleep(random.uniform(0, _PAUSE_S * attempt))  # noqa: S311 - protects nothing


def find_group(rules: RuleSet, namespace: str, name: str) -> StoredRule | None:
    key = (RuleKind.GROUP, namespace, name)
    return next((one for one in rules.rules if (one.kind, one.namespace, one.name) == key), None)


def recording_rules(rules: RuleSet) -> list[RecordingRule]:
    groups = [group_of(one) for one in rules.rules if one.kind is RuleKind.GROUP]
    return [rule for group in groups for rule in group.rules if isinstance(rule, RecordingRule)]


def _is_of_logs(group: RuleGroup) -> bool:
    return group.language is RuleLanguage.LOGQL


def _busy(org: str) -> OutdatedRulesError:
    return OutdatedRulesError(
        f"the rules of {org} were changed by others {_ATTEMPTS} times meanwhile: try again"
    )
