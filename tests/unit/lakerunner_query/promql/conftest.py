"""Deep expressions need more of Python's stack; hypothesis complains if that changes while it tests."""

from __future__ import annotations

import sys

from lakerunner_query.promql.evaluate import STACK_FRAMES

sys.setrecursionlimit(max(sys.getrecursionlimit(), STACK_FRAMES))
