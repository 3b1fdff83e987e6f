"""The lake's own spans, and raw records that are decoded into their form.

    segment whose footer says attr_http_route = (record, "http.route", string)
    →  SELECT …, CAST("attr_http_route" AS VARCHAR) AS "span:http.route" FROM read_parquet(…)

A column's name is good within its own file only: the label map of each footer says which attribute it holds.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.spec import AbstractFileSystem

from lakerunner_assets.decode.errors import DecodeError
from lakerunner_assets.decode.naming import attribute_of
from lakerunner_sampling.shapes import (
    BYTES_OF_SPAN,
    EVERYTHING,
    MAP,
    SPAN_COLUMNS,
    Attribute,
    CanonicalShape,
    Scope,
    ShapeError,
    SpanShape,
    Wanted,
    converted,
    parquet,
    quoted,
    text,
)
from resources.lake.columns import CHQ_OBJECT, CHQ_STREAM
from resources.lake.segment_file import OVERFLOW_COLUMNS, MappedColumn, label_map_metadata, read_label_map

log = logging.getLogger(__name__)


class LakeShape:
    """The lake's own spans: segments as they are, whose footers tell which column holds which attribute."""

    name = "lake"
    _NAMES: Mapping[str, str] = {
        "trace_id": "span_trace_id", "span_id": "span_id", "parent_span_id": "span_parent_span_id",
        "start_ns": "span_start_ns", "service_name": "service_name", "name": "span_name",
        "kind": "span_kind", "status_code": "span_status_code", "status_message": "span_status_message",
        "trace_state": "span_trace_state", "flags": "span_flags", "scope_name": "scope_name",
        "scope_version": "scope_version", "events": "span_events", "links": "span_links",
    }  # fmt: skip

    def __init__(self, files: AbstractFileSystem | None = None) -> None:
        self._files = files
        """File system of objects that are not on disk."""

    def prepare(self, files: Sequence[str], folder: Path) -> Sequence[str]:  # noqa: ARG002 - as they are
        return files

    def relation(self, files: Sequence[str], schema: pa.Schema, wanted: Wanted = EVERYTHING) -> str:
        """Read files with the same columns together; `schema` may be that of any of them."""
        alike: dict[str, list[str]] = {}
        maps = bool(wanted.attributes or wanted.columns & {"attributes", "resource_attributes", "size"})
        for file in files:
            mapped, held = self._footer(file) if maps else ((), schema)
            alike.setdefault(self._selected(mapped, held, wanted), []).append(file)
        others = f" WHERE {CHQ_OBJECT} NOT IN {(*wanted.without, -1)}" if wanted.without else ""
        return " UNION ALL ".join(
            f"SELECT {chosen} FROM {parquet(each)}{others}" for chosen, each in alike.items()
        )

    def _footer(self, file: str) -> tuple[tuple[MappedColumn, ...], pa.Schema]:
        footer = pq.read_metadata(file, filesystem=self._files)
        return read_label_map(footer.metadata), footer.schema.to_arrow_schema()

    def _selected(self, mapped: Sequence[MappedColumn], schema: pa.Schema, wanted: Wanted) -> str:
        names = [name for name in SPAN_COLUMNS if name in wanted.columns]
        chosen = [f"{self._column(name, mapped, schema)} AS {name}" for name in names]
        chosen += [
            f"{_lake_attribute(each, mapped, schema)} AS {quoted(each.column)}" for each in wanted.attributes
        ]
        return ", ".join(chosen)

    def _column(self, name: str, mapped: Sequence[MappedColumn], schema: pa.Schema) -> str:
        if name == "end_ns":
            held = '"span_end_ns"' if "span_end_ns" in schema.names else "NULL"
            return f'coalesce({held}, "span_start_ns")'
        if name in {"attributes", "resource_attributes"}:
            return _lake_map("record" if name == "attributes" else "resource", mapped, schema)
        if name == "size":
            texts = ["span_name", *(each.column for each in mapped if each.scope == "record")]
            return " + ".join(
                [
                    str(BYTES_OF_SPAN),
                    *(f"coalesce(strlen(CAST({quoted(each)} AS VARCHAR)), 0)" for each in texts),
                ]
            )
        if self._NAMES[name] not in schema.names:
            return f"NULL::{SPAN_COLUMNS[name]}"
        return converted(name, schema.field(self._NAMES[name]))


RAW_CHUNK_BYTES = 8 << 20
"""Bytes of records that are decoded together: OTLP messages one behind the other are one message."""


