"""A reader decodes batches of one source in the columns of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.segments.merge.keys import Order
from lakerunner_assets.segments.merge.layout import VALUE, Column, Layout
from lakerunner_assets.segments.merge.merge_kernels import Keys, first_disorder
from lakerunner_assets.segments.merge.request import SourceError
from lakerunner_assets.segments.merge.source import Source, source_errors
from lakerunner_assets.segments.merge.texts import Recoder, Texts
from lakerunner_assets.segments.unify import MAP, merge_overflow
from resources.arrays import Int32s, Int64s
from resources.lake import metric_values


@dataclass(slots=True, eq=False)
class Batch:
    """Rows of one source that wait for those of the others."""

    columns: list[pa.Array]
    """Columns in the order of the layout; coded ones as codes."""
    keys: Keys
    codes: Int32s
    times: Int64s
    bytes: int
    """Size as it was read."""
    start: int = 0
    """First row that is not consumed yet."""

    @property
    def left(self) -> int:
        return len(self.keys) - self.start


class Reader:
    """Decoder of one source, as far as its budget allows."""

    def __init__(
        self,
        number: int,
        source: Source,
        layout: Layout,
        texts: Mapping[str, Texts],
        order: Order,
        budget: int,
    ) -> None:
        self.source, self.budget = source, budget
        self.waiting: list[Batch] = []
        self.bytes = 0
        """Size of all that waits."""
        self.is_exhausted = False
        self._number, self._layout, self._order = number, layout, order
        self._place = {key: name for name, key in source.keys.items()}
        self._recoders = {name: Recoder(each) for name, each in texts.items()}
        self._row = 0
        self._last: Keys = np.empty((0, 0), np.int64)
        coded = [self._place[c.key] for c in layout.columns if c.is_coded and c.key in self._place]
        self._batches = source.batches(coded, budget, source.schema.names)

    def fill(self) -> None:
        """Read on until the budget is used."""
        while not self.is_exhausted and (not self.waiting or self.bytes < self.budget):
            found = next(self._batches, None)
            if found is None:
                self.is_exhausted = True
                if self._row != self.source.rows:
                    raise SourceError(self.source.path, f"{self._row} rows, expected {self.source.rows}")
            elif found.num_rows:
                with source_errors(self.source.path):
                    self._add(found)

    def consume(self, batch: Batch, rows: int) -> None:
        """Drop that many rows from the start of the batch."""
        batch.start += rows
        if not batch.left:
            self.waiting.remove(batch)
            self.bytes = sum(each.bytes for each in self.waiting)

    def _add(self, found: pa.RecordBatch) -> None:
        columns = {name: found.column(place) for place, name in enumerate(found.schema.names)}
        in_format = {
            name: columns[name]
            for name in self._order.columns
            if name not in self._order.optional or name in columns
        }
        keyed = self._order.sort_keys(in_format, self._number, self._row)
        odd = first_disorder(keyed.keys, self._last if self._last.size else keyed.keys[:0])
        if odd >= 0:
            raise ValueError(f"row {self._row + odd} does not follow the one before it")
        self._last = keyed.keys[-1:].copy()
        self._row += found.num_rows
        unified = [self._unify(column, columns, found.num_rows) for column in self._layout.columns]
        batch = Batch(unified, keyed.keys, keyed.codes, keyed.times, found.nbytes + keyed.keys.nbytes)
        self.waiting.append(batch)
        self.bytes += batch.bytes

    def _unify(self, column: Column, found: Mapping[str, pa.Array], rows: int) -> pa.Array:
        if column.name == VALUE:
            return metric_values.values({name: found[name] for name in metric_values.VALUE_COLUMNS})
        if moved := self._layout.demoted.get(column.name):
            return self._overflow(column.name, moved, found, rows)
        place = self._place.get(column.key)
        if place is None:
            return pa.nulls(rows, pa.int32() if column.is_coded else column.kind)
        if column.is_coded:
            return self._recoders[column.name].recode(found[place])
        return found[place] if found[place].type == column.kind else found[place].cast(column.kind)

    def _overflow(
        self, name: str, moved: Sequence[Attribute], found: Mapping[str, pa.Array], rows: int
    ) -> pa.Array:
        columns = {
            attribute.key: found[self._place[attribute]] for attribute in moved if attribute in self._place
        }
        existing = found.get(name)
        if existing is not None and existing.offset:
            existing = existing.take(pa.array(np.arange(rows)))
        if not columns:
            return pa.nulls(rows, MAP) if existing is None else existing.cast(MAP)
        return merge_overflow(rows, existing, columns)
