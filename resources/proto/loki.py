"""Loki push is `logproto.PushRequest`.

`RawPushRequest` is the same message with bytes for every text: Loki's own clients do not check that a line is
UTF-8, and one odd byte must not cost a whole request.
"""

from __future__ import annotations

from resources.proto.build import build

_TABLE = """
PushRequest
  1 streams Stream*
Stream
  1 labels string
  2 entries Entry*
  3 hash uint64
Entry
  1 timestamp Timestamp
  2 line string
  3 structured_metadata LabelPair*
  4 parsed LabelPair*
Timestamp
  1 seconds int64
  2 nanos int32
LabelPair
  1 name string
  2 value string
"""

PushRequest = build("logproto", _TABLE)["PushRequest"]
RawPushRequest = build("logproto.raw", _TABLE.replace(" string", " bytes"))["PushRequest"]
