"""Raw objects to sorted Parquet segments, by event hour.

`plan.py` decides (pure), `task.py` runs inside Spark's Python workers, `ingest.py` cooks what is due,
`rebuild.py` cooks an hour again, `asset.py` is Dagster's edge.
"""
