"""Rollups: one row per series and bucket, built from samples or from the rollup below."""
