"""The health service of gRPC, `grpc.health.v1`."""

from __future__ import annotations

from resources.proto.build import build

_TABLE = """
HealthCheckRequest
  1 service string
HealthCheckResponse
  1 status int32
"""

_CLASSES = build("grpc.health.v1", _TABLE)
HealthCheckRequest, HealthCheckResponse = _CLASSES["HealthCheckRequest"], _CLASSES["HealthCheckResponse"]
