"""Checks Prometheus remote write: version 1.0 stays as sent, 2.0 is translated into it.

The table of symbols of 2.0 would forbid putting requests together, so it is resolved. The metadata of a
series becomes metadata of its metric, once per request; start timestamps have no place in 1.0 and are left
out. A series without a name cannot be queried, so it is left out and reported; the others of its request are
kept, as Prometheus itself does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakerunner_ingress.receivers.forms import CheckedPush, Form
from lakerunner_ingress.receivers.metadata import families_of
from lakerunner_ingress.receivers.refusals import BadRequestError, TooLargeError, UnsupportedError
from resources.lake.layout import Signal
from resources.proto.parsing import NotAMessageError, parse
from resources.proto.prometheus import RequestV2, WriteRequest

MAX_EXPANDED_BYTES = 64 << 20
"""Limit on resolved symbols: two bytes of reference can stand for a symbol of any length."""
_PER_LABEL = 8


def translate(request: Any) -> Any:
    """Translate into a `WriteRequest`; raise `BadRequestError` for a reference outside the table."""
    symbols = list(request.symbols)
    if request.timeseries and (not symbols or symbols[0]):
        raise BadRequestError("symbols[0]: expected the empty text")
    sizes = [len(symbol.encode()) + _PER_LABEL for symbol in symbols]
    expanded = 0
    for index, series in enumerate(request.timeseries):
        try:
            expanded += _expanded_size(series, sizes)
        except IndexError as error:
            raise BadRequestError(
                f"timeseries[{index}]: a name without a value, or outside the {len(symbols)} symbols"
            ) from error
    if expanded > MAX_EXPANDED_BYTES:
        raise TooLargeError(
            f"{expanded} bytes with the symbols in place: expected at most {MAX_EXPANDED_BYTES}"
        )
    made = WriteRequest()
    known: set[str] = set()
    for series in request.timeseries:
        _series(made, series, symbols, known)
    return made


def _expanded_size(series: Any, sizes: Sequence[int]) -> int:
    """Return the bytes of the texts that a series refers to."""
    meta = series.metadata
    references = [series.labels_refs, *(exemplar.labels_refs for exemplar in series.exemplars)]
    if any(len(found) % 2 for found in references):
        raise IndexError
    texts = sum(sizes[at] for found in references for at in found)
    return int(texts + sizes[meta.help_ref] + sizes[meta.unit_ref])


def _series(made: Any, series: Any, symbols: Sequence[str], known: set[str]) -> None:
    target = made.timeseries.add()
    _labels(target, series.labels_refs, symbols)
    for sample in series.samples:
        target.samples.add(value=sample.value, timestamp=sample.timestamp)
    for exemplar in series.exemplars:
        copied = target.exemplars.add(value=exemplar.value, timestamp=exemplar.timestamp)
        _labels(copied, exemplar.labels_refs, symbols)
    for histogram in series.histograms:
        copy = target.histograms.add()
        copy.MergeFromString(histogram.SerializeToString())  # the fields have the same numbers
        copy.DiscardUnknownFields()
    name = next((label.value for label in target.labels if label.name == "__name__"), "")
    meta = series.metadata
    if name and name not in known and (meta.type or meta.help_ref or meta.unit_ref):
        known.add(name)
        made.metadata.add(
            type=meta.type,
            metric_family_name=name,
            help=symbols[meta.help_ref],
            unit=symbols[meta.unit_ref],
        )


def _labels(target: Any, references: Sequence[int], symbols: Sequence[str]) -> None:
    for at in range(0, len(references), 2):
        target.labels.add(name=symbols[references[at]], value=symbols[references[at + 1]])


V1, V2 = "prometheus.WriteRequest", "io.prometheus.write.v2.Request"


def message_of(content_type: str) -> str:
    """Return the full name of the message; without `proto=` it is that of version 1.0.

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


def read_remote_write(data: bytes, message: str) -> CheckedPush:
    """Check a request; a sender of 2.0 is told in headers how much was kept.

    Descriptions of metrics without a sample need no object.
    """
    request = _parse(RequestV2 if message == V2 else WriteRequest, data)
    if message == V2:
        request = translate(request)
        data = request.SerializeToString()
    nameless = [i for i, series in enumerate(request.timeseries) if not _has_name(series)]
    if nameless:
        data = _without(request, set(nameless))
    reason = _refusal_text(nameless, len(request.timeseries)) if nameless else ""
    headers = _written_headers(request, set(nameless)) if message == V2 else {}
    families = families_of(request, of_series=message == V2)
    data = data if request.timeseries else b""
    return CheckedPush(Signal.METRICS, Form.REMOTE_WRITE, data, len(nameless), reason, headers, families)


def _parse(message: Any, data: bytes) -> Any:
    try:
        return parse(message, data)
    except NotAMessageError as error:
        raise BadRequestError(str(error)) from error


def _has_name(series: Any) -> bool:
    return any(label.name == "__name__" and label.value for label in series.labels)


def _refusal_text(nameless: Sequence[int], series: int) -> str:
    rest = "the others were kept" if len(nameless) < series else "nothing was kept"
    return (
        f"timeseries[{nameless[0]}] has no __name__; {len(nameless)} of {series} series were refused, {rest}"
    )


def _without(request: Any, left_out: set[int]) -> bytes:
    kept = WriteRequest(metadata=request.metadata)
    kept.timeseries.extend(s for i, s in enumerate(request.timeseries) if i not in left_out)
    return bytes(kept.SerializeToString())


def _written_headers(request: Any, left_out: set[int]) -> dict[str, str]:
    kept = [s for i, s in enumerate(request.timeseries) if i not in left_out]
    prefix = "X-Prometheus-Remote-Write"
    return {
        f"{prefix}-Samples-Written": str(sum(len(s.samples) for s in kept)),
        f"{prefix}-Histograms-Written": str(sum(len(s.histograms) for s in kept)),
        f"{prefix}-Exemplars-Written": str(sum(len(s.exemplars) for s in kept)),
    }
