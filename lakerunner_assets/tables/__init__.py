"""Open tables: other engines read segments as Iceberg and Delta tables, without a copy.

`columns.py` agrees on a schema, `files.py` describes a segment by its footer, `commit.py` writes a snapshot
and `run.py` follows the index. `views.py` spells values in SQL, `delta.py` writes a Delta log, `check.py`
compares tables with the index.
"""
