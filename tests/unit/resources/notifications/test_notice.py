"""What notifications become, and everything they are refused for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from resources.index.account_types import StorageProfile
from resources.lake.layout import IgnoredKeyError, InvalidKeyError, PrefixMapping, Signal
from resources.lake.timecut import HOUR_NS
from resources.notifications.events import MalformedMessageError, NotifiedObject
from resources.notifications.references import (
    MAX_MESSAGE_BYTES,
    Registry,
    UnknownBucketError,
    UnknownOrganisationError,
    decode_message,
    encode_message,
    resolve,
)
from resources.notifications.s3_event import MAX_RECORDS, parse_s3_event

T = 1_767_323_045_000_000_000  # 2026-01-02T03:04:05Z
HOUR = T // HOUR_NS * HOUR_NS
DATED = "otel-raw/acme/eu/logs/2026/01/02/03/a.binpb.gz"
REGISTRY = Registry(
    {"raw": StorageProfile("raw", "file:///raw")},
    (PrefixMapping("raw", "edge/", "acme", "edge", Signal.METRICS),),
    frozenset({"acme"}),
)


def record(**changes: object) -> NotifiedObject:
    given = {"bucket": "raw", "key": DATED, "size": 7, "etag": "e", "version": "v", "event_time_ns": T}
    return NotifiedObject(**(given | changes), source="test")  # type: ignore[arg-type]


def s3(*objects: dict[str, object], name: str = "ObjectCreated:Put") -> bytes:
    records = [
        {
            "eventName": name,
            "eventTime": "2026-01-02T03:04:05.000Z",
            "s3": {"bucket": {"name": "raw"}, "object": o},
        }
        for o in objects
    ]
    return json.dumps({"Records": records}).encode()


@pytest.mark.parametrize("year", ["0001", "1969", "2100", "2263", "9999"])
def test_a_year_that_cannot_be_counted_in_nanoseconds_is_refused(year: str) -> None:
    """One such key would fail the transaction that takes it in, and with it every tick from then on."""
    with pytest.raises(InvalidKeyError, match="year"):
        resolve(record(key=DATED.replace("2026", year)), REGISTRY)


@pytest.mark.parametrize("prefix", ["tenant1", "tenant1/"])
def test_a_mapped_prefix_ends_at_a_path_part(prefix: str) -> None:
    """Else the objects of `tenant10` would belong to the organisation of `tenant1`."""
    mapped = replace(REGISTRY, mappings=(PrefixMapping("raw", prefix, "acme", "edge", Signal.LOGS),))
    assert resolve(record(key="tenant1/a"), mapped).org == "acme"
    with pytest.raises(InvalidKeyError, match="tenant10"):
        resolve(record(key="tenant10/a"), mapped)


def test_a_dated_key_says_its_arrival_hour() -> None:
    notice = resolve(record(event_time_ns=T + 5 * HOUR_NS), REGISTRY)
    assert (notice.org, notice.collector, notice.signal, notice.arrival_hour_ns) == (
        "acme",
        "eu",
        Signal.LOGS,
        HOUR,
    )
    assert (notice.size, notice.etag, notice.version) == (7, "e", "v")


@pytest.mark.parametrize(("moment", "hour"), [(T, HOUR), (HOUR, HOUR - HOUR_NS), (HOUR + 1, HOUR)])
def test_an_undated_key_arrives_in_the_left_open_hour_of_the_event(moment: int, hour: int) -> None:
    notice = resolve(record(key="logs-raw/acme/a.binpb", event_time_ns=moment), REGISTRY)
    assert notice.arrival_hour_ns == hour


def test_a_mapped_prefix_names_organisation_collector_and_signal() -> None:
    notice = resolve(record(key="edge/x/a.json"), REGISTRY)
    assert (notice.org, notice.collector, notice.signal) == ("acme", "edge", Signal.METRICS)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"bucket": "other"}, UnknownBucketError),
        ({"key": DATED.replace("acme", "nobody")}, UnknownOrganisationError),
        ({"key": "db/acme/x/20260102/logs/03/tbl_1.parquet"}, IgnoredKeyError),
        ({"key": "otel-raw/acme/eu/logs/"}, IgnoredKeyError),
        ({"key": "otel-raw/acme/../evil/logs/a.json"}, InvalidKeyError),
        ({"key": "otel-raw/ACME/eu/logs/a.json"}, InvalidKeyError),
        ({"key": "otel-raw/acme/eu/logs/2026/13/02/03/a.json"}, InvalidKeyError),
        ({"key": "somewhere/a.json"}, InvalidKeyError),
    ],
)
def test_what_cannot_be_placed_is_refused(changes: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve(record(**changes), REGISTRY)


def test_a_message_survives_the_round_trip() -> None:
    assert decode_message(encode_message(record())) == [record()]
    assert json.loads(encode_message(record()))["v"] == 1


@pytest.mark.parametrize("key", [DATED, "logs-raw/acme/a.binpb"])
def test_a_notice_keeps_its_hour_through_kafka(key: str) -> None:
    notice = resolve(record(key=key), REGISTRY)
    (again,) = decode_message(encode_message(notice))
    assert resolve(again, REGISTRY) == notice


def test_an_s3_event_put_on_the_topic_directly_is_read() -> None:
    event = json.loads(s3({"key": "otel-raw/acme/eu/logs/a+b%2Bc%C3%A9.json", "size": 3, "eTag": '"q"'}))
    minio = {"EventName": "s3:ObjectCreated:Put", "Key": "raw/x", **event}
    minio["Records"][0]["eventName"] = "s3:ObjectCreated:Put"
    (found,) = decode_message(json.dumps(minio).encode())
    assert found == NotifiedObject("raw", "otel-raw/acme/eu/logs/a b+cé.json", 3, "q", "", T, "kafka")


def test_keys_are_url_decoded_only_in_s3_events() -> None:
    (found,) = decode_message(encode_message(record(key="logs-raw/acme/a%20b+c")))
    assert found.key == "logs-raw/acme/a%20b+c"


def test_deletes_and_test_events_are_ignored_and_counted() -> None:
    assert parse_s3_event(s3({"key": "a"}, {"key": "b"}, name="ObjectRemoved:Delete"), "t").ignored == 2
    assert decode_message(b'{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"raw"}') == []


def test_a_bad_record_leaves_its_neighbours_alone() -> None:
    event = json.loads(s3({"key": "a"}, {"nokey": 1}, {"key": "c", "size": -1}, {"key": "%FF"}, {"key": "d"}))
    found = parse_s3_event(json.dumps(event).encode(), "t")
    assert [(i, r.key) for i, r in found.created] == [(0, "a"), (4, "d")]
    assert [b.index for b in found.bad] == [1, 2, 3]
    assert "missing required field `key`" in found.bad[0].reason


def test_a_missing_event_time_becomes_the_time_of_receipt() -> None:
    event = json.loads(s3({"key": "a"}))
    del event["Records"][0]["eventTime"]
    (found,) = decode_message(json.dumps(event).encode(), received_ns=T)
    assert found.event_time_ns == T


OURS = {"v": 1, "bucket": "raw", "key": "k", "size": 1, "event_time_ns": T}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not a JSON object"),
        (b"\xff\xfe", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"{}", "no Records"),
        (b'{"Records": 3}', "not S3 event JSON"),
        (b'{"v": "1"}', "not a JSON object"),
        (json.dumps(OURS | {"v": 2}).encode(), "message version 2: expected 1"),
        (json.dumps(OURS | {"extra": 1}).encode(), "unknown field"),
        (json.dumps(OURS | {"size": -1}).encode(), "size -1"),
        (json.dumps(OURS | {"size": 2**63}).encode(), "size"),
        (json.dumps(OURS | {"size": "1"}).encode(), "Expected `int`"),
        (json.dumps(OURS | {"key": ""}).encode(), "key of 0 bytes"),
        (json.dumps(OURS | {"key": "k" * 1025}).encode(), "key of 1025 bytes"),
        (json.dumps(OURS | {"etag": "a\u0000b"}).encode(), "control character"),
        (json.dumps(OURS | {"event_time_ns": 0}).encode(), "event time 0"),
        (json.dumps(OURS | {"event_time_ns": 2**63}).encode(), "event time"),
        (s3({"key": "a"}).replace(b"2026-01-02T03:04:05.000Z", b"yesterday"), "eventTime 'yesterday'"),
        (s3({"key": "a"}).replace(b"2026-01-02T03:04:05.000Z", b"0001-01-01T00:00:00Z"), "event time"),
        (b'{"v":1,' + b" " * MAX_MESSAGE_BYTES, "expected at most"),
        (json.dumps({"Records": [1] * (MAX_RECORDS + 1)}).encode(), "records"),
    ],
)
def test_anything_else_is_malformed_with_a_reason(value: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessageError, match=reason):
        decode_message(value)
