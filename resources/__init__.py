"""The outside world: settings, the segment index, the lake, Kafka, Spark and DuckDB sessions.

Nothing here decides what should happen; it only talks to what exists. Only `resources/bindings.py`
knows Dagster. Read `settings.py` first, then `lake/` (names and formats) and `index/` (the truth).
"""
