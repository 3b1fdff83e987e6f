"""Cooking turns raw objects into sorted Parquet segments by event hour.

`plan.py` decides (pure), `task.py` runs inside Spark's Python workers, `run.py` cooks what is due,
`rebuild.py` cooks an hour again, `asset.py` is Dagster's edge.
"""
