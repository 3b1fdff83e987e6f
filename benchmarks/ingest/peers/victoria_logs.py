"""VictoriaLogs: OTLP and JSON lines in, counted by LogsQL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.ingest.peers.server import MERGE_STARTS_S, SETTLE_S, PeerError, Server, folder_bytes

NAME = "victoria-logs"
SHOWN = "VictoriaLogs"
JSON_LINES = "/insert/jsonline?_stream_fields=service_name&_time_field=timestamp&_msg_field=message"


class VictoriaLogs:
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
            ],
            folder,
            "/health",
        )

    def send_otlp(self, objects: Iterable[bytes]) -> None:
        for data in objects:
            headers = {"Content-Type": "application/x-protobuf"}
            self.server.post("/insert/opentelemetry/v1/logs", data, headers)

    def send_json_lines(self, objects: Iterable[bytes], encoding: str = "") -> None:
        headers = {"Content-Type": "application/stream+json"}
        if encoding:
            headers["Content-Encoding"] = encoding
        for data in objects:
            self.server.post(JSON_LINES, data, headers)

    def settle(self, rows: int) -> None:
        """Until everything is on disk and `rows` rows are found."""
        self.server.get("/internal/force_flush")
        self.server.wait(lambda: self.count() >= rows, SETTLE_S, f"{rows} rows are found")
        if self.count() != rows:
            raise PeerError(f"{SHOWN}: {self.count()} rows of {rows}")

    def count(self) -> int:
        answer = self.server.get("/select/logsql/query?query=*%20%7C%20stats%20count()%20n")
        return int(json.loads(answer)["n"]) if answer.strip() else 0

    def bytes_on_disk(self) -> int:
        """After merging its parts as far as it would in time, and stopping."""
        self.server.get("/internal/force_merge")
        time.sleep(MERGE_STARTS_S)
        self.server.wait(
            lambda: self.server.metric("vl_active_merges") == 0, SETTLE_S, "its parts are merged"
        )
        self.server.stop()
        return folder_bytes(self._data)
