"""Whatever arrives, a notification is decoded, refused in words, or ignored: never a crash."""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from resources.index.account_types import StorageProfile
from resources.lake.layout import IgnoredKeyError, InvalidKeyError
from resources.notifications.events import MalformedMessageError
from resources.notifications.references import (
    Registry,
    UnknownBucketError,
    UnknownOrganisationError,
    decode_message,
    encode_message,
    resolve,
)

REGISTRY = Registry({"raw": StorageProfile("raw", "file:///raw")}, (), frozenset({"acme"}))
REFUSED = (IgnoredKeyError, InvalidKeyError, UnknownBucketError, UnknownOrganisationError)

keys = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            ["otel-raw", "logs-raw", "acme", "x", "..", "", "logs", "2026", "01", "%2e%2e", "+", "a.json"]
        ),
        max_size=10,
    ).map("/".join),
)
values = st.one_of(keys, st.integers(), st.floats(), st.none(), st.booleans())
records = st.fixed_dictionaries(
    {
        "eventName": st.sampled_from(
            ["ObjectCreated:Put", "s3:ObjectCreated:Copy", "ObjectRemoved:Delete", 3]
        ),
        "s3": st.fixed_dictionaries(
            {
                "bucket": st.fixed_dictionaries({"name": values}),
                "object": st.fixed_dictionaries({"key": values}),
            },
            optional={"size": values},
        ),
    },
    optional={"eventTime": st.one_of(values, st.datetimes().map(str))},
)
own = st.fixed_dictionaries(
    {"v": st.just(1), "bucket": values, "key": values, "size": values, "event_time_ns": values},
    optional={"etag": values, "source": values},
)
messages = st.one_of(
    st.binary(max_size=200),
    st.one_of(own, st.fixed_dictionaries({"Records": st.lists(records, max_size=3)})).map(
        lambda body: json.dumps(body).encode()
    ),
)


@settings(max_examples=200, deadline=None)
@given(messages)
@example(b'{"v":1,"bucket":"raw","key":"\\ud800","size":1,"event_time_ns":1}')
@example(b'{"v":1,"bucket":"\xff","key":"a","size":1,"event_time_ns":1}')
@example(b'{"Records":[{"eventName":"\xff"}]}')
@example(
    b'{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"raw"},"object":{"key":"%ED%A0%80"}}}]}'
)
def test_no_message_crashes_and_what_passes_survives_the_round_trip(value: bytes) -> None:
    try:
        found = decode_message(value)
    except MalformedMessageError:
        return
    for record in found:
        assert decode_message(encode_message(record)) == [record]
        try:
            notice = resolve(record, REGISTRY)
        except REFUSED:
            continue
        assert notice.org == "acme"
        assert ".." not in notice.key.split("/")
