"""Groups of alert rules and their notifications live in seven tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from psycopg.types.json import Jsonb

from resources.index.postgres.connections import PostgresPart, storable
from resources.index.postgres.intake import register
from resources.index.ruling_types import (
    AlertChange,
    AlertCorrection,
    AlertState,
    ChangedInput,
    Freshness,
    GroupRecord,
    Notice,
    RecordedOutcome,
    RecordedState,
    SealedSamples,
    StoredNotice,
    Verdict,
    WaitingNotices,
)
from resources.index.statements import load
from resources.index.types import ObjectNotice
from resources.lake.layout import RULER, Signal
from resources.lake.signals import MATERIALIZED_MS, RECORDED_MS

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
        self,
        record: GroupRecord,
        changes: Sequence[AlertChange],
        notices: Sequence[Notice],
        samples: bytes = b"",
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
            if samples:
                connection.execute(SQL["add_alert_samples"], {"org": record.org, "samples": samples})
        return True

    def seal_samples(self, seal: str, age_s: float, most: int, lease_s: float) -> SealedSamples | None:
        values = {"seal": seal, "age_s": age_s, "most": most, "lease_s": lease_s}
        with self._transaction() as connection:
            lock = connection.execute(SQL["lock_samples"]).fetchone()
            if lock is None or not lock["locked"]:
                return None
            rows = connection.execute(SQL["seal_again"], values).fetchall()
            rows = rows or connection.execute(SQL["seal_samples"], values).fetchall()
        if not rows:
            return None
        rows.sort(key=lambda row: int(row["sample_id"]))
        first, parts = rows[0], tuple(bytes(row["samples"]) for row in rows)
        return SealedSamples(first["seal"], first["org_id"], first["sealed_ns"], parts)

    def finish_samples(self, sealed: SealedSamples, notice: ObjectNotice) -> None:
        with self._transaction() as connection:
            register(connection, [notice])
            connection.execute(SQL["delete_samples"], {"seal": sealed.seal})

    def forget_samples(self, age_s: float) -> int:
        with self._transaction() as connection:
            return connection.execute(SQL["forget_samples"], {"age_s": age_s}).rowcount

    def changed_inputs(self, org: str, after_ms: int, settled_s: float, most: int) -> list[ChangedInput]:
        values = {"org": org, "after_ms": after_ms, "settled_s": settled_s, "most": most}
        return [
            ChangedInput(
                row["input_id"], Signal(row["signal"]), row["min_ns"], row["max_ns"],
                tuple(row["metric_names"]), row["published_ms"],
            )
            for row in self._rows(SQL["changed_inputs"], values)
        ]  # fmt: skip

    def changes_of_rule(self, rule_id: int, from_ms: int, to_ms: int) -> list[AlertChange]:
        values = {"rule_id": rule_id, "from_ms": from_ms, "to_ms": to_ms}
        return [_change_of(row) for row in self._rows(SQL["changes_of_rule"], values)]

    def corrections_of_rule(self, rule_id: int, from_ms: int, to_ms: int) -> list[AlertCorrection]:
        values = {"rule_id": rule_id, "from_ms": from_ms, "to_ms": to_ms}
        return [_correction_of(row) for row in self._rows(SQL["corrections_of_rule"], values)]

    def alert_corrections(self, org: str, from_ms: int, to_ms: int, limit: int) -> list[AlertCorrection]:
        values = {"org": org, "from_ms": from_ms, "to_ms": to_ms, "limit": limit}
        return [_correction_of(row) for row in self._rows(SQL["alert_corrections"], values)]

    def note_recorded_rules(self, org: str, outcomes: Sequence[RecordedOutcome]) -> None:
        with self._transaction() as connection:
            for one in sorted(outcomes, key=lambda each: (each.group, each.record)):
                values = {**asdict(one), "org": org, "rule_group": one.group, "error": storable(one.error)}
                connection.execute(SQL["note_recorded_rule"], values)

    def recorded_state(self, org: str) -> RecordedState:
        with self._transaction() as connection:
            values = {"org": org, "frequency_ms": RECORDED_MS}
            behind = connection.execute(SQL["recorded_behind"], values).fetchone()
            rows = connection.execute(SQL["recorded_rules"], values).fetchall()
        outcomes = tuple(
            RecordedOutcome(row["rule_group"], row["record"], row["hour_ns"], row["error"], row["at_ms"])
            for row in rows
        )
        return RecordedState(behind["behind_s"] if behind else 0.0, outcomes)

    def write_check(
        self, record: GroupRecord, interval: tuple[int, int] | None, found: Sequence[AlertCorrection]
    ) -> bool:
        values = {
            "rule_id": record.rule_id, "org": record.org, "owner": record.owner, "token": record.token,
            "checked_ms": record.checked_ms,
        }  # fmt: skip
        with self._transaction() as connection:
            if not connection.execute(SQL["note_check"], values).rowcount:
                return False
            if interval is not None:
                bounds = {"from_ms": interval[0], "to_ms": interval[1]}
                connection.execute(SQL["drop_corrections"], {**values, **bounds})
            if found:
                rows = [{**asdict(one), "verdict": one.verdict.value} for one in found]
                connection.execute(SQL["add_corrections"], {**values, "found": _json(rows)})
        return True

    def group_records(self, org: str) -> list[GroupRecord]:
        return [_record_of(row) for row in self._rows(SQL["ruler_groups"], {"org": org})]

    def alert_changes(self, org: str, from_ms: int, to_ms: int, limit: int) -> list[AlertChange]:
        values = {"org": org, "from_ms": from_ms, "to_ms": to_ms, "limit": limit}
        return [_change_of(row) for row in self._rows(SQL["alert_changes"], values)]

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
            for name in ("inputs", "alert_changes", "corrections"):
                connection.execute(SQL[f"forget_{name}"], values)
            return connection.execute(SQL["forget_alert_notices"], values).rowcount

    def freshness(self, orgs: Sequence[str], window_s: float) -> list[Freshness]:
        fields = {"orgs": list(orgs), "window_s": window_s, "derived_ms": MATERIALIZED_MS, "ruler": RULER}
        rows = self._rows(SQL["arrival_freshness"], fields)
        return [Freshness(row["org"], row["seconds"], row["derived_s"]) for row in rows]


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


def _change_of(row: Mapping[str, Any]) -> AlertChange:
    return AlertChange(
        row["rule_id"], row["alert"], row["labels"], AlertState(row["state"]), row["value"], row["at_ms"]
    )


def _correction_of(row: Mapping[str, Any]) -> AlertCorrection:
    return AlertCorrection(
        row["rule_id"], row["alert"], row["labels"], Verdict(row["verdict"]), row["from_ms"], row["to_ms"],
        row["value"], row["found_ms"],
    )  # fmt: skip


def _record_of(row: Mapping[str, Any]) -> GroupRecord:
    return GroupRecord(
        row["rule_id"], row["org_id"], row["owner"], row["token"], row["version"], row["evaluated_ms"],
        row["finished_s"], row["duration_s"], row["delay_s"], row["missed"], row["error"], row["state"],
        row["checked_ms"],
    )  # fmt: skip
