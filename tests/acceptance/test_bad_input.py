"""What each kind of bad input gets: a clear answer, a trace, and never the neighbours' harm."""

from __future__ import annotations

import gzip
import time
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.traffic import Traffic, announce, object_bytes, raw_store
from lakerunner_cli.accounts import create_key, open_index
from resources.lake.layout import Signal, raw_key
from resources.lake.timecut import to_datetime
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.http_client import call, key_header, query_url
from tests.support.patience import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def key_of(org: str, name: str) -> str:
    return raw_key(org, "bad", Signal.LOGS, to_datetime(time.time_ns()), name)


def notify(
    settings: Settings, key: str, headers: Mapping[str, str] | None = None, bucket: str = "raw"
) -> tuple[int, Any]:
    entry = {"bucket": {"name": bucket}, "object": {"key": key, "size": 10, "eTag": "x"}}
    moment = f"{to_datetime(time.time_ns()):%Y-%m-%dT%H:%M:%SZ}"
    event = {"Records": [{"eventName": "ObjectCreated:Put", "eventTime": moment, "s3": entry}]}
    url = f"http://{settings.ingress_host}:{settings.ingress_port}/api/v1/notifications/s3"
    return call(
        url, event, headers if headers is not None else {"Authorization": f"Bearer {settings.webhook_token}"}
    )


def put(settings: Settings, org: str, name: str, data: bytes) -> str:
    key = key_of(org, name)
    raw_store(settings).put(key, data)
    announce(settings, key, len(data), "")
    return key


def parked(settings: Settings) -> dict[str, str]:
    with open_index(settings) as desk:
        return {obj.key: obj.error for obj in desk.parked_objects("north", 1000)}


def test_a_wrong_key_is_refused_everywhere(stack: Settings, traffic: Traffic) -> None:
    wrong = key_header("lr_wrong")
    status, body = call(query_url(stack, "/loki/api/v1/query_range", query='{a="b"}'), headers=wrong)
    assert status == 401, body
    status, body = call(
        query_url(stack, "/api/v1/logs/query"), {"q": '{a="b"}', "s": "now-1h", "e": "now"}, wrong
    )
    assert (status, body["status"]) == (401, 401)
    assert body["message"]
    assert notify(stack, key_of("north", "x"), wrong)[0] == 401
    assert notify(stack, key_of("north", "x"), {})[0] == 401


def test_a_write_key_cannot_read_and_a_read_key_cannot_write(stack: Settings, traffic: Traffic) -> None:
    with open_index(stack) as desk:
        write = create_key(desk, "north", "write", f"w{time.time_ns()}")
        read = create_key(desk, "north", "read", f"r{time.time_ns()}")
    status, _ = call(query_url(stack, "/loki/api/v1/query_range", query='{a="b"}'), headers=key_header(write))
    assert status == 403
    assert notify(stack, key_of("north", "x"), key_header(read))[0] == 403


def test_another_organisations_key_cannot_announce_its_objects(stack: Settings, traffic: Traffic) -> None:
    status, body = notify(stack, key_of("north", "stolen"), key_header(traffic.keys["south"]))
    assert (status, body["accepted"]) == (400, 0)
    with open_index(stack) as desk:
        assert not desk.known_keys("raw", [key_of("north", "stolen")])


@pytest.mark.parametrize(
    ("key", "bucket", "reason"),
    [
        ("otel-raw/north/../south/logs/a", "raw", "'..'"),
        ("otel-raw/north/bad/logs//a", "raw", "empty"),
        ("otel-raw/North!/bad/logs/a", "raw", "does not match"),
        ("elsewhere/north/a", "raw", "unknown prefix"),
        ("otel-raw/north/bad/logs/a", "nowhere", "not registered"),
        ("otel-raw/nobody/bad/logs/a", "raw", "not registered"),
    ],
)
def test_a_notification_that_cannot_be_placed_is_refused_with_a_reason(
    stack: Settings, traffic: Traffic, key: str, bucket: str, reason: str
) -> None:
    status, body = notify(stack, key, bucket=bucket)
    assert status == 400, body
    assert reason in body["rejected"][0]["reason"]


def test_bad_objects_are_parked_with_their_reasons_and_neighbours_get_through(
    stack: Settings, traffic: Traffic
) -> None:
    good = object_bytes("bad-input", 1, time.time_ns())
    keys = {
        "truncated": put(stack, "north", "truncated.binpb", good[:-5]),
        "truncated gzip": put(stack, "north", "cut.binpb.gz", gzip.compress(good)[:-9]),
        "empty": put(stack, "north", "empty.binpb", b""),
        "not OTLP": put(stack, "north", "text.binpb", b"just some text\n" * 20),
        "missing": key_of("north", "missing.binpb"),
    }
    announce(stack, keys["missing"], 10, "")
    put(stack, "north", "good.binpb", good)
    found = wait_for(
        lambda: (p := parked(stack)) and set(keys.values()) <= set(p) and p, "five parked objects"
    )
    assert "byte" in found[keys["truncated"]]
    assert "missing.binpb" in found[keys["missing"]]
    assert all(found[key] for key in keys.values())
    now = time.time_ns()
    url = query_url(
        stack, "/loki/api/v1/query_range", query='{service_name="bad-input"}', start=now - 10**13, limit=100
    )
    _, body = call(url, headers=key_header(traffic.keys["north"]))
    assert sum(len(s["values"]) for s in body["data"]["result"]) == 20


def test_an_object_of_a_hundred_megabytes_is_cooked(stack: Settings, traffic: Traffic) -> None:
    one = object_bytes("large", 1, time.time_ns())
    wanted = 100 * 1024 * 1024
    data = one * (wanted // len(one) + 1)  # concatenated messages are one message
    put(stack, "west", "large.binpb", data)
    rows = (wanted // len(one) + 1) * 20

    def cooked_rows() -> bool:
        with open_index(stack) as desk:
            return any(
                row["org"] == "west" and int(str(row["rows"])) >= rows for row in desk.pipeline_status()
            )

    wait_for(cooked_rows, f"{rows} rows")


def test_an_overwritten_object_is_reported_and_not_mixed_in(stack: Settings, traffic: Traffic) -> None:
    key = put(stack, "south", "twice.binpb", object_bytes("twice", 1, time.time_ns()))

    def status() -> dict[str, object]:
        with open_index(stack) as desk:
            return next((dict(row) for row in desk.pipeline_status() if row["org"] == "south"), {})

    wait_for(
        lambda: status().get("done_objects") and not status().get("pending_objects"), "the first version"
    )
    etag = open_store(f"file://{stack.data_dir}/raw", stack).put(
        key, object_bytes("twice", 2, time.time_ns())
    )
    announce(stack, key, 10, etag)
    wait_for(lambda: status()["overwritten_objects"] == 1, "the report")
