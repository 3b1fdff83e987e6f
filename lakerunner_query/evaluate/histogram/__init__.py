"""Native and classic histograms as PromQL computes with them; nothing here knows of queries or series.

`model` is the value, `arithmetic` and `kahan` add, `growth` is the middle of `rate`, `quantiles`,
`fractions`, `moments` and `trim` answer, `texts` prints, `stored` reads the lake, `classic` is for series
with `le`.

Many of one layout are rows of a sheet (`sheets`): `columns` puts them side by side, `grid_sums` and
`many_quantiles` answer for all at once, and only who looks at a single one makes an object of its buckets.
"""

from lakerunner_query.histogram.arithmetic import (
    Combined,
    add,
    divide,
    equal,
    negate,
    reduce_resolution,
    scale,
    sub,
)
from lakerunner_query.histogram.classic import ClassicQuantile, bucket_fraction, bucket_quantile
from lakerunner_query.histogram.growth import (
    Growth,
    Note,
    detect_reset,
    growth,
    interpolated,
    reset_correction,
    step_growth,
    with_found_hints,
)
from lakerunner_query.histogram.model import (
    CUSTOM,
    STALE,
    Bucket,
    Buckets,
    Hint,
    Histogram,
    IncompatibleHistogramsError,
    buckets,
    buckets_at,
    compact,
)
from lakerunner_query.histogram.quantiles import (
    Fraction,
    NanFact,
    Quantile,
    fraction,
    mean,
    quantile,
    stddev,
    stdvar,
)
from lakerunner_query.histogram.stored import of_struct
from lakerunner_query.histogram.sums import KahanMean, KahanSum
from lakerunner_query.histogram.text import api_number, json_form, test_text, text
from lakerunner_query.histogram.trim import trim_lower, trim_upper

__all__ = [
    "CUSTOM", "STALE", "Bucket", "Buckets", "ClassicQuantile", "Combined", "Fraction", "Growth", "Hint",
    "Histogram", "IncompatibleHistogramsError", "KahanMean", "KahanSum", "NanFact", "Note", "Quantile", "add",
    "api_number", "bucket_fraction", "bucket_quantile", "buckets", "buckets_at", "compact", "detect_reset",
    "divide", "equal", "fraction", "growth", "interpolated", "json_form", "mean", "negate", "of_struct",
    "quantile", "reduce_resolution", "reset_correction", "scale", "stddev", "stdvar", "step_growth", "sub",
    "test_text", "text", "trim_lower", "trim_upper", "with_found_hints",
]  # fmt: skip
