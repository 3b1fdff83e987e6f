"""VictoriaLogs and Loki on loopback with the same rows, and how each question is put to them."""

from __future__ import annotations

import json
import os
import time
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.ingest.peers.loki import CONFIG
from benchmarks.ingest.peers.server import SETTLE_S, Server
from benchmarks.ingest.peers.victoria_logs import JSON_LINES
from benchmarks.logql.corpus import HOSTS, LEVELS, SERVICES, Part, host_name, service_name
from benchmarks.promql.peers import resident_bytes

LOKI, VICTORIA = "loki", "victoria-logs"
LOAD_S = 1800.0
YEARS = "100y"


class Process(Server):
    @property
    def pid(self) -> int:
        return self._process.pid


class Peer:
    """A server with an empty data folder."""

    name: str
    server: Process

    def send(self, part: Part) -> None:
        raise NotImplementedError

    def settle(self, rows: int) -> None:
        raise NotImplementedError

    def get(self, path: str, **values: object) -> bytes:
        return self.server.get(f"{path}?{urllib.parse.urlencode(values)}")

    def resident_bytes(self) -> int:
        return resident_bytes(self.server.pid)

    def stop(self) -> None:
        self.server.stop()


class Victoria(Peer):
    name = VICTORIA

    def __init__(self, program: Path, folder: Path) -> None:
        arguments = [
            str(program), f"-storageDataPath={folder / 'data'}", "-httpListenAddr=127.0.0.1:{port}",
            f"-retentionPeriod={YEARS}", "-loggerLevel=ERROR",
        ]  # fmt: skip
        self.server = Process(VICTORIA, arguments, folder, "/health")

    def send(self, part: Part) -> None:
        headers = {"Content-Type": "application/stream+json"}
        self.server.post(JSON_LINES, json_lines(part), headers)

    def settle(self, rows: int) -> None:
        self.server.get("/internal/force_flush")
        self.server.wait(lambda: self._count() >= rows, SETTLE_S, f"{rows} rows are found")
        self.server.get("/internal/force_merge")
        time.sleep(1)
        self.server.wait(lambda: self.server.metric("vl_active_merges") == 0, LOAD_S, "parts are merged")

    def _count(self) -> int:
        answer = self.get("/select/logsql/query", query="* | stats count() n")
        return int(json.loads(answer)["n"]) if answer.strip() else 0


class Loki(Peer):
    name = LOKI

    def __init__(self, program: Path, folder: Path) -> None:
        folder.mkdir(parents=True)
        config = folder / "loki.yaml"
        config.write_text(
            CONFIG.format(port="${PORT}", spare="${SPARE}", folder=folder)
            .replace("limits_config:", "limits_config:\n  max_query_series: 100000\n  max_query_length: 0")
            .replace("  max_query_length: 0\n  query_timeout", "  query_timeout")
        )
        shell = f"PORT={{port}} SPARE={{spare}} exec {program} -config.file={config} -config.expand-env=true"
        self.server = Process(LOKI, ["/bin/sh", "-c", shell], folder, "/ready")

    def send(self, part: Part) -> None:
        self.server.post("/loki/api/v1/push", push_request(part), {"Content-Type": "application/json"})

    def settle(self, rows: int) -> None:
        del rows
        self.server.post("/flush", b"", {})
        self.server.wait(self._flushed, LOAD_S, "its chunks are flushed")

    def _flushed(self) -> bool:
        created = self.server.metric("loki_ingester_chunks_created_total")
        return created > 0 and self.server.metric("loki_ingester_chunks_flushed_total") >= created


def json_lines(part: Part) -> bytes:
    """One object a row."""
    fields: list[Any] = ['{"timestamp":"', pa.array(part.tsns).cast(pa.string())]
    for name, values in _texts(part).items():
        fields += [f'","{name}":"', values]
    lines = pc.binary_join_element_wise(*fields, '","message":"', part.message, '"}\n', "")
    return _joined(lines)


def push_request(part: Part) -> bytes:
    """One stream per service, the rest as structured metadata."""
    texts = _texts(part)
    fields: list[Any] = ['["', pa.array(part.tsns).cast(pa.string()), '","', part.message, '",{']
    fields += ['"level":"', texts["level"], '","host":"', texts["host"], '","trace_id":"', texts["trace_id"]]
    values = pc.binary_join_element_wise(*fields, '"}],', "")
    streams = [
        b'{"stream":{"service_name":"%s"},"values":[%s]}'
        % (service_name(code).encode(), _joined(values.filter(pa.array(part.service == code)))[:-1])
        for code in np.unique(part.service).tolist()
    ]
    return b'{"streams":[' + b",".join(streams) + b"]}"


def cores() -> int:
    return len(os.sched_getaffinity(0))


def _texts(part: Part) -> dict[str, pa.Array]:
    return {
        "service_name": _named(part.service, [service_name(code) for code in range(SERVICES)]),
        "level": _named(part.level, LEVELS),
        "host": _named(part.host, [host_name(code) for code in range(HOSTS)]),
        "trace_id": part.trace_ids,
    }


def _named(codes: np.ndarray, names: Sequence[str]) -> pa.Array:
    return pa.array(list(names), pa.string()).take(pa.array(codes))


def _joined(lines: pa.Array) -> bytes:
    """All texts end to end."""
    whole = pa.concat_arrays([lines])
    first, last = whole.offset, whole.offset + len(whole)
    offsets = np.frombuffer(whole.buffers()[1], np.int32)
    return bytes(memoryview(whole.buffers()[2])[offsets[first] : offsets[last]])
