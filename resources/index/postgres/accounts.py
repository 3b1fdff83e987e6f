"""Organisations, keys and buckets are set up by people; metadata of metrics comes from senders."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg.types.json import Jsonb

from resources.index.account_types import MAX_FAMILIES, METADATA_KEPT_S, ApiKey, MetricFamily, StorageProfile
from resources.index.postgres.connections import PostgresPart
from resources.index.statements import load
from resources.lake.layout import PrefixMapping, Signal
from resources.lake.options import OrgOptions, options_of, readable_options
from resources.lake.timecut import to_datetime

SQL = load("accounts")


class Accounts(PostgresPart):
    def find_api_key(self, key_hash: bytes) -> ApiKey | None:
        rows = self._rows(SQL["find_api_key"], {"key_hash": key_hash})
        return ApiKey(rows[0]["org_id"], rows[0]["role"], rows[0]["name"]) if rows else None

    def organisations(self) -> list[str]:
        return [row["org_id"] for row in self._rows(SQL["organisations"], {})]

    def storage_profiles(self) -> dict[str, StorageProfile]:
        return {row["bucket"]: StorageProfile(**row) for row in self._rows(SQL["storage_profiles"], {})}

    def prefix_mappings(self) -> list[PrefixMapping]:
        return [
            PrefixMapping(
                row["bucket"],
                row["prefix"],
                row["org_id"],
                row["collector"],
                Signal(row["signal"]) if row["signal"] else None,
            )
            for row in self._rows(SQL["prefix_mappings"], {})
        ]

    def org_options(self) -> dict[str, OrgOptions]:
        rows = self._rows(SQL["org_options"], {})
        return readable_options({row["org_id"]: row["settings"] for row in rows})

    def org_settings(self, org: str) -> dict[str, object]:
        return {row["name"]: row["value"] for row in self._rows(SQL["org_settings"], {"org": org})}

    def put_org_setting(self, org: str, name: str, value: object) -> None:
        if value is None:
            self._change(SQL["delete_org_setting"], {"org": org, "name": name})
            return
        options_of({name: value})
        self._change(SQL["put_org_setting"], {"org": org, "name": name, "value": Jsonb(value)})

    def create_organisation(self, org: str) -> bool:
        return bool(self._rows(SQL["create_organisation"], {"org": org})[0]["is_new"])

    def create_api_key(
        self, org: str, role: str, name: str, key_hash: bytes, expires_at_ns: int | None
    ) -> None:
        expires_at = None if expires_at_ns is None else to_datetime(expires_at_ns)
        values = {"org": org, "role": role, "name": name, "key_hash": key_hash, "expires_at": expires_at}
        self._change(SQL["create_api_key"], values)

    def revoke_api_key(self, org: str, name: str) -> int:
        return self._change(SQL["revoke_api_key"], {"org": org, "name": name})

    def put_storage_profile(self, profile: StorageProfile) -> None:
        values = {"bucket": profile.bucket, "url": profile.url, "credentials_ref": profile.credentials_ref}
        self._change(SQL["put_storage_profile"], values)

    def put_prefix_mapping(self, mapping: PrefixMapping) -> None:
        values = {
            "bucket": mapping.bucket,
            "prefix": mapping.prefix,
            "org": mapping.org,
            "collector": mapping.collector,
            "signal": mapping.signal.value if mapping.signal else None,
        }
        self._change(SQL["put_prefix_mapping"], values)

    def put_metric_metadata(self, org: str, families: Sequence[MetricFamily]) -> None:
        values = {
            "org": org,
            "families": [each.family for each in families],
            "types": [each.type for each in families],
            "units": [each.unit for each in families],
            "helps": [each.help for each in families],
            "keep_s": METADATA_KEPT_S,
            "most": MAX_FAMILIES,
        }
        with self._transaction() as connection:
            for statement in ("forget_metadata", "refresh_metadata", "add_metadata"):
                connection.execute(SQL[statement], values)

    def metric_metadata(
        self, org: str, since_ns: int, families: Collection[str] | None = None
    ) -> list[MetricFamily]:
        named = None if families is None else list(families)
        values = {"org": org, "since": to_datetime(since_ns), "families": named}
        return [MetricFamily(**row) for row in self._rows(SQL["metric_metadata"], values)]
