"""Where our CPU time goes: one pass under the profiler, its functions added up by stage.

A stage is a file, or a function of one where a file does several things. What is left of no known stage is
shown by name, so that nothing hides under "other".
"""

from __future__ import annotations

import cProfile
import pstats
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.ingest.corpus import Corpus
from benchmarks.ingest.ours import cook
from resources.lake.layout import Signal

_FUNCTIONS = {
    "write_table": "encode, compress, statistics",
    "close": "footer and close",
    "take": "gather rows in order",
    "gather": "strings",
    "copy_ids": "ids",
}
_FILES = {
    "compression.py": "decompress",
    "payload.py": "decompress",
    "framing.py": "frame",
    "groups.py": "scan",
    "scan_logs.py": "scan",
    "scan_metrics.py": "scan",
    "scan_traces.py": "scan",
    "fields.py": "scan",
    "distinct.py": "code repeated bytes",
    "text.py": "strings",
    "any_value.py": "strings",
    "attributes.py": "attribute columns",
    "naming.py": "attribute columns",
    "owners.py": "resources and scopes",
    "stream_labels.py": "resources and scopes",
    "fingerprint.py": "fingerprint",
    "levels.py": "levels",
    "logs.py": "columns",
    "metrics.py": "columns",
    "traces.py": "columns",
    "unify.py": "unify tables",
    "order.py": "sort",
    "segment_kernels.py": "sort",
    "encoding.py": "choose encodings",
    "file.py": "choose encodings",
    "token_bloom.py": "token bloom",
    "token_bloom_kernels.py": "token bloom",
    "streams.py": "series table",
    "acero.py": "series table",
}
_REPEATS = 3
_LISTED = 12


def show(signal: Signal, corpus: Corpus) -> None:
    """Print the stages of cooking `corpus`, largest first."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        cook(signal, corpus.objects, folder)  # loads the kernels
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(_REPEATS):
            cook(signal, corpus.objects, folder)
        profile.disable()
    rows = corpus.rows * _REPEATS
    spent: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for (file, _, function), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        stage = _FUNCTIONS.get(function) or _FILES.get(Path(file).name)
        spent[stage or "other"] += own
        if stage is None:
            unknown[f"{Path(file).name} {function}"] += own
    total = sum(spent.values())
    print(f"{corpus.name}: {rows / total:,.0f} rows/s under the profiler, {total / rows * 1e9:,.0f} ns a row")
    for stage, seconds in spent.most_common():
        print(f"{seconds / rows * 1e9:8.0f} ns  {seconds / total:6.1%}  {stage}")
    print("largest of other:")
    for name, seconds in unknown.most_common(_LISTED):
        print(f"{seconds / rows * 1e9:8.0f} ns  {seconds / total:6.1%}  {name}")
