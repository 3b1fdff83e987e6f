"""Every function of PromQL, by name.

| file | what |
|---|---|
| `simple.py`, `scalars.py`, `dates.py` | one number at a time |
| `rates.py`, `last_two.py`, `events.py`, `summing.py`, `over_time.py` | range vectors, on `ranged.py` |
| `kernels_*.py` | windows of floats, compiled |
| `histograms.py`, `quantiles.py` | native and classic histograms |
| `relabel.py`, `ordering.py`, `presence.py`, `stamps.py`, `info.py` | labels, order, absence, times |
| `messages.py` | the words of annotations |
"""

from __future__ import annotations

from collections.abc import Mapping

from lakerunner_query.evaluate.functions.dates import DATES
from lakerunner_query.evaluate.functions.events import counting
from lakerunner_query.evaluate.functions.histograms import HISTOGRAMS
from lakerunner_query.evaluate.functions.info import info
from lakerunner_query.evaluate.functions.last_two import of_last_two
from lakerunner_query.evaluate.functions.ordering import ORDERING
from lakerunner_query.evaluate.functions.over_time import OVER_TIME
from lakerunner_query.evaluate.functions.presence import absent, absent_over_time
from lakerunner_query.evaluate.functions.quantiles import (
    histogram_fraction,
    histogram_quantile,
    histogram_quantiles,
)
from lakerunner_query.evaluate.functions.rates import growing
from lakerunner_query.evaluate.functions.reach import checked
from lakerunner_query.evaluate.functions.relabel import label_join, label_replace
from lakerunner_query.evaluate.functions.scalars import SCALARS
from lakerunner_query.evaluate.functions.simple import SIMPLE, Implementation
from lakerunner_query.evaluate.functions.stamps import start_timestamp, timestamp
from lakerunner_query.evaluate.functions.summing import summing
from lakerunner_query.windows.functions import Function

_ALL: dict[str, Implementation] = {
    **SIMPLE,
    **SCALARS,
    **DATES,
    **HISTOGRAMS,
    **ORDERING,
    **OVER_TIME,
    "absent": absent,
    "absent_over_time": absent_over_time,
    "avg_over_time": summing(Function.AVG),
    "changes": counting(Function.CHANGES),
    "delta": growing(Function.DELTA),
    "histogram_fraction": histogram_fraction,
    "histogram_quantile": histogram_quantile,
    "histogram_quantiles": histogram_quantiles,
    "idelta": of_last_two(Function.IDELTA),
    "increase": growing(Function.INCREASE),
    "info": info,
    "irate": of_last_two(Function.IRATE),
    "label_join": label_join,
    "label_replace": label_replace,
    "rate": growing(Function.RATE),
    "resets": counting(Function.RESETS),
    "start_timestamp": start_timestamp,
    "sum_over_time": summing(Function.SUM),
    "timestamp": timestamp,
}
FUNCTIONS: Mapping[str, Implementation] = {name: checked(name, function) for name, function in _ALL.items()}
"""`start`, `end`, `step` and `range` are not here: binding a query to its times makes numbers of them."""
