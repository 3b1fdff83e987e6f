"""Tempo answers a trace by id as `TraceByIDResponse`; the trace in it is OTLP's `TracesData`."""

from __future__ import annotations

from resources.proto.build import build

_TABLE = """
Trace
  1 resourceSpans bytes*
TraceByIDMetrics
  1 inspectedBytes uint64
TraceByIDResponse
  1 trace Trace
  2 metrics TraceByIDMetrics
  3 status int32
  4 message string
"""

TraceByIDResponse = build("tempopb", _TABLE)["TraceByIDResponse"]
