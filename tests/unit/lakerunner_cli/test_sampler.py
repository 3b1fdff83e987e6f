# ruff: noqa: E501 - a case is easier to read in few lines
"""`lakerunner sampler`: what it shows of a window and of a trace, and how it refuses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakerunner_cli.main import main
from tests.support.sampling.oracle import by_trace
from tests.support.sampling.spans import BASE_NS, Span, random_spans, table, write

NEW = """
decision_wait: 10s
num_traces: 5
policies:
- {name: errors, type: status_code, status_code: {status_codes: [ERROR]}}
- {name: share, type: probabilistic, probabilistic: {sampling_percentage: 50}}
- {name: noise, type: drop, drop: {drop_sub_policy: [{name: route, type: string_attribute,
    string_attribute: {key: route, values: [/health]}}]}}
"""
CURRENT = "- {name: everything, type: always_sample}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("sampler")
    (found / "new.yaml").write_text(NEW)
    (found / "current.yaml").write_text(CURRENT)
    (found / "data").mkdir()
    spans = random_spans(1, 60)
    write(spans[::2], found / "data" / "a.parquet")
    write(spans[1::2], found / "data" / "b.parquet")
    catalog = SqlCatalog(
        "lakerunner", uri=f"sqlite:///{found}/catalog.db", warehouse=f"file://{found}/warehouse"
    )
    catalog.create_namespace("traces")
    made = catalog.create_table("traces.spans", _plain(table(spans)).schema)
    for part in (spans[::2], spans[1::2]):
        made.append(_plain(table(part)))
    (found / "sampler.yaml").write_text(f"""
storage: {{iceberg: {{catalog_type: sql, catalog_uri: 'sqlite:///{found}/catalog.db', warehouse: 'file://{found}/warehouse',
  namespace: traces, table_name: spans}}}}
