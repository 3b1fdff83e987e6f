"""Loki's HTTP API under `/loki/api/v1`, as Grafana and logcli use it."""
