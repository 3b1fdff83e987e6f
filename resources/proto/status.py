"""OTLP and gRPC report errors as `google.rpc.Status`."""

from __future__ import annotations

from resources.proto.build import build

_TABLE = """
Any
  1 type_url string
  2 value bytes
Status
  1 code int32
  2 message string
  3 details Any*
Duration
  1 seconds int64
  2 nanos int32
RetryInfo
  1 retry_delay Duration
"""

_CLASSES = build("google.rpc", _TABLE)
Any, RetryInfo, Status = _CLASSES["Any"], _CLASSES["RetryInfo"], _CLASSES["Status"]
