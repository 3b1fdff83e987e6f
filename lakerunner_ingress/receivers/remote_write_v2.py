"""Remote write 2.0 as 1.0: the table of symbols, which forbids putting requests together, is resolved.

The metadata of a series becomes metadata of its metric, once per request. Start timestamps have no place in
1.0 and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakerunner_ingress.receivers.refusals import BadRequestError, TooLargeError
from resources.proto.prometheus import WriteRequest

MAX_EXPANDED_BYTES = 64 << 20
"""Two bytes of reference can stand for a symbol of any length."""
_PER_LABEL = 8


def translate(request: Any) -> Any:
    """The `WriteRequest`; a reference outside the table is a `BadRequestError` that names the series."""
    symbols = list(request.symbols)
    if request.timeseries and (not symbols or symbols[0]):
        raise BadRequestError("symbols[0]: expected the empty text")
    sizes = [len(symbol.encode()) + _PER_LABEL for symbol in symbols]
    expanded = 0
    for index, series in enumerate(request.timeseries):
        try:
            expanded += _expanded(series, sizes)
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


def _expanded(series: Any, sizes: Sequence[int]) -> int:
    """Bytes of the texts that a series refers to."""
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
