"""Prometheus' HTTP API under `/prometheus/api/v1`, as Grafana and promtool use it."""
