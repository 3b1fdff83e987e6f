"""`lakerunner query` and `lakerunner sql`: what they ask, and how they show the answer."""

from __future__ import annotations

import io
import json
import os
import pty
import readline
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakerunner_cli.command import CommandError
from lakerunner_cli.commands import sql
from lakerunner_cli.commands.sql import Names, Shell, split_statements
from lakerunner_cli.main import _parser, main
from lakerunner_cli.query_client import Column, QueryClient, Question, explained, with_parameters
from lakerunner_cli.query_output import (
    CsvWriter,
    JsonWriter,
    PlotWriter,
    RecordWriter,
    Screen,
    TableWriter,
    Writer,
    sparkline,
)
from lakerunner_query.protocol.units import Missing
from tests.support.query.fake_lakeql import FakeLakeQL
from tests.support.query.http_lakeql import http_lakeql

COUNTS = "SELECT service_name, count(*) AS n FROM logs GROUP BY 1 ORDER BY 1"
TEXT, NUMBER, TIME = Column("service", "string"), Column("n", "int64"), Column("at", "timestamp[us]")


@pytest.fixture(scope="module")
def lakeql() -> Iterator[FakeLakeQL]:
    fake = FakeLakeQL(rows=100)
    yield fake
    fake.close()


@pytest.fixture(scope="module")
def url(lakeql: FakeLakeQL) -> Iterator[str]:
    with http_lakeql(lakeql) as found:
        yield found


@pytest.fixture
def ask(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setenv("LAKERUNNER_QUERY_KEY", "key-acme")
    monkeypatch.setenv("LAKERUNNER_DATA_DIR", str(tmp_path))
    return lambda *given, command="query": main([command, "--url", url, *given])


# --- query --------------------------------------------------------------------------------------------


def test_a_pipe_gets_csv(ask: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(COUNTS) == 0
    told = capsys.readouterr()
    assert told.out == "service_name,n\npayments,50\nweb,50\n"
    assert told.err == ""


def test_forms(ask: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    ask(COUNTS, "--format", "json")
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"service_name": "payments", "n": 50}, {"service_name": "web", "n": 50},
    ]  # fmt: skip
    ask(COUNTS, "--format", "table")
    assert capsys.readouterr().out.splitlines() == [
        " service_name │ n", "──────────────┼────", " payments     │ 50", " web          │ 50", "(2 rows)",
    ]  # fmt: skip
    ask(COUNTS, "--plot")
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["payments", "50"], ["web", "50"],
    ]  # fmt: skip


def test_files_appear_when_they_are_whole(ask: Callable[..., int], tmp_path: Path) -> None:
    assert ask("SELECT * FROM logs", "--format", "arrow", "--output", str(tmp_path / "a.arrow")) == 0
    with pa.ipc.open_stream(tmp_path / "a.arrow") as reader:
        assert reader.read_all().num_rows == 100
    assert ask(COUNTS, "--output", str(tmp_path / "a.csv")) == 0
    assert (tmp_path / "a.csv").read_text().startswith("service_name,n\n")
    assert ask("SELECT nope FROM logs", "--output", str(tmp_path / "b.csv")) == 2
    assert ask("SELECT nope FROM logs", "--format", "arrow", "--output", str(tmp_path / "b.arrow")) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.arrow", "a.csv"]


