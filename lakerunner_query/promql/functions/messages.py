"""Annotations of functions, worded and placed as in Prometheus."""

from __future__ import annotations

from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.gotext.strconv import quote
from lakerunner_query.promql.context import Annotation, Annotations, MonotonicityFix
from lakerunner_query.promql.lang.ast import Span
from lakerunner_query.vectors.vector import NAME, Labels

ADDITION, SUBTRACTION, AGGREGATION = "addition", "subtraction", "aggregation"
_LINK = "https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile"


def name_of(labels: Labels) -> str:
    return next((value for name, value in labels if name == NAME), "")


class ArgumentAnnotations:
    """Adds annotations that are placed at one argument."""

    def __init__(self, annotations: Annotations, span: Span) -> None:
        self._annotations = annotations
        self._span = span

    def invalid_quantile(self, quantile: float) -> None:
        self._warn(f"quantile value should be between 0 and 1, got {format_float(quantile)}")

    def mixed_samples(self, name: str) -> None:
        self._warn(f"encountered a mix of histograms and floats for metric name {quote(name)}")

    def mixed_layouts(self, name: str) -> None:
        self._warn(
            "vector contains a mix of histograms with exponential and custom buckets schemas for metric name "
            + quote(name)
        )

    def not_a_counter(self, name: str) -> None:
        self._warn(f"this native histogram metric is not a counter: {quote(name)}")

    def not_a_gauge(self, name: str) -> None:
        self._warn(f"this native histogram metric is not a gauge: {quote(name)}")

    def overlapping_starts(self, name: str) -> None:
        self._warn(
            f"sample has start time that overlaps with previous sample timestamp for metric {quote(name)}"
        )

    def conflicting_resets(self, operation: str) -> None:
        self._warn(f"conflicting counter resets during histogram {operation}")

    def mixed_histograms(self, name: str) -> None:
        self._warn("vector contains a mix of classic and native histograms" + _for_metric(name))

    def bad_bucket(self, label: str, name: str) -> None:
        self._warn(
            f'bucket label "le" is missing or has a malformed value of {quote(label)}{_for_metric(name)}'
        )

    def reconciled_bounds(self, operation: str) -> None:
        self._inform(f"mismatched custom buckets were reconciled during {operation}")

    def ignored_histograms(self, name: str) -> None:
        self._inform(
            "ignored histograms in a range containing both floats and histograms for metric name "
            + quote(name)
        )

    def maybe_no_counter(self, name: str) -> None:
        self._inform(
            f"metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {quote(name)}"
        )

    def maybe_no_counter_by_label(self, name: str, label: str) -> None:
        self._inform(
            'metric might not be a counter, __type__ label is not set to "counter" or "histogram", '
            f"got {quote(label)}: {quote(name)}"
        )

    def no_quantile_with_nan(self, name: str) -> None:
        self._inform(f"input to histogram_quantile has NaN observations, result is NaN{_for_metric(name)}")

    def quantile_skewed_by_nan(self, name: str) -> None:
        self._inform(
            f"input to histogram_quantile has NaN observations, result is skewed higher{_for_metric(name)}"
        )

    def fraction_without_nan(self, name: str) -> None:
        self._inform(
            "input to histogram_fraction has NaN observations, which are excluded from all fractions"
            + _for_metric(name)
        )

    def monotonicity_fix(self, name: str, fix: MonotonicityFix) -> None:
        message = f"input to histogram_quantile needed to be fixed for monotonicity (see {_LINK})"
        self._annotations.add(Annotation("info", message + _for_metric(name), self._span, fix))

    def useless_sort(self) -> None:
        self._warn("sort is ineffective for range queries since results are always ordered by labels")

    def _warn(self, message: str) -> None:
        self._annotations.warn(message, self._span)

    def _inform(self, message: str) -> None:
        self._annotations.inform(message, self._span)


def _for_metric(name: str) -> str:
    return f" for metric name {quote(name)}" if name else ""
