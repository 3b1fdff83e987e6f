"""`label_replace`: a label out of another one, values are not looked at.

label_replace(rate({host="db-7"} [1m]), "n", "node $1", "host", "db-(.*)")  ->  {host="db-7", n="node 7"}
"""

from __future__ import annotations

from lakerunner_query.evaluate.logs.metrics.labels import filled
from lakerunner_query.gotext.regexp import Template, captured
from lakerunner_query.lang.logql.ast import LabelReplace
from lakerunner_query.vectors.labels import replaced, value_of
from lakerunner_query.vectors.vector import Labels, Vector


def replace_label(expr: LabelReplace, vector: Vector) -> Vector:
    """Series whose source does not match as a whole stay as they are; an absent source is empty."""
    sources = [value_of(labels, expr.source) for labels in vector.labels]
    distinct = list(dict.fromkeys(sources))
    template = Template(expr.replacement)
    values = {
        value: None if groups is None else template.filled(groups)
        for value, groups in zip(distinct, captured(expr.pattern, distinct), strict=True)
    }
    labels = [
        _with(one, expr.destination, values[source])
        for one, source in zip(vector.labels, sources, strict=True)
    ]
    return vector.with_labels(labels)


def _with(labels: Labels, name: str, value: str | None) -> Labels:
    return labels if value is None else filled(replaced(labels, name, value))
