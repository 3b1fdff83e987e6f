"""Segments of an hour become few, and days of metrics that are over become day-wide: the content stays.

`policy.py`, `rules.py` and `plan.py` decide (pure), `task.py` merges inside Spark, `run.py` does one after
the other, `carve.py` cuts hours out of sealed days so that they can be swapped alone. Building rows is
`lakerunner_assets/segments/merge/`.
"""
