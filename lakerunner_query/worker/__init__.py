"""The query worker: segments on local disk, one scan per unit of work.

`cache.py` brings objects near, `segment_facts.py` and `selection.py` decide what in them matters,
`log_scan.py` runs the scan, `metadata.py` renders rows. HTTP is in `worker_app.py`, one level up.
"""
