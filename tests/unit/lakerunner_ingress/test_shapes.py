"""Every shape of notification, as its sender documents it: what it announces, ignores, and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lakerunner_ingress.notifications.shapes import Shape
from lakerunner_ingress.notifications.shapes.aws import parse_aws
from lakerunner_ingress.notifications.shapes.azure import parse_azure, validation_code
from lakerunner_ingress.notifications.shapes.gcs import parse_gcs
from resources.notifications.events import Event, MalformedMessageError, NotifiedObject
from resources.notifications.references import decode_message
from tests.support.ingress import payloads
from tests.support.ingress.payloads import T

ODD = "otel-raw/acme/eu/logs/a b+c%20é😀.binpb"
ENCODED = quote_plus(ODD, safe="/")


def read(shape: Shape, payload: object) -> Event:
    return shape(json.dumps(payload).encode(), "test")


def only(event: Event) -> NotifiedObject:
    ((index, found),) = event.created
    assert (index, event.bad, event.ignored) == (0, (), 0)
    return found


@pytest.mark.parametrize(
    ("shape", "payload", "size", "etag", "version"),
    [
        (
            parse_aws,
            payloads.s3(ENCODED),
            1024,
            "d41d8cd98f00b204e9800998ecf8427e",
            "096fKKXTRTtl3on89fVO.nfljtsv6qko",
        ),
        (parse_aws, payloads.minio(quote_plus(ODD)), 7, "b7ce786cd89b182bfd5ae765557bbc37", ""),
        (
            parse_aws,
            payloads.sns(payloads.s3(ENCODED)),
            1024,
            "d41d8cd98f00b204e9800998ecf8427e",
            "096fKKXTRTtl3on89fVO.nfljtsv6qko",
        ),
        (
            parse_aws,
            payloads.eventbridge(ODD),
            5,
            "b1946ac92492d2347c6235b4d2611184",
            "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e",
        ),
        (
            parse_aws,
            payloads.sns(payloads.eventbridge(ODD)),
            5,
            "b1946ac92492d2347c6235b4d2611184",
            "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e",
        ),
        (parse_gcs, payloads.gcs_push(ODD), 2048, "", "1767323045000000"),
        (parse_gcs, payloads.gcs_push(ODD, payload=False), 0, "", "1767323045000000"),
        (parse_gcs, payloads.gcs_object(ODD), 2048, "", "1767323045000000"),
        (parse_azure, [payloads.blob(ODD)], 524288, "0x8D4BCC2E4835CD0", ""),
        (parse_azure, payloads.blob(ODD, api="FlushWithClose"), 524288, "0x8D4BCC2E4835CD0", ""),
        (parse_azure, payloads.cloud_event(ODD), 524288, "0x8D4BCC2E4835CD0", ""),
        (parse_azure, [payloads.cloud_event(ODD, api="SftpCommit")], 524288, "0x8D4BCC2E4835CD0", ""),
    ],
)
def test_a_new_object_is_announced_with_its_key_as_it_is_stored(
    shape: Shape, payload: object, size: int, etag: str, version: str
) -> None:
    assert only(read(shape, payload)) == NotifiedObject("raw", ODD, size, etag, version, T, "test")


@pytest.mark.parametrize(
    ("shape", "payload"),
    [
        (
            parse_aws,
            {"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": payloads.TIME, "Bucket": "raw"},
        ),
        (parse_aws, payloads.sns({"Event": "s3:TestEvent"})),
        (parse_aws, payloads.s3("a", name="ObjectRemoved:Delete")),
        (parse_aws, payloads.sns("You have unsubscribed", kind="UnsubscribeConfirmation")),
        (parse_aws, payloads.sns("You have chosen to subscribe", kind="SubscriptionConfirmation")),
        (parse_aws, payloads.eventbridge("a", kind="Object Deleted")),
        (parse_gcs, payloads.gcs_push("a", event="OBJECT_DELETE")),
        (parse_gcs, payloads.gcs_push("a", event="OBJECT_METADATA_UPDATE", payload=False)),
        (parse_gcs, payloads.gcs_object("a") | {"timeDeleted": payloads.TIME}),
        (parse_azure, [payloads.blob("a", kind="Microsoft.Storage.BlobDeleted")]),
        (parse_azure, payloads.blob("a", api="CreateFile")),
        (parse_azure, payloads.cloud_event("a", api="SftpCreate")),
        (parse_azure, {"type": "Microsoft.EventGrid.SubscriptionDeletedEvent", "data": {}}),
    ],
)
def test_what_is_not_a_new_object_is_ignored_and_counted(shape: Shape, payload: object) -> None:
    event = read(shape, payload)
    assert (event.created, event.bad, event.ignored) == ((), (), 1)


def test_an_unconfirmed_subscription_is_a_note_with_its_address() -> None:
    note = read(parse_aws, payloads.sns("", kind="SubscriptionConfirmation")).note
    assert "arn:aws:sns:eu-west-1:123456789012:raw" in note
    assert "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=2336412f37" in note
    assert "not confirmed" in note
    assert read(parse_aws, payloads.s3("a")).note == ""


def test_line_breaks_in_an_address_cannot_forge_a_line_of_the_log() -> None:
    forged = payloads.sns("", kind="SubscriptionConfirmation") | {"SubscribeURL": "x\nERROR all is lost"}
    assert "\n" not in read(parse_aws, forged).note


def without(payload: dict[str, Any], *path: str) -> dict[str, Any]:
    found = json.loads(json.dumps(payload))
    at = found
    for name in path[:-1]:
        at = at[name]
    del at[path[-1]]
    return dict(found)


@pytest.mark.parametrize(
    ("shape", "payload", "reason"),
    [
        (
            parse_aws,
            without(payloads.eventbridge("a"), "detail", "bucket"),
            "missing required field `bucket`",
        ),
        (parse_aws, payloads.eventbridge(""), "key of 0 bytes"),
        (parse_aws, payloads.eventbridge("a") | {"time": "soon"}, "time 'soon'"),
        (parse_gcs, {"message": {"data": "e30=", "messageId": "1"}}, "no attribute eventType"),
        (parse_gcs, {"message": payloads.gcs_message("a") | {"data": "%%%"}}, "message.data"),
        (parse_gcs, {"message": payloads.gcs_message("a") | {"data": "W10="}}, "storage#object"),
        (parse_gcs, payloads.gcs_object("a") | {"size": "many"}, "size 'many'"),
        (parse_gcs, payloads.gcs_object("a") | {"size": "-1"}, "size '-1'"),
        (parse_gcs, without(payloads.gcs_object("a"), "bucket"), "bucket of 0 bytes"),
        (parse_gcs, {"hello": "world"}, "neither a Pub/Sub message nor"),
        (parse_azure, payloads.blob("a") | {"subject": "/elsewhere"}, "subject '/elsewhere'"),
        (parse_azure, without(payloads.blob("a"), "eventType"), "neither eventType nor type"),
        (parse_azure, without(payloads.blob("a"), "data"), "not an event of Event Grid"),
        (parse_azure, payloads.blob("a") | {"eventTime": "2026-01-02T03:04:05"}, "no time zone"),
    ],
)
def test_a_bad_record_is_kept_with_the_reason(shape: Shape, payload: object, reason: str) -> None:
    event = read(shape, payload)
    assert (event.created, event.ignored) == ((), 0)
    ((bad),) = event.bad
    assert reason in bad.reason
    assert json.loads(bad.payload) == payload


def test_a_bad_event_does_no_harm_to_its_neighbours() -> None:
    event = read(parse_azure, [payloads.blob("a"), payloads.blob("b") | {"subject": 3}, payloads.blob("c")])
    assert [(index, found.key) for index, found in event.created] == [(0, "a"), (2, "c")]
    assert [bad.index for bad in event.bad] == [1]


@pytest.mark.parametrize("shape", [parse_aws, parse_gcs, parse_azure])
@pytest.mark.parametrize("body", [b"", b"nonsense", b"3", b"\xff", b"[" * 9000, b'{"Type":"Notification"'])
def test_what_is_no_message_at_all_is_malformed_or_bad_but_never_a_crash(shape: Shape, body: bytes) -> None:
    try:
        event = shape(body, "test")
    except MalformedMessageError:
        return
    assert event.bad
    assert not event.created


def test_too_many_events_are_refused_as_a_whole() -> None:
    with pytest.raises(MalformedMessageError, match="5001 events"):
        parse_azure(json.dumps([{}] * 5001).encode(), "test")


def test_the_code_of_a_validation_event_is_found_and_nothing_else_is_one() -> None:
    body = json.dumps([payloads.validation("512d38b6-c7b8-40c8-89fe-f46f9e9622b6")]).encode()
    assert validation_code(body) == "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"
    assert validation_code(json.dumps([payloads.blob("a")]).encode()) == ""
    named = payloads.blob("Microsoft.EventGrid.SubscriptionValidationEvent")
    assert validation_code(json.dumps([named]).encode()) == ""


def test_minio_writes_to_kafka_what_the_sensor_reads() -> None:
    message = json.dumps(payloads.minio(quote_plus(ODD))).encode()
    assert decode_message(message) == [
        NotifiedObject("raw", ODD, 7, "b7ce786cd89b182bfd5ae765557bbc37", "", T, "kafka")
    ]


def test_minio_deletions_in_kafka_are_nothing_to_do() -> None:
    payload = payloads.minio("a")
    payload["EventName"] = payload["Records"][0]["eventName"] = "s3:ObjectRemoved:Delete"
    assert decode_message(json.dumps(payload).encode()) == []


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)
samples: list[tuple[Shape, Callable[[], Any]]] = [
    (parse_aws, lambda: payloads.s3("otel-raw/acme/eu/logs/a")),
    (parse_aws, lambda: payloads.sns(payloads.s3("a"))),
    (parse_aws, lambda: payloads.eventbridge("a")),
    (parse_gcs, lambda: payloads.gcs_push("a")),
    (parse_gcs, lambda: payloads.gcs_object("a")),
    (parse_azure, lambda: payloads.blob("a")),
    (parse_azure, lambda: payloads.cloud_event("a")),
]


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, ...]] = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, found in items:
        inner += places(found, (*path, key))
    return inner


@hypothesis_settings(max_examples=100)
@given(st.data())
def test_whatever_one_field_becomes_the_message_is_judged(data: st.DataObject) -> None:
    shape, make = data.draw(st.sampled_from(samples))
    payload = make()
    path = data.draw(st.sampled_from(places(payload)))
    at = payload
    for name in path[:-1]:
        at = at[name]
    drawn = at[path[-1]] = data.draw(values)
    most = max(1, len(drawn)) if isinstance(drawn, list) else 1
    try:
        event = shape(json.dumps(payload).encode(), "test")
    except MalformedMessageError:
        return
    assert len(event.created) + len(event.bad) + event.ignored <= most
