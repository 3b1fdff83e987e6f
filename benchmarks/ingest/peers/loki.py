"""Loki in one process, its limits raised so that nothing is refused."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterable
from pathlib import Path

from benchmarks.ingest.corpus import HOUR_NS, START_NS
from benchmarks.ingest.peers.server import SETTLE_S, PeerError, Server, folder_bytes

NAME = "loki"
SHOWN = "Loki"
CONFIG = """
auth_enabled: false
server:
  http_listen_address: 127.0.0.1
  http_listen_port: {port}
  grpc_listen_address: 127.0.0.1
  grpc_listen_port: {spare}
  grpc_server_max_recv_msg_size: 268435456
  grpc_server_max_send_msg_size: 268435456
  log_level: error
common:
  instance_addr: 127.0.0.1
  path_prefix: {folder}/data
  replication_factor: 1
  ring: {{kvstore: {{store: inmemory}}, instance_addr: 127.0.0.1}}
  storage: {{filesystem: {{chunks_directory: {folder}/data/chunks, rules_directory: {folder}/data/rules}}}}
schema_config:
  configs:
    - from: 2024-01-01
      store: tsdb
      object_store: filesystem
      schema: v13
      index: {{prefix: index_, period: 24h}}
ingester: {{max_chunk_age: 12h, lifecycler: {{min_ready_duration: 0s, final_sleep: 0s}}}}
ingester_client: {{grpc_client_config: {{max_recv_msg_size: 268435456, max_send_msg_size: 268435456}}}}
distributor: {{max_recv_msg_size: 268435456}}
limits_config:
  ingestion_rate_mb: 10000
  ingestion_burst_size_mb: 10000
  per_stream_rate_limit: 10GB
  per_stream_rate_limit_burst: 10GB
  reject_old_samples: false
  max_global_streams_per_user: 0
  max_line_size: 0
  max_structured_metadata_size: 1MB
  max_structured_metadata_entries_count: 1000
  max_query_length: 0
  query_timeout: 5m
analytics: {{reporting_enabled: false}}
"""


class Loki:
    """One server with an empty data folder."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._data = folder / "data"
        folder.mkdir(parents=True)
        template = folder / "loki.yaml"
        # Loki reads -config.expand-env variables, so the ports chosen by the server reach the file
        template.write_text(CONFIG.format(port="${PORT}", spare="${SPARE}", folder=folder))
        shell = (
            f"PORT={{port}} SPARE={{spare}} exec {program} -config.file={template} -config.expand-env=true"
        )
        self.server = Server(SHOWN, ["/bin/sh", "-c", shell], folder, "/ready")

    def send_otlp(self, objects: Iterable[bytes]) -> None:
        for data in objects:
            self.server.post("/otlp/v1/logs", data, {"Content-Type": "application/x-protobuf"})

    def settle(self, rows: int) -> None:
        """Until every chunk is in its object store and `rows` rows are found."""
        self.server.post("/flush", b"", {})
        self.server.wait(self._flushed, SETTLE_S, "its chunks are flushed")
        found = self.count()
        if found != rows:
            raise PeerError(f"{SHOWN}: {found} rows of {rows}")

    def _flushed(self) -> bool:
        created = self.server.metric("loki_ingester_chunks_created_total")
        return created > 0 and self.server.metric("loki_ingester_chunks_flushed_total") >= created

    def count(self) -> int:
        query = 'sum(count_over_time({service_name=~".+"}[2h]))'
        time = START_NS + HOUR_NS + HOUR_NS // 2
        values = urllib.parse.urlencode({"query": query, "time": str(time)})
        found = json.loads(self.server.get(f"/loki/api/v1/query?{values}"))["data"]["result"]
        return int(found[0]["value"][1]) if found else 0

    def bytes_on_disk(self) -> int:
        """Chunks and index of its object store, without the write-ahead log; stops it."""
        self.server.stop()
        chunks = self._data / "chunks"
        index = self._data / "tsdb-shipper-active"
        return folder_bytes(chunks) + (
            0 if (chunks / "index").is_dir() else folder_bytes(index / "multitenant")
        )
