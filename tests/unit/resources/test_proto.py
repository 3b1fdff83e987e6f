"""Message classes built from tables: those of inner messages outlive a garbage collection."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from resources.proto.build import build
from resources.proto.loki import PushRequest, RawPushRequest
from resources.proto.parsing import NotAMessageError, parse
from resources.proto.prometheus import RequestV2, WriteRequest

BROKEN = b"\x0a\x05\x0a\x0aabc"
"""Field 1 holds a message whose own field 1 says ten bytes and has three."""


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (PushRequest, BROKEN),
        (RawPushRequest, BROKEN),
        (WriteRequest, BROKEN),
        (RequestV2, b"\x2a\x05\x0a\x0aabc"),
    ],
)
def test_a_broken_inner_message_is_explained(message: Any, data: bytes) -> None:
    gc.collect()
    with pytest.raises(NotAMessageError, match="byte 2: cut short"):
        parse(message, data)


def test_a_class_alone_keeps_those_of_its_fields() -> None:
    outer = build("alone", "Outer\n  1 inner Middle*\nMiddle\n  1 inner Leaf\nLeaf\n  1 text string")["Outer"]
    gc.collect()
    with pytest.raises(NotAMessageError, match=r"byte 4: cut short, in Outer.inner.inner.text"):
        parse(outer, b"\x0a\x04\x0a\x02\x0a\x05")
