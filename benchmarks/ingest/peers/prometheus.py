"""Prometheus: its block format, written by its own `promtool` from OpenMetrics text; no server needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from benchmarks.ingest.corpus import Corpus
from benchmarks.ingest.peers.server import PeerError, folder_bytes

NAME = "promtool"
SHOWN = "Prometheus"
_LABELS = str.maketrans(".", "_")


def block_bytes(program: Path, corpus: Corpus, folder: Path) -> int:
    """Bytes of the blocks that hold the gauges and counters of `corpus`."""
    source, blocks = folder / "metrics.om", folder / "blocks"
    source.write_text("\n".join([*_lines(corpus), "# EOF", ""]))
    command = [str(program), "tsdb", "create-blocks-from", "openmetrics", str(source), str(blocks)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if finished.returncode:
        raise PeerError(f"promtool: {finished.stderr[-600:]}")
    return folder_bytes(blocks)


def _lines(corpus: Corpus) -> list[str]:
    """All samples of a metric family together, as the text format asks."""
    families: dict[str, list[str]] = {}
    for data in corpus.objects:
        for group in ExportMetricsServiceRequest.FromString(data).resource_metrics:
            owner = [(each.key, each.value.string_value) for each in group.resource.attributes]
            for metric in group.scope_metrics[0].metrics:
                name = metric.name.translate(_LABELS) + ("_total" if metric.HasField("sum") else "")
                for point in (metric.sum or metric.gauge).data_points or metric.gauge.data_points:
                    pairs = [*owner, *((each.key, each.value.string_value) for each in point.attributes)]
                    labels = ",".join(f'{key.translate(_LABELS)}="{value}"' for key, value in pairs)
                    value = point.as_int if point.HasField("as_int") else point.as_double
                    seconds = point.time_unix_nano // 10**9
                    families.setdefault(name, []).append(f"{name}{{{labels}}} {value} {seconds}")
    lines = []
    for name, samples in families.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE {name.removesuffix('_total')} {kind}", *samples]
    return lines
