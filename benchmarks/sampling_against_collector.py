"""Decisions of the collector's own tail_sampling code beside ours, for random policies and traces.

    python -m benchmarks.sampling_against_collector --sets 200 [--golden tests/golden/sampling/collector.json]

Go builds the processor's source, from the module proxy, with `sampling_against_collector_test.go` among it
and without OTTL, one of whose modules is not to be had. It decides with the feature gate `usetracestate` off
and on. `--golden` keeps the decisions of some sets, which a test compares with ours from then on.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import yaml

from lakerunner_sampling.aggregate import Commit, StateLimits, TraceState
from lakerunner_sampling.policies.documents import read_policies
from lakerunner_sampling.policies.model import DecisionMoment, LimiterMemory
from lakerunner_sampling.shapes import CanonicalShape
from tests.support.sampling.collector import bits, cases, digest, otlp
from tests.support.sampling.oracle import by_trace
from tests.support.sampling.spans import BASE_NS, Span, write

VERSION = "v0.164.1"
MODULE = "github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor"
PROXY = f"https://proxy.golang.org/{MODULE}/@v/{VERSION}.zip"
WITHOUT_OTTL = """package sampling

import (
	"errors"

	"go.opentelemetry.io/collector/component"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/ottl"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor/pkg/samplingpolicy"
)

func NewOTTLConditionFilter(component.TelemetrySettings, []string, []string, ottl.ErrorMode) (samplingpolicy.Evaluator, error) {
	return nil, errors.New("no OTTL here")
}
"""  # noqa: E501
GOLDEN_SETS = 15


def build(folder: Path) -> Path:
    """Build the program that decides; a few minutes the first time."""
    program = folder / "decide.test"
    if program.exists():
        return program
    with urllib.request.urlopen(PROXY, timeout=120) as answer:
        zipfile.ZipFile(io.BytesIO(answer.read())).extractall(folder)
    source = folder / f"{MODULE}@{VERSION}"
    for test in [*source.glob("*_test.go"), *(source / "internal/sampling").glob("*_test.go")]:
        test.unlink()
    (source / "internal/sampling/ottl.go").write_text(WITHOUT_OTTL)
    shutil.copy(Path(__file__).with_name("sampling_against_collector_test.go"), source / "decide_test.go")
    module = source / "go.mod"
    lines = [each for each in module.read_text().splitlines() if not each.startswith("replace")]
    module.write_text("\n".join(lines) + "\n")
    command = ["go", "test", "-mod=mod", "-c", "-o", str(program), "."]
    subprocess.run(command, cwd=source, check=True)
    return program


def compare(program: Path, sets: int, *, tracestate: bool) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Count differences; return the decisions, for the golden file."""
    counts = {"sets": 0, "traces": 0, "kept": 0, "decisions differ": 0, "policies differ": 0}
    golden = []
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        chosen = list(cases(sets, tracestate=tracestate))
        for seed, policies, spans in chosen:
            folder = root / f"{seed:06d}"
            folder.mkdir()
            (folder / "policies.yaml").write_text(yaml.safe_dump({"policies": policies}))
            (folder / "traces.jsonl").write_text("\n".join(map(otlp, by_trace(spans).values())) + "\n")
        environment = {**os.environ, "DIFF_DIR": made, **({"DIFF_GATE": "1"} if tracestate else {})}
        subprocess.run(
            [program, "-test.run", "TestDiff"], env=environment, check=True, stdout=subprocess.DEVNULL
        )
        for seed, policies, spans in chosen:
            folder = root / f"{seed:06d}"
            theirs = json.loads((folder / "collector.json").read_text())
            kept = bits({key: each["keep"] for key, each in theirs.items()}, spans)
            held = {"seed": seed, "tracestate": tracestate, "spans": digest(spans)}
            golden.append({**held, "policies": policies, "kept": kept})
            counts["sets"] += 1
            for key, row in ours(policies, spans, folder, tracestate).items():
                counts["traces"] += 1
                counts["kept"] += row["keep"]
                counts["decisions differ"] += row["keep"] != theirs[key]["keep"]
                counts["policies differ"] += row["keep"] and row["policy"] != theirs[key]["policy"]
    return counts, golden


def ours(policies: list[dict[str, Any]], spans: list[Span], folder: Path, tracestate: bool) -> dict[str, Any]:
    """Decide with the product."""
    chosen = read_policies(yaml.safe_dump(policies).encode()).policy_set(uses_tracestate=tracestate)
    limits = StateLimits(folder / "scratch", readable=(folder,), threads=1)
    with TraceState(chosen, CanonicalShape(), limits) as state:
        state.add(Commit(1, [write(spans, folder / "spans.parquet")]))
        found = chosen.decide(state.everything(), DecisionMoment(BASE_NS), LimiterMemory()).table
    return {row["trace_id"].hex(): row for row in found.to_pylist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "lakerunner-collector")
    parser.add_argument("--golden", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    program = build(args.folder)
    golden, differ = [], 0
    for tracestate in (False, True):
        counts, decided = compare(program, args.sets, tracestate=tracestate)
        golden += decided[:GOLDEN_SETS]
        differ += counts["decisions differ"] + counts["policies differ"]
        print(json.dumps({"collector": VERSION, "usetracestate": tracestate, **counts}))
    if args.golden is not None:
        args.golden.parent.mkdir(parents=True, exist_ok=True)
        rows = ",\n".join(json.dumps(each, separators=(",", ":")) for each in golden)
        args.golden.write_text(f"[\n{rows}\n]\n")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
