"""Small OTLP log objects with known content, for tests of every kind."""

from __future__ import annotations

import gzip
from collections.abc import Iterable

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

Line = tuple[int, str]
"""(time in ns, message)"""


def otlp_logs(
    lines: Iterable[Line], service: str = "shop", level: str = "INFO", compress: bool = False
) -> bytes:
    """One resource, one scope, one record per line."""
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    attribute = resource.resource.attributes.add()
    attribute.key, attribute.value.string_value = "service.name", service
    scope = resource.scope_logs.add()
    for moment, message in lines:
        record = scope.log_records.add()
        record.time_unix_nano = moment
        record.severity_text = level
        record.body.string_value = message
    data = request.SerializeToString()
    return gzip.compress(data) if compress else data
