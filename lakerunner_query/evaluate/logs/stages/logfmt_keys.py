"""`| logfmt a="b"`: the values of given keys become labels, and nothing else does.

    logfmt x="status", y="no" on "status=200 level=info"  ->  x="200", y=""

A pair that has the label's own name counts as well, and the last one wins. Another key counts no more once an
earlier parser has made a label of it. A label that is not found is empty, whatever an earlier parser gave it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.evaluate.logs.columns import is_base, was_parsed
from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.kernels.escapes import unescaped_spans
from lakerunner_query.evaluate.logs.kernels.text import strings
from lakerunner_query.evaluate.logs.stages.filling import filled
from lakerunner_query.evaluate.logs.stages.logfmt_pairs import pairs_of, with_logfmt_errors
from lakerunner_query.evaluate.logs.stages.placing import REPLACEMENT, Which, holds_replacement, placed
from lakerunner_query.evaluate.logs.stages.scanning import Fields, Wanted, is_wanted
from lakerunner_query.lang.logql.ast import Extraction, Logfmt
from resources.arrays import Bytes, Flags, Int32s, Int64s


def logfmt_keys(frame: LogFrame, stage: Logfmt, wanted: Wanted) -> LogFrame:
    chosen = [one for one in stage.extractions if is_wanted(one.name, wanted)]
    keys = frozenset(key for one in chosen for key in _keys(one))
    found, errors, places = pairs_of(frame, stage, keys)
    found = _not_parsed_before(frame, found, {one.name for one in chosen})
    code = {key: number for number, key in enumerate(found.names)}
    fields = found.relabelled([(one.name, code[key]) for one in chosen for key in _keys(one) if key in code])
    missing = {one.name: ~_has(fields, one.name, frame.count) & ~is_base(frame, one.name) for one in chosen}
    frame = placed(frame, fields, wanted, _unescaped, Which.LATEST_OF_OWN_NAME)
    frame = filled(frame, missing, wanted)
    return with_logfmt_errors(frame, errors, places)


def _keys(extraction: Extraction) -> dict[str, None]:
    return dict.fromkeys((str(extraction.path[0]), extraction.name))


def _has(fields: Fields, name: str, count: int) -> Flags:
    """Which rows have a field of this name."""
    flags = np.zeros(count, np.bool_)
    if name in fields.names:
        flags[fields.row[fields.name == fields.names.index(name)]] = True
    return flags


def _not_parsed_before(frame: LogFrame, found: Fields, labels: set[str]) -> Fields:
    for number, key in enumerate(found.names):
        if key not in labels:
            found = found.where(~((found.name == number) & was_parsed(frame, key)[found.row]))
    return found


def _unescaped(data: Bytes, start: Int64s, length: Int32s, escaped: Flags) -> tuple[pa.StringArray, bool]:
    """Texts; what holds bytes that were no UTF-8 is empty here."""
    values = strings(*unescaped_spans(data, start, length, escaped, False))
    if holds_replacement(values):
        values = pc.if_else(pc.match_substring(values, REPLACEMENT), "", values)
    return values, True
