"""Every function's arguments and result.

round(v instant-vector, to_nearest=1 scalar)

Signature((VECTOR, SCALAR), variadic=1, returns=VECTOR)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lakerunner_query.promql.lang.ast import Type

SCALAR, VECTOR, MATRIX, STRING = Type.SCALAR, Type.VECTOR, Type.MATRIX, Type.STRING


@dataclass(frozen=True, slots=True)
class Signature:
    arguments: tuple[Type, ...]
    returns: Type = VECTOR
    variadic: int = 0
    """How often the last argument may stand: 0 exactly once, n up to n times or not at all, -1 any number."""
    experimental: bool = False

    def type_of_argument(self, index: int) -> Type | None:
        """What stands at `index`; None where there should be nothing."""
        if index < len(self.arguments):
            return self.arguments[index]
        return self.arguments[-1] if self.variadic and self.arguments else None


_OF_VECTOR = """
    abs absent acos acosh asin asinh atan atanh ceil cos cosh deg exp floor histogram_avg histogram_count
    histogram_stddev histogram_stdvar histogram_sum ln log10 log2 rad sgn sin sinh sort sort_desc sqrt tan
    tanh timestamp
"""
_OF_MATRIX = """
    absent_over_time avg_over_time changes count_over_time delta deriv first_over_time idelta increase irate
    last_over_time max_over_time min_over_time present_over_time rate resets stddev_over_time
    stdvar_over_time sum_over_time
"""
_OF_MATRIX_EXPERIMENTAL = """
    mad_over_time ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time
"""
_OF_TIME = "day_of_month day_of_week day_of_year days_in_month hour minute month year"
_OF_QUERY = "end range start step"

_SIGNATURES = {
    **{name: Signature((VECTOR,)) for name in _OF_VECTOR.split()},
    **{name: Signature((MATRIX,)) for name in _OF_MATRIX.split()},
    **{name: Signature((MATRIX,), experimental=True) for name in _OF_MATRIX_EXPERIMENTAL.split()},
    **{name: Signature((VECTOR,), variadic=1) for name in _OF_TIME.split()},
    **{name: Signature((), SCALAR, experimental=True) for name in _OF_QUERY.split()},
    "clamp": Signature((VECTOR, SCALAR, SCALAR)),
    "clamp_max": Signature((VECTOR, SCALAR)),
    "clamp_min": Signature((VECTOR, SCALAR)),
    "double_exponential_smoothing": Signature((MATRIX, SCALAR, SCALAR), experimental=True),
    "histogram_fraction": Signature((SCALAR, SCALAR, VECTOR)),
    "histogram_quantile": Signature((SCALAR, VECTOR)),
    "histogram_quantiles": Signature((VECTOR, STRING, SCALAR, SCALAR), variadic=9, experimental=True),
    "info": Signature((VECTOR, VECTOR), variadic=1, experimental=True),
    "label_join": Signature((VECTOR, STRING, STRING, STRING), variadic=-1),
    "label_replace": Signature((VECTOR, STRING, STRING, STRING, STRING)),
    "max_of": Signature((SCALAR, SCALAR), SCALAR, experimental=True),
    "min_of": Signature((SCALAR, SCALAR), SCALAR, experimental=True),
    "pi": Signature((), SCALAR),
    "predict_linear": Signature((MATRIX, SCALAR)),
    "quantile_over_time": Signature((SCALAR, MATRIX)),
    "round": Signature((VECTOR, SCALAR), variadic=1),
    "scalar": Signature((VECTOR,), SCALAR),
    "sort_by_label": Signature((VECTOR, STRING), variadic=-1, experimental=True),
    "sort_by_label_desc": Signature((VECTOR, STRING), variadic=-1, experimental=True),
    "start_timestamp": Signature((VECTOR,), experimental=True),
    "time": Signature((), SCALAR),
    "vector": Signature((SCALAR,)),
}
SIGNATURES: Mapping[str, Signature] = MappingProxyType(dict(sorted(_SIGNATURES.items())))
