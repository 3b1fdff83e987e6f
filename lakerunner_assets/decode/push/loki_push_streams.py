"""Streams of a Loki push: the pushed labels, and `service_name` where they lack it.

Loki looks for the service in a list of other labels and sets the label itself, so that every stream has one;
so do we, with its list: `{app="shop", env="prod"}` is of the service `shop`. A stream whose label text cannot
be read has no identity: its entries are rejected and counted, its neighbours are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lakerunner_assets.decode.distinct import distinct
from lakerunner_assets.decode.fields import spans_of
from lakerunner_assets.decode.push import loki_push_scan as scan
from lakerunner_assets.decode.push.loki_push_scan import Pushed
from lakerunner_assets.decode.stream_labels import UNKNOWN_SERVICE, ResourceStreams
from lakerunner_assets.decode.text import strings
from resources.arrays import Bytes
from resources.lake.label_text import parse_labels
from resources.lake.streams import Labels, canonical, stream_id

SERVICE_LABELS = (
    "service", "app", "application", "app_name", "name", "app_kubernetes_io_name", "container",
    "container_name", "k8s_container_name", "component", "workload", "job", "k8s_job_name",
)  # fmt: skip
"""Loki's default `discover_service_name`, in its order."""


@dataclass(frozen=True, slots=True)
class PushStreams:
    """The streams of a slice."""

    streams: ResourceStreams
    """`of_resource`: the label set of every stream message, -1 where its labels are unreadable."""
    first_unreadable: str
    """Where and why the first of them is; '' if all could be read."""


def push_streams(data: Bytes, pushed: Pushed, notes: Counter[str]) -> PushStreams:
    """Every distinct label text is parsed once."""
    codes, texts = distinct(data, spans_of(pushed.streams, scan.LABELS))
    known: dict[Labels, int] = {}
    stream_of_text = np.full(len(texts.start), -1, np.int32)
    reasons: dict[int, str] = {}
    for index, text in enumerate(strings(data, texts, notes).to_pylist()):
        try:
            labels = with_service(parse_labels(text))
        except ValueError as error:
            reasons[index] = f"labels {text[:200]!r}: {error}"
            continue
        stream_of_text[index] = known.setdefault(labels, len(known))
    of_stream = stream_of_text[codes] if len(codes) else codes
    streams = ResourceStreams(of_stream, tuple(known), tuple(stream_id(labels) for labels in known))
    bad = np.flatnonzero(of_stream < 0)
    if not len(bad):
        return PushStreams(streams, "")
    first = int(bad[0])
    return PushStreams(
        streams, f"stream at byte {pushed.streams[first, scan.AT]}: {reasons[int(codes[first])]}"
    )


def with_service(labels: Mapping[str, str]) -> Labels:
    """
    >>> with_service({"job": "nightly", "app": "shop"})
    (('app', 'shop'), ('job', 'nightly'), ('service_name', 'shop'))
    """
    if labels.get("service_name"):
        return canonical(labels)
    found = (labels[name] for name in SERVICE_LABELS if labels.get(name))
    return canonical({**labels, "service_name": next(found, UNKNOWN_SERVICE)})
