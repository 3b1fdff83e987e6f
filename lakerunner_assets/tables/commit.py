"""One snapshot registers new segments and drops retired ones by path.

Only this module uses pyiceberg's snapshot producers, which are not public: an overwrite that names its files,
and merges small manifests as an append does. A commit succeeds only on the snapshot that it was planned from.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles
from pyiceberg.transforms import IdentityTransform

from lakerunner_assets.tables.columns import (
    COLUMNS_PROPERTY,
    EVENT_DATE,
    EVENT_HOUR,
    TableColumns,
    evolved,
    name_mapping,
    system_schema,
)
from resources.iceberg import CatalogError
from resources.lake.layout import table_prefix
from resources.objects.client import ObjectStore

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

VERSION_KEY = "lakerunner.index-version"
"""Entry of a snapshot's summary: number of the table in the index, and the version that it equals."""
MAPPING_PROPERTY = "schema.name-mapping.default"
MANIFEST_BYTES = 4 * 1024 * 1024
MANIFESTS = 50
"""Number of small manifests from which they are merged."""
SPEC_FIELD = 1000
_PROPERTIES = {
    "format-version": "2",
    "commit.retry.num-retries": "0",  # another's commit changes what is to be committed
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}


class _SwapFiles(_OverwriteFiles):
    """Overwrite that says which entries it removed, and keeps the number of manifests small."""

    removed: tuple[DataFile, ...] = ()

    def _deleted_entries(self) -> list[ManifestEntry]:
        entries = super()._deleted_entries()
        self.removed = tuple(entry.data_file for entry in entries)
        return entries

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Drop manifests that list only what earlier snapshots removed, and merge the small ones."""
        alive = [
            m
            for m in manifests
            if m.added_snapshot_id == self._snapshot_id or m.has_added_files() or m.has_existing_files()
        ]
        merger = _ManifestMergeManager(MANIFEST_BYTES, MANIFESTS, True, self)
        return merger.merge_manifests([m for m in alive if m.content == ManifestContent.DATA])


def load_or_create(catalog: Catalog, org: str, name: str, dataset: str, lake_url: str) -> Table:
    """Load the table; make it, without a snapshot, where there is none."""
    identifier = (org, name)
    for _ in range(3):
        try:
            return catalog.load_table(identifier)
        except NoSuchTableError:
            _create(catalog, org, name, dataset, lake_url)
    raise CatalogError(f"table {org}.{name} can neither be loaded nor created")


def _create(catalog: Catalog, org: str, name: str, dataset: str, lake_url: str) -> None:
    from pyiceberg.exceptions import TableAlreadyExistsError
    from pyiceberg.io.pyarrow import _ConvertToIcebergWithoutIDs, visit_pyarrow
    from pyiceberg.schema import assign_fresh_schema_ids

    schema = assign_fresh_schema_ids(visit_pyarrow(system_schema(dataset), _ConvertToIcebergWithoutIDs()))
    spec = PartitionSpec(
        *(
            PartitionField(
                schema.find_field(column).field_id, SPEC_FIELD + place, IdentityTransform(), column
            )
            for place, column in enumerate((EVENT_DATE, EVENT_HOUR))
        )
    )
    location = f"{lake_url.rstrip('/')}/{table_prefix(org, name).rstrip('/')}"
    mapping = name_mapping(schema, TableColumns({}, schema.highest_field_id)).model_dump_json()
    properties = {**_PROPERTIES, MAPPING_PROPERTY: mapping, COLUMNS_PROPERTY: "{}"}
    with contextlib.suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(org)
    with contextlib.suppress(TableAlreadyExistsError):  # another run was faster; its table is as good
        catalog.create_table((org, name), schema, location, spec, properties=properties)


def snapshot_version(snapshot: Snapshot | None) -> tuple[int, int] | None:
    """Return the table and version of the index that a snapshot equals; None if it says nothing of it."""
    summary = snapshot.summary if snapshot is not None else None
    text = (summary.additional_properties.get(VERSION_KEY) if summary is not None else None) or ""
    table_id, _, version = text.partition(":")
    return (int(table_id), int(version)) if table_id.isdigit() and version.isdigit() else None


def oldest_version(table: Table, table_id: int) -> int:
    """Return the oldest version that a snapshot equals; -1 if one of them says nothing of this index."""
    versions = [snapshot_version(snapshot) for snapshot in table.metadata.snapshots]
    return min((v[1] if v is not None and v[0] == table_id else -1 for v in versions), default=-1)


def live_files(table: Table) -> dict[str, DataFile]:
    """Return the files of the current snapshot by path."""
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot is not None else []
    entries = chain.from_iterable(m.fetch_manifest_entry(table.io, discard_deleted=True) for m in manifests)
    return {entry.data_file.file_path: entry.data_file for entry in entries}


def prepare_columns(catalog: Catalog, table: Table, columns: TableColumns, most: int) -> Table:
    """Agree on a schema before files that need it are committed; readers of today's snapshot lose nothing."""
    metadata = table.metadata
    schema_id = max(each.schema_id for each in metadata.schemas) + 1
    schema = evolved(table.schema(), columns, most, schema_id)
    mapping = name_mapping(schema, columns).model_dump_json()
    updates: list[TableUpdate] = []
    if schema is not table.schema():
        updates += [AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate.model_validate({"schema-id": -1})]
    if mapping != table.properties.get(MAPPING_PROPERTY):
        updates.append(SetPropertiesUpdate(updates={MAPPING_PROPERTY: mapping}))
    if not updates:
        return table
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
    )
    catalog.commit_table(table, requirements, tuple(updates))
    return table.refresh()


