"""Remote write series are named by their labels, verbatim in canonical order.

    __name__="up", job="web"   →   metric_name up, series [["__name__","up"],["job","web"]], attr_job web

Plain runs are handled by kernels; the others are put in order here. A label given twice with one value is one
label. A series without a name, or with two values for a label, cannot be named: its points are rejected, and
nobody else's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import xxhash

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.attributes import attribute_columns, take_columns
from lakerunner_assets.decode.errors import raise_fault
from lakerunner_assets.decode.field_kernels import OWNER, Matrix
from lakerunner_assets.decode.otlp.owners import FlatColumn
from lakerunner_assets.decode.push import remote_write_kernels as scan
from lakerunner_assets.decode.push import remote_write_label_kernels as kernels
from lakerunner_assets.decode.slice_kernels import distinct
from lakerunner_assets.decode.text import strings
from resources.arrays import Bytes, Int64s
from resources.lake import streams

NAME = "__name__"
NAMELESS, AMBIGUOUS, UNNAMED_LABEL = (
    "series_without_name",
    "series_with_two_values_for_a_label",
    "series_with_unnamed_label",
)


@dataclass(frozen=True, slots=True)
class NamedRuns:
    """Distinct label runs of a slice, and their series."""

    runs: list[int]
    texts: pa.StringArray
    names: pa.StringArray
    ids: list[int]


@dataclass(frozen=True, slots=True)
class SeriesLabels:
    """Series of every TimeSeries; null for those that cannot be named."""

    run_of_series: Int64s
    series: pa.DictionaryArray
    """Series text by run, as are the next three."""
    names: pa.DictionaryArray
    ids: Int64s
    faults: dict[int, str]
    data: Bytes
    labels: Matrix
    """Labels that become columns."""

    def flat(self, run_of_point: Int64s, notes: Counter[str]) -> list[FlatColumn]:
        """Build a text column per label, but for the name."""
        rows = fields.attributes_of(self.labels)
        columns = attribute_columns(self.data, rows, len(self.ids), "record", notes)
        return [("record", *pair) for pair in take_columns(columns, run_of_point.astype(np.int32))]


def series_labels(scanned: scan.ScannedSeries, notes: Counter[str]) -> SeriesLabels:
    """Name the series of every TimeSeries, once per distinct run of label bytes."""
    data = scanned.runs
    codes, spans = distinct(data, fields.spans_of(scanned.series, scan.RUN))
    count = len(spans.start)
    total = scan.count_labels(data, spans)
    raise_fault(total)
    labels = fields.matrix(int(total), fields.ATTRIBUTE_WIDTH)
    raise_fault(scan.read_labels(data, spans, labels))
    name_rows, sizes = np.full(count, -1, np.int64), fields.matrix(count, 2)
    is_label = np.zeros(len(labels), np.bool_)
    kernels.plain_runs(data, labels, kernels.NAME, name_rows, sizes, is_label)
    faults = dict.fromkeys(np.flatnonzero(name_rows == -1).tolist(), NAMELESS)
    plain = _plain(data, labels, name_rows, sizes)
    odd, repeats = _odd(data, labels, np.flatnonzero(name_rows == -2), faults, notes)
    is_label[repeats] = False
    is_label[np.isin(labels[:, OWNER], list(faults))] = False
    of_run = np.full(count, -1, np.int32)
    of_run[plain.runs + odd.runs] = np.arange(len(plain.runs) + len(odd.runs))
    chosen = pa.array(of_run, mask=of_run < 0)
    ids = np.array([*plain.ids, *odd.ids, 0], np.int64)
    return SeriesLabels(
        codes.astype(np.int64),
        pa.concat_arrays([plain.texts, odd.texts]).take(chosen).dictionary_encode(),
        pa.concat_arrays([plain.names, odd.names]).take(chosen).dictionary_encode(),
        ids[of_run],
        faults,
        data,
        labels[is_label],
    )


def _plain(data: Bytes, labels: Matrix, name_rows: Int64s, sizes: Matrix) -> NamedRuns:
    """Name the runs that kernels can write."""
    wanted = name_rows >= 0
    text_at, hash_at = np.zeros((2, len(wanted) + 1), np.int64)
    np.cumsum(np.where(wanted, sizes[:, 0] + 1, 0), out=text_at[1:])
    np.cumsum(np.where(wanted, sizes[:, 1], 0), out=hash_at[1:])
    text, hashed = np.zeros(text_at[-1], np.uint8), np.zeros(hash_at[-1], np.uint8)
    kernels.write_plain(data, labels, wanted, text_at, text, hash_at, hashed)
    runs = np.flatnonzero(wanted)
    offsets = np.append(text_at[runs], text_at[-1]).astype(np.int32)
    texts = pa.StringArray.from_buffers(len(runs), pa.py_buffer(offsets), pa.py_buffer(text))
    names = strings(data, fields.spans_of(labels[name_rows[runs]], fields.VALUE), Counter())
    raw, bounds = hashed.tobytes(), [*hash_at[runs].tolist(), len(hashed)]
    ids = [
        int.from_bytes(xxhash.xxh3_128_digest(raw[start:end])[:8], "big", signed=True)
        for start, end in pairwise(bounds)
    ]
    return NamedRuns(runs.tolist(), texts, names, ids)


def _odd(
    data: Bytes, labels: Matrix, odd: Int64s, faults: dict[int, str], notes: Counter[str]
) -> tuple[NamedRuns, list[int]]:
    """Name runs out of order, with empty values, escapes or more than ASCII; list repeated labels too."""
    places = np.flatnonzero(np.isin(labels[:, OWNER], odd))
    rows = labels[places]
    keys, values = (
        strings(data, fields.spans_of(rows, place), notes).to_pylist() for place in (fields.KEY, fields.VALUE)
    )
    found: dict[int, dict[str, str]] = {run: {} for run in odd.tolist()}
    repeats: list[int] = []
    for place, run, key, value in zip(places.tolist(), rows[:, OWNER].tolist(), keys, values, strict=True):
        if key in found[run]:
            repeats.append(place)
        if found[run].setdefault(key, value) != value:
            faults[run] = AMBIGUOUS
    for run, pairs in found.items():
        if not pairs.get(NAME):
            faults[run] = NAMELESS
        elif pairs.get(""):
            faults[run] = UNNAMED_LABEL
    named = {run: streams.canonical(pairs) for run, pairs in found.items() if run not in faults}
    texts = pa.array([streams.labels_to_text(each) for each in named.values()], pa.string())
    names = pa.array([found[run][NAME] for run in named], pa.string())
    return NamedRuns(list(named), texts, names, [streams.stream_id(each) for each in named.values()]), repeats
