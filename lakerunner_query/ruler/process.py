"""`lakerunner ruler` evaluates the alert rules of all organisations; any number of these processes may run.

A process beats, claims its share of the groups, and evaluates each at its own times. What another process
claimed meanwhile cannot be written any more. A process that ends frees its groups; the groups of one that is
killed are free when its lease ends.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar

import httpx
import msgspec
from anyio import to_thread

from lakerunner_query.coordinator.core import open_core
from lakerunner_query.ruler.checks import Checker
from lakerunner_query.ruler.delivery import SEND_S, Courier
from lakerunner_query.ruler.group import Evaluation, OwnGroup
from lakerunner_query.ruler.notices import Receiver, receivers_of
from lakerunner_query.ruler.questions import Questions
from lakerunner_query.ruler.samples import SampleWriter
from lakerunner_query.ruler.schedule import next_time, share
from lakerunner_query.rules.catalog import CatalogError, derived_of, group_of
from lakerunner_query.rules.chains import reads_derived
from lakerunner_query.rules.documents import RecordingRule
from lakerunner_query.rules.ruling import has_alerts
from resources.index.postgres import IndexUnavailableError, PostgresIndex
from resources.index.rule_types import RuleKind, StoredRule
from resources.index.ruling_contract import RulerIndex
from resources.index.ruling_types import GroupRecord
from resources.settings import Settings

BEATS_PER_LEASE = 4
STORE_LOOK_S, CHECK_S = 1.0, 30.0
FRESHNESS_S, FRESHNESS_WINDOW_S = 1.0, 600.0
SWEEP_S = 60.0
NOTICE_KEEP_S, GROUP_KEEP_S, DAY_S = 3600.0, 86_400.0, 86_400.0
"""Seconds for which a receiver may be away before what waits for it is dropped, and others."""
INDEX_CONNECTIONS = 8
Found = TypeVar("Found")
_log = logging.getLogger(__name__)


class Ruler:
    """Owns groups, evaluates them, and sends what follows."""

    def __init__(
        self,
        settings: Settings,
        index: RulerIndex,
        questions: Questions,
        http: httpx.AsyncClient,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.owner = uuid.uuid4().hex
        self.groups: dict[int, OwnGroup] = {}
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._index = index
        self._questions = questions
        self._clock = clock
        self.receivers: Sequence[Receiver] = receivers_of(settings)
        self.couriers = [Courier(one, index, http, self.counts) for one in self.receivers]
        self.samples = SampleWriter(settings, index, self.counts)
        self.checker = Checker(settings, index, questions, clock, self.counts)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(settings.ruler_concurrency)
        self._seen_until: dict[tuple[str, bool], float] = {}
        """Time by the clock until which all that arrived is visible, to records and to derived metrics."""
        self._live: list[int] | None = None
        """Groups that exist; None before the first look, when nothing may be forgotten yet."""
        self._judged: dict[tuple[int, int], bool] = {}
        """True for versions of rules that the ruler evaluates."""
        self._made: dict[tuple[int, int], tuple[str, ...]] = {}
        """Metrics that versions of rules make."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then free all groups."""
        background = [
            asyncio.create_task(one)
            for one in (
                self._repeat(self._settings.ruler_lease_s / BEATS_PER_LEASE, self.look),
                self._repeat(FRESHNESS_S, self.measure),
                self._repeat(SWEEP_S, self.sweep),
                self._repeat(STORE_LOOK_S, self.store),
                self._repeat(CHECK_S, self.check),
                *(courier.run() for courier in self.couriers),
            )
        ]
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([stopped, *background], return_when=asyncio.FIRST_COMPLETED)
            for task in background:
                if task.done():
                    task.result()
        finally:
            await _cancel([stopped, *background, *self._tasks.values()])
            try:
                await self._ask(self._index.withdraw_ruler, self.owner)
            except IndexUnavailableError as error:
                _log.warning("the groups of this process are free when its lease ends: %s", error)

    async def look(self) -> None:
        """Beat, and bring the groups of this process in line with its share of all groups."""
        live = await self._ask(self._index.beat_ruler, self.owner, self._settings.ruler_lease_s)
        beat = self._settings.ruler_beat
        beat.parent.mkdir(parents=True, exist_ok=True)
        beat.touch()
        known = await self._ask(self._index.all_rules)
        self.checker.made = self._made_by(known)
        rules = {one.rule_id: one for one in known if self._judges(one)}
        self._live = list(rules)
        names = {rule_id: f"{one.org}/{one.namespace}/{one.name}" for rule_id, one in rules.items()}
        mine = share(names, live, self.owner)
        await self._end([own for rule_id, own in self.groups.items() if rule_id not in rules])
        await self._let_go([rule_id for rule_id in self.groups if rule_id not in mine])
        for rule_id, own in self.groups.items():
            if rules[rule_id].version != own.stored.version:
                own.next_version = rules[rule_id]
        await self._claim({rule_id: rules[rule_id] for rule_id in mine if rule_id not in self.groups})

    def _judges(self, stored: StoredRule) -> bool:
        """Tell whether rules are evaluated here; documents are read once per version."""
        key = stored.rule_id, stored.version
        if key not in self._judged:
            self._judged[key] = _is_evaluated(stored)
        return self._judged[key]

    def _made_by(self, rules: Sequence[StoredRule]) -> dict[str, tuple[str, ...]]:
        """Return the names of metrics that rules make, by organisation."""
        found: dict[str, tuple[str, ...]] = {}
        for one in rules:
            key = one.rule_id, one.version
            if key not in self._made:
                self._made[key] = _metrics_of(one)
            found[one.org] = (*found.get(one.org, ()), *self._made[key])
        return found

    async def measure(self) -> None:
        """Look until when all that arrived is visible."""
        orgs, now_s = sorted({own.stored.org for own in self.groups.values()}), self._clock()
        found = await self._ask(self._index.freshness, orgs, FRESHNESS_WINDOW_S)
        waited_s = {(one.org, False): one.seconds for one in found}
        waited_s |= {(one.org, True): one.derived_s for one in found}
        self._seen_until = {
            (org, is_derived): now_s - waited_s.get((org, is_derived), 0.0)
            for org in orgs
            for is_derived in (False, True)
        }

    async def sweep(self) -> None:
        """Forget what is too old, and report what this process did."""
        if self._live is None:
            return
        days = self._settings.ruler_history_days
        dropped = await self._ask(
            self._index.forget_ruling, self._live, GROUP_KEEP_S, days * DAY_S, NOTICE_KEEP_S
        )
        if dropped:
            self.counts["lakerunner_ruler_notices_dropped_total"] += dropped
            _log.error("%d notices were dropped that no receiver took for an hour", dropped)
        lost = await self._ask(self._index.forget_samples, DAY_S)
        if lost:
            self.counts["lakerunner_ruler_samples_dropped_total"] += lost
            _log.error("series of %d evaluations were dropped that could not be stored for a day", lost)
        counted = dict(self.counts)
        if counted:
            await self._ask(self._index.add_counters, counted)
            self.counts.subtract(counted)

    async def store(self) -> None:
        """Write the series of alerts that are due into the lake."""
        while await self._ask(self.samples.write_some):
            pass

    async def check(self) -> None:
        """Evaluate again what records changed that came late."""
        await self.checker.check_all(list(self.groups.values()))

    async def _end(self, deleted: Sequence[OwnGroup]) -> None:
        """End the series of groups that were deleted, or have no alerts any more."""
        await _cancel([self._tasks.pop(id_) for own in deleted if (id_ := own.stored.rule_id) in self._tasks])
        for own in deleted:
            await self._write(own.end())

    async def _let_go(self, rule_ids: Sequence[int]) -> None:
        if not rule_ids:
            return
        await _cancel([self._tasks.pop(rule_id) for rule_id in rule_ids if rule_id in self._tasks])
        for rule_id in rule_ids:
            self.groups.pop(rule_id, None)
        await self._ask(self._index.release_groups, self.owner, list(rule_ids))

    async def _claim(self, rules: Mapping[int, StoredRule]) -> None:
        if not rules:
            return
        wanted = {rule_id: one.org for rule_id, one in rules.items()}
        for record in await self._ask(self._index.claim_groups, self.owner, wanted):
            stored = rules[record.rule_id]
            own = self._own(stored, record)
            if own.record.version not in {0, stored.version}:
                await self._take_over(own)
            self.groups[record.rule_id] = own
            self._tasks[record.rule_id] = asyncio.create_task(self._keep_evaluating(own))

    def _own(self, stored: StoredRule, record: GroupRecord) -> OwnGroup:
        try:
            return OwnGroup(stored, record, self._settings, self.receivers)
        except msgspec.ValidationError:
            _log.exception("group %d: its state cannot be read, so that it begins anew", record.rule_id)
            return OwnGroup(stored, replace(record, state={}), self._settings, self.receivers)

    async def _take_over(self, own: OwnGroup) -> None:
        """Give the state of an older version of the rules to those of this one."""
        versions = await self._ask(self._index.rule_versions, own.stored.org, own.stored.rule_id)
        before = next((one for one in versions if one.version == own.record.version), None)
        if before is not None:
            own.take_over(group_of(before))

    async def _keep_evaluating(self, own: OwnGroup) -> None:
        """Evaluate one group at its times, until the claim is lost."""
        least_s, most_s = self._settings.ruler_delay_s, self._settings.ruler_max_delay_s
        before_ms: int | None = None
        waited_ms = 0  # the longest that data needed since the group was behind no more

        while True:
            own.follow()
            now_s = self._clock()
            org, made = own.stored.org, self.checker.made.get(own.stored.org, ())
            needed_s = now_s - self._seen_until.get((org, reads_derived(own.group, made)), now_s)
            delay_s = min(max(least_s, needed_s), most_s)
            clock_ms, until_ms = round(now_s * 1000), round((now_s - delay_s) * 1000)
            waited_ms = max(waited_ms, clock_ms - until_ms)
            at_ms = next_time(own.slots, until_ms, before_ms, clock_ms, waited_ms)
            if at_ms <= own.record.evaluated_ms:
                rest_s = (at_ms + own.interval_ms - until_ms) / 1000
                await asyncio.sleep(rest_s if delay_s <= least_s else min(FRESHNESS_S, rest_s))
                continue
            before_ms = at_ms
            waited_ms = 0 if at_ms == own.slots.latest(until_ms) else waited_ms
            late_s = (clock_ms - at_ms - own.interval_ms) / 1000  # more than the delay while making up
            async with self._turns:
                is_ours = await self._evaluate(own, at_ms, max(delay_s, late_s))
            if not is_ours:
                self.groups.pop(own.stored.rule_id, None)
                self._tasks.pop(own.stored.rule_id, None)
                return

    async def _evaluate(self, own: OwnGroup, at_ms: int, delay_s: float) -> bool:
        """Evaluate once and store it; False: the group belongs to somebody else now."""
        try:
            evaluation = await own.evaluate(at_ms, delay_s, self._questions)
            is_ours = await self._write(evaluation)
        except IndexUnavailableError as error:
            _log.warning("%s: the evaluation of %d is lost, it is claimed anew: %s", own.name, at_ms, error)
            return False
        except Exception:  # noqa: BLE001 - other groups go on
            self.counts["lakerunner_ruler_evaluation_failures_total"] += 1
            _log.exception("%s: the evaluation of %d failed", own.name, at_ms)
            await asyncio.sleep(own.interval_ms / 1000)
            return True
        self.counts["lakerunner_ruler_evaluations_total"] += 1
        if not is_ours:
            _log.info("%s: another process owns it now", own.name)
            return False
        self.counts["lakerunner_ruler_missed_evaluations_total"] += own.missed_before(at_ms)
        own.accept(evaluation)
        if evaluation.notices:
            for courier in self.couriers:
                courier.awake.set()
        return True

    async def _write(self, evaluation: Evaluation) -> bool:
        return await self._ask(
            self._index.write_evaluation,
            evaluation.record,
            evaluation.changes,
            evaluation.notices,
            evaluation.samples,
        )

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except IndexUnavailableError as error:
                _log.warning("the index does not answer, groups go on as they are: %s", error)
            await asyncio.sleep(seconds)

    async def _ask(self, method: Callable[..., Found], *arguments: object) -> Found:
        return await to_thread.run_sync(partial(method, *arguments))


