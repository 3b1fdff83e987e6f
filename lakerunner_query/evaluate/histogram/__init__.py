"""Native and classic histograms as PromQL computes with them; nothing here knows of queries or series.

`model` is the value, `arithmetic` and `kahan` add, `growth` is the middle of `rate`, `quantiles`,
`fractions`, `moments` and `trim` answer, `texts` prints, `stored` reads the lake, `classic` is for series
with `le`.

Many of one layout are rows of a sheet (`sheets`): `columns` puts them side by side, `grid_sums` and
`many_quantiles` answer for all at once, and only who looks at a single one makes an object of its buckets.
"""

from lakerunner_query.evaluate.histogram.arithmetic import (
    Combined,
    add,
    divide,
    equal,
    negate,
    reduce_resolution,
    scale,
    sub,
)
from lakerunner_query.evaluate.histogram.classic import ClassicQuantile, bucket_fraction, bucket_quantile
from lakerunner_query.evaluate.histogram.fractions import Fraction, fraction
from lakerunner_query.evaluate.histogram.growth import (
    Growth,
    Note,
    growth,
    interpolated,
    reset_correction,
    step_growth,
)
from lakerunner_query.evaluate.histogram.kahan import KahanMean, KahanSum
from lakerunner_query.evaluate.histogram.model import (
    CUSTOM,
    STALE,
    Buckets,
    Hint,
    Histogram,
    IncompatibleHistogramsError,
    buckets_at,
    compact,
)
from lakerunner_query.evaluate.histogram.moments import mean, stddev, stdvar
from lakerunner_query.evaluate.histogram.quantiles import NanFact, Quantile, quantile
from lakerunner_query.evaluate.histogram.resets import detect_reset, with_found_hints
from lakerunner_query.evaluate.histogram.stored import of_struct
from lakerunner_query.evaluate.histogram.texts import api_number, json_form, test_text, text
from lakerunner_query.evaluate.histogram.trim import trim_lower, trim_upper
from lakerunner_query.evaluate.histogram.walk import Bucket, buckets

__all__ = [
    "CUSTOM", "STALE", "Bucket", "Buckets", "ClassicQuantile", "Combined", "Fraction", "Growth", "Hint",
    "Histogram", "IncompatibleHistogramsError", "KahanMean", "KahanSum", "NanFact", "Note", "Quantile", "add",
    "api_number", "bucket_fraction", "bucket_quantile", "buckets", "buckets_at", "compact", "detect_reset",
    "divide", "equal", "fraction", "growth", "interpolated", "json_form", "mean", "negate", "of_struct",
    "quantile", "reduce_resolution", "reset_correction", "scale", "stddev", "stdvar", "step_growth", "sub",
    "test_text", "text", "trim_lower", "trim_upper", "with_found_hints",
]  # fmt: skip
