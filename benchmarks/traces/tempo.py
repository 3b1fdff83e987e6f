"""Tempo on loopback, monolithic: fed over OTLP, then read-only over its blocks on disk or in a bucket.

Its metrics read only blocks that its metrics generator wrote. Those would hold the same spans a second time,
so the ingester's blocks are copied and marked as such; compaction is off.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from pathlib import Path

from benchmarks.ingest.peers.server import Server, free_ports
from benchmarks.promql.peers import resident_bytes

TEMPO = "tempo"
LOAD_S = 900.0
FLUSH_AGAIN_S = 15.0
TENANT = "single-tenant"
DATA = "data.parquet"
_CONFIG = """
server:
  {{http_listen_port: ${{PORT}}, http_listen_address: 127.0.0.1, grpc_listen_port: {grpc},
   grpc_listen_address: 127.0.0.1, log_level: error}}
usage_report: {{reporting_enabled: false}}
memberlist: {{bind_addr: [127.0.0.1], bind_port: {gossip}}}
distributor: {{receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{otlp}"}}}}}}}}}}
ingester:
  lifecycler:
    {{address: 127.0.0.1, min_ready_duration: 0s,
     ring: {{kvstore: {{store: inmemory}}, replication_factor: 1}}}}
  trace_idle_period: 1s
  flush_check_period: 1s
compactor: {{compaction: {{block_retention: 240h}}}}
storage:
  trace:
    backend: {backend}
    blocklist_poll: 5s
    wal: {{path: {folder}/wal, ingestion_time_range_slack: 240h}}
    local: {{path: {blocks}}}
    s3: {{bucket: {bucket}, prefix: tempo, endpoint: "{endpoint}", access_key: test, secret_key: test,
         insecure: true, forcepathstyle: true, region: us-east-1}}
overrides:
  defaults:
    ingestion: {{rate_limit_bytes: 2000000000, burst_size_bytes: 2000000000, max_traces_per_user: 0}}
    global: {{max_bytes_per_trace: 0}}
    compaction: {{compaction_disabled: true}}
"""


class _Process(Server):
    @property
    def pid(self) -> int:
        return self._process.pid


class Tempo:
    """A running Tempo; the blocks of an earlier one in the same folder are there again."""

    def __init__(self, program: Path, folder: Path, bucket: str = "", endpoint: str = "") -> None:
        self._blocks = folder / "blocks"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / "wal", ignore_errors=True)
        self._otlp, grpc, gossip = free_ports(3)
        config = folder / "tempo.yaml"
        config.write_text(
            _CONFIG.format(
                grpc=grpc, gossip=gossip, otlp=self._otlp, folder=folder, blocks=self._blocks,
                backend="s3" if bucket else "local", bucket=bucket, endpoint=endpoint,
            )
        )  # fmt: skip
        shell = f"PORT={{port}} exec {program} -config.file={config} -config.expand-env=true"
        self.server = _Process(TEMPO, ["/bin/sh", "-c", shell], folder, "/ready")
        self._receiver = _Receiver(self._otlp)

    @property
    def port(self) -> int:
        return self.server.port

    def send(self, data: bytes) -> None:
        self._receiver.send(data)

    def settle(self, traces: int) -> None:
        """Flush until blocks of the backend have all traces; those behind a cut wait for the next one."""
        self.server.get("/flush")
        asked = time.monotonic()

        def is_done() -> bool:
            nonlocal asked
            if time.monotonic() - asked > FLUSH_AGAIN_S:
                self.server.get("/flush")
                asked = time.monotonic()
            return block_traces(self._blocks) >= traces

        self.server.wait(is_done, LOAD_S, f"blocks have {traces} traces")

    def resident_bytes(self) -> int:
        return resident_bytes(self.server.pid)

    def stop(self) -> None:
        self.server.stop()


class _Receiver(Server):
    """The OTLP port of a Tempo that runs already."""

    def __init__(self, port: int) -> None:
        self.name, self.port = TEMPO, port

    def send(self, data: bytes) -> None:
        self.post("/v1/traces", data, {"Content-Type": "application/x-protobuf"})


def block_traces(blocks: Path) -> int:
    """Count the traces of complete blocks."""
    return sum(json.loads(path.read_text())["totalObjects"] for path in _metas(blocks))


def block_bytes(blocks: Path) -> int:
    """Return the bytes of the ingester's blocks, with blooms, without their copies."""
    return sum(
        each.stat().st_size
        for path in _metas(blocks)
        if not json.loads(path.read_text()).get("replicationFactor")
        for each in path.parent.iterdir()
    )


def block_format(blocks: Path) -> str:
    return str(json.loads(_metas(blocks)[0].read_text())["format"])


def double_blocks(blocks: Path) -> None:
    """Copy each block under another id, marked as one of the metrics generator."""
    for path in _metas(blocks):
        meta = json.loads(path.read_text())
        meta |= {"blockID": str(uuid.uuid4()), "replicationFactor": 1}
        copy = path.parent.parent / meta["blockID"]
        copy.mkdir()
        for each in path.parent.iterdir():
            if each != path:
                (copy / each.name).hardlink_to(each)
        (copy / path.name).write_text(json.dumps(meta))


def _metas(blocks: Path) -> list[Path]:
    return sorted((blocks / TENANT).glob("*/meta.json"))
