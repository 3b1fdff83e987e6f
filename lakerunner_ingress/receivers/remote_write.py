"""Prometheus remote write: version 1.0 is kept as sent, 2.0 is translated into it.

A series without a name cannot be queried, so it is left out and told; the others of its request are kept, as
Prometheus itself does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakerunner_ingress.receivers.received import Form, Received
from lakerunner_ingress.receivers.refusals import BadRequestError, UnsupportedError
from lakerunner_ingress.receivers.remote_write_v2 import translate
from resources.lake.layout import Signal
from resources.proto.parsing import NotAMessageError, parse
from resources.proto.prometheus import RequestV2, WriteRequest

V1, V2 = "prometheus.WriteRequest", "io.prometheus.write.v2.Request"


def message_of(content_type: str) -> str:
    """The full name of the message that is sent; without `proto=` it is that of version 1.0.

    >>> message_of("application/x-protobuf;proto=io.prometheus.write.v2.Request")
    'io.prometheus.write.v2.Request'
    """
    media, *parameters = (part.strip() for part in content_type.split(";"))
    named = [p.partition("=")[2].strip('" ') for p in parameters if p.lower().startswith("proto=")]
    message = named[0] if named else V1
    if media.lower() != "application/x-protobuf" or message not in {V1, V2}:
        raise UnsupportedError(
            f"Content-Type {content_type[:100]!r}: expected application/x-protobuf, proto={V1} or proto={V2}"
        )
    return message


def check_encoding(encoding: str) -> None:
    if encoding.strip().lower() not in {"snappy", ""}:
        raise UnsupportedError(f"Content-Encoding {encoding[:32]!r}: expected snappy")


def read_remote_write(data: bytes, message: str) -> tuple[Received, dict[str, str]]:
    """What is kept, and the headers that tell a sender of 2.0 how much that is."""
    request = _parsed(RequestV2 if message == V2 else WriteRequest, data)
    if message == V2:
        request = translate(request)
        data = request.SerializeToString()
    nameless = [i for i, series in enumerate(request.timeseries) if not _named(series)]
    if nameless:
        data = _without(request, set(nameless))
    reason = _told(nameless, len(request.timeseries)) if nameless else ""
    received = Received(Signal.METRICS, Form.REMOTE_WRITE, data, len(nameless), reason)
    return received, _written(request, set(nameless)) if message == V2 else {}


def _parsed(message: Any, data: bytes) -> Any:
    try:
        return parse(message, data)
    except NotAMessageError as error:
        raise BadRequestError(str(error)) from error


def _named(series: Any) -> bool:
    return any(label.name == "__name__" and label.value for label in series.labels)


def _told(nameless: Sequence[int], series: int) -> str:
    rest = "the others were kept" if len(nameless) < series else "nothing was kept"
    return (
        f"timeseries[{nameless[0]}] has no __name__; {len(nameless)} of {series} series were refused, {rest}"
    )


def _without(request: Any, left_out: set[int]) -> bytes:
    kept = WriteRequest(metadata=request.metadata)
    kept.timeseries.extend(s for i, s in enumerate(request.timeseries) if i not in left_out)
    return bytes(kept.SerializeToString())


def _written(request: Any, left_out: set[int]) -> dict[str, str]:
    kept = [s for i, s in enumerate(request.timeseries) if i not in left_out]
    prefix = "X-Prometheus-Remote-Write"
    return {
        f"{prefix}-Samples-Written": str(sum(len(s.samples) for s in kept)),
        f"{prefix}-Histograms-Written": str(sum(len(s.histograms) for s in kept)),
        f"{prefix}-Exemplars-Written": str(sum(len(s.exemplars) for s in kept)),
    }
