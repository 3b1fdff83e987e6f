"""Rules and their states, as Prometheus' API shows them; pure.

A group is what the catalogue has of it now; states are those of its last evaluation, if that was of the same
version of the rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakerunner_query.errors import ParseError
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.promql.lang.parser import parse_cached
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.rules.alert_states import ActiveAlert, Phase, RuleState
from lakerunner_query.rules.catalog import group_of
from lakerunner_query.rules.documents import AlertRule, RecordingRule, Rule, RuleGroup, RuleLanguage
from lakerunner_query.rules.ruling import HeldState, RuleRun, from_stored, has_alerts, interval_of
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.labels import matches
from resources.index.rule_types import RuleKind, StoredRule
from resources.index.ruling_types import GroupRecord, RecordedOutcome, RecordedState

Json = dict[str, object]
ZERO_TIME = "0001-01-01T00:00:00Z"
ALERTING, RECORDING = "alerting", "recording"


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """Conditions on the rules that are shown; an empty one holds for all."""

    kind: str = ""
    names: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    selectors: tuple[tuple[Matcher, ...], ...] = ()
    languages: frozenset[RuleLanguage] = frozenset(RuleLanguage)

    def shows_group(self, shown: ShownGroup) -> bool:
        if shown.group.language not in self.languages:
            return False
        is_named = not self.groups or shown.group.name in self.groups
        return is_named and (not self.files or shown.stored.namespace in self.files)

    def shows_rule(self, rule: Rule, group: RuleGroup) -> bool:
        is_alert = isinstance(rule, AlertRule)
        if self.kind and self.kind != (ALERTING if is_alert else RECORDING):
            return False
        if self.names and name_of(rule) not in self.names:
            return False
        labels = {**group.labels, **rule.labels}
        return not self.selectors or any(_selects(one, labels) for one in self.selectors)


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """A group of the catalogue with its last evaluation."""

    stored: StoredRule
    group: RuleGroup
    record: GroupRecord
    interval_ms: int
    held: HeldState = field(default_factory=HeldState)
    recorded: RecordedState = field(default_factory=RecordedState)

    @property
    def outcomes(self) -> dict[str, RecordedOutcome]:
        """Results of its recording rules by metric, as of this version; those of alerts are in `held`."""
        if has_alerts(self.group):
            return {}
        since_ms = self.stored.updated_at_ns // 1_000_000
        mine = (one for one in self.recorded.outcomes if one.group == self.group.name)
        return {one.record: one for one in mine if one.at_ms >= since_ms}


def shown_groups(
    rules: Sequence[StoredRule],
    records: Sequence[GroupRecord],
    default_interval_ms: int,
    recorded: RecordedState,
) -> list[ShownGroup]:
    """Put groups and states together, ordered by file and name."""
    known = {record.rule_id: record for record in records}
    found = []
    for stored in rules:
        if stored.kind is not RuleKind.GROUP:
            continue
        record = known.get(stored.rule_id, GroupRecord(stored.rule_id, stored.org))
        is_same = record.version == stored.version
        group = group_of(stored)
        held = from_stored(record.state) if is_same else HeldState()
        interval_ms = interval_of(group, default_interval_ms)
        found.append(ShownGroup(stored, group, record, interval_ms, held, recorded))
    return sorted(found, key=lambda one: (one.stored.namespace, one.stored.name))


def rules_json(groups: Sequence[ShownGroup], wanted: RuleFilter, *, with_alerts: bool) -> Iterator[Json]:
    """Yield the groups that have rules to show."""
    for shown in groups:
        if not wanted.shows_group(shown):
            continue
        rules = [
            _rule_json(shown, position, rule, with_alerts=with_alerts)
            for position, rule in enumerate(shown.group.rules)
            if wanted.shows_rule(rule, shown.group)
        ]
        if rules:
            yield _group_json(shown, rules)


def alerts_json(groups: Sequence[ShownGroup], languages: frozenset[RuleLanguage]) -> Iterator[Json]:
    """Yield the alerts that are pending or firing."""
    for shown in groups:
        if shown.group.language in languages:
            for state in shown.held.group.rules:
                yield from map(_alert_json, _active(state))


def name_of(rule: Rule) -> str:
    return rule.record if isinstance(rule, RecordingRule) else rule.alert


def _group_json(shown: ShownGroup, rules: Sequence[Json]) -> Json:
    record, outcomes = shown.record, shown.outcomes
    last_ms = max((one.at_ms for one in outcomes.values()), default=0)
    return {
        "name": shown.group.name,
        "file": shown.stored.namespace,
        "rules": rules,
        "interval": shown.interval_ms / 1000,
        "limit": shown.group.limit,
        "evaluationTime": record.duration_s,
        "lastEvaluation": rfc3339(last_ms) if last_ms else _evaluation_time(record.evaluated_ms, record),
        "evaluationDelay": record.delay_s,
        "missedEvaluations": record.missed,
        "language": shown.group.language.value,
        **({} if has_alerts(shown.group) else {"recordedBehind": round(shown.recorded.behind_s, 1)}),
    }


def _rule_json(shown: ShownGroup, position: int, rule: Rule, *, with_alerts: bool) -> Json:
    state, run = shown.held.group.of_rule(position), shown.held.run_of(position)
    common = {
        "name": name_of(rule),
        "query": _query_text(rule, shown.group.language),
        "labels": {**shown.group.labels, **rule.labels},
        "health": _health(state, run),
        "evaluationTime": 0.0 if run is None else run.seconds,
        "lastEvaluation": _evaluation_time(0 if run is None else run.at_ms, shown.record),
        **({"lastError": state.error} if state.error else {}),
    }
    if isinstance(rule, RecordingRule):
        return {**common, **_recorded_json(shown.outcomes.get(rule.record)), "type": RECORDING}
    alerts = list(_active(state))
    phases = {alert.phase for alert in alerts}
    phase = next((one for one in (Phase.FIRING, Phase.PENDING) if one in phases), Phase.INACTIVE)
    return {
        "state": phase.value,
        **common,
        "duration": rule.for_ms / 1000,
        "keepFiringFor": rule.keep_firing_for_ms / 1000,
        "annotations": dict(rule.annotations),
        "alerts": [_alert_json(alert) for alert in alerts] if with_alerts else [],
        "type": ALERTING,
    }


def _recorded_json(outcome: RecordedOutcome | None) -> Json:
    """Show how the asset `recorded/metrics` recorded a rule; how long that took is not known."""
    if outcome is None:
        return {}
    error = {"lastError": outcome.error} if outcome.error else {}
    health = "err" if outcome.error else "ok"
    return {"health": health, "lastEvaluation": rfc3339(outcome.at_ms), **error}


def _alert_json(alert: ActiveAlert) -> Json:
    keeps_ms = alert.keep_firing_since_ms
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "state": alert.phase.value,
        "activeAt": rfc3339(alert.active_at_ms),
        **({} if keeps_ms is None else {"keepFiringSince": rfc3339(keeps_ms)}),
        "value": format_float(alert.number, "e"),
    }


def _active(state: RuleState) -> Iterator[ActiveAlert]:
    return (alert for alert in state.alerts if alert.phase is not Phase.INACTIVE)


def _health(state: RuleState, run: RuleRun | None) -> str:
    if run is None:
        return "unknown"
    return "err" if state.error else "ok"


def _query_text(rule: Rule, language: RuleLanguage) -> str:
    """Return the expression, in PromQL as Prometheus prints it."""
    if language is not RuleLanguage.PROMQL:
        return rule.expr
    try:
        return to_text(parse_cached(rule.expr))
    except ParseError:
        return rule.expr  # of an older version of the language; its evaluation says what is wrong


def _evaluation_time(at_ms: int, record: GroupRecord) -> str:
    """Return the time on the clock; the data that was looked at is older."""
    return rfc3339(at_ms + round(record.delay_s * 1000)) if at_ms else ZERO_TIME


def rfc3339(time_ms: int) -> str:
    """
    >>> rfc3339(1_500), rfc3339(0)
    ('1970-01-01T00:00:01.5Z', '1970-01-01T00:00:00Z')
    """
    seconds, rest = divmod(time_ms, 1000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}{f'.{rest:03d}'.rstrip('0') if rest else ''}Z"


def _selects(selector: Sequence[Matcher], labels: Mapping[str, str]) -> bool:
    return all(bool(matches(one, [labels.get(one.name, "")])[0]) for one in selector)


Page = tuple[list[Json], str]
"""Groups, and the token of the first one that follows; empty: there is none."""


def page_of(groups: Sequence[Json], limit: int, token: str) -> Page | None:
    """Return a page of at most `limit` groups (0: all), from a token on; None: no group has that token."""
    first = 0
    if token:
        places = [place for place, one in enumerate(groups) if _token_of(one) == token]
        if not places:
            return None
        first = places[0]
    rest = groups[first + limit :] if limit else []
    return list(groups[first : first + limit] if limit else groups[first:]), _token_of(
        rest[0]
    ) if rest else ""


def _token_of(group: Json) -> str:
    return hashlib.sha256(f"{group['file']}\0{group['name']}".encode()).hexdigest()[:40]
