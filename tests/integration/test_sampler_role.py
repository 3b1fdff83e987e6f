"""`lakerunner sampler run` as a process: it decides, exports, explains, back-tests and ends gently."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from lakerunner_cli.stack.ports import any_free
from resources.index.postgres import PostgresIndex
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.sampler_child import CONFIG
from tests.support.span_tables import SpanRow, append, make_table, trace_id

pytestmark = pytest.mark.integration


@pytest.fixture
def url(tmp_path: Path, postgres_index: PostgresIndex, index_dsn: str) -> Iterator[str]:
    postgres_index.create_organisation("acme")
    table = make_table(tmp_path)
    append(table, *(SpanRow(1, span, 0) for span in range(1, 40)), SpanRow(2, 1, 0, error=True))
    append(table, SpanRow(2, 2, 1), SpanRow(9, 1, 60))
    exports = f'{{name: file, type: file, path: "{tmp_path}/out"}}'
    text = CONFIG.format(folder=tmp_path, name="s", redis="", exports=exports)
    (tmp_path / "sampler.yaml").write_text(text.replace("sampling_percentage: 30", "sampling_percentage: 0"))
    port = any_free()
    environment = {
        **os.environ, "LAKERUNNER_DATA_DIR": str(tmp_path), "LAKERUNNER_INDEX_DSN": index_dsn,
        "LAKERUNNER_SAMPLER_PORT": str(port), "LAKERUNNER_SAMPLER_POLL_S": "0.1",
    }  # fmt: skip
    log = (tmp_path / "log").open("wb")
    command = ["-m", "lakerunner_cli.main", "sampler", "run", "--config", f"{tmp_path}/sampler.yaml"]
    process = subprocess.Popen(
        [sys.executable, *command],
        env=environment, stdout=log, stderr=log,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) in {0, -signal.SIGTERM}, (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()
        log.close()


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False


def test_the_role_serves_decisions_metrics_and_back_tests(url: str, tmp_path: Path) -> None:
    wait_for(lambda: answers(f"{url}/readyz"), "the sampler is ready")
    decision = f"{url}/decisions/{trace_id(2).hex()}"
    wait_for(lambda: answers(decision), "the trace is decided")
    wait_for(
        lambda: 'decisions_total{decision="dropped"} 1' in httpx.get(f"{url}/metrics").text, "all is decided"
    )
    found = httpx.get(decision, timeout=PATIENCE_S).json()
    assert found["decisions"][0]["is_kept"]
    assert found["decisions"][0]["policy"] == "errors"
    assert found["aggregates"]["span_count"] >= 1
    assert httpx.get(f"{url}/decisions/{'0' * 32}").status_code == 404
    assert httpx.get(f"{url}/decisions/xyz").status_code == 400
    assert httpx.get(f"{url}/healthz").text == "ok\n"
    metrics = httpx.get(f"{url}/metrics").text
    assert "lakerunner_sampler_sequence 2" in metrics
    assert 'lakerunner_sampler_decisions_total{decision="dropped"} 1' in metrics
    policies = "policies: [{name: all, type: always_sample}]"
    report = httpx.post(f"{url}/policies:backtest", content=policies, timeout=PATIENCE_S)
    assert report.status_code == 200, report.text
    assert (report.json()["new"]["kept_traces"], report.json()["confusion"]["only_new"] > 0) == (3, True)
    wrong = httpx.post(f"{url}/policies:backtest", content="policies: [{name: x, type: y}]")
    assert wrong.status_code == 400
    assert httpx.get(f"{url}/healthz", headers={"Host": "evil.example"}).status_code == 421
    wait_for(lambda: list((tmp_path / "out").glob("*.parquet")), "the file is written")
    spans = [
        one
        for path in (tmp_path / "out").glob("*.parquet")
        for one in pq.read_table(path)["trace_id"].to_pylist()
    ]
    assert set(spans) == {trace_id(2)}
