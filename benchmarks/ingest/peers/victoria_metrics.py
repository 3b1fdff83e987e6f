"""VictoriaMetrics: OTLP in, counted by its own counters."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.ingest.peers.server import MERGE_STARTS_S, SETTLE_S, PeerError, Server, folder_bytes

NAME = "victoria-metrics"
SHOWN = "VictoriaMetrics"


class VictoriaMetrics:
    """One server with an empty data folder."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._data = folder / "data"
        self.server = Server(
            SHOWN,
            [
                str(program),
                f"-storageDataPath={self._data}",
                "-httpListenAddr=127.0.0.1:{port}",
                "-retentionPeriod=100y",  # the corpus has fixed times
                "-loggerLevel=ERROR",
                "-selfScrapeInterval=0s",
            ],
            folder,
            "/health",
        )

    def send_otlp(self, objects: Iterable[bytes]) -> None:
        for data in objects:
            self.server.post("/opentelemetry/v1/metrics", data, {"Content-Type": "application/x-protobuf"})

    def settle(self, samples: int) -> None:
        """Until `samples` samples were taken and are flushed to disk."""
        self.server.wait(lambda: self.count() >= samples, SETTLE_S, f"{samples} samples are stored")
        self.server.get("/internal/force_flush")
        if self.count() != samples:
            raise PeerError(f"{SHOWN}: {self.count()} samples of {samples}")

    def count(self) -> int:
        return int(self.server.metric("vm_rows_added_to_storage_total"))

    def bytes_on_disk(self) -> int:
        """Samples and index after merging its parts as far as it would in time, and stopping; no caches."""
        self.server.get("/internal/force_merge")
        time.sleep(MERGE_STARTS_S)
        self.server.wait(
            lambda: self.server.metric("vm_active_force_merges") == 0, SETTLE_S, "parts are merged"
        )
        self.server.stop()
        return folder_bytes(self._data / "data") + folder_bytes(self._data / "indexdb")