def test_errors_show_the_line_and_the_place(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("SELECT message,\n    nope FROM logs") == 2
    *_, line, caret = capsys.readouterr().err.splitlines()
    assert line[caret.index("^") :] == "nope FROM logs"


def test_a_caret_stands_below_wide_characters() -> None:
    failure = {"message": "m", "position": {"line": 1, "column": 12}}
    _, line, caret = explained(failure, "SELECT '日' x").splitlines()
    assert line.index("x") + 1 == caret.index("^")  # 日 takes two cells
    assert explained({"message": "m", "position": {"line": 7, "column": 1}}, "x") == "m"
    assert explained({"message": "m"}, "x") == "m"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["SELECT 1", "--key", "wrong"], "unknown, revoked or expired"),
        (["SELECT 1", "--url", "http://127.0.0.1:9"], "lakerunner status"),
        (["SELECT 1", "--plot", "--format", "csv"], "leave out --format"),
        (["SELECT 1", "--explain", "--format", "csv"], "--explain answers with text"),
        (["SELECT 1", "--watch", "5", "--output", "x"], "leave out --output"),
        (["SELECT 1", "--watch", "5", "--format", "arrow"], "leave out --output"),
        (["SELECT 1", "--watch", "-5"], "every so many seconds"),
        (["SELECT $a", "--param", "a"], "expected NAME=VALUE"),
        (["SELECT $2", "--param", "2=x"], "no numbers from 1 on"),
        (["SELECT message FROM logs", "--plot"], "no column of numbers"),
    ],
)
def test_mistakes_are_one_line(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], given: list[str], reason: str
) -> None:
    assert ask(*given) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_a_key_is_needed(
    ask: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LAKERUNNER_QUERY_KEY")
    assert ask("SELECT 1") == 2
    assert "give --key, or set LAKERUNNER_QUERY_KEY" in capsys.readouterr().err


def test_parameters_and_times_are_sent(
    ask: Callable[..., int], lakeql: FakeLakeQL, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "SELECT message FROM logs WHERE service_name = $service AND duration_ms < $1 -- $service"
    assert ask(text, "--param", "service=web", "--param", "1=3", "--from", "1000", "--limit", "7") == 0
    assert capsys.readouterr().out == "message\nline 0 of acme\nline 2 of acme\n"
    sent, request = lakeql.asked[-1]
    assert sent.endswith("service_name = $2 AND duration_ms < $1 -- $service")
    assert (request.parameters, request.start_ns, request.max_rows) == ((3, "web"), 1000 * 10**9, 7)


@pytest.mark.parametrize(
    ("given", "value"),
    [("7", 7), ("1.5", 1.5), ("true", True), ("null", None), ('"7"', "7"), ("web", "web"), ("[1]", "[1]"),
     ("a=b", "a=b"), ("", "")],
)  # fmt: skip
def test_values_of_parameters(given: str, value: object) -> None:
    found = with_parameters(Question("SELECT $a"), [f"a={given}"])
    assert (found.text, found.parameters) == ("SELECT $1", (value,))


def test_remarks_and_missing_segments(
    ask: Callable[..., int], lakeql: FakeLakeQL, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lakeql.notices, lakeql.missing = ["read the last hour"], {"s1": Missing("s1", "gone")}
    try:
        assert ask(COUNTS) == 1
        told = capsys.readouterr()
        assert "note: read the last hour\n" in told.err
        assert "warning: partial: 1 segments unreadable, e.g. s1: gone\n" in told.err
        assert ask(COUNTS, "--format", "arrow", "--output", str(tmp_path / "x")) == 2
        assert not (tmp_path / "x").exists()
    finally:
        lakeql.notices, lakeql.missing = [], {}


def test_explain_and_stdin(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask("SELECT 1", "--explain") == 0
    assert capsys.readouterr().out == "Plan of SELECT 1\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 2 AS two"))
    assert ask("-") == 0
    assert capsys.readouterr().out == "two\n2\n"


def test_watching_asks_again(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[float] = []

    def sleep(seconds: float) -> None:
        rounds.append(seconds)
        if len(rounds) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    assert ask("SELECT 2 AS two", "--watch", "5") == 130
    assert rounds == [5, 5, 5]
    assert capsys.readouterr().out.count("two\n2\n") == 3


def test_a_stream_without_its_end_is_an_error(
    lakeql: FakeLakeQL, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = QueryClient(url, "key-acme")
    monkeypatch.setattr("lakerunner_query.api.lakerunner.lakeql._done", lambda _: {}["no such key"])
    with pytest.raises(CommandError, match="internal error"):
        list(client.events(Question("SELECT 1")))
    monkeypatch.setattr("lakerunner_query.api.lakerunner.lakeql.events.event", lambda *_: b"data: {}\n\n"[:0])
    with pytest.raises(CommandError, match="ended without its last event"):
        list(client.events(Question("SELECT 1")))
    client.close()


# --- forms --------------------------------------------------------------------------------------------


def written(make: Callable[[Screen], Writer], columns: list[Column], rows: list[list[Any]], **of: Any) -> str:
    out = io.StringIO()
    writer = make(Screen(out, **of))
    writer.begin(columns)
    writer.rows(rows)
    writer.end()
    return out.getvalue()


def test_control_characters_do_not_reach_the_terminal() -> None:
    for make in (TableWriter, RecordWriter):
        text = written(make, [TEXT], [["a\x1b[2Jb\r\n\u202ec\x9b"]])
        assert "a\\x1b[2Jb\\r\\n\\u202ec\\x9b" in text


def test_a_table_is_as_wide_as_the_screen() -> None:
    rows = [["x" * 200, 7], ["日本" * 60, None], ["web", 12345]]
    lines = written(TableWriter, [TEXT, NUMBER], rows, width=40).splitlines()
    assert lines[2] == " " + "x" * 29 + "… │     7"
    assert lines[3].endswith("…  │  null")  # a wide character had no room
    assert lines[4].endswith(" │ 12345")
    whole = written(TableWriter, [TEXT, NUMBER], rows)
    assert "x" * 200 in whole
    assert "x" * 200 in written(RecordWriter, [TEXT, NUMBER], rows, width=40)


def test_widths_are_those_of_the_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakerunner_cli.query_output.MEASURED_ROWS", 2)
    out = io.StringIO()
    table = TableWriter(Screen(out, width=80))
    table.begin([TEXT])
    table.rows([["ab"]])
    assert out.getvalue() == ""
    table.rows([["cd"]])
    assert "cd" in out.getvalue()
    table.rows([["longer than the name"]])
    table.end()
    assert "longer…" in out.getvalue() or "longer " not in out.getvalue()
    assert out.getvalue().endswith("(3 rows)\n")


def test_colour_only_where_it_is_wanted() -> None:
    assert "\033[" in written(TableWriter, [TEXT], [[None]], colour=True)
    assert "\033[" not in written(TableWriter, [TEXT], [[None]])


def test_csv_and_json_keep_values() -> None:
    rows = [['a,"b"\n', None], [None, {"k": [1, "x"]}]]
    columns = [TEXT, Column("service", "map<string, string>")]
    text = written(lambda screen: CsvWriter(screen.out), columns, rows)
    assert text == 'service,service\n"a,""b""\n",\n,"{""k"": [1, ""x""]}"\n'
    lines = written(lambda screen: JsonWriter(screen.out), columns, rows).splitlines()
    assert json.loads(lines[1]) == {"service": None, "service_2": {"k": [1, "x"]}}


def test_time_series_become_sparklines() -> None:
    rows: list[list[Any]] = [
        [f"2026-01-01T00:0{minute}:00Z", name, value]
        for name, values in (("web", [0, 4, 8]), ("payments", [5, None, "Infinity"]))
        for minute, value in enumerate(values)
    ]
    text = written(PlotWriter, [TIME, TEXT, NUMBER], rows, width=80)
    first, second, axis = text.splitlines()
    assert first == "web      ▁▅█  min 0  max 8  last 8"
    assert second == "payments ▁    min 5  max 5  last 5"
    assert axis.split() == ["2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z"]


def test_series_are_told_by_their_labels_and_columns() -> None:
    columns = [TIME, Column("labels", "map<string, string>"), NUMBER, Column("value", "double")]
    rows = [["2026-01-01T00:00:00Z", {"job": "web"}, 1, 2.5]]
    first, second, _ = written(PlotWriter, columns, rows).splitlines()
    assert first.startswith("job=web n ")
    assert second.startswith("job=web value ")


def test_rows_without_a_time_become_bars() -> None:
    rows: list[list[Any]] = [["web", 8], ["payments", 4], ["broken", None], ["less", -3]]
    lines = written(PlotWriter, [TEXT, NUMBER], rows, width=30).splitlines()
    assert lines[0].endswith("8 " + "█" * (lines[0].count("█")))
    assert lines[0].count("█") == 2 * lines[1].count("█")
    assert [line.split()[:2] for line in lines[2:]] == [["broken", "nan"], ["less", "-3"]]
    assert all(len(line) <= 30 for line in lines)


def test_only_so_many_series_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakerunner_cli.query_output.MOST_SERIES", 2)
    text = written(PlotWriter, [TEXT, NUMBER], [[str(number), 1] for number in range(5)])
    assert text.splitlines()[-1] == "… and 3 more: only 2 are drawn"


def test_equal_values_are_a_flat_line() -> None:
    assert sparkline([(0, 3), (1, 3), (2, 3)], 0, 2, 3) == "▁▁▁"
    assert sparkline([(0, float("nan"))], 0, 0, 3) == "   "
    assert written(PlotWriter, [TIME, NUMBER], []) == "(0 rows)\n"


# --- sql ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1;", ["SELECT 1"], ""), ("SELECT 1", [], "SELECT 1"), (";;  ;", [], ""),
        ("SELECT ';'; x", ["SELECT ';'"], " x"), ('{a="b;\\";"} |= `;`;', ['{a="b;\\";"} |= `;`'], ""),
        ("a -- ;\n; b", ["a -- ;"], " b"), ("a /* ; */ ;", ["a /* ; */"], ""),
        ("a 'open ;", [], "a 'open ;"), ("a /* open ;", [], "a /* open ;"),
        ("a -- open ;", [], "a -- open ;"),
        ("SELECT 'it''s;';", ["SELECT 'it''s;'"], ""),
    ],
)  # fmt: skip
def test_statements_end_at_semicolons(text: str, statements: list[str], rest: str) -> None:
    assert split_statements(text) == (statements, rest)


@pytest.fixture
def shell(url: str) -> Iterator[Shell]:
    client = QueryClient(url, "key-acme")
    args = _parser().parse_args(["sql", "--format", "csv"])
    yield Shell(client, args, io.StringIO(), is_interactive=True)
    client.close()


def type_in(shell: Shell, *lines: str | type[BaseException]) -> list[str]:
    """Answer prompts; returns what was printed, and remembers the prompts."""
    waiting = iter(lines)

    def read(prompt: str) -> str:
        prompts.append(prompt)
        line = next(waiting, EOFError)
        if isinstance(line, str):
            return line
        raise line

    prompts: list[str] = []
    shell.loop(read)
    assert isinstance(shell.out, io.StringIO)
    return [*shell.out.getvalue().splitlines(), *prompts]


def test_a_statement_may_take_lines(shell: Shell) -> None:
    told = type_in(shell, "SELECT 1 AS a,", "  2 AS b; SELECT", "3 AS c;")
    assert told == ["a,b", "1,2", "c", "3", sql.PROMPT, sql.MORE, sql.MORE, sql.PROMPT]


def test_ctrl_c_drops_what_is_typed(shell: Shell) -> None:
    assert type_in(shell, "SELECT 1 AS", KeyboardInterrupt, "SELECT 2 AS b;")[:3] == ["", "b", "2"]


def test_ctrl_c_cancels_the_statement_and_not_the_shell(
    shell: Shell, lakeql: FakeLakeQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(sql, "show", interrupt)
    told = type_in(shell, "SELECT 1 AS a;", "\\x")
    assert told[:3] == ["", "cancelled", "values are shown one per line"]


def test_errors_do_not_end_the_shell(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    told = type_in(shell, "\\watch", "SELECT nope FROM logs;", "\\nope", "SELECT 1 AS a;")
    assert told[:2] == ["a", "1"]
    errors = capsys.readouterr().err
    assert "no command \\nope" in errors
    assert "^" in errors


def test_commands(shell: Shell, lakeql: FakeLakeQL, capsys: pytest.CaptureFixture[str]) -> None:
    told = type_in(
        shell, "\\dt", "\\d logs", "\\timing", "SELECT 1 AS a; \\x", "SELECT 1 AS a;", "\\?", "\\q", "x;"
    )
    assert [text for text, _ in lakeql.asked[-4:]] == [
        "SHOW TABLES", "DESCRIBE logs", "SELECT 1 AS a", "SELECT 1 AS a",
    ]  # fmt: skip
    assert "a │ 1" in told
    assert any(line.strip().startswith("\\watch") for line in told)
    assert "1 rows in" in capsys.readouterr().err


def test_plots_at_the_prompt(shell: Shell) -> None:
    told = type_in(shell, "\\plot", "SELECT 'web' AS service, 7 AS n;")
    assert told[0] == "answers are drawn"
    assert told[1].startswith("web 7 █")


def test_watching_at_the_prompt(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    told = type_in(shell, "SELECT 1 AS a;", "\\watch 0.5", "\\q")
    assert slept == [0.5, 0.5]
    assert told.count("1") == 3


def test_names_are_completed(shell: Shell) -> None:
    names = Names(shell.client)
    assert [names.complete("serv", number) for number in range(2)] == ["service_name", None]
    assert {"logs", "logql("} <= set(names.matches("log"))
    assert "SELECT" in names.matches("sel")
    assert "\\timing" in names.matches("\\t")


def test_without_a_server_key_words_are_completed(capsys: pytest.CaptureFixture[str]) -> None:
    client = QueryClient("http://127.0.0.1:9", "k")
    assert "SELECT" in Names(client).matches("SEL")
    assert "cannot be reached" in capsys.readouterr().err
    client.close()


def test_a_pipe_ends_at_the_first_error(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1 AS a;\nSELECT nope;\nSELECT 2 AS b;\n"))
    assert ask(command="sql") == 2
    assert capsys.readouterr().out == "a\n1\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1 AS a;\nSELECT 2 AS b"))
    assert ask(command="sql") == 0
    assert capsys.readouterr().out == "a\n1\nb\n2\n"


def test_history_is_private(tmp_path: Path) -> None:
    history = tmp_path / "history"
    history.touch(0o644)
    script = (
        "import sys, readline\nfrom pathlib import Path\n"
        "from lakerunner_cli.commands.sql import Names, with_readline\n"
        "with_readline(Names(None), Path(sys.argv[1]))\nreadline.add_history('SELECT 1;')\n"
    )
    subprocess.run([sys.executable, "-c", script, history], check=True)
    assert history.stat().st_mode & 0o777 == 0o600
    assert "SELECT 1;" in history.read_text()
    assert readline.get_current_history_length() == 0


class Terminal:
    """`lakerunner` on a terminal of its own."""

    def __init__(self, url: str, home: Path, *given: str) -> None:
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            kept = {name: text for name, text in os.environ.items() if not name.startswith("LAKERUNNER_")}
            more = {"HOME": str(home), "TERM": "xterm", "LAKERUNNER_QUERY_KEY": "key-acme"}
            arguments = [sys.executable, "-m", "lakerunner_cli.main", *given, "--url", url]
            whole = {**kept, **more, "LAKERUNNER_DATA_DIR": str(home)}
            os.execve(arguments[0], arguments, whole)  # noqa: S606 - the child of a fork
        self.seen = ""

    def wait_for(self, text: str, timeout_s: float = 60.0, *, keep: bool = False) -> None:
        until = time.monotonic() + timeout_s
        while text not in self.seen:
            assert time.monotonic() < until, f"no {text!r} in {self.seen!r}"
            if select.select([self.file], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.file, 65536).decode(errors="replace")
                except OSError:  # the other side has ended
                    assert text in self.seen, self.seen
        self.seen = self.seen if keep else self.seen.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def end(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        os.close(self.file)
        return os.waitstatus_to_exitcode(status)


def test_a_session_on_a_terminal(url: str, lakeql: FakeLakeQL, tmp_path: Path) -> None:
    terminal = Terminal(url, tmp_path, "sql")
    terminal.wait_for(sql.PROMPT)
    terminal.type("SELECT service_n\t, count(*) AS n FROM logs GROUP BY 1 ORDER BY 1;\n")
    terminal.wait_for("payments")
    terminal.wait_for("(2 rows)")
    terminal.wait_for(sql.PROMPT)
    terminal.type("SELECT 'waiting' AS w;\n")
    while not lakeql.open_answers:
        time.sleep(0.02)
    terminal.type("\x03")
    terminal.wait_for("cancelled")
    terminal.wait_for(sql.PROMPT)
    while lakeql.open_answers:
        time.sleep(0.02)
    terminal.type("\\q\n")
    assert terminal.end() == 0
    history = tmp_path / sql.HISTORY
    assert history.stat().st_mode & 0o777 == 0o600
    assert "SELECT 'waiting' AS w;" in history.read_text()


def test_one_question_on_a_terminal(url: str, tmp_path: Path) -> None:
    terminal = Terminal(url, tmp_path, "query", COUNTS)
    terminal.wait_for("\x1b[1mservice_name")
    terminal.wait_for("(2 rows)")
    terminal.wait_for("2 rows in")
    assert terminal.end() == 0


def test_no_colour_where_nobody_wants_it(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal(url, tmp_path, "query", COUNTS)
    terminal.wait_for("(2 rows)", keep=True)
    assert "service_name" in terminal.seen
    assert "\x1b[1m" not in terminal.seen
    assert terminal.end() == 0


def test_a_long_question_shows_progress_and_is_interrupted(
    url: str, lakeql: FakeLakeQL, tmp_path: Path
) -> None:
    terminal = Terminal(url, tmp_path, "query", "SELECT 'waiting' AS w")
    terminal.wait_for("s, 0 rows, 1 of 3 segments opened, 2.0 kB fetched")
    os.kill(terminal.pid, signal.SIGINT)
    assert terminal.end() == 130
    while lakeql.open_answers:
        time.sleep(0.02)
