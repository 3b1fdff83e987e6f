"""`lakerunner trace` and `lakerunner query --traceql` over a small lake, also as documented."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakerunner_cli.demo import answers
from lakerunner_cli.demo.watch import Screen
from lakerunner_cli.main import main
from lakerunner_cli.query_client import display_width
from resources.settings import Settings
from tests.acceptance.test_documented_commands import MARK, says
from tests.integration.query.test_documented_sql import steps
from tests.support.patience import PATIENCE_S
from tests.support.query.traced_shop import CHECKOUT, served_shop

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to-look-at-traces.md"
HOUR = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T01:00:00Z")
Told = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served_shop(tmp_path_factory.mktemp("shop")) as address:
        yield address


@pytest.fixture
def told(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Told:
    """Run a command; exit code, stdout and stderr."""
    monkeypatch.setenv("LAKERUNNER_QUERY_KEY", "key-acme")
    monkeypatch.setenv("LAKERUNNER_DATA_DIR", str(tmp_path))

    def run(command: str, *given: str) -> tuple[int, str, str]:
        code = main([command, "--url", url, *given])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_trace_is_drawn_as_a_waterfall(told: Told) -> None:
    code, out, err = told("trace", CHECKOUT, "--width", "100")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert "\033" not in out
    assert lines[0].startswith(f"{CHECKOUT}  web POST /checkout  1.00 s  6 spans, 5 services, 3 errors")
    rows = [line for line in lines if "│" in line]
    assert [row[0] for row in rows[1:]] == ["!", " ", "!", "<", "!", " "]
    assert all(display_width(line) <= 100 for line in rows)
    checkout, insert = rows[1].split("│")[1], rows[5].split("│")[1]
    assert len(checkout) == 100 - rows[1].index("│") - 1
    assert re.fullmatch(r"▓[▓░]+▓", checkout)
    assert re.fullmatch(r" +▓+", insert)
    assert "acme: checkout began" not in out


def test_log_lines_stand_below_their_spans(told: Told) -> None:
    _, out, _ = told("trace", "1", "--logs")
    lines = out.splitlines()
    place = next(n for n, line in enumerate(lines) if "POST /checkout" in line and "│" in line)
    assert lines[place + 1].endswith("1.00 ms INFO  acme: checkout began")
    others = lines.index("log lines of no span that is shown:")
    assert "a line of a span that is not stored" in lines[others + 1]


def test_json_is_the_answer_of_the_api(told: Told) -> None:
    found: dict[str, Any] = json.loads(told("trace", CHECKOUT, "--json")[1])
    assert (found["trace_id"], found["counts"]["spans"]) == (CHECKOUT, 6)
    _, out, _ = told("trace", CHECKOUT, "--limit", "2")
    assert "… 4 more spans: --limit shows them" in out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("trace", "abc"), "there is no span of trace 00000000000000000000000000000abc"),
        (("trace", "nonsense"), "up to 32 hexadecimal digits"),
        (("trace", "1", "--width", "5"), "--width at least 40"),
        (("trace", "1", "--key", "wrong"), "unknown, revoked or expired"),
        (("query", "--traceql", "{ foo"), "^"),
        (("query", "--traceql", "{}", "--engine", "spark"), "leave them out"),
    ],
)
def test_mistakes_are_told(told: Told, given: tuple[str, ...], said: str) -> None:
    code, out, err = told(*given)
    assert (code, out) == (2, "")
    assert said in err


def test_traceql_gives_rows(told: Told) -> None:
    code, out, _ = told("query", "--traceql", "{ status = error }", *HOUR, "--format", "json")
    (found,) = [json.loads(line) for line in out.splitlines()]
    assert (code, found["trace_id"], found["spans"], found["errors"], found["matched"]) == (
        0,
        CHECKOUT,
        6,
        3,
        3,
    )
    _, out, _ = told("query", "--traceql", "{ name = `nothing` }", *HOUR, "--format", "table")
    assert out.splitlines()[-1] == "(0 rows)"
    _, out, _ = told("query", "--traceql", "{} | rate()", *HOUR, "--format", "csv")
    assert out.splitlines()[0] == "timestamp,value,labels"
    _, out, _ = told("query", "--traceql", "{}", *HOUR, "--explain")
    assert "3 may match" in out


def test_the_demo_shows_answers_a_trace_and_its_address(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(answers, "RECENT", "2026-01-01T00:00:00Z")
    monkeypatch.setattr(answers, "SLOW", "{ status = error }")
    monkeypatch.setattr(answers, "ALERT_PATIENCE_S", 0.0)  # nobody applied rules here
    settings = Settings(query_host="127.0.0.1", query_port=int(url.rpartition(":")[2]))
    answers.show_answers(settings, "key-acme", Screen(1))
    said = capsys.readouterr().out.splitlines()
    assert any(line.split("│")[0].strip() == "db" for line in said)  # the answer in SQL
    assert f"lakerunner trace {CHECKOUT} --logs" in said
    assert any("acme: checkout began" in line for line in said)
    assert f"in the browser: {url}/#view=traces&trace={CHECKOUT}" in said
    assert "  none fired within 0 s" in said
    answers.show_answers(settings, "wrong", Screen(1))
    assert "unknown, revoked or expired" in capsys.readouterr().out


def test_the_commands_of_the_page_work_as_written(url: str, tmp_path: Path) -> None:
    pages_steps = list(steps(PAGE.read_text()))
    assert pages_steps
    script = "\n".join(f"echo '{MARK}'\n{commands}" for commands, _ in pages_steps)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("LAKERUNNER_")}
    (tmp_path / "stack.env").write_text(f"LAKERUNNER_QUERY_PORT={url.rpartition(':')[2]}\n")
    more = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
        "LAKERUNNER_DATA_DIR": str(tmp_path),
        "LAKERUNNER_QUERY_KEY": "key-acme",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{script}"], env={**kept, **more}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    outputs = done.stdout.split(f"{MARK}\n")[1:]
    for (commands, expected), output in zip(pages_steps, outputs, strict=True):
        unsaid = [line for line in expected if not says(output, line)]
        assert not unsaid, f"{commands}\nprinted\n{output}\nand not\n" + "\n".join(unsaid)