def _is_evaluated(stored: StoredRule) -> bool:
    if stored.kind is not RuleKind.GROUP:
        return False
    try:
        return has_alerts(group_of(stored))
    except CatalogError as error:
        _log.error("%s is not evaluated: %s", stored.name, error)
        return False


def _metrics_of(stored: StoredRule) -> tuple[str, ...]:
    try:
        if stored.kind is RuleKind.DERIVED:
            return tuple(derived_of(stored).series.values())
        return tuple(one.record for one in group_of(stored).rules if isinstance(one, RecordingRule))
    except CatalogError:
        return ()  # whoever evaluates it says what is wrong


async def _cancel(tasks: Sequence[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def run(settings: Settings, index: PostgresIndex, stop: asyncio.Event) -> None:
    """Run one ruler over the workers of the settings until `stop` is set."""
    core = open_core(settings, index, "ruler")
    async with AsyncExitStack() as stack:
        await core.open()
        stack.push_async_callback(core.close)
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=SEND_S))
        await Ruler(settings, index, Questions(core), http).run(stop)


def serve(settings: Settings) -> int:
    """Run the process until it is stopped."""
    logging.basicConfig(level=settings.log_level.upper())
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs whole addresses

    async def until_stopped(index: PostgresIndex) -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, stop.set)
        await run(settings, index, stop)

    with PostgresIndex(settings.require("index_dsn"), max_connections=INDEX_CONNECTIONS) as index:
        asyncio.run(until_stopped(index))
    return 0
