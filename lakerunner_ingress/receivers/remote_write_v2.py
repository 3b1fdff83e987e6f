"""Remote write 2.0 as 1.0: the table of symbols, which forbids putting requests together, is resolved.

The metadata of a series becomes metadata of its metric, once per request. Start timestamps have no place in
1.0 and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakerunner_ingress.receivers.refusals import BadRequestError
from resources.proto.prometheus import WriteRequest


def translate(request: Any) -> Any:
    """The `WriteRequest`; a reference outside the table is a `BadRequestError` that names the series."""
    symbols = list(request.symbols)
    if request.timeseries and (not symbols or symbols[0]):
        raise BadRequestError("symbols[0]: expected the empty text")
    made = WriteRequest()
    known: set[str] = set()
    for index, series in enumerate(request.timeseries):
        try:
            _series(made, series, symbols, known)
        except IndexError as error:
            raise BadRequestError(
                f"timeseries[{index}]: a name without a value, or outside the {len(symbols)} symbols"
            ) from error
    return made


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
    if len(references) % 2:
        raise IndexError
    for at in range(0, len(references), 2):
        target.labels.add(name=symbols[references[at]], value=symbols[references[at + 1]])
