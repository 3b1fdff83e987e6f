"""Rollups have one row per series and bucket, from samples or the rollup below."""
