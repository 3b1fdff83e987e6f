"""Kafka carries references and hints, never telemetry; PostgreSQL keeps the offsets."""
