"""LakeQL over a small lake, through HTTP: what workers do and what is left for DuckDB add up to SQL."""

from __future__ import annotations

import pytest

from tests.support.query.lake import BASE, Client, Lake, Line

pytestmark = pytest.mark.integration
LEVELS = (9, 13, 17)
TRACE = bytes(range(16))


@pytest.fixture(scope="module")
def asked(lake: Lake, client: Client) -> Client:
    for part in range(3):
        lake.write(
            "acme",
            [
                Line(
                    (part * 100 + n) * 1_000_000_000,
                    f"line {part * 100 + n} took {n} ms",
                    service="web" if n % 3 else "payments",
                    level=LEVELS[n % 3],
                    attributes={"http.route": f"/r{n % 4}", "bytes": n},
                    trace=TRACE if n == 50 else b"",
                )
                for n in range(100)
            ],
        )
    return client


def rows(client: Client, q: str, **more: object) -> list[list[object]]:
    body = {"q": q, "s": str(BASE), "e": str(BASE + 3600 * 10**9), **more}
    answer = client.http.post(
        "/api/v1/query", json=body, headers={**client.headers, "Accept": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    found: list[list[object]] = answer.json()["rows"]
    return found


def test_rows_and_groups(asked: Client) -> None:
    assert rows(asked, "SELECT count(*) FROM logs") == [[300]]
    found = rows(asked, "SELECT severity, count(*), avg(attr_bytes) FROM logs GROUP BY 1 ORDER BY 1")
    assert [row[:2] for row in found] == [["ERROR", 99], ["INFO", 102], ["WARN", 99]]
    last = rows(asked, "SELECT message FROM logs WHERE service_name = 'web' ORDER BY timestamp DESC LIMIT 2")
    assert last == [["line 298 took 98 ms"], ["line 297 took 97 ms"]]


def test_attributes_by_their_own_names(asked: Client) -> None:
    found = rows(
        asked,
        "SELECT \"http.route\", attributes['http.route'] = attr_http_route FROM logs "
        "WHERE \"http.route\" = '/r3' GROUP BY ALL",
    )
    assert found == [["/r3", True]]


@pytest.mark.parametrize(
    ("q", "message", "column"),
    [
        ("SELECT nope FROM logs", 'Referenced column "nope" not found in FROM clause', 8),
        ("SELECT l.nope FROM logs l", "nope", 10),
        ("SELECT sum(message) FROM logs", "No function matches", 8),
        ("DELETE FROM logs", "DELETE is no statement of LakeQL", 1),
        ("SELECT * FROM promql('up{', '1m')", "promql(): ", 15),
        ("SELECT read_text('/etc/passwd')", "the function read_text is not known", 8),
        ("SELECT 1 FROM (logs JOIN spans USING (trace_id))", "in parentheses is not part of LakeQL", 16),
        ("SELECT * FROM logz", "the table logz is not known: did you mean logs?", 15),
    ],
)
def test_errors_are_sentences_with_a_place(asked: Client, q: str, message: str, column: int) -> None:
    answer = asked.http.post("/api/v1/query", json={"q": q}, headers=asked.headers)
    assert answer.status_code == 400
    error = answer.json()
    assert message in error["message"]
    assert "scan_" not in error["message"]
    assert error["position"]["column"] == column


def test_attributes_that_nobody_sent_are_null_and_said_so(asked: Client) -> None:
    body = {"q": "SELECT sum(attr_bytes), any_value(attr_nobody) FROM logs WHERE service_name = 'nobody'"}
    answer = asked.http.post(
        "/api/v1/query", json=body, headers={**asked.headers, "Accept": "application/json"}
    )
    assert answer.json()["rows"] == [[None, None]]
    assert "attr_nobody: it is null" in " ".join(answer.json()["notices"])


def test_each_absent_attribute_has_the_type_that_its_place_wants(asked: Client) -> None:
    q = (
        "SELECT sum(attr_ratio), count(resource_nobody) FILTER (WHERE attr_ok), upper(max(attr_text)) "
        "FROM logs ORDER BY attr_none"
    )
    assert rows(asked, q.replace(" ORDER BY attr_none", "")) == [[None, 0, None]]
    assert len(rows(asked, "SELECT message, attr_none FROM logs ORDER BY attr_none, message")) == 300
    assert rows(asked, "SELECT service_name FROM metrics_1h") == []


def test_texts_of_the_other_languages_are_told_apart(asked: Client) -> None:
    step = {"e": str(BASE + 300 * 10**9)}
    counted = rows(asked, 'sum(count_over_time({service_name=~".+"}[5m]))', **step)
    assert counted[-1][1] == 299  # a window does not hold its start
    assert len(rows(asked, '{service_name="web"} |= "took 5 ms"')) == 3
    assert rows(asked, 'sum(up{job="a"})') == []


def test_clients_of_prometheus_are_told_where_it_is(asked: Client) -> None:
    forms = asked.http.post("/api/v1/query", data={"query": "up"}, headers=asked.headers)
    gets = asked.http.get("/api/v1/query?query=up", headers=asked.headers)
    assert (forms.status_code, gets.status_code) == (400, 405)
    assert all("ask /prometheus/api/v1/query" in one.text for one in (forms, gets))
