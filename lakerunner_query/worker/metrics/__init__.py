"""Metric segments: series tables, samples, rollups, classic series, shards."""
