"""The demo asks in SQL and TraceQL, shows a trace, and waits for an alert."""

from __future__ import annotations

import time
from io import StringIO
from shutil import get_terminal_size

from lakerunner_cli.command import CommandError
from lakerunner_cli.demo.watch import Screen
from lakerunner_cli.query_client import Column, QueryClient, Question
from lakerunner_cli.query_output import Screen as Paper
from lakerunner_cli.query_output import TableWriter
from lakerunner_cli.waterfall import Waterfall
from lakerunner_cli.webhook import base_url
from resources.settings import Settings

LOOK_EVERY_S = 1.0
PATIENCE_S = 60.0  # wait for spans beside their logs
ALERT_PATIENCE_S = 180.0  # wait for the rules of the demo
RECENT = "now-15m"
SLOWEST = (
    "SELECT s.service_name AS service, count(*) AS spans, round(max(s.duration_ns) / 1e6, 1) AS slowest_ms, "
    "count(*) FILTER (WHERE l.severity = 'ERROR') AS error_lines, any_value(l.message) AS a_line "
    "FROM spans s JOIN logs l ON l.trace_id = s.trace_id GROUP BY 1 ORDER BY slowest_ms DESC LIMIT 5"
)
"""A question to spans and logs at once."""
SLOW = '{ resource.service.name = "checkout" && kind = server && duration > 100ms }'
"""Requests whose checkout took long; in the bad quarter of a minute they fail."""
MOST_TRACES, MOST_SPANS = 5, 30
Row = list[object]


def show_answers(settings: Settings, key: str, screen: Screen) -> None:
    """Show the answers once the telemetry has arrived; an error stands in the place of its answer."""
    address = base_url(settings.query_host, settings.query_port)
    client, paper = QueryClient(address, key), Paper(StringIO(), get_terminal_size().columns)
    try:
        _show_table(client, Question(SLOWEST, start=RECENT), paper)
        question = Question(SLOW, start=RECENT, limit=MOST_TRACES, is_traceql=True)
        columns, rows = _show_table(client, question, paper)
        if rows:
            names = [column.name for column in columns]
            slowest = max(rows, key=lambda row: float(str(row[names.index("duration_ms")])))
            _show_trace(client, str(slowest[names.index("trace_id")]), paper, address)
        _show_alert(client, paper, address)
    except CommandError as error:
        paper.out.write(f"{error}\n")
    finally:
        client.close()
    for text in paper.out.getvalue().splitlines():  # type: ignore[attr-defined]
        screen.say(text)


def _show_table(client: QueryClient, question: Question, paper: Paper) -> tuple[list[Column], list[Row]]:
    """Write a question and its answer; ask again until there are rows."""
    ends = time.monotonic() + PATIENCE_S
    columns, rows = ask_rows(client, question)
    while not rows and time.monotonic() < ends:
        time.sleep(LOOK_EVERY_S)
        columns, rows = ask_rows(client, question)
    paper.out.write(f"\n{question.text}\n")
    writer = TableWriter(paper)
    writer.begin(columns)
    writer.rows(rows)
    writer.end()
    return columns, rows


def _show_trace(client: QueryClient, trace_id: str, paper: Paper, address: str) -> None:
    paper.out.write(f"\nlakerunner trace {trace_id} --logs\n")
    found = client.trace(trace_id, {"limit": MOST_SPANS, "exemplars": "false"})
    Waterfall(found, paper, has_lines=True).draw()
    paper.out.write(f"in the browser: {address}/#view=traces&trace={trace_id}\n")


def _show_alert(client: QueryClient, paper: Paper, address: str) -> None:
    """Wait for the alert on time-outs: a metric that is derived from log lines, and the ruler behind it."""
    ends = time.monotonic() + ALERT_PATIENCE_S
    firing = firing_alerts(client)
    while not firing and time.monotonic() < ends:
        time.sleep(LOOK_EVERY_S)
        firing = firing_alerts(client)
    paper.out.write("\nalerts over metrics that rules derived from log lines\n")
    paper.out.write("".join(firing) or f"  none fired within {ALERT_PATIENCE_S:g} s\n")
    paper.out.write(f"in the browser: {address}/#view=alerts\n")


def firing_alerts(client: QueryClient) -> list[str]:
    """Return a line for each alert that fires."""
    found = client.call("GET", "/prometheus/api/v1/alerts", {})["data"]["alerts"]
    return [
        f"  {one['labels']['alertname']} since {one['activeAt'][11:19]}: {one['annotations']['summary']}\n"
        for one in found
        if one["state"] == "firing"
    ]


def ask_rows(client: QueryClient, question: Question) -> tuple[list[Column], list[Row]]:
    """Return columns and rows of an answer."""
    columns, rows = list[Column](), list[Row]()
    for kind, data in client.events(question):
        if kind == "schema":
            columns = [Column(one["name"], one["type"]) for one in data]
        elif kind == "result":
            rows += data["rows"]
    return columns, rows