policies: [{{name: everything, type: always_sample}}]
""")
    return found


def _plain(spans: pa.Table) -> pa.Table:
    """Leave out events, whose names pyiceberg would want ids for."""
    return spans.drop_columns(["events"])


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["sampler", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_back_test_shows_shares_counts_and_differences(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(
        capsys, "backtest", "--policies", f"{folder}/new.yaml", "--against", f"{folder}/current.yaml",
        "--files", f"{folder}/data/*.parquet", "--plot",
    )  # fmt: skip
    assert code == 0
    traces = len(by_trace(random_spans(1, 60)))
    assert f"of {traces} kept" in out
    assert "num_traces has no effect" in err
    for part in (
        "errors",
        "share",
        "noise",
        "dropped",
        "no match",
        "current keeps",
        "new drops",
        "spans a day",
    ):
        assert part.replace("spans a day", "a day") in out, part
    assert "kept by always_sample policy everything  →  dropped by policy noise" in out
    assert "share of traces kept, new" in out


def test_the_report_as_json_adds_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("backtest", "--policies", f"{folder}/new.yaml", "--against", f"{folder}/current.yaml", "--json")
    _, out, _ = run(capsys, *common, "--files", f"{folder}/data/**")
    report = json.loads(out)
    new, counts = report["new"], report["confusion"]
    assert sum(each["traces"] for each in new["policies"]) == new["traces"]
    assert sum(each["traces"] for each in new["policies"] if each["kept"]) == new["kept_traces"]
    assert counts["both"] + counts["only_new"] == new["kept_traces"]
    assert counts["both"] + counts["only_current"] == new["traces"] == report["current"]["kept_traces"]
    assert sum(each["spans"] for each in new["policies"]) == len(random_spans(1, 60))


def test_a_table_gives_the_same_as_its_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start, end = str((BASE_NS // 10**9) - 1), str((BASE_NS // 10**9) + 300)
    common = ("backtest", "--policies", f"{folder}/new.yaml", "--json", "--from", start, "--to", end)
    _, of_files, _ = run(capsys, *common, "--files", f"{folder}/data/*.parquet")
    _, of_table, _ = run(capsys, *common, "--config", f"{folder}/sampler.yaml")
    assert json.loads(of_table) == json.loads(of_files)
    found = json.loads(of_table)
    assert 0 < found["new"]["traces"] < len(by_trace(random_spans(1, 60))), "the window cuts"


def test_an_explanation_shows_every_vote(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spans = random_spans(1, 60)
    trace, held = next((key, each) for key, each in by_trace(spans).items() if any(s.status == 2 for s in each)
                       and not any(s.attributes.get("route") == "/health" for s in each))  # fmt: skip
    arguments = (
        "explain",
        trace.hex(),
        "--policies",
        f"{folder}/new.yaml",
        "--files",
        f"{folder}/data/*.parquet",
    )
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert f"trace {trace.hex()}: {len(held)} spans" in out
    assert "kept by status_code policy errors" in out
    assert "  errors (status_code): keeps" in out
    assert "    route (string_attribute): does not keep" in out
    found = json.loads(run(capsys, *arguments, "--json")[1])
    assert (found["decision"]["keep"], found["decision"]["th"], found["trace"]["span_count"]) == (
        True,
        "0",
        len(held),
    )


class _Sampler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.path.endswith("ab" * 16)
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(b'{"keep": true}' if known else b"no decision on this trace")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def sampler() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Sampler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_running_sampler_is_asked(sampler: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "explain", "ab" * 16, "--url", sampler)[:2] == (0, '{\n  "keep": true\n}\n')
    code, _, err = run(capsys, "explain", "cd" * 16, "--url", sampler)
    assert (code, "404 no decision on this trace" in err) == (2, True)
    code, _, err = run(capsys, "explain", "cd" * 16, "--url", "http://127.0.0.1:1")
    assert (code, "is the sampler running there?" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("backtest", "--policies", "{}/new.yaml"), "say where the spans are"),
        (("backtest", "--policies", "{}/new.yaml", "--files", "{}/none*"), "no file matches"),
        (("backtest", "--policies", "{}/none.yaml", "--files", "{}/data/*"), "No such file or directory"),
        (("backtest", "--policies", "{}/data/a.parquet", "--files", "{}/data/*"), "yaml:"),
        (("backtest", "--policies", "{}/new.yaml", "--files", "{}/new.yaml"), "is no Parquet with spans"),
        (
            ("backtest", "--policies", "{}/new.yaml", "--files", "{}/data/*", "--from", "yesterday"),
            "is not a time",
        ),
        (
            ("backtest", "--policies", "{}/new.yaml", "--files", "{}/data/*", "--from", "9", "--to", "8"),
            "before --to",
        ),
        (("backtest", "--policies", "{}/new.yaml", "--config", "{}/sampler.yaml"), "a table needs a window"),
        (
            (
                "backtest",
                "--policies",
                "{}/new.yaml",
                "--config",
                "{}/sampler.yaml",
                "--table",
                "a.b",
                "--from",
                "1",
            ),
            "the catalog has no table a.b",
        ),
        (("explain", "xyz", "--policies", "{}/new.yaml", "--files", "{}/data/*"), "is no trace id"),
        (("explain", "ab" * 16, "--files", "{}/data/*"), "name the policies"),
        (("explain", "ab" * 16, "--policies", "{}/new.yaml", "--files", "{}/data/*"), "no span of trace"),
    ],
)
def test_faults_say_what_to_do(
    arguments: tuple[str, ...], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, *(each.format(folder) for each in arguments))
    assert code == 2
    assert message in err


def test_limits_see_the_traffic_of_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten minutes with a trace each second, of which a limit lets a third through all the time."""
    spans = [
        Span(number, number * 1000, number * 1000 + 1, place) for number in range(600) for place in (1, 2, 3)
    ]
    write(spans, tmp_path / "a.parquet")
    (tmp_path / "p.yaml").write_text(
        "- {name: cap, type: rate_limiting, rate_limiting: {spans_per_second: 1, burst_capacity: 3}}"
    )
    arguments = (
        "--policies",
        f"{tmp_path}/p.yaml",
        "--files",
        f"{tmp_path}/a.parquet",
        "--json",
        "--inactivity",
        "5",
    )
    new = json.loads(run(capsys, "backtest", *arguments)[1])["new"]
    assert 170 <= new["kept_traces"] <= 201
    assert abs(new["estimated_traces"] - 600) < 4 * new["estimate_error"]
    shares = [share for _, share in new["kept_share"]]
    minutes = [sum(shares[at : at + 6]) / 6 for at in range(6, 54, 6)]
    assert max(minutes) < 0.5, "no minute takes what another left"