class AutomqRawShape(LakeShape):
    """AutoMQ's Table Topic with `convert.value.type=raw`: OTLP bytes, decoded into the lake's shape."""

    name = "automq_raw"

    def __init__(self, files: AbstractFileSystem | None = None) -> None:
        super().__init__()
        self._source = files
        self.rejected = 0
        """Records that were no OTLP, since the start; each is logged."""

    def prepare(self, files: Sequence[str], folder: Path) -> Sequence[str]:
        """Decode the files' records into `folder`, which the caller empties when it is done."""
        folder.mkdir(parents=True, exist_ok=True)
        chunks = (chunk for file in files for chunk in self._chunks(file))
        made = [self._write(table, folder) for chunk in chunks for table in self._decoded(chunk)]
        if made:
            return made
        return [self._write(_decode(b""), folder)]

    def _chunks(self, file: str) -> Iterator[RawChunk]:
        source = pq.ParquetFile(file, filesystem=self._source)
        if RAW_VALUE not in source.schema_arrow.names:
            raise ShapeError(f"{file} has no column {RAW_VALUE}, which a raw Table Topic has")
        values: list[bytes] = []
        length = 0
        for batch in source.iter_batches(batch_size=256, columns=[RAW_VALUE]):
            for record in batch.column(0).drop_null().to_pylist():
                if values and length + len(record) > RAW_CHUNK_BYTES:
                    yield RawChunk(file, values)
                    values, length = [], 0
                values.append(record)
                length += len(record)
        if values:
            yield RawChunk(file, values)

    def _decoded(self, chunk: RawChunk) -> Iterator[pa.Table]:
        try:
            yield _decode(b"".join(chunk.values))
        except DecodeError:
            for value in chunk.values:
                try:
                    yield _decode(value)
                except DecodeError as error:
                    self.rejected += 1
                    log.warning("a record of %s is no OTLP and was left out: %s", chunk.file, error)

    @staticmethod
    def _write(table: pa.Table, folder: Path) -> str:
        attributes = [(field.name, attribute_of(field)) for field in table.schema]
        mapped = [MappedColumn(name, each.scope, each.key, each.kind) for name, each in attributes if each]
        table = table.drop_columns([CHQ_STREAM]) if CHQ_STREAM in table.column_names else table
        file = str(folder / f"{uuid4().hex}.parquet")
        pq.write_table(table.replace_schema_metadata(label_map_metadata(mapped)), file, compression="lz4")
        return file


RAW_VALUE = "_kafka_value"


@dataclass(frozen=True, slots=True)
class RawChunk:
    file: str
    values: list[bytes]


def shape_of(schema: pa.Schema, source: AbstractFileSystem | None = None) -> SpanShape:
    """Tell the shape of files by their columns."""
    if "span_trace_id" in schema.names:
        return LakeShape(source)
    return AutomqRawShape(source) if RAW_VALUE in schema.names else CanonicalShape()


_LAKE_SCOPES = {Scope.SPAN: "record", Scope.RESOURCE: "resource", Scope.SCOPE: "scope"}


def _lake_attribute(attribute: Attribute, mapped: Collection[MappedColumn], schema: pa.Schema) -> str:
    scope = _LAKE_SCOPES[attribute.scope]
    held = [each.column for each in mapped if (each.scope, each.key) == (scope, attribute.key)]
    found = [f"CAST({quoted(each)} AS VARCHAR)" for each in held]
    if OVERFLOW_COLUMNS[scope] in schema.names:
        found.append(f"{quoted(OVERFLOW_COLUMNS[scope])}[{text(attribute.key)}]")
    if scope == "resource" and attribute.key == "service.name" and not found:
        found.append("nullif(service_name, 'unknown_service')")
    return f"coalesce({', '.join(found)})" if found else "NULL::VARCHAR"


def _lake_map(scope: str, mapped: Collection[MappedColumn], schema: pa.Schema) -> str:
    """Build the map of a scope from its columns and the overflow map."""
    pairs = ", ".join(
        f"{{'k': {text(each.key)}, 'v': CAST({quoted(each.column)} AS VARCHAR)}}"
        for each in mapped
        if each.scope == scope
    )
    empty = f"MAP {{}}::{MAP}"
    flat = f"map_from_entries(list_filter([{pairs}], lambda p: p.v IS NOT NULL))" if pairs else empty
    if OVERFLOW_COLUMNS[scope] not in schema.names:
        return flat
    return f"map_concat({flat}, coalesce({quoted(OVERFLOW_COLUMNS[scope])}, {empty}))"


def _decode(data: bytes) -> pa.Table:
    """Decode OTLP; its kernels cost 65 MB, which only tables of raw records pay."""
    from lakerunner_assets.decode.dispatch import DecodeOptions, Place
    from lakerunner_assets.decode.otlp.traces import decode_traces

    return decode_traces(data, Place(0, 0, 0), DecodeOptions()).table