def commit_snapshot(
    table: Table,
    added: Iterable[DataFile],
    removed: Sequence[DataFile],
    columns: TableColumns,
    version: tuple[int, int],
) -> Table:
    """Commit one snapshot on the one that was loaded; `CommitFailedException` if there is a newer."""
    transaction = table.transaction()
    has_parent = table.current_snapshot() is not None
    producer = _SwapFiles(
        operation=Operation.OVERWRITE if removed and has_parent else Operation.APPEND,
        transaction=transaction,
        io=table.io,
        snapshot_properties={VERSION_KEY: f"{version[0]}:{version[1]}"},
    )
    for file in removed:
        producer.delete_data_file(file)
    for file in added:
        producer.append_data_file(file)
    producer.commit()
    left = columns.without_files(file.value_counts for file in producer.removed)
    transaction.set_properties({COLUMNS_PROPERTY: left.text()})
    return transaction.commit_transaction()


def expire_snapshots(table: Table, keep_s: float, now_s: float | None = None) -> Table:
    """Expire snapshots older than `keep_s`, a quarter of that at a time; the current one stays."""
    now = time.time() if now_s is None else now_s
    current = table.current_snapshot()
    old = [s for s in table.metadata.snapshots if current is None or s.snapshot_id != current.snapshot_id]
    if not old or min(s.timestamp_ms for s in old) / 1000 > now - 1.25 * keep_s:
        return table
    limit = dt.datetime.fromtimestamp(now - keep_s, dt.UTC)
    try:
        table.maintenance.expire_snapshots().older_than(limit).commit()
    except CommitFailedException:
        return table.refresh()  # the next run finds them as old
    return table.refresh()


def clean_metadata(table: Table, lake: ObjectStore, lake_url: str, age_s: float) -> int:
    """Delete manifests and their lists that no snapshot names; young ones may be of a commit under way.

    Table metadata (`.json`) is the catalog's to delete.
    """
    metadata = table.metadata
    named: set[str] = set()
    for snapshot in metadata.snapshots:
        named.add(snapshot.manifest_list)
        named.update(manifest.manifest_path for manifest in snapshot.manifests(table.io))
    root = f"{lake_url.rstrip('/')}/"
    if not metadata.location.startswith(root):
        return 0  # the catalog keeps metadata elsewhere
    limit = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_s)
    prefix = metadata.location.removeprefix(root) + "/metadata/"
    unknown = [
        info.key
        for infos in lake.list(prefix)
        for info in infos
        if info.key.endswith(".avro") and root + info.key not in named and info.last_modified < limit
    ]
    lake.delete(unknown)
    return len(unknown)


def field_ids(schema: Schema) -> dict[str, int]:
    return {field.name: field.field_id for field in schema.fields}
