"""Sampling policies: read from YAML, compiled to aggregates of spans, decided per batch of traces."""
