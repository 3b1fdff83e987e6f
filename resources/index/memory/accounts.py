"""Organisations, keys, buckets and metadata of metrics live in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from resources.index.account_types import MAX_FAMILIES, METADATA_KEPT_S, ApiKey, MetricFamily, StorageProfile
from resources.index.memory.state import MemoryPart
from resources.lake.layout import PrefixMapping
from resources.lake.options import OrgOptions, options_of, readable_options


class Accounts(MemoryPart):
    def find_api_key(self, key_hash: bytes) -> ApiKey | None:
        found = self._state.keys.get(key_hash)
        if found is None:
            return None
        key, expires_at, revoked = found
        live = not revoked and (expires_at is None or expires_at > self._clock())
        return key if live and self._state.organisations.get(key.org, False) else None

    def organisations(self) -> list[str]:
        return sorted(org for org, enabled in self._state.organisations.items() if enabled)

    def storage_profiles(self) -> dict[str, StorageProfile]:
        return dict(self._state.profiles)

    def prefix_mappings(self) -> list[PrefixMapping]:
        return list(self._state.mappings.values())

    def org_options(self) -> dict[str, OrgOptions]:
        return readable_options({org: found for org, found in self._state.settings.items() if found})

    def org_settings(self, org: str) -> dict[str, object]:
        return dict(self._state.settings.get(org, {}))

    def put_org_setting(self, org: str, name: str, value: object) -> None:
        if value is None:
            self._state.settings.get(org, {}).pop(name, None)
            return
        options_of({name: value})
        self._state.settings.setdefault(org, {})[name] = value

    def create_organisation(self, org: str) -> bool:
        is_new = org not in self._state.organisations
        self._state.organisations[org] = True
        return is_new

    def create_api_key(
        self, org: str, role: str, name: str, key_hash: bytes, expires_at_ns: int | None
    ) -> None:
        expires_at = None if expires_at_ns is None else expires_at_ns / 1e9
        self._state.keys[key_hash] = (ApiKey(org, role, name), expires_at, False)

    def revoke_api_key(self, org: str, name: str) -> int:
        revoked = 0
        for key_hash, (key, expires_at, gone) in self._state.keys.items():
            if (key.org, key.name) == (org, name) and not gone:
                self._state.keys[key_hash] = (key, expires_at, True)
                revoked += 1
        return revoked

    def put_storage_profile(self, profile: StorageProfile) -> None:
        self._state.profiles[profile.bucket] = profile

    def put_prefix_mapping(self, mapping: PrefixMapping) -> None:
        self._state.mappings[mapping.bucket, mapping.prefix] = mapping

    def put_metric_metadata(self, org: str, families: Sequence[MetricFamily]) -> None:
        with self._one_at_a_time:
            known = self._state.metadata.setdefault(org, {})
            now = self._clock()
            for old in [family for family, seen_at in known.items() if seen_at < now - METADATA_KEPT_S]:
                del known[old]
            for family in families:
                if family in known or len(known) < MAX_FAMILIES:
                    known[family] = now

    def metric_metadata(
        self, org: str, since_ns: int, families: Collection[str] | None = None
    ) -> list[MetricFamily]:
        with self._one_at_a_time:
            known = dict(self._state.metadata.get(org, {}))
        return sorted(
            family
            for family, seen_at in known.items()
            if seen_at * 1e9 >= since_ns and (families is None or family.family in families)
        )
