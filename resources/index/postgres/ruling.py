"""Groups of alert rules and their notifications live in four tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from resources.index.postgres.connections import PostgresPart, storable
from resources.index.ruling_types import (
    AlertChange,
    AlertState,
    Freshness,
    GroupRecord,
    Notice,
    StoredNotice,
    WaitingNotices,
)
from resources.index.statements import load
from resources.lake.signals import MATERIALIZED_MS

SQL = load("ruling")


class Ruling(PostgresPart):
    def beat_ruler(self, owner: str, lease_s: float) -> list[str]:
        with self._transaction() as connection:
            connection.execute(SQL["beat_ruler"], {"owner": owner, "lease_s": lease_s})
            connection.execute(SQL["forget_rulers"])
            return [row["owner"] for row in connection.execute(SQL["live_rulers"])]

    def withdraw_ruler(self, owner: str) -> None:
        self._change(SQL["withdraw_ruler"], {"owner": owner})

    def claim_groups(self, owner: str, groups: Mapping[int, str]) -> list[GroupRecord]:
        rules = sorted(groups)
        values = {"owner": owner, "rules": rules, "orgs": [groups[rule] for rule in rules]}
        with self._transaction() as connection:
            connection.execute(SQL["add_ruler_groups"], values)
            connection.execute(SQL["hold_rulers"])
            rows = connection.execute(SQL["claim_ruler_groups"], values).fetchall()
        return sorted(map(_record_of, rows), key=lambda one: one.rule_id)

    def release_groups(self, owner: str, rule_ids: Sequence[int]) -> None:
        self._change(SQL["release_ruler_groups"], {"owner": owner, "rules": list(rule_ids)})

    def write_evaluation(
        self, record: GroupRecord, changes: Sequence[AlertChange], notices: Sequence[Notice]
    ) -> bool:
        values = {
            "rule_id": record.rule_id, "org": record.org, "owner": record.owner, "token": record.token,
            "version": record.version, "evaluated_ms": record.evaluated_ms, "duration_s": record.duration_s,
            "delay_s": record.delay_s, "missed": record.missed, "error": storable(record.error),
            "state": _json(record.state),
        }  # fmt: skip
        with self._transaction() as connection:
            if not connection.execute(SQL["write_evaluation"], values).rowcount:
                return False
            if changes:
                rows = [_row_of(change) for change in changes]
                connection.execute(SQL["add_alert_changes"], {**values, "changes": _json(rows)})
            if notices:
                found = [
                    {"receiver": one.receiver, "identity": one.identity, "body": one.body} for one in notices
                ]
                connection.execute(SQL["add_alert_notices"], {"org": record.org, "notices": _json(found)})
        return True

    def group_records(self, org: str) -> list[GroupRecord]:
        return [_record_of(row) for row in self._rows(SQL["ruler_groups"], {"org": org})]

    def alert_changes(self, org: str, from_ms: int, to_ms: int, limit: int) -> list[AlertChange]:
        values = {"org": org, "from_ms": from_ms, "to_ms": to_ms, "limit": limit}
        return [
            AlertChange(
                row["rule_id"], row["alert"], row["labels"], AlertState(row["state"]), row["value"],
                row["at_ms"],
            )
            for row in self._rows(SQL["alert_changes"], values)
        ]  # fmt: skip

    def claim_notices(self, receiver: str, most: int, lease_s: float) -> list[StoredNotice]:
        values = {"receiver": receiver, "most": most, "lease_s": lease_s}
        with self._transaction() as connection:
            row = connection.execute(SQL["lock_receiver"], values).fetchone()
            if row is None or not row["locked"]:
                return []
            rows = connection.execute(SQL["claim_alert_notices"], values).fetchall()
        found = (
            StoredNotice(row["notice_id"], row["revision"], row["org_id"], row["body"], row["attempts"])
            for row in rows
        )
        return sorted(found, key=lambda one: one.notice_id)

    def finish_notices(self, notices: Sequence[StoredNotice]) -> None:
        ids, revisions = [one.notice_id for one in notices], [one.revision for one in notices]
        with self._transaction() as connection:
            connection.execute(SQL["finish_alert_notices"], {"ids": ids, "revisions": revisions})
            connection.execute(SQL["free_alert_notices"], {"ids": ids, "delay_s": 0.0, "error": ""})

    def put_off_notices(self, notices: Sequence[StoredNotice], error: str, delay_s: float) -> None:
        ids = [one.notice_id for one in notices]
        values = {"ids": ids, "delay_s": delay_s, "error": storable(error)}
        self._change(SQL["free_alert_notices"], values)

    def waiting_notices(self, org: str = "") -> list[WaitingNotices]:
        return [
            WaitingNotices(row["receiver"], row["waiting"], row["oldest_s"], row["attempts"], row["error"])
            for row in self._rows(SQL["waiting_notices"], {"org": org})
        ]

    def forget_ruling(self, live: Sequence[int], group_s: float, change_s: float, notice_s: float) -> int:
        values = {"live": list(live), "group_s": group_s, "change_s": change_s, "notice_s": notice_s}
        with self._transaction() as connection:
            connection.execute(SQL["forget_ruler_groups"], values)
            connection.execute(SQL["forget_alert_changes"], values)
            return connection.execute(SQL["forget_alert_notices"], values).rowcount

    def freshness(self, orgs: Sequence[str], window_s: float) -> list[Freshness]:
        fields = {"orgs": list(orgs), "window_s": window_s, "derived_ms": MATERIALIZED_MS}
        rows = self._rows(SQL["arrival_freshness"], fields)
        return [Freshness(row["org"], row["seconds"]) for row in rows]


def _json(value: object) -> Jsonb:
    return Jsonb(_storable(value))


def _storable(value: object) -> object:
    """Clean all texts of a JSON value: labels are whatever the data says."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(name)): _storable(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(one) for one in value]
    return value


def _row_of(change: AlertChange) -> dict[str, object]:
    return {
        "alert": change.alert, "labels": change.labels, "state": change.state.value, "value": change.value,
        "at_ms": change.at_ms,
    }  # fmt: skip


def _record_of(row: Mapping[str, Any]) -> GroupRecord:
    return GroupRecord(
        row["rule_id"], row["org_id"], row["owner"], row["token"], row["version"], row["evaluated_ms"],
        row["finished_s"], row["duration_s"], row["delay_s"], row["missed"], row["error"], row["state"],
    )  # fmt: skip
