"""Streams go on behind the event that was seen last: nothing twice, nothing lost, or a refusal in words."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from resources.index.memory import MemoryIndex
from resources.lake.timecut import SECOND_NS
from tests.support.query.in_process import compact
from tests.support.query.lake import BASE, Client, Lake, Line
from tests.support.query.metric_lake import BASE_MS, labels, write_samples

pytestmark = pytest.mark.integration
Event = tuple[str, dict[str, Any]]
WEB = '{service_name="web"}'


@pytest.fixture(scope="module", autouse=True)
def filled(lake: Lake, client: Client) -> Lake:
    del client
    for part in range(4):
        # three lines at each time, so that ids have to tell them apart
        times = [part * 10 + n // 3 for n in range(30)]
        lake.write("acme", [Line(at * SECOND_NS, f"line {part} {n}") for n, at in enumerate(times)])
    series = {
        labels("m", pod=str(pod)): [(n * 1000, float(n + pod)) for n in range(1, 600)] for pod in range(3)
    }
    write_samples(lake, "acme", series)
    return lake


def ask(client: Client, signal: str, last: str = "", *, by: str = "header", **body: Any) -> httpx.Response:
    path = f"/api/v1/{signal}/query"
    if by == "get":
        return client.http.get(path, params={**body, "last_event_id": last}, headers=client.headers)
    headers = client.headers | ({"Last-Event-ID": last} if last else {})
    return client.http.post(path, json=body, headers=headers)


def read(response: httpx.Response) -> tuple[list[Event], dict[str, Any]]:
    """Results with their ids, and the end."""
    assert response.status_code == 200, response.text
    events: list[Event] = []
    for block in response.text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        events.append((fields.get("id", ""), json.loads(fields["data"])))
    results = [one for one in events if one[1]["type"] == "result"]
    assert events[-1][1]["type"] == "done"
    return results, events[-1][1]["data"]


def lines_body(**more: Any) -> dict[str, Any]:
    return {"q": WEB, "s": str(BASE), "e": str(BASE + 60 * SECOND_NS), "limit": 100, "reverse": True} | more


def samples_body(**more: Any) -> dict[str, Any]:
    query = {"q": "sum by (pod) (rate(m[1m])) + start() * 0 or m", "step": "10s"}
    return query | {"s": str(BASE_MS), "e": str(BASE_MS + 600_000)} | more


def points(events: list[Event]) -> list[tuple[str, float]]:
    return [(str(e["data"]["labels"]), v[0]) for _, e in events for v in e["data"]["values"]]


@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("by", ["header", "get"])
def test_lines_go_on_behind_any_event(client: Client, by: str, reverse: bool) -> None:
    body = lines_body(reverse=reverse)
    whole, done = read(ask(client, "logs", by=by, **body))
    assert len(whole) == done["rows"] == 100
    assert len({event_id for event_id, _ in whole}) == 100
    for at in (0, 1, 2, 3, 50, 98, 99):
        rest, ended = read(ask(client, "logs", whole[at][0], by=by, **body))
        assert rest == whole[at + 1 :], "also the ids"
        assert (ended["rows"], ended["status"]) == (100, "complete")


def test_a_client_that_breaks_off_after_every_event_gets_each_once(client: Client) -> None:
    body, seen, last = lines_body(limit=10), [], ""
    while True:
        rest, _ = read(ask(client, "logs", last, **body))
        if not rest:
            break
        seen.append(rest[0])
        last = rest[0][0]
    whole, _ = read(ask(client, "logs", **body))
    assert [event for _, event in seen] == [event for _, event in whole]


@pytest.mark.parametrize("signal", ["metrics", "logs"])
def test_samples_go_on_behind_any_event(client: Client, signal: str) -> None:
    body = samples_body()
    if signal == "logs":
        body |= {"q": 'sum by (service_name, detected_level) (count_over_time({service_name=~".+"}[1m]))'}
    whole, done = read(ask(client, signal, **body))
    assert done["status"] == "complete"
    expected = points(whole)
    assert len(expected) == len(set(expected)) > 3
    for at in range(len(whole)):
        rest, _ = read(ask(client, signal, whole[at][0], **body))
        assert points(whole[: at + 1]) + points(rest) == expected
        assert rest == whole[at + 1 :]


def test_compaction_in_between_changes_nothing(client: Client, lake: Lake) -> None:
    assert isinstance(lake.index, MemoryIndex)
    before = {signal: read(ask(client, signal, **body))[0] for signal, body in BODIES.items()}
    for stored in list(lake.index._state.segments.values()):
        if stored.live:
            compact(lake, stored.segment, 7)
    for signal, body in BODIES.items():
        whole = before[signal]
        for at in range(0, len(whole), 7):
            assert read(ask(client, signal, whole[at][0], **body))[0] == whole[at + 1 :]


BODIES: dict[str, dict[str, Any]] = {"logs": lines_body(), "metrics": samples_body()}


@pytest.mark.parametrize(
    ("signal", "change", "words"),
    [
        ("logs", {"q": '{service_name="db"}'}, "no event of this query"),
        ("logs", {"fields": ["a"]}, "no event of this query"),
        ("metrics", {"q": "m"}, "no event of this query"),
        ("metrics", {"limit": 2}, "have no ids"),
        ("metrics", {"summary": True}, "have no ids"),
    ],
)
def test_an_id_of_something_else_is_refused(
    client: Client, signal: str, change: dict[str, Any], words: str
) -> None:
    event_id = read(ask(client, signal, **BODIES[signal]))[0][0][0]
    refused = ask(client, signal, event_id, **BODIES[signal] | change)
    assert (refused.status_code, refused.json()["code"]) == (409, "cannot_resume")
    assert words in refused.json()["message"]


@pytest.mark.parametrize("garbage", ["x", "l1.", "l1." + "9" * 500, "é" * 9, "m1.0.1.2.3"])
def test_garbage_is_refused(client: Client, garbage: str) -> None:
    for signal, body in BODIES.items():
        assert ask(client, signal, garbage, by="get", **without_lists(body)).status_code == 409


def without_lists(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if not isinstance(value, list)}


def test_times_are_those_of_the_first_request(client: Client) -> None:
    whole, _ = read(ask(client, "metrics", **samples_body()))
    later = samples_body(s="now-5m", e="now", step="1m")
    rest, done = read(ask(client, "metrics", whole[1][0], **later))
    assert rest == whole[2:]
    assert (done["s"], done["step"]) == (str(BASE_MS), 10_000)


def test_late_lines_at_the_last_time_are_refused_and_others_do_no_harm(client: Client, lake: Lake) -> None:
    body = lines_body(q='{service_name="late"}', reverse=False)
    lake.write("acme", [Line(n * SECOND_NS, f"{n}", "late") for n in range(10)])
    whole, _ = read(ask(client, "logs", **body))
    lake.write("acme", [Line(2 * SECOND_NS, "before", "late"), Line(7 * SECOND_NS, "behind", "late")])
    rest, _ = read(ask(client, "logs", whole[4][0], **body))
    texts = [event["data"]["message"] for _, event in rest]
    assert [one for one in texts if one != "behind"] == ["5", "6", "7", "8", "9"]
    lake.write("acme", [Line(4 * SECOND_NS, "same", "late", attributes={"a": "b"})])
    answer = ask(client, "logs", whole[4][0], **body)
    if answer.status_code != 409:
        texts = [event["data"]["message"] for _, event in read(answer)[0]]
        assert [one for one in texts if one.isdigit()] == ["5", "6", "7", "8", "9"]


def test_ids_tell_rows_of_one_time_apart(client: Client) -> None:
    whole, _ = read(ask(client, "logs", **lines_body()))
    for (first, _), (second, _) in itertools.pairwise(whole):
        assert first != second


def test_what_was_unreadable_before_is_still_missing(client: Client, lake: Lake) -> None:
    segment = lake.write("acme", [Line(n * SECOND_NS, f"{n}", "gone") for n in range(5)])
    lost = replace(segment, segment_id="f" * 32, key="db/nowhere.parquet")
    lake._publish(lost)
    body = lines_body(q='{service_name="gone"}')
    whole, done = read(ask(client, "logs", **body))
    assert done["status"] == "partial"
    _, ended = read(ask(client, "logs", whole[0][0], **body))
    assert ended["status"] == "partial"
