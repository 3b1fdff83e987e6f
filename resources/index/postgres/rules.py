"""Rules of organisations are rows with versions; one number per organisation tells that they changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from psycopg.types.json import Jsonb

from resources.index.dependents import hours_of_changes
from resources.index.postgres.connections import PostgresPart, storable
from resources.index.query_log import AskedQuery, add_up
from resources.index.rule_types import PutRule, RuleChange, RuleKind, RulesChangedError, RuleSet, StoredRule
from resources.index.statements import load
from resources.lake.signals import MATERIALIZED_MS
from resources.lake.timecut import from_datetime

SQL, LOG = load("rules"), load("query_log")


class Rules(PostgresPart):
    def rules(self, org: str) -> RuleSet:
        return _set_of(self._rows(SQL["rules"], {"org": org}))

    def change_rules(self, org: str, changes: Sequence[RuleChange], expected_revision: int | None) -> RuleSet:
        with self._transaction() as connection:
            connection.execute(SQL["begin_rules"], {"org": org})
            locked = connection.execute(SQL["lock_rules"], {"org": org}).fetchone()
            found = locked["revision"] if locked else 0
            if expected_revision is not None and found != expected_revision:
                raise RulesChangedError(org, expected_revision, found)
            changed = 0
            before = _set_of(connection.execute(SQL["rules"], {"org": org}).fetchall())
            for change in changes:
                values = {
                    "org": org,
                    "kind": change.kind.value,
                    "namespace": change.namespace,
                    "name": change.name,
                }
                if isinstance(change, PutRule):
                    connection.execute(SQL["add_rule"], values)
                    document = {"document": Jsonb(dict(change.document))}
                    changed += connection.execute(SQL["put_rule"], {**values, **document}).rowcount
                else:
                    changed += connection.execute(SQL["drop_rule"], values).rowcount
            if changed:
                connection.execute(SQL["advance_rules"], {"org": org})
            after = _set_of(connection.execute(SQL["rules"], {"org": org}).fetchall())
            for hours in hours_of_changes(before, after):
                scope = {"org": org, "signal": hours.signal.value, "derived_ms": MATERIALIZED_MS}
                connection.execute(SQL["mark_hours_of_rule"], {**asdict(hours), **scope})
            return after

    def rule_versions(self, org: str, rule_id: int) -> list[StoredRule]:
        rows = self._rows(SQL["rule_versions"], {"org": org, "rule_id": rule_id})
        return [_rule_of(row) for row in rows]

    def all_rules(self) -> list[StoredRule]:
        return [_rule_of(row) for row in self._rows(SQL["all_rules"], {})]


class QueryLog(PostgresPart):
    def add_asked(self, queries: Sequence[AskedQuery], most: int) -> int:
        summed = add_up(replace(one, query=storable(one.query)) for one in queries)
        if not summed:
            return 0
        rows = [asdict(one) | {"identity": one.identity} for one in summed]
        return len(rows) - self._change(LOG["add_asked"], {"queries": Jsonb(rows), "most": most})

    def asked_queries(self, org: str, since_ns: int, most: int) -> list[AskedQuery]:
        rows = self._rows(LOG["asked_queries"], {"org": org, "since_ns": since_ns, "most": most})
        return [AskedQuery(row.pop("org_id"), **row) for row in rows]

    def forget_asked(self, before_ns: int) -> int:
        return self._change(LOG["forget_asked"], {"before_ns": before_ns})


def _set_of(rows: Sequence[Mapping[str, Any]]) -> RuleSet:
    rules = tuple(_rule_of(row) for row in rows if row["rule_id"] is not None)
    return RuleSet(rows[0]["revision"], rules)


def _rule_of(row: Mapping[str, Any]) -> StoredRule:
    return StoredRule(
        row["rule_id"],
        row["org_id"],
        RuleKind(row["kind"]),
        row["namespace"],
        row["name"],
        row["version"],
        row["document"],
        from_datetime(row["created_at"]),
        from_datetime(row["updated_at"]),
        row["retired"],
    )
