"""`| logfmt a="b"`: the values of given keys become labels, and nothing else does.

logfmt x="status", y="no" on "status=200 level=info"  ->  x="200", y=""
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.stages.filling import filled
from lakerunner_query.evaluate.logs.stages.logfmt_pairs import (
    pairs_of,
    unescaped_logfmt,
    with_logfmt_errors,
)
from lakerunner_query.evaluate.logs.stages.placing import placed
from lakerunner_query.evaluate.logs.stages.scanning import Wanted, is_wanted
from lakerunner_query.lang.logql.ast import Logfmt


def logfmt_keys(frame: LogFrame, stage: Logfmt, wanted: Wanted) -> LogFrame:
    chosen = [one for one in stage.extractions if is_wanted(one.name, wanted)]
    keys = frozenset(str(one.path[0]) for one in chosen)
    found, errors, places = pairs_of(frame, stage, keys)
    code = {key: number for number, key in enumerate(found.names)}
    fields = found.relabelled([(one.name, code.get(str(one.path[0]), -1)) for one in chosen])
    frame = placed(frame, fields, wanted, unescaped_logfmt, overwrites=True)
    frame = filled(frame, [one.name for one in chosen], np.ones(frame.count, np.bool_), wanted)
    return with_logfmt_errors(frame, errors, places)
