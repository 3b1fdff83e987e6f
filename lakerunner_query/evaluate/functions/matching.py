"""Matchers applied to values at hand.

>>> from lakerunner_query.syntax import MatchOp
>>> matches(Matcher("job", MatchOp.NOT_REGEX, "a.*"), ["ab", "b", ""]).tolist()
[False, True, True]
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.gotext.regexp import full_matches
from lakerunner_query.syntax import Matcher
from resources.arrays import Flags


def matches(matcher: Matcher, values: list[str]) -> Flags:
    if matcher.op.is_regex:
        found = np.array(full_matches(matcher.value, values), np.bool_)
    else:
        found = np.array([value == matcher.value for value in values], np.bool_)
    return ~found if matcher.op.is_negative else found
