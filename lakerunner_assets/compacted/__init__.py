"""Compaction merges the segments of an hour, and of a metrics day that is over.

`policy.py` and `plan.py` decide (pure), `task.py` merges inside Spark, `run.py` does one round after the
other, `carve.py` cuts hours out of sealed days so that they can be swapped alone. Building rows is
`lakerunner_assets/segments/merge/`.
"""
