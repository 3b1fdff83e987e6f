"""`| json a="b.c[0]"`: values at given paths become labels, and nothing else does.

    json x="user.id", y="no" on {"user":{"id":7}}  ->  x="7", y=""

Objects and arrays are their text. A path that leads nowhere gives an empty label, unless the row has one of
that name.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lakerunner_query.evaluate.logs.columns import present
from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.kernels.fields import Tokens
from lakerunner_query.evaluate.logs.kernels.json_paths import Tree, scan_paths
from lakerunner_query.evaluate.logs.kernels.json_tokens import START_ERROR
from lakerunner_query.evaluate.logs.kernels.text import text_of
from lakerunner_query.evaluate.logs.stages.filling import filled
from lakerunner_query.evaluate.logs.stages.json_fields import unescaped_json, with_json_errors
from lakerunner_query.evaluate.logs.stages.placing import Which, placed
from lakerunner_query.evaluate.logs.stages.scanning import Wanted, grown_scan, is_wanted
from lakerunner_query.lang.logql.ast import Extraction
from resources.arrays import Int64s

Path = tuple[str | int, ...]


def json_paths(frame: LogFrame, extractions: tuple[Extraction, ...], wanted: Wanted) -> LogFrame:
    chosen = [one for one in extractions if is_wanted(one.name, wanted)]
    text = text_of(frame.line)
    tree, node_of = tree_of(one.path for one in chosen)
    errors = np.zeros(frame.count, np.int8)
    deepest = max((len(one.path) for one in chosen), default=0)

    def scan(first: int, last: int, tokens: Tokens, counts: Int64s) -> int:
        return int(scan_paths(text.data, text.offsets, first, last, tree, deepest, tokens, counts, errors))

    found = grown_scan(text, scan, [""] * len(tree.ends))
    fields = found.relabelled([(one.name, node_of[one.path]) for one in chosen])
    frame = placed(frame, fields, wanted, unescaped_json, Which.LATEST)
    parsed = (np.diff(text.offsets) > 0) & (errors != START_ERROR)
    frame = filled(frame, {one.name: parsed & ~present(frame, one.name) for one in chosen}, wanted)
    return with_json_errors(frame, errors)


def tree_of(paths: Iterable[Path]) -> tuple[Tree, dict[Path, int]]:
    """All paths as one tree, and the node at which each ends."""
    edges: dict[tuple[int, str | int], int] = {}
    ends: dict[Path, int] = {}
    for path in paths:
        node = 0
        for part in path:
            node = edges.setdefault((node, part), len(edges) + 1)
        ends[path] = node
    keys = [part.encode() if isinstance(part, str) else b"" for _, part in edges]
    marked = np.zeros(len(edges) + 1, np.bool_)
    marked[list(ends.values())] = True
    leads_on = np.zeros(len(edges) + 1, np.bool_)
    leads_on[[parent for parent, _ in edges]] = True
    return Tree(
        np.array([parent for parent, _ in edges], np.int32),
        np.frombuffer(b"".join(keys), np.uint8),
        np.cumsum([0, *map(len, keys)], dtype=np.int32),
        np.array([-1 if isinstance(part, str) else part for _, part in edges], np.int64),
        marked,
        leads_on,
    ), ends
