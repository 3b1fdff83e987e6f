"""Materialized metrics are derived from the segments of a signal, hour by hour."""
