"""Which attributes name a stream.

Loki takes a short list of resource attributes as index labels for OTLP, and so do we; everything else is
structured metadata. Work is done once per distinct resource, not per record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.attributes import AttributeColumns
from resources.arrays import Int32s
from resources.lake.streams import Labels, canonical, labels_to_text, stream_id

UNKNOWN_SERVICE = "unknown_service"


@dataclass(frozen=True, slots=True)
class ResourceStreams:
    """Stream of every resource: an index into the distinct label sets and their ids."""

    of_resource: Int32s
    labels: tuple[Labels, ...]
    ids: tuple[int, ...]


def resource_streams(
    resources: AttributeColumns, count: int, index_attributes: Sequence[str]
) -> ResourceStreams:
    """The streams of `count` resources."""
    values: list[dict[str, str]] = [{} for _ in range(count)]
    for attribute, column in resources.columns.items():
        if attribute.key in index_attributes:
            name = attribute.key.replace(".", "_")
            for labels, value in zip(values, column.to_pylist(), strict=True):
                if value is not None:
                    labels.setdefault(name, _text(value))
    codes: dict[Labels, int] = {}
    of_resource = [codes.setdefault(_labels(found), len(codes)) for found in values]
    return ResourceStreams(
        np.array(of_resource, np.int32), tuple(codes), tuple(stream_id(labels) for labels in codes)
    )


def stream_columns(streams: ResourceStreams, resource_of_row: Int32s) -> tuple[pa.Array, pa.DictionaryArray]:
    """`chq_stream_id` and `chq_stream` of every row."""
    codes = streams.of_resource[resource_of_row] if len(resource_of_row) else resource_of_row
    ids = np.array(streams.ids or (0,), np.int64)[codes]
    texts = pa.array([labels_to_text(labels) for labels in streams.labels], pa.string())
    return pa.array(ids), pa.DictionaryArray.from_arrays(pa.array(codes), texts)


def _labels(found: Mapping[str, str]) -> Labels:
    return canonical({**found, "service_name": found.get("service_name") or UNKNOWN_SERVICE})


def _text(value: object) -> str:
    """OTel's string form of what is not text already."""
    return str(value).lower() if isinstance(value, bool) else str(value)
