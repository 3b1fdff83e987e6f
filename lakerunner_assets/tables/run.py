"""A table follows the index: one look at what changed, one snapshot, then the index is told.

The snapshot names the version of the index that it equals, so nothing is lost if the run dies in between: the
next one reads the version from the catalog. Two runs at once both plan from the snapshot they loaded; the
catalog takes one of them, and the other plans again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.types import PrimitiveType

from lakerunner_assets.tables.columns import (
    EVENT_DATE,
    EVENT_HOUR,
    TableColumns,
    attributes_of,
    system_schema,
)
from lakerunner_assets.tables.commit import (
    clean_metadata,
    commit_snapshot,
    expire_snapshots,
    live_files,
    load_or_create,
    oldest_version,
    prepare_columns,
    snapshot_version,
)
from lakerunner_assets.tables.files import (
    MOST_BOUNDED,
    ColumnPlan,
    data_file,
    file_uri,
    partition_of,
    read_footers,
)
from resources.iceberg import NAMES, CatalogError, open_catalog
from resources.index.open_tables import OpenTable, TableChanges, TableIndex, TableSegment
from resources.objects.client import ObjectStore
from resources.objects.store import open_store
from resources.settings import Settings

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

MAX_TRIES = 8
"""Plans of a table that others keep committing to."""
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class TableUpdate:
    """Result of one run for one table."""

    org: str
    name: str
    version: int
    snapshot_id: int
    added: int
    removed: int
    files: int
    rows: int
    left_out: Mapping[str, tuple[str, ...]]
    """Columns with several types, or beyond the limit."""
    tries: int
    seconds: float

    @property
    def changed(self) -> bool:
        return bool(self.added or self.removed)


class TotalsError(CatalogError):
    """Files or rows of a table are not those of the index."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The catalog, the index and the lake of a run."""

    catalog: Catalog
    index: TableIndex
    settings: Settings
    lake: ObjectStore
    log: Callable[[str], None]

    @property
    def lake_url(self) -> str:
        return self.settings.require("lake_url").rstrip("/")


def due_tables(tables: Sequence[OpenTable], settings: Settings) -> list[OpenTable]:
    """Return tables with changes that waited long enough, and those with files to let go of."""
    return [
        table
        for table in tables
        if table.committed < 0
        or (table.version > table.committed and table.committed_s >= settings.tables_every_s)
        or (table.held and table.committed_s >= 1.25 * settings.tables_keep_s)
    ]


def update_tables(
    index: TableIndex,
    settings: Settings,
    wanted: Sequence[tuple[str, str]],
    log: Callable[[str], None],
    tell: Tell = lambda _what, _done, _total: None,
) -> list[TableUpdate]:
    """Update tables, given as (organisation, dataset); what is not open is passed over.

    A table that fails does not keep the others from their turn; the first failure is raised at the end.
    """
    done: list[TableUpdate] = []
    failures: list[Exception] = []
    with open_catalog(settings) as catalog:
        lake = open_store(settings.require("lake_url"), settings)
        run = Tables(catalog, index, settings, lake, log)
        for place, (org, dataset) in enumerate(wanted):
            try:
                found = update_table(run, org, dataset)
            except Exception as error:  # noqa: BLE001 - raised below, after the others
                log(f"{org}.{NAMES[dataset]}: {type(error).__name__}: {error}")
                failures.append(error)
            else:
                done += [found] if found is not None else []
            tell("tables", place + 1, len(wanted))
    if failures:
        raise CatalogError(f"{len(failures)} tables were not updated: {failures[0]}") from failures[0]
    return done


def update_table(run: Tables, org: str, dataset: str) -> TableUpdate | None:
    """Bring one table to the index' present version; None if it is not open."""
    began = time.monotonic()
    is_trusted = True
    for tries in range(1, MAX_TRIES + 1):
        if not any(table.dataset == dataset for table in run.index.list_tables(org)):
            return None
        table = load_or_create(run.catalog, org, NAMES[dataset], dataset, run.lake_url)
        known = snapshot_version(table.current_snapshot()) if is_trusted else None
        changes = run.index.table_changes(org, dataset, known)
        if changes is None:
            return None
        try:
            table, added, removed = _commit(run, table, changes, dataset)
        except CommitFailedException as error:
            run.log(f"{org}.{NAMES[dataset]}: another commit came first, planned again: {error}")
            continue
        except (TotalsError, ValidationException) as error:
            if not is_trusted:
                raise
            run.log(f"{error}; all files are compared")
            is_trusted = False
            continue
        table = _settle(run, table, changes)
        return _result(run, org, dataset, table, changes, (added, removed), tries, time.monotonic() - began)
    raise CatalogError(
        f"{org}.{NAMES[dataset]}: others committed first in {MAX_TRIES} tries; try again later"
    )


