"""`label_replace` and `label_join`: new labels out of old ones; values are not looked at.

label_replace(up{host="db-7"}, "n", "node $1", "host", "db-(.*)")  ->  up{host="db-7", n="node 7"}
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.arguments import texts_of, vector_of
from lakerunner_query.gotext.regexp import InvalidRegexError, Template, captured
from lakerunner_query.lang.promql.ast import Call
from lakerunner_query.vectors.labels import replaced, value_of
from lakerunner_query.vectors.rows import merged
from lakerunner_query.vectors.vector import NAME, Labels, Value, Vector


def label_replace(context: Context, call: Call) -> Value:
    target, replacement, source, pattern = texts_of(context, call, 1)
    vector = vector_of(context, call)
    sources = [value_of(labels, source) for labels in vector.labels]
    distinct = list(dict.fromkeys(sources))
    try:
        found = dict(zip(distinct, captured(pattern, distinct), strict=True))
    except (InvalidRegexError, UnicodeEncodeError):
        raise EvaluationError(f"invalid regular expression in label_replace(): {pattern}") from None
    _check_name(target, "destination", "label_replace")
    template = Template(replacement)
    values = {value: None if groups is None else template.filled(groups) for value, groups in found.items()}
    return _relabelled(vector, target, [values[value] for value in sources])


def label_join(context: Context, call: Call) -> Value:
    target, separator, *sources = texts_of(context, call, 1)
    for source in sources:
        _check_name(source, "source", "label_join")
    _check_name(target, "destination", "label_join")
    vector = vector_of(context, call)
    return _relabelled(
        vector,
        target,
        [separator.join(value_of(labels, name) for name in sources) for labels in vector.labels],
    )


def _relabelled(vector: Vector, target: str, values: list[str | None]) -> Vector:
    """Rows whose value is None stay as they are. A name that is set here is not dropped later."""
    labels: list[Labels] = [
        one if value is None else replaced(one, target, value)
        for one, value in zip(vector.labels, values, strict=True)
    ]
    drop_name = vector.drop_name
    if target == NAME and drop_name is not None:
        drop_name = drop_name & np.array([value is None for value in values], np.bool_)
    return merged(Vector(labels, vector.values, vector.present, vector.histograms, drop_name))


def _check_name(name: str, role: str, function: str) -> None:
    """Any text that is one: bytes that are no UTF-8 come as lone surrogates."""
    if not name or any("\ud800" <= one <= "\udfff" for one in name):
        shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        raise EvaluationError(f"invalid {role} label name in {function}(): {shown}")
