"""A shard evaluates the per-series parts of an expression; their vectors travel as bytes and are merged.

    shard 0  {job="a"} 1  {job="c"} 3
    shard 1  {job="b"} 2                   ->   {job="a"} 1  {job="b"} 2  {job="c"} 3

Numbers are the bytes of their arrays: NaN has payloads, and counts of histograms have fractions.

The family of a series decides its shard:

    wait_bucket{path="/", le="0.5"}   sent as a float   -> family wait{path="/"}
    wait{path="/"}                    a histogram       -> family wait{path="/"}

Classic series of a histogram are merged with stored series of the same labels. All that may be merged is in
one family and so in one shard; the id of the stored label set would not do that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from lakerunner_query.histogram.model import NO_BUCKETS, Buckets, Hint, Histogram
from lakerunner_query.plan.promql import per_series
from lakerunner_query.promql.context import Annotation, KnownVector
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.protocol.answers import Note, ShardAnswer, ShardPart, annotation, notes_together
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.rows import empty_objects, empty_vector, stack_rows
from lakerunner_query.vectors.vector import Labels, Objects, Series, Steps, Vector, histogram_mask
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from resources.arrays import Doubles, UInt64s
from resources.lake.series import NAME_LABEL


class _Histogram(msgspec.Struct, frozen=True, array_like=True):
    place: int
    """Cell of the vector, in row-major order."""
    schema: int
    hint: int
    totals: bytes
    """Count, sum, zero threshold, zero count."""
    positive: tuple[bytes, bytes]
    """Bucket indexes and counts."""
    negative: tuple[bytes, bytes]
    bounds: bytes


class _Vector(msgspec.Struct, frozen=True):
    labels: list[tuple[tuple[str, str], ...]]
    steps: int
    values: bytes
    present: bytes
    drop_name: bytes | None = None
    histograms: list[_Histogram] | None = None


_VECTOR = msgspec.msgpack.Decoder(_Vector)


def encode_vector(vector: Vector) -> bytes:
    drop_name, histograms = vector.drop_name, vector.histograms
    return msgspec.msgpack.encode(
        _Vector(
            list(vector.labels),
            vector.present.shape[1],
            np.ascontiguousarray(vector.values, np.float64).tobytes(),
            np.ascontiguousarray(vector.present, np.bool_).tobytes(),
            None if drop_name is None else drop_name.tobytes(),
            None if histograms is None else _cells(histograms),
        )
    )


def decode_vector(body: bytes) -> Vector:
    found = _VECTOR.decode(body)
    shape = (len(found.labels), found.steps)
    return Vector(
        found.labels,
        _doubles(found.values).reshape(shape),
        np.frombuffer(found.present, np.bool_).reshape(shape).copy(),
        None if found.histograms is None else _grid(found.histograms, shape),
        None if found.drop_name is None else np.frombuffer(found.drop_name, np.bool_).copy(),
    )


def merge_vectors(vectors: Sequence[Vector], steps: int) -> Vector:
    """Concatenate the series of all shards, in order of labels as a selector returns them."""
    vectors = [vector for vector in vectors if vector.labels]
    if not vectors:
        return empty_vector(steps)
    if len(vectors) == 1:
        return vectors[0]
    found = stack_rows(vectors)
    labels: list[Labels] = found.labels
    return found.take(np.array(sorted(range(len(labels)), key=labels.__getitem__), np.int64))


def _cells(histograms: Objects) -> list[_Histogram]:
    flat = histograms.ravel()
    return [_encode_histogram(place, flat[place]) for place in np.flatnonzero(histogram_mask(flat)).tolist()]


def _encode_histogram(place: int, one: Histogram) -> _Histogram:
    totals = np.array([one.count, one.sum, one.zero_threshold, one.zero_count], np.float64)
    return _Histogram(
        place, int(one.schema), int(one.hint), totals.tobytes(),
        _side(one.positive), _side(one.negative), np.array(one.bounds, np.float64).tobytes(),
    )  # fmt: skip


def _side(buckets: Buckets) -> tuple[bytes, bytes]:
    return buckets.index.astype(np.int64).tobytes(), buckets.count.astype(np.float64).tobytes()


def _grid(stored: list[_Histogram], shape: tuple[int, int]) -> Objects:
    found = empty_objects((shape[0] * shape[1],))
    for one in stored:
        count, total, threshold, zeros = _doubles(one.totals).tolist()
        found[one.place] = Histogram(
            one.schema, count, total, threshold, zeros,
            _buckets(one.positive), _buckets(one.negative), tuple(_doubles(one.bounds).tolist()),
            Hint(one.hint),
        )  # fmt: skip
    return found.reshape(shape)


def _buckets(side: tuple[bytes, bytes]) -> Buckets:
    index, counts = side
    return Buckets(np.frombuffer(index, np.int64).copy(), _doubles(counts)) if index else NO_BUCKETS


def _doubles(raw: bytes) -> Doubles:
    return np.frombuffer(raw, np.float64).copy()


class NoSource:
    """A source that reads nothing: all selectors lie inside parts that shards have answered."""

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        raise _unexpected_read(f"{list(matchers)} in ({from_ms}, {to_ms}]")

    def over_windows(self, function: Function, matchers: Sequence[Matcher], grid: Grid) -> None:
        raise _unexpected_read(f"{function.name} of {list(matchers)} in ({grid.from_ms}, {grid.to_ms}]")


def _unexpected_read(what: str) -> ValueError:
    return ValueError(f"{what}: expected inside of a part that shards have answered")


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    found = per_series(expr)
    if found is None:
        raise ValueError("an expression that is not of single series was cut into shards")
    return found


def encode_parts(found: Sequence[KnownVector]) -> tuple[ShardPart, ...]:
    return tuple(ShardPart(encode_vector(part.vector), tuple(map(_note, part.annotations))) for part in found)


def merge_parts(expr: Expr, steps: Steps, shards: Sequence[ShardAnswer]) -> dict[int, KnownVector]:
    """Merge the answers of all shards; return the value of each part, by its id."""
    found: dict[int, KnownVector] = {}
    each = zip(*(shard.parts for shard in shards), strict=True)
    for part, answers in zip(parts_of(expr), each, strict=True):
        notes = notes_together([answer.notes for answer in answers])
        if notes is None:
            raise ValueError("shards whose annotations have no order were put together")
        vector = merge_vectors([decode_vector(answer.vector) for answer in answers], steps.count)
        found[id(part)] = KnownVector(vector, tuple(map(annotation, notes)))
    return found


def _note(one: Annotation) -> Note:
    if one.fix is not None or one.extreme is not None:
        raise ValueError(f"{one.base}: expected of a part nothing that is told of many series")
    return Note(one.kind, one.base, "", None, (one.span.start, one.span.end))


MEMBER_LABELS = ("le", "quantile")
"""Labels that distinguish the members of a family."""
SUFFIXES = ("_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True)
class Shard:
    """Series whose family hash is `number`, modulo `count`."""

    number: int
    count: int

    def takes(self, families: UInt64s) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = families % np.uint64(self.count) == np.uint64(self.number)
        return found


def family_hashes(
    names: Mapping[str, int],
    texts: Sequence[str],
    offsets: npt.NDArray[np.int32],
    keys: npt.NDArray[np.int32],
    values: npt.NDArray[np.int32],
) -> UInt64s:
    """Hash the family of each series of a table, alike in all tables and processes."""
    value_hashes = _hashes(list(texts))[values]
    if NAME_LABEL in names:
        are_names = keys == names[NAME_LABEL]
        used, where = np.unique(values[are_names], return_inverse=True)
        value_hashes[are_names] = _hashes([stem(texts[code]) for code in used.tolist()])[where.ravel()]
    entries = _mix(_hashes(list(names))[keys] + _mix(value_hashes))
    for label in MEMBER_LABELS:
        entries[keys == names.get(label, -1)] = 0
    running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)))
    return _mix(running[offsets[1:]] - running[offsets[:-1]])  # a sum does not depend on the order of labels


def stem(name: str) -> str:
    """Strip the suffixes of classic series from a name.

    >>> stem("wait_bucket"), stem("wait_count_bucket"), stem("wait")
    ('wait', 'wait', 'wait')
    """
    while name.endswith(SUFFIXES):
        name = name[: name.rindex("_")]
    return name


def _hashes(texts: Sequence[str]) -> UInt64s:
    return np.array([xxhash.xxh3_64_intdigest(text.encode()) for text in texts], np.uint64)


def _mix(numbers: UInt64s) -> UInt64s:
    """Mix with the last steps of splitmix64: every bit of the result depends on every bit."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: UInt64s = numbers ^ (numbers >> np.uint64(31))
    return found
