"""Jaeger's query API under `/jaeger/api`, as its UI and Grafana's data source use it."""
