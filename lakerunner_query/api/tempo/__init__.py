"""Tempo's HTTP API under `/tempo`, as Grafana's data source uses it."""
