"""Rebuilding stretches of time through Dagster: what is wanted, how it is said, watching it happen."""
