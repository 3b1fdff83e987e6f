"""Alerts become notifications: one for each receiver that is to hear of them.

Alertmanagers are told what fires again and again, and forget what they no longer hear of. Webhooks are told
once that an alert fires, and once that it no longer does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import urlencode, urlsplit

import msgspec

from lakerunner_query.rules.alert_states import ActiveAlert, Phase
from lakerunner_query.rules.documents import AlertRule, RuleLanguage
from resources.index.ruling_types import AlertChange, AlertState, Notice
from resources.settings import Settings

ALERTMANAGER_PATH = "/api/v2/alerts"
_VIEWS = {
    RuleLanguage.PROMQL: "metrics",
    RuleLanguage.LOGQL: "logs",
    RuleLanguage.TRACEQL: "traces",
    RuleLanguage.LAKEQL: "sql",
}


class ReceiverKind(StrEnum):
    ALERTMANAGER = "alertmanager"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class Receiver:
    """An address that alerts are sent to."""

    kind: ReceiverKind
    url: str

    @property
    def name(self) -> str:
        """Name under which the outbox keeps notices; the address may hold a secret."""
        return f"{self.kind}:{hashlib.sha256(self.url.encode()).hexdigest()[:16]}"

    @property
    def shown(self) -> str:
        """Address without user, path and query, for logs."""
        parts = urlsplit(self.url)
        return f"{self.kind} {parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


def receivers_of(settings: Settings) -> tuple[Receiver, ...]:
    """Read the receivers of all organisations from the settings."""
    found = [
        Receiver(
            ReceiverKind.ALERTMANAGER, url.rstrip("/").removesuffix(ALERTMANAGER_PATH) + ALERTMANAGER_PATH
        )
        for url in _urls(settings.ruler_alertmanagers)
    ]
    found += [Receiver(ReceiverKind.WEBHOOK, url) for url in _urls(settings.ruler_webhooks)]
    return tuple(dict.fromkeys(found))


def _urls(text: str) -> Iterator[str]:
    return (url for one in text.split(",") if (url := one.strip()))


@dataclass(frozen=True, slots=True)
class Announcement:
    """Facts that all notices of one evaluation of a rule share."""

    rule_id: int
    org: str
    rule: AlertRule
    language: RuleLanguage
    org_label: str = ""
    """Label that carries the name of the organisation; empty: none does."""
    explore_url: str = ""


def notices(
    about: Announcement,
    receivers: Sequence[Receiver],
    due: Sequence[ActiveAlert],
    before: Sequence[ActiveAlert],
    delay_ms: int,
) -> Iterator[Notice]:
    """Yield the notices of alerts that are due; `before` are the alerts as they were."""
    known = {alert.key: alert for alert in before}
    for alert in due:
        body = notice_body(about, alert, delay_ms)
        status = str(body["status"])
        name = f"{about.rule_id}/{_digest(alert)}/{alert.fired_at_ms}/{status}"
        is_news = _is_news(alert, known.get(alert.key))
        for receiver in receivers:
            if receiver.kind is ReceiverKind.ALERTMANAGER or is_news:
                yield Notice(receiver.name, name, body)


def _is_news(alert: ActiveAlert, before: ActiveAlert | None) -> bool:
    """Tell whether nobody heard of this state of the alert yet."""
    if before is None or before.sent_at_ms is None or before.fired_at_ms != alert.fired_at_ms:
        return True
    return alert.phase is not before.phase


def notice_body(about: Announcement, alert: ActiveAlert, delay_ms: int) -> dict[str, object]:
    """Return an alert as Alertmanager takes it, and what a webhook is told beside."""
    labels = dict(alert.labels)
    if about.org_label:
        labels[about.org_label] = about.org
    is_resolved = alert.resolved_at_ms is not None
    ends_ms = alert.resolved_at_ms if is_resolved else (alert.valid_until_ms or 0) + delay_ms
    return {
        "labels": labels,
        "annotations": dict(alert.annotations),
        "startsAt": _rfc3339(alert.fired_at_ms or alert.active_at_ms),
        "endsAt": _rfc3339(ends_ms or 0),
        "generatorURL": explore_url(about.explore_url, about.language, about.rule.expr),
        "status": "resolved" if is_resolved else "firing",
        "value": alert.value,
    }


def alertmanager_request(bodies: Sequence[Mapping[str, object]]) -> bytes:
    """Encode a batch as `POST /api/v2/alerts` takes it."""
    fields = ("labels", "annotations", "startsAt", "endsAt", "generatorURL")
    return msgspec.json.encode([{name: body[name] for name in fields} for body in bodies])


def webhook_request(org: str, bodies: Sequence[Mapping[str, object]]) -> bytes:
    """Encode a batch of one organisation for a webhook."""
    is_firing = any(body["status"] == "firing" for body in bodies)
    status = "firing" if is_firing else "resolved"
    return msgspec.json.encode(
        {"version": "1", "organisation": org, "status": status, "alerts": list(bodies)}
    )


def explore_url(base: str, language: RuleLanguage, expr: str) -> str:
    """Return the address of a query in Explore.

    >>> explore_url("http://lake:4381", RuleLanguage.PROMQL, "up == 0")
    'http://lake:4381/#view=metrics&q=up+%3D%3D+0&range=1h'
    """
    return f"{base.rstrip('/')}/#{urlencode({'view': _VIEWS[language], 'q': expr, 'range': '1h'})}"


def changes(
    rule_id: int, before: Sequence[ActiveAlert], after: Sequence[ActiveAlert], at_ms: int
) -> Iterator[AlertChange]:
    """Yield the changes of states between two evaluations of a rule, for the history."""
    old = {alert.key: alert for alert in before}
    new = {alert.key: alert for alert in after}
    for key in old.keys() | new.keys():
        was, now = old.get(key), new.get(key)
        first = Phase.INACTIVE if was is None else was.phase
        last = Phase.INACTIVE if now is None else now.phase
        alert = now or was
        if first is not last and alert is not None:
            yield AlertChange(
                rule_id,
                alert.labels.get("alertname", ""),
                alert.labels,
                AlertState(last.value),
                alert.value,
                at_ms,
            )


def _digest(alert: ActiveAlert) -> str:
    return hashlib.blake2b(msgspec.json.encode(alert.key), digest_size=12).hexdigest()


def _rfc3339(time_ms: int) -> str:
    """
    >>> _rfc3339(1_500)
    '1970-01-01T00:00:01.500Z'
    """
    return (
        datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
