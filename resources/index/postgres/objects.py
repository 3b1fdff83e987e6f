"""Raw objects are looked up by people: where they are, what is parked and why.

The freshness of answers is looked up here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from resources.index.postgres.connections import PostgresPart
from resources.index.statements import load
from resources.index.types import ObjectState

SQL = load("objects")


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    key: str
    state: ObjectState
    rows: int
    rejected: int
    error: str

    @property
    def settled(self) -> bool:
        """True if nothing more will happen to it by itself."""
        return self.state in {ObjectState.DONE, ObjectState.PARKED}


@dataclass(frozen=True, slots=True)
class ParkedObject:
    object_id: int
    org: str
    signal: str
    bucket: str
    key: str
    tries: int
    error: str


@dataclass(frozen=True, slots=True)
class PartlyRejected:
    """Done object with records that could not be read; they are still in the raw object."""

    object_id: int
    org: str
    signal: str
    bucket: str
    key: str
    rows: int
    rejected: int
    first_error: str


class ObjectBoard(PostgresPart):
    """Read-only lookups, one transaction each."""

    def object_states(self, bucket: str, keys: Sequence[str]) -> list[ObjectStatus]:
        """Return the states of known keys; a missing one has not been taken in yet."""
        rows = self._rows(SQL["object_states"], {"bucket": bucket, "keys": list(keys)})
        return [
            ObjectStatus(r["key"], ObjectState(r["state"]), r["rows"], r["rejected"], r["error"])
            for r in rows
        ]

    def object_hours(self, bucket: str, keys: Sequence[str]) -> tuple[int, int] | None:
        """Return the first and the last event hour with rows of these objects, None without any."""
        (row,) = self._rows(SQL["object_hours"], {"bucket": bucket, "keys": list(keys)})
        return None if row["first_ns"] is None else (int(row["first_ns"]), int(row["last_ns"]))

    def parked_objects(self, org: str = "", limit: int = 1000) -> list[ParkedObject]:
        """List parked objects, oldest first; of every organisation when `org` is empty."""
        return [
            ParkedObject(**row) for row in self._rows(SQL["parked_objects"], {"org": org, "limit": limit})
        ]

    def objects_with_rejects(self, org: str = "", limit: int = 1000) -> list[PartlyRejected]:
        """List objects with rejected records, oldest first; of every organisation when `org` is empty."""
        rows = self._rows(SQL["objects_with_rejects"], {"org": org, "limit": limit})
        return [PartlyRejected(**row) for row in rows]

    def newest_queryable_ns(self, org: str, dataset: str) -> int | None:
        """Return the time of the newest event that a query can see now."""
        rows = self._rows(SQL["newest_queryable"], {"org": org, "dataset": dataset})
        newest = rows[0]["newest_ns"]
        return None if newest is None else int(newest)
