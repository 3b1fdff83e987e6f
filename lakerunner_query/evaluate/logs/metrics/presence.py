"""`absent_over_time`: 1 wherever there is nothing, with the labels that the selector asks for.

absent_over_time({job="x", env=~".+"} [1m])  ->  {job="x"} 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lakerunner_query.evaluate.logs.metrics.times import Grid
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.rows import occupied
from lakerunner_query.vectors.vector import Labels, Vector
from lakerunner_query.windows.functions import absent


def absence(matchers: Sequence[Matcher], vector: Vector, grid: Grid) -> Vector:
    present = absent(vector.present)[None, :]
    return occupied(Vector([labels_of(matchers)], np.ones((1, grid.steps)), present))


def labels_of(matchers: Sequence[Matcher]) -> Labels:
    """Equalities, of labels that only one matcher names.

    >>> labels_of([Matcher("b", MatchOp.EQUAL, "1"), Matcher("a", MatchOp.REGEX, ".+")])
    (('b', '1'),)
    """
    named = Counter(matcher.name for matcher in matchers)
    equal = (one for one in matchers if one.op == MatchOp.EQUAL and one.value and named[one.name] == 1)
    return tuple(sorted((one.name, one.value) for one in equal))
