"""A table is compared with the index: its files, their rows and bytes, and on request what readers find."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from lakerunner_assets.tables.commit import live_files, oldest_version, snapshot_version
from lakerunner_assets.tables.files import file_uri, read_footers
from resources.iceberg import NAMES
from resources.index.open_tables import OpenTable, TableIndex, TableSegment
from resources.objects.client import ObjectStore
from resources.objects.errors import NotFoundError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

SHOWN = 5


@dataclass(slots=True)
class TableCheck:
    """Comparison of one table with the index."""

    org: str
    name: str
    version: int = -1
    """Version of the index that the table equals; -1: there is no snapshot."""
    behind: int = 0
    """Publications that are in no snapshot yet."""
    files: int = 0
    rows: int = 0
    read_rows: int | None = None
    """Rows that a scan found; None if nothing was read."""
    snapshots: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_table(
    catalog: Catalog, index: TableIndex, lake: ObjectStore, lake_url: str, table: OpenTable, *, read: bool
) -> TableCheck:
    """Compare the current snapshot with the index as of the version that it names."""
    found = TableCheck(table.org, NAMES[table.dataset])
    try:
        loaded = catalog.load_table((table.org, found.name))
    except NoSuchTableError:
        found.problems.append("the catalog has no such table; `lakerunner tables update` makes it")
        return found
    version = snapshot_version(loaded.current_snapshot())
    if version is None or version[0] != table.table_id:
        found.problems.append(
            "its snapshot names no version of this index; `lakerunner tables update` mends that"
        )
        return found
    whole = index.table_changes(table.org, table.dataset, None)
    since = index.table_changes(table.org, table.dataset, version)
    if whole is None or since is None or whole.version != since.version:
        found.problems.append("the index changed during the check; check once more")
        return found
    came = {segment.segment_id for segment in since.added}
    wanted = {
        file_uri(lake_url, segment.key): segment
        for segment in (*whole.added, *since.removed)
        if segment.segment_id not in came
    }
    there = live_files(loaded)
    found.version, found.behind = version[1], whole.version - version[1]
    found.files, found.rows = len(there), sum(file.record_count for file in there.values())
    found.snapshots = len(loaded.metadata.snapshots)
    _note(found, "files are registered that the index does not have", sorted(there.keys() - wanted.keys()))
    _note(found, "segments are not registered", sorted(wanted.keys() - there.keys()))
    both = [(there[uri], wanted[uri]) for uri in sorted(there.keys() & wanted.keys())]
    _note(found, "files have other row counts than the index",
          [file.file_path for file, segment in both if file.record_count != segment.rows])  # fmt: skip
    _note(found, "files have other sizes than the index",
          [file.file_path for file, segment in both if file.file_size_in_bytes != segment.bytes])  # fmt: skip
    if oldest_version(loaded, table.table_id) < 0:
        found.notes.append("a snapshot that is not of this index keeps all files until it expires")
    if read:
        _note(found, "files do not say what the index says", _unreadable(lake, [s for _, s in both]))
        found.read_rows = loaded.scan(selected_fields=()).count()
        if found.read_rows != found.rows:
            found.problems.append(f"a scan finds {found.read_rows} rows, the manifests have {found.rows}")
    return found


def _unreadable(lake: ObjectStore, segments: list[TableSegment]) -> list[str]:
    bad: list[str] = []
    for segment in segments:
        try:
            (footer,) = read_footers(lake, [segment])
        except (NotFoundError, ValueError) as error:
            bad.append(f"{segment.key} ({error})")
        else:
            bad += [segment.key] if footer.metadata.num_rows != segment.rows else []
    return bad


def _note(found: TableCheck, what: str, names: list[str]) -> None:
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        found.problems.append(f"{len(names)} {what}: {', '.join(names[:SHOWN])}{more}")