def _commit(run: Tables, table: Table, changes: TableChanges, dataset: str) -> tuple[Table, int, int]:
    added, removed = list(changes.added), [_entry(run, table, s) for s in changes.removed]
    if changes.is_whole:
        there = live_files(table)
        wanted = {file_uri(run.lake_url, segment.key): segment for segment in changes.added}
        added = [segment for uri, segment in wanted.items() if uri not in there]
        removed = [file for uri, file in there.items() if uri not in wanted]
    version = (changes.table_id, changes.version)
    if not added and not removed and snapshot_version(table.current_snapshot()) is not None:
        _check_totals(table, changes, 0, 0)
        if snapshot_version(table.current_snapshot()) == version:
            return table, 0, 0
    gone = sum(file.record_count for file in removed)
    _check_totals(table, changes, len(added) - len(removed), sum(s.rows for s in added) - gone)
    system = system_schema(dataset).names
    footers = list(read_footers(run.lake, added))
    kinds = [attributes_of(footer.schema, system) for footer in footers]
    columns = TableColumns.of(table.properties, table.metadata.last_column_id).with_files(kinds)
    table = prepare_columns(run.catalog, table, columns, run.settings.tables_columns)
    files = [
        data_file(footer, run.lake_url, _plans(table, columns, attributes), table.spec().spec_id)
        for footer, attributes in zip(footers, kinds, strict=True)
    ]
    return commit_snapshot(table, files, removed, columns, version), len(added), len(removed)


def _check_totals(table: Table, changes: TableChanges, files: int, rows: int) -> None:
    """Compare what the table will hold with the index: a catalog or an index out of a backup shows here."""
    if changes.is_whole:
        return
    snapshot = table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    have = int(summary.get("total-data-files", 0)) + files, int(summary.get("total-records", 0)) + rows
    if have != (changes.segments, changes.rows):
        raise TotalsError(
            f"{'.'.join(table.name())}: {have[0]} files and {have[1]} rows would be registered, "
            f"the index has {changes.segments} and {changes.rows}"
        )


def _entry(run: Tables, table: Table, segment: TableSegment) -> DataFile:
    """Build what stands for a file that is to be removed: its path and its partition."""
    entry = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file_uri(run.lake_url, segment.key),
        file_format=FileFormat.PARQUET,
        partition=partition_of(segment),
        record_count=segment.rows,
        file_size_in_bytes=segment.bytes,
    )
    entry.spec_id = table.spec().spec_id
    return entry


def _plans(table: Table, columns: TableColumns, attributes: Mapping[str, str]) -> dict[str, ColumnPlan]:
    """Return what to say of the columns of a file; attributes go by their type, also those left out."""
    plans = {
        field.name: ColumnPlan(field.field_id, field.field_type)
        for field in table.schema().fields
        if isinstance(field.field_type, PrimitiveType)
        and field.name not in columns.registry
        and field.name not in {EVENT_DATE, EVENT_HOUR}
    }
    inside = {
        field.field_id: field.field_type
        for field in table.schema().fields
        if isinstance(field.field_type, PrimitiveType)
    }
    for name, kind in attributes.items():
        field_id = columns.registry[name][kind][0]
        type_ = inside.get(field_id)
        has_bounds = len(attributes) <= MOST_BOUNDED
        plans[name] = ColumnPlan(field_id, type_ if has_bounds else None)
    return plans


def _settle(run: Tables, table: Table, changes: TableChanges) -> Table:
    """Expire old snapshots, then tell the index what is committed and what may go."""
    before = len(table.metadata.snapshots)
    table = expire_snapshots(table, run.settings.tables_keep_s)
    if len(table.metadata.snapshots) < before:
        clean_metadata(table, run.lake, run.lake_url, run.settings.tables_keep_s)
    run.index.note_commit(changes.table_id, changes.version, oldest_version(table, changes.table_id))
    return table


def _result(
    run: Tables,
    org: str,
    dataset: str,
    table: Table,
    changes: TableChanges,
    files: tuple[int, int],
    tries: int,
    seconds: float,
) -> TableUpdate:
    columns = TableColumns.of(table.properties, table.metadata.last_column_id)
    snapshot = table.current_snapshot()
    return TableUpdate(
        org,
        NAMES[dataset],
        changes.version,
        snapshot.snapshot_id if snapshot is not None else 0,
        files[0],
        files[1],
        changes.segments,
        changes.rows,
        columns.left_out(run.settings.tables_columns),
        tries,
        seconds,
    )
