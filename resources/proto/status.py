"""`google.rpc.Status`, in which OTLP tells errors."""

from __future__ import annotations

from resources.proto.build import build

Status = build("google.rpc", "Status\n  1 code int32\n  2 message string")["Status"]
