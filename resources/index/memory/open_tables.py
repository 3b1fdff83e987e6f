"""Open tables live in memory, with their changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from resources.index.memory.state import MemoryPart, State, StoredSegment, StoredTable
from resources.index.open_tables import OpenTable, TableChanges, TableSegment


class OpenTables(MemoryPart):
    def list_tables(self, org: str = "") -> list[OpenTable]:
        now = self._clock()
        return [
            OpenTable(
                table.table_id,
                owner,
                dataset,
                table.version,
                table.committed,
                0.0 if table.changed_at is None else now - table.changed_at,
                float("inf") if table.committed_at is None else now - table.committed_at,
                sum(retired for _, _, retired in table.changes),
            )
            for (owner, dataset), table in sorted(self._state.open_tables.items())
            if org in {"", owner}
        ]

    def add_table(self, org: str, dataset: str) -> bool:
        with self._transaction() as state:
            if (org, dataset) in state.open_tables:
                return False
            state.last_table += 1
            state.open_tables[org, dataset] = StoredTable(state.last_table, changed_at=self._clock())
            return True

    def remove_table(self, org: str, dataset: str) -> bool:
        with self._transaction() as state:
            return state.open_tables.pop((org, dataset), None) is not None

    def table_changes(self, org: str, dataset: str, known: tuple[int, int] | None) -> TableChanges | None:
        with self._one_at_a_time:
            table = self._state.open_tables.get((org, dataset))
            if table is None:
                return None
            live = [k for k in _in_order(self._state) if k.live and _belongs(k, org, dataset)]
            is_whole = known is None or known[0] != table.table_id or known[1] > table.version
            rows = sum(kept.segment.rows for kept in live)
            since = known[1] if known else 0
            news = [(name, retired) for version, name, retired in table.changes if version > since]
            often = Counter(name for name, _ in news)
            retired = {name: gone for name, gone in news if often[name] == 1}
            changed = [k for k in _in_order(self._state) if k.segment.segment_id in retired]
            added = live if is_whole else [k for k in changed if not retired[k.segment.segment_id]]
            removed = [] if is_whole else [k for k in changed if retired[k.segment.segment_id]]
            return TableChanges(
                table.table_id,
                table.version,
                is_whole,
                tuple(map(_file, added)),
                tuple(map(_file, removed)),
                len(live),
                rows,
            )

    def note_commit(self, table_id: int, version: int, oldest: int) -> None:
        with self._transaction() as state:
            for table in state.open_tables.values():
                if table.table_id == table_id:
                    table.committed = max(table.committed, version)
                    table.changed_at = self._clock() if table.version > table.committed else None
                    table.committed_at = self._clock()
                    table.changes = [change for change in table.changes if change[0] > oldest]


def note_changes(state: State, segments: Sequence[StoredSegment], clock: Callable[[], float]) -> None:
    """Record segments that a transaction inserted or retired."""
    for key in sorted({(kept.segment.org, kept.segment.dataset) for kept in segments}):
        table = state.open_tables.get(key)
        if table is None:
            continue
        table.version += 1
        table.changed_at = clock() if table.changed_at is None else table.changed_at
        table.changes += [
            (table.version, kept.segment.segment_id, not kept.live)
            for kept in segments
            if _belongs(kept, *key)
        ]


def held_segments(state: State) -> set[str]:
    """Return the segments whose files snapshots may still name."""
    return {name for table in state.open_tables.values() for _, name, retired in table.changes if retired}


def _belongs(kept: StoredSegment, org: str, dataset: str) -> bool:
    return (kept.segment.org, kept.segment.dataset) == (org, dataset)


def _in_order(state: State) -> list[StoredSegment]:
    return sorted(state.segments.values(), key=lambda k: (k.segment.hour_ns, k.segment.segment_id))


def _file(kept: StoredSegment) -> TableSegment:
    s = kept.segment
    return TableSegment(s.segment_id, s.key, s.hour_ns, s.width_ns, s.rows, s.bytes)
