"""Lakerunner's own API: `/api/v1/logs` and `/api/v1/metrics`, answered as server-sent events."""
