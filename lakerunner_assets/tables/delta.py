"""A Delta log over the same files mirrors the current Iceberg snapshot.

    00000000000000000000.json   protocol, metaData, add a, add b
    00000000000000000001.json   remove a, remove b, add c        the snapshot after a merge

Each export writes one entry with what changed since the one before. Paths are whole URIs, as the format
allows. An entry is created or not at all, so two exports at once do not mix.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, IcebergType, ListType, MapType, PrimitiveType, StructType

from lakerunner_assets.tables.columns import EVENT_DATE, EVENT_HOUR
from lakerunner_assets.tables.commit import VERSION_KEY, live_files, snapshot_version
from resources.iceberg import CatalogError
from resources.lake.layout import table_prefix
from resources.lake.timecut import DAY_NS, to_datetime
from resources.objects.client import ObjectStore
from resources.objects.errors import AlreadyExistsError
from resources.settings import Settings

if TYPE_CHECKING:
    from pyiceberg.table import Table

LOG_FOLDER = "_delta_log/"
CHECKPOINT_EVERY = 20
"""Entries after which the log is summed up in a checkpoint."""
_NAMES = {"int": "integer", "boolean": "boolean", "long": "long", "double": "double", "string": "string",
          "binary": "binary", "date": "date"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeltaExport:
    """Entry that an export wrote, or found to be the newest."""

    location: str
    entry: int
    added: int
    removed: int
    files: int


@dataclass(slots=True)
class _State:
    """The table as its log tells it."""

    entry: int
    files: set[str]
    schema: str


def export_delta(table: Table, org: str, name: str, lake: ObjectStore, settings: Settings) -> DeltaExport:
    """Write what changed since the last export as one entry of the log."""
    prefix = f"{table_prefix(org, name)}{LOG_FOLDER}"
    location = f"{settings.require('lake_url').rstrip('/')}/{table_prefix(org, name).rstrip('/')}"
    state = _replay(lake, prefix)
    wanted = {quote(path, safe="/:"): file for path, file in live_files(table).items()}
    added = {path: file for path, file in wanted.items() if path not in state.files}
    removed = sorted(state.files - wanted.keys())
    schema = json.dumps(_struct(table.schema()), separators=(",", ":"))
    if state.entry >= 0 and not added and not removed and schema == state.schema:
        return DeltaExport(location, state.entry, 0, 0, len(wanted))
    actions = [*_head(table, schema, state), *map(_remove, removed), *_adds(added)]
    entry = state.entry + 1
    text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    try:
        lake.put_new(f"{prefix}{entry:020d}.json", text.encode())
    except AlreadyExistsError as error:
        raise CatalogError(
            f"{org}.{name}: another export wrote entry {entry} meanwhile; export once more"
        ) from error
    if entry and entry % CHECKPOINT_EVERY == 0:
        _checkpoint(location, settings)
    return DeltaExport(location, entry, len(added), len(removed), len(wanted))


def _head(table: Table, schema: str, state: _State) -> Iterator[dict[str, Any]]:
    now_ms = int(time.time() * 1000)
    version = snapshot_version(table.current_snapshot())
    yield {
        "commitInfo": {
            "timestamp": now_ms,
            "operation": "WRITE",
            "operationParameters": {VERSION_KEY: ":".join(map(str, version or ()))},
        }
    }
    if state.entry < 0:
        yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    if schema != state.schema:
        yield {
            "metaData": {
                "id": str(uuid.UUID(str(table.metadata.table_uuid))),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [EVENT_DATE, EVENT_HOUR],
                "configuration": {},
                "createdTime": now_ms,
            }
        }


def _adds(files: Mapping[str, DataFile]) -> Iterator[dict[str, Any]]:
    for path, file in sorted(files.items()):
        day, hour = file.partition[0], file.partition[1]
        yield {
            "add": {
                "path": path,
                "partitionValues": {
                    EVENT_DATE: None if day is None else str(_date(day)),
                    EVENT_HOUR: None if hour is None else str(hour),
                },
                "size": file.file_size_in_bytes,
                "modificationTime": 0,
                "dataChange": True,
                "stats": json.dumps({"numRecords": file.record_count}),
            }
        }


def _remove(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": int(time.time() * 1000), "dataChange": True}}


def _date(day: object) -> dt.date:
    return day if isinstance(day, dt.date) else to_datetime(int(str(day)) * DAY_NS).date()


def _replay(lake: ObjectStore, prefix: str) -> _State:
    """Read the log from its last checkpoint on."""
    keys = sorted(info.key for infos in lake.list(prefix) for info in infos)
    points = [key for key in keys if key.endswith(".checkpoint.parquet")]
    state = _State(-1, set(), "")
    if points:
        rows = pq.read_table(io.BytesIO(lake.get_bytes(points[-1])), columns=["add", "metaData"]).to_pylist()
        state.files = {row["add"]["path"] for row in rows if row["add"]}
        state.schema = next(row["metaData"]["schemaString"] for row in rows if row["metaData"])
        state.entry = _number(points[-1])
    for key in keys:
        if not key.endswith(".json") or _number(key) <= state.entry:
            continue
        state.entry = _number(key)
        for line in lake.get_bytes(key).splitlines():
            action = json.loads(line)
            if "add" in action:
                state.files.add(action["add"]["path"])
            elif "remove" in action:
                state.files.discard(action["remove"]["path"])
            elif "metaData" in action:
                state.schema = action["metaData"]["schemaString"]
    return state


def _number(key: str) -> int:
    return int(key.rsplit("/", 1)[-1].split(".", 1)[0])


def _checkpoint(location: str, settings: Settings) -> None:
    from deltalake import DeltaTable

    options = {
        "AWS_ENDPOINT_URL": settings.s3_endpoint,
        "AWS_REGION": settings.s3_region,
        "AWS_ACCESS_KEY_ID": settings.s3_access_key_id,
        "AWS_SECRET_ACCESS_KEY": settings.s3_secret_access_key,
        "AWS_ALLOW_HTTP": "true" if settings.s3_endpoint.startswith("http://") else "",
    }
    DeltaTable(location, storage_options={n: v for n, v in options.items() if v}).create_checkpoint()


def _struct(schema: Schema | StructType) -> dict[str, Any]:
    fields = [
        {"name": f.name, "type": _type(f.field_type), "nullable": True, "metadata": {}} for f in schema.fields
    ]
    return {"type": "struct", "fields": fields}


def _type(kind: IcebergType) -> str | dict[str, Any]:
    if isinstance(kind, StructType):
        return _struct(kind)
    if isinstance(kind, ListType):
        return {"type": "array", "elementType": _type(kind.element_type), "containsNull": True}
    if isinstance(kind, MapType):
        parts = {"keyType": _type(kind.key_type), "valueType": _type(kind.value_type)}
        return {"type": "map", **parts, "valueContainsNull": True}
    if isinstance(kind, FixedType):
        return "binary"
    if isinstance(kind, PrimitiveType) and str(kind) in _NAMES:
        return _NAMES[str(kind)]
    raise CatalogError(f"Delta has no type for {kind}")
