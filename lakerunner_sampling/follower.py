"""A follower reads an Iceberg table's new data files, commit by commit.

    position (sequence 41) → refresh → commits 42 append, 43 replace, 44 append → files of 42 and 44

Sequence numbers and not snapshots are the position: live files keep theirs when snapshots expire, so that
what was missed is still found. Files that were only written anew bring no new spans.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of
from pyiceberg.transforms import BucketTransform

from lakerunner_sampling.aggregate import Commit
from lakerunner_sampling.table_files import TableFiles
from resources.lake.segment_file import SegmentFacts, read_facts

if TYPE_CHECKING:
    from pyiceberg.table import Table

KEPT_MANIFESTS = 4096
FILES_AT_ONCE = 64
LAKE = "lake"
_log = logging.getLogger(__name__)


class TableError(RuntimeError):
    """The table cannot be followed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file."""

    path: str
    sequence: int
    rows: int
    bytes: int
    bucket: int = -1
    """Bucket of trace ids; -1: any."""
    without: tuple[int, ...] = ()
    """Raw objects whose rows in this file were read before, from others (the lake's own segments)."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Entry of a manifest, in the little that is remembered of it."""

    file: TableFile
    snapshot_id: int
    status: ManifestEntryStatus


@dataclass(frozen=True, slots=True)
class TableCommit:
    """A commit and the files that bring new spans; none if it only wrote anew or deleted."""

    snapshot_id: int
    sequence: int
    committed_ms: int
    files: tuple[TableFile, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Position:
    """Commit up to which spans were read; 0: none."""

    sequence: int = 0


class Footers(Protocol):
    """Access to the facts of the lake's segments."""

    def __call__(self, path: str) -> SegmentFacts | None:
        """Return a segment's facts; None if the file is gone."""


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """Open a catalog by pyiceberg's properties; a SQL catalog keeps its name in its rows."""
    return load_catalog(name, **properties)


class Follower:
    """Follows one table; reading manifests is all it does."""

    def __init__(self, catalog: Catalog, table: str, shape: str, footers: Footers | None = None) -> None:
        self.name = table
        self._catalog = catalog
        self._shape = shape
        self._footers = footers or self._read_facts
        self._table: Table | None = None
        self._manifests: OrderedDict[str, list[_Entry]] = OrderedDict()
        self._one_at_a_time = threading.Lock()
        """Held for the manifests, which exporters read, too."""

    @property
    def table(self) -> Table:
        if self._table is None:
            try:
                self._table = self._catalog.load_table(self.name)
            except NoSuchTableError as error:
                raise TableError(
                    f"the catalog has no table {self.name}: name it as namespace.table, or create it first"
                ) from error
            if self._table.metadata.format_version < 2:
                raise TableError(
                    f"{self.name} has format version 1, whose commits have no numbers: upgrade it to 2"
                )
        return self._table

    @property
    def schema(self) -> pa.Schema | None:
        """Columns of every file; None where they differ, so that footers have to be read."""
        if self._shape == LAKE or len(self.table.metadata.schemas) > 1:
            return None
        return self.table.schema().as_arrow()

    def refresh(self) -> None:
        """Read the table's newest metadata."""
        if self._table is None:
            _ = self.table
            return
        try:
            self._table.refresh()
        except ValueError as error:
            raise TableError(f"{self.name} was made anew: follow it under another sampler name") from error

    def start(self, window_ms: int) -> Position:
        """Return the position of a sampler that begins: behind it lies a window before the newest commit."""
        lineage = list(ancestors_of(self.table.current_snapshot(), self.table.metadata))
        if not lineage:
            return Position(0)
        since = lineage[0].timestamp_ms - window_ms
        older = next((one for one in lineage if one.timestamp_ms < since), None)
        return Position(_number(older) if older else _number(lineage[-1]) - 1)

    def commits_after(self, position: Position) -> Iterator[TableCommit]:
        """Yield the commits after a position, the oldest first; call `refresh` before."""
        metadata = self.table.metadata
        last = int(getattr(metadata, "last_sequence_number", 0))
        if last < position.sequence:
            raise TableError(
                f"{self.name} has {last} commits and {position.sequence} were decided: it was made anew; "
                "follow it under another sampler name"
            )
        fresh: list[Snapshot] = []
        for snapshot in ancestors_of(self.table.current_snapshot(), metadata):
            if _number(snapshot) <= position.sequence:
                break
            fresh.append(snapshot)
        if not fresh:
            return
        oldest = fresh[-1]
        if not self._follows(oldest, position):
            yield from self._expired(oldest, position)
        for snapshot in reversed(fresh):
            yield self._commit(snapshot)

    def files_between(self, first: int, last: int, buckets: frozenset[int] = frozenset()) -> list[TableFile]:
        """List live files of these commits, and those written anew since that may hold their rows."""
        snapshot = self.table.current_snapshot()
        if snapshot is None:
            return []
        found = []
        for manifest in snapshot.manifests(self.table.io):
            if _sequence(manifest.sequence_number) < first:
                continue
            for entry in self._entries(manifest):
                file = entry.file
                if entry.status == ManifestEntryStatus.DELETED or file.sequence < first:
                    continue
                is_other = bool(buckets) and file.bucket >= 0 and file.bucket not in buckets
                if not is_other and (file.sequence <= last or self._is_rewritten(entry)):
                    found.append(file)
        return sorted(found, key=lambda one: (one.sequence, one.path))

    def buckets_of(self, trace_ids: Sequence[bytes]) -> frozenset[int]:
        """Return the buckets of these traces; empty if the table has none."""
        field_ = self._bucket_field()
        if field_ is None:
            return frozenset()
        source = self.table.schema().find_type(field_[1])
        transform = field_[2].transform(source)
        return frozenset(int(transform(one) or 0) for one in trace_ids)

    def _follows(self, oldest: Snapshot, position: Position) -> bool:
        """Tell if nothing expired between a position and the oldest snapshot after it."""
        parent = oldest.parent_snapshot_id
        if parent is None:
            return position.sequence == _number(oldest) - 1
        known = self.table.metadata.snapshot_by_id(parent)
        return known is not None and _number(known) <= position.sequence

    def _expired(self, oldest: Snapshot, position: Position) -> Iterator[TableCommit]:
        """Yield the live files of commits whose snapshots have expired."""
        _log.warning(
            "snapshots of %s after %d have expired: live files stand in", self.name, position.sequence
        )
        groups: dict[int, list[_Entry]] = {}
        for manifest in oldest.manifests(self.table.io):
            if _sequence(manifest.sequence_number) <= position.sequence:
                continue
            for entry in self._entries(manifest):
                number = entry.file.sequence
                is_live = entry.status != ManifestEntryStatus.DELETED
                if is_live and position.sequence < number < _number(oldest):
                    groups.setdefault(number, []).append(entry)
        for number, entries in sorted(groups.items()):
            files = tuple(one.file for one in entries)
            yield TableCommit(entries[0].snapshot_id, number, oldest.timestamp_ms, files)

    def _commit(self, snapshot: Snapshot) -> TableCommit:
        added, deleted = self._changes(snapshot)
        operation = snapshot.summary.operation if snapshot.summary else Operation.APPEND
        if operation in {Operation.REPLACE, Operation.DELETE}:
            files: tuple[TableFile, ...] = ()
        elif operation is Operation.OVERWRITE and deleted:
            files = self._new_in_overwrite(added, deleted)
        else:
            files = tuple(one.file for one in added)
        return TableCommit(snapshot.snapshot_id, _number(snapshot), snapshot.timestamp_ms, files)

    def _changes(self, snapshot: Snapshot) -> tuple[list[_Entry], list[_Entry]]:
        added: list[_Entry] = []
        deleted: list[_Entry] = []
        groups = {ManifestEntryStatus.ADDED: added, ManifestEntryStatus.DELETED: deleted}
        for manifest in snapshot.manifests(self.table.io):
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            for entry in self._entries(manifest):
                if entry.snapshot_id == snapshot.snapshot_id and entry.status in groups:
                    groups[entry.status].append(entry)
        return added, deleted

    def _new_in_overwrite(self, added: Sequence[_Entry], deleted: Sequence[_Entry]) -> tuple[TableFile, ...]:
        """Return the files of a commit that swaps files, with what is new in them.

        Segments of the lake name the raw objects they hold: rows of objects that a deleted file held are not
        new. Elsewhere rows count: as many as were deleted, or fewer, are a copy.
        """
        if self._shape == LAKE:
            return self._new_segments(added, deleted)
        rows = sum(one.file.rows for one in added)
        gone = sum(one.file.rows for one in deleted)
        if rows <= gone:
            return ()
        _log.warning(
            "%s: an overwrite adds %d rows and deletes %d, its files count as new", self.name, rows, gone
        )
        return tuple(one.file for one in added)

    def _new_segments(self, added: Sequence[_Entry], deleted: Sequence[_Entry]) -> tuple[TableFile, ...]:
        old = [self._footers(one.file.path) for one in deleted]
        known = [one for one in old if one is not None]
        found = []
        for entry in added:
            file, facts = entry.file, self._footers(entry.file.path)
            if facts is None or not deleted:
                found.append(file)
                continue
            if len(known) < len(old) and facts.generation > 0:
                continue  # its sources cannot be read any more: they were read before, or the commit was late
            overlapping = (one for one in known if one.min_ns <= facts.max_ns and facts.min_ns <= one.max_ns)
            before = {object_id for one in overlapping for object_id in one.source_objects}
            mine = set(facts.source_objects)
            if not mine <= before:
                copied = tuple(sorted(mine & before))
                found.append(replace(file, without=copied))
        return tuple(found)

    def _read_facts(self, path: str) -> SegmentFacts | None:
        try:
            with self.table.io.new_input(path).open() as source:
                return read_facts(pq.read_metadata(source))
        except FileNotFoundError:
            return None

    def _is_rewritten(self, entry: _Entry) -> bool:
        snapshot = self.table.metadata.snapshot_by_id(entry.snapshot_id)
        if snapshot is None or snapshot.summary is None:
            return self._shape == LAKE
        return snapshot.summary.operation is not Operation.APPEND

    def _entries(self, manifest: ManifestFile) -> list[_Entry]:
        """Return the entries of a manifest, which never changes."""
        with self._one_at_a_time:
            found = self._manifests.get(manifest.manifest_path)
        if found is None:
            entries = manifest.fetch_manifest_entry(self.table.io, discard_deleted=False)
            found = [_Entry(self._file(one), one.snapshot_id or 0, one.status) for one in entries]
        with self._one_at_a_time:
            self._manifests[manifest.manifest_path] = found
            self._manifests.move_to_end(manifest.manifest_path)
            while len(self._manifests) > KEPT_MANIFESTS:
                self._manifests.popitem(last=False)
        return found

    def _file(self, entry: ManifestEntry) -> TableFile:
        data = entry.data_file
        if data.content != DataFileContent.DATA:
            raise TableError(
                f"{self.name} has delete files, which samplers do not apply: rewrite its data files first"
            )
        if data.file_format != FileFormat.PARQUET:
            raise TableError(f"{data.file_path} is {data.file_format.value}: samplers read Parquet only")
        field_ = self._bucket_field()
        has_bucket = field_ is not None and data.spec_id == self.table.metadata.default_spec_id
        bucket = data.partition[field_[0]] if field_ is not None and has_bucket else -1
        number = _sequence(entry.sequence_number)
        return TableFile(data.file_path, number, data.record_count, data.file_size_in_bytes, int(bucket))

    def _bucket_field(self) -> tuple[int, int, BucketTransform[bytes]] | None:
        """Return place, source and transform of the partition by trace id."""
        schema = self.table.schema()
        for place, one in enumerate(self.table.spec().fields):
            if (
                isinstance(one.transform, BucketTransform)
                and schema.find_column_name(one.source_id) == "trace_id"
            ):
                return place, one.source_id, one.transform
        return None


def _number(snapshot: Snapshot) -> int:
    return _sequence(snapshot.sequence_number)


def _sequence(number: int | None) -> int:
    return number or 0


def commits_of(files: Iterable[TableFile], schema: pa.Schema | None) -> Iterator[Commit]:
    """Group files by commit and by what is new in them; large commits come in several pieces."""

    def place(one: TableFile) -> tuple[int, tuple[int, ...]]:
        return one.sequence, one.without

    for (sequence, without), found in groupby(sorted(files, key=place), key=place):
        paths = [TableFiles.named(one.path) for one in found]
        for at in range(0, len(paths), FILES_AT_ONCE):
            yield Commit(sequence, paths[at : at + FILES_AT_ONCE], schema, without)
