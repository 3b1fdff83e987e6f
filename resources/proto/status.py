"""OTLP reports errors as `google.rpc.Status`."""

from __future__ import annotations

from resources.proto.build import build

Status = build("google.rpc", "Status\n  1 code int32\n  2 message string")["Status"]
